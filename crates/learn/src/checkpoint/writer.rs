//! Saving in the background: a copy into memory that is ready, and training goes on.
//!
//! There is one staging area, and it goes back and forth: to the thread with a save to do, back with how it went. So
//! nothing is shared, nothing is locked, and after the first saves no part's memory is taken anew.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use files::{Error, Kind, Result};

use super::views::Views;
use super::{About, Store, View};

/// Parts on their way to the disk.
#[derive(Debug, Default)]
pub struct Staging {
    parts: Vec<(String, Vec<u8>)>, // those beyond `used` are memory to use again
    used: usize,
    views: Vec<(View, String, Vec<u8>)>, // weights to be copied out once the parts are safe
}

impl Staging {
    /// A new part, empty, to be filled. The memory is that of the part with the same place in the save before.
    pub fn part(&mut self, name: &str) -> &mut Vec<u8> {
        if self.used == self.parts.len() {
            self.parts.push(Default::default());
        }
        let (called, bytes) = &mut self.parts[self.used];
        self.used += 1;
        called.clear();
        called.push_str(name);
        bytes.clear();
        bytes
    }

    /// A new part with these bytes.
    pub fn put(&mut self, name: &str, bytes: &[u8]) {
        self.part(name).extend_from_slice(bytes);
    }

    /// The parts that were put in, with their names.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.parts[..self.used].iter().map(|(name, bytes)| (&**name, &**bytes))
    }

    /// Weights for `checkpoints/best` or `checkpoints/last`, written once the generation was read back.
    pub fn view(&mut self, view: View, name: String, bytes: Vec<u8>) {
        self.views.push((view, name, bytes));
    }

    fn views(&self) -> impl Iterator<Item = (View, &str, &[u8])> {
        self.views.iter().map(|(view, name, bytes)| (*view, name.as_str(), bytes.as_slice()))
    }

    /// Memory for parts of these sizes, each page of it touched: the first touch costs far more than the copy.
    fn ready(sizes: &[usize]) -> Staging {
        // Ones, since zeros would come from the system as pages nobody has touched.
        let touched = |&size: &usize| (String::new(), vec![1; size]);
        Staging { parts: sizes.iter().map(touched).collect(), ..Staging::default() }
    }
}

/// Saves in a thread of its own. Dropped, it finishes what was begun.
pub struct Writer {
    jobs: Option<Sender<(About, Staging)>>, // None while dropping
    done: Receiver<(Staging, Result<Option<u64>>)>,
    staging: Option<Staging>, // None while it is with the thread
    last: Option<u64>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which first makes memory for parts of these sizes ready (none need be named).
    pub fn new(mut store: Store, sizes: &[usize]) -> Result<Writer> {
        let (jobs, todo) = channel::<(About, Staging)>();
        let (tell, done) = channel();
        let sizes = sizes.to_vec();
        let work = move || {
            // A caller that has gone no longer wants to know.
            let _ = tell.send((Staging::ready(&sizes), Ok(None)));
            let mut views = Views::default();
            while let Ok((about, mut staging)) = todo.recv() {
                let outcome = store.save(&about, &staging.parts().collect::<Vec<_>>()).map(Some);
                if outcome.is_ok() {
                    views.write(store.folder(), staging.views());
                }
                staging.views.clear();
                let _ = tell.send((staging, outcome));
            }
        };
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(work).map_err(|e| {
            Error::new(Kind::Machine, format!("no thread for saving checkpoints: {e}"))
                .remedy("raise the limit of threads, or run fewer processes at once")
        })?;
        Ok(Writer { jobs: Some(jobs), done, staging: None, last: None, thread: Some(thread) })
    }

    /// Saves what `fill` puts into the staging area. It waits for the save before this one, fills, and returns while
    /// the disk is busy. If the save before failed, that is the error, and nothing is filled; the next call tries
    /// afresh.
    pub fn submit(&mut self, about: About, fill: impl FnOnce(&mut Staging) -> Result<()>) -> Result<()> {
        self.wait()?;
        self.send(about, fill)
    }

    /// Waits until nothing is under way, and gives the last generation that was saved, if any was. The error is that of
    /// the last save, and is told once.
    pub fn wait(&mut self) -> Result<Option<u64>> {
        if self.staging.is_none() {
            match self.done.recv() {
                Ok(back) => self.took(back)?,
                Err(_) => return Err(self.pass_on()),
            }
        }
        Ok(self.last)
    }

    fn took(&mut self, (staging, outcome): (Staging, Result<Option<u64>>)) -> Result<()> {
        self.staging = Some(staging);
        self.last = outcome?.or(self.last);
        Ok(())
    }

    fn send(&mut self, about: About, fill: impl FnOnce(&mut Staging) -> Result<()>) -> Result<()> {
        let mut staging = self.staging.take().unwrap_or_default();
        staging.used = 0;
        staging.views.clear();
        if let Err(error) = fill(&mut staging) {
            self.staging = Some(staging);
            return Err(error);
        }
        if self.jobs.as_ref().is_none_or(|jobs| jobs.send((about, staging)).is_err()) {
            return Err(self.pass_on());
        }
        Ok(())
    }

    /// The thread ends before us only if it panicked, which is a bug, and goes on here.
    fn pass_on(&mut self) -> Error {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        Error::new(Kind::Machine, "the thread that saves checkpoints is gone").remedy("resume the run")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
