//! How the stamps of bars are read.

use super::form::{Form, choice};
use super::key::section;
use ::bars::StampOption;

section! {
    /// How the stamps of bars are read.
    BarSettings at bars, "bars.";

    /// Time zone of stamps without one; auto is found from the file and reported.
    timezone: Option<String> = None, zone().or_auto().flag("timezone", "ZONE");
    /// Which end of the bar a stamp marks; auto takes the start unless the file shows otherwise.
    stamp: StampOption = StampOption::Auto, choice(ENDS).flag("stamp", "END");
}

const ENDS: &[(&str, StampOption)] =
    &[("start", StampOption::Start), ("end", StampOption::End), ("auto", StampOption::Auto)];

/// A zone by name or offset; the reader knows for certain, this keeps out what cannot be one.
fn zone() -> Form<String> {
    let read = |value: &toml::Value| {
        let text = value.as_str().ok_or(None)?.trim();
        let offset = text.strip_prefix(['+', '-']).is_some_and(|t| files::time::parse_clock(t.as_bytes()).is_some());
        let named = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_-+".contains(&b));
        (offset || named).then(|| text.to_string()).ok_or(None)
    };
    Form::new("an IANA name (America/New_York), UTC, an offset (-05:00)", read, |zone| zone.clone().into()).verbatim()
}
