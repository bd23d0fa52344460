//! Errors in words, in JSON, and as exit codes.

use crate::flags;
use crate::out::{self, Paint};
use files::{Error, Kind, format_bytes};
use serde_json::{Value, json};
use std::any::Any;
use std::ffi::OsString;
use std::sync::{Mutex, OnceLock};

/// Why a verb did not end well.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody reads standard output any more.
    Closed,
    /// To be shown.
    Error(Box<Error>),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(Box::new(error))
    }
}

/// Shows an error of the command in these words, once, and gives its exit code.
pub(crate) fn report(error: &Error, as_json: bool, schema: &str, words: &[OsString]) -> u8 {
    let remedy = error.remedy.as_ref().map(|remedy| flags::typed(remedy, words));
    let message = flags::typed(&error.message, words);
    let (kind, code) = match error.kind {
        Kind::Usage => ("usage", 2),
        Kind::Input => ("input", 3),
        Kind::Machine | Kind::Memory => ("machine", 4),
        Kind::State => ("state", 5),
        Kind::Interrupted => ("interrupted", 130),
    };
    if as_json {
        let file = error.file.as_ref().map(|f| f.display().to_string());
        print(
            schema,
            json!({
                "kind": kind, "message": message, "file": file, "line": error.line, "column": error.column, "remedy": remedy,
            }),
        );
    } else {
        let paint = Paint::stderr();
        let text = printable(&flags::typed(&error.to_string(), words));
        out::print_stderr_line(&format!("{} {text}", paint.red("error:")));
        let again = (error.kind == Kind::Interrupted).then(|| "run the same command again".to_string());
        if let Some(remedy) = remedy.as_ref().or(again.as_ref()) {
            out::print_stderr_line(&format!("  {} {}", paint.cyan("help:"), printable(remedy)));
        }
    }
    code
}

/// From now on the process ends with exit code 4 and an error where there is no memory for what is wanted.
pub(crate) fn explain_exhausted_memory(json: bool, schema: &'static str) {
    let _ = ANSWER.set((json, schema));
    compute::allocator::on_exhausted(|bytes| {
        let (json, schema) = ANSWER.get().copied().unwrap_or((false, ""));
        crate::terminal::restore();
        report(&no_memory(&format!("{} were wanted", format_bytes(bytes as u64))), json, schema, &[]);
        std::process::exit(4);
    });
}

/// How this process answers: as JSON or not, under which schema.
static ANSWER: OnceLock<(bool, &str)> = OnceLock::new();

fn no_memory(what: &str) -> Error {
    Error::new(Kind::Memory, format!("the system has no more memory for this program: {what}"))
        .remedy("close other programs or raise the limit (`ulimit -v`); fewer symbols, features or members, and fewer threads, take less")
}

/// What panics say where the system has no memory: for another thread, or for a compressor.
const NO_MEMORY: [&str; 4] = ["os error 11", "os error 12", "WouldBlock", "zstd returned null pointer"];

/// Shows a panic as what it is: our mistake; or the system's word that it has no room.
pub(crate) fn bug(payload: &(dyn Any + Send), as_json: bool, schema: &str) -> u8 {
    let said = payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied());
    if let Some(said) = said.filter(|said| NO_MEMORY.iter().any(|e| said.contains(e))) {
        return report(&no_memory(said), as_json, schema, &[]);
    }
    let place = PLACE.lock().ok().and_then(|p| p.clone()).unwrap_or_else(|| "an unknown place".into());
    let message =
        format!("a bug in fullbore {}: {} (at {place})", env!("CARGO_PKG_VERSION"), said.unwrap_or("no message"));
    let remedy = "please report this line and the command; your data are untouched";
    if as_json {
        let none = Value::Null;
        print(
            schema,
            json!({"kind": "bug", "message": message, "file": none, "line": none, "column": none, "remedy": remedy}),
        );
    } else {
        let paint = Paint::stderr();
        out::print_stderr_line(&format!("{} {}", paint.red("error:"), printable(&message)));
        out::print_stderr_line(&format!("  {} {remedy}", paint.cyan("help:")));
    }
    70
}

fn print(schema: &str, error: Value) {
    // A reader that is gone cannot be told; the exit code still says it.
    let _ = out::print_json(schema, false, &json!({ "error": error }));
}

/// Where the last panic was.
static PLACE: Mutex<Option<String>> = Mutex::new(None);

/// Panics are shown once, by [`bug`], as one line; `RUST_BACKTRACE` brings the long form back.
pub(crate) fn quiet_panics() {
    let long = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if let Ok(mut place) = PLACE.lock() {
            *place = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
        }
        // The long form is for the user's own screen; a thread that only helped does not end the program.
        if std::thread::current().name() == Some("main") {
            crate::terminal::restore();
        }
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0") {
            long(info);
        }
    }));
}

/// What a hostile file name or cell could do to a terminal is shown instead.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|c| if c.is_control() && c != '\n' { c.escape_default().collect() } else { vec![c] })
        .collect()
}
