//! Event files for TensorBoard, written by hand.
//!
//! A file is a sequence of records (`record.rs`: length, data, checksums), each the message `Event` of TensorFlow's
//! `event.proto` in protocol buffers (`proto.rs`). Three kinds are written: scalars, a text, and the mark of a
//! session's start, behind which TensorBoard forgets what an earlier file of the folder said about the same steps or
//! later ones.
//!
//! Left out: images, histograms, graphs.

mod proto;
mod record;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use files::{Error, Result};

use crate::append_file::AppendFile;
use crate::os;
use proto::Message;

/// One event file: a run, or a member of one, as TensorBoard sees it (its name is the folder's).
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: AppendFile,
}

impl Events {
    /// Starts a new file in that folder, which is made where there is none. Of what earlier files say, steps from
    /// `step` on count no more: a run that goes on from a checkpoint writes them again. A new run says 0.
    pub fn create(folder: &Path, step: u64) -> Result<Events> {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, "making the folder", &e))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let host: String = os::host().trim().chars().map(|c| if plain(c) { c } else { '-' }).take(64).collect();
        let host = if host.is_empty() { "localhost".to_string() } else { host };
        // TensorBoard reads files in the order of their names: the time has a fixed width, and so has the count behind
        // it.
        let name = |n: u32| format!("events.out.tfevents.{:010}.{host}.{}.{n:03}", now.as_secs(), std::process::id());
        for n in 0..1000 {
            let path = folder.join(name(n));
            if let Some(file) = AppendFile::create(&path)? {
                let mut events = Events { path, file };
                events.add(Message::event(now.as_secs_f64(), 0).text(3, "brain.Event:2"))?;
                if step > 0 {
                    // SessionLog { status: START }
                    events.add(Message::event(now.as_secs_f64(), step).message(7, Message::new().number(1, 1)))?;
                }
                return Ok(events);
            }
        }
        Err(Error::input("a thousand event files of this second stand here already").at(folder))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a scalar for each tag at that step: `train/loss`.
    pub fn scalars<'a>(&mut self, step: u64, values: impl IntoIterator<Item = (&'a str, f64)>) -> Result<()> {
        let mut summary = Message::new();
        for (tag, value) in values {
            summary = summary.message(1, Message::new().text(1, tag).float(2, value as f32));
        }
        self.add(Message::event(wall(), step).message(5, summary))
    }

    /// Adds a text, as Markdown: the settings of the run.
    pub fn text(&mut self, tag: &str, text: &str) -> Result<()> {
        // TensorProto { dtype: DT_STRING, tensor_shape: [1], string_val: [text] }, shown by the plugin `text`; its data
        // class is a tensor.
        let shape = Message::new().message(2, Message::new().number(1, 1));
        let tensor = Message::new().number(1, 7).message(2, shape).text(8, text);
        let shown = Message::new().message(1, Message::new().text(1, "text")).number(4, 2);
        let value = Message::new().text(1, &format!("{tag}/text_summary")).message(9, shown).message(8, tensor);
        self.add(Message::event(wall(), 0).message(5, Message::new().message(1, value)))
    }

    fn add(&mut self, event: Message) -> Result<()> {
        self.file.append(&record::frame(event.bytes()))
    }

    /// What could not be written when it was to, in words; nothing where all went well.
    pub fn trouble(&mut self) -> Option<String> {
        let name = self.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        crate::log::describe(&name, "event", &self.file.trouble())
    }
}

fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
