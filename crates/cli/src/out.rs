//! The one door to standard output.
//!
//! Everything a verb says goes through [`print_text`] or [`print_json`], whole and once. A reader that has gone away
//! (`| head`) is no error.

use crate::fail::Failure;
use files::{Error, Kind};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

/// Writes text to standard output.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let wide =
        if stdout.is_terminal() { crossterm::terminal::size().map_or(0, |(wide, _)| usize::from(wide)) } else { 0 };
    let broken = (wide >= 40).then(|| crate::show::break_lines(text, wide));
    let text = broken.as_deref().unwrap_or(text);
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Err(Failure::Closed),
        Err(e) => Err(Error::new(Kind::Machine, format!("writing to standard output: {e}")).into()),
    }
}

/// Writes one line to standard error; nobody is left to be told if that fails.
pub(crate) fn print_stderr_line(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes a result as one object: `schema`, `ok`, then its fields.
pub(crate) fn print_json(schema: &str, ok: bool, result: &impl Serialize) -> Result<(), Failure> {
    // Whatever is not finite becomes null on the way.
    let value = serde_json::to_value(result).map_err(|e| Error::new(Kind::State, format!("writing JSON: {e}")))?;
    let mut map = Map::new();
    map.insert("schema".into(), schema.into());
    map.insert("ok".into(), ok.into());
    match value {
        Value::Object(fields) => map.extend(fields),
        other => drop(map.insert("result".into(), other)),
    }
    let mut text = Value::Object(map).to_string();
    text.push('\n');
    // One object, also where a second Ctrl-C comes while an answer is being written: it has a second to get out.
    static PRINTED: Mutex<bool> = Mutex::new(false);
    let Ok(mut printed) = PRINTED.try_lock() else {
        std::thread::sleep(Duration::from_secs(1));
        return Ok(());
    };
    if std::mem::replace(&mut *printed, true) { Ok(()) } else { print_text(&text) }
}

/// A result whose notes are worded by `note`.
pub(crate) fn with_notes(result: &impl Serialize, note: &dyn Fn(&str) -> String) -> Result<Value, Failure> {
    let mut value = serde_json::to_value(result).map_err(|e| Error::new(Kind::State, format!("writing JSON: {e}")))?;
    notes(&mut value, false, note);
    Ok(value)
}

fn notes(value: &mut Value, within: bool, note: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) if within && text.contains('<') => *text = note(text),
        Value::Array(all) => all.iter_mut().for_each(|value| notes(value, within, note)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| notes(value, matches!(name.as_str(), "note" | "notes"), note));
        }
        _ => {}
    }
}

/// Colours, where they are seen and not unwanted.
#[derive(Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For standard output.
    pub(crate) fn stdout() -> Paint {
        Paint(std::io::stdout().is_terminal() && colours_wanted())
    }

    /// For standard error.
    pub(crate) fn stderr() -> Paint {
        Paint(std::io::stderr().is_terminal() && colours_wanted())
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.with("1;33", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.with("1;32", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.with("36", text)
    }

    pub(crate) fn on(self) -> bool {
        self.0
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// See no-color.org.
pub(crate) fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()) && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}
