//! The forms a value may have: what is legal, in words, how a value is read and how it is shown.

use super::key::{Flag, Takes, plain};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use toml::Value;

/// What is wrong with a value and what to write instead, where more is known than "it is not legal".
pub(super) type Wrong = Option<(String, String)>;

/// Reads a value.
type Read<T> = Box<dyn Fn(&Value) -> Result<T, Wrong> + Send + Sync>;

/// How values of a key are written.
pub(super) struct Form<T> {
    pub(super) legal: String,
    pub(super) flag: Option<Flag>,
    pub(super) choices: Option<String>,
    pub(super) text: bool,
    pub(super) tried: bool,
    pub(super) read: Read<T>,
    pub(super) show: Box<dyn Fn(&T) -> Value + Send + Sync>,
}

impl<T: 'static> Form<T> {
    /// A form of its own, described in words.
    pub(super) fn new(
        legal: impl Into<String>,
        read: impl Fn(&Value) -> Result<T, Wrong> + Send + Sync + 'static,
        show: impl Fn(&T) -> Value + Send + Sync + 'static,
    ) -> Form<T> {
        let (legal, read, show) = (legal.into(), Box::new(read), Box::new(show));
        Form { choices: Some(legal.clone()), legal, flag: None, text: false, tried: false, read, show }
    }

    /// Values are text as they stand: a file may be called `2024-01-01`.
    pub(super) fn verbatim(self) -> Form<T> {
        Form { text: true, ..self }
    }

    /// A range, which a flag's help leaves out.
    pub(super) fn range(self) -> Form<T> {
        Form { choices: None, ..self }
    }

    /// `auto` is legal, and none of the others.
    pub(super) fn or_auto(self) -> Form<Option<T>> {
        let Form { legal, flag, choices, text, tried, read, show } = self;
        Form {
            legal: format!("{legal}, or auto"),
            flag,
            choices: choices.map(|choices| format!("{choices}, or auto")),
            text,
            tried,
            read: Box::new(move |value| if is_auto(value) { Ok(None) } else { read(value).map(Some) }),
            show: Box::new(move |value| value.as_ref().map_or_else(|| "auto".into(), &show)),
        }
    }

    /// The flag that stands for it, and what its value is called in the help.
    pub(super) fn flag(self, name: &'static str, value: &'static str) -> Form<T> {
        Form { flag: Some(Flag { name, takes: Takes::Value(value) }), ..self }
    }

    /// The same where the flag may be given several times; its help has words of its own for what is legal.
    pub(super) fn flags(self, name: &'static str, value: &'static str, choices: String) -> Form<T> {
        Form { flag: Some(Flag { name, takes: Takes::Values(value) }), choices: Some(choices), ..self }
    }

    /// A flag without a value, the value it stands for, and its help.
    pub(super) fn switch(self, name: &'static str, value: &'static str, help: &'static str) -> Form<T> {
        Form { flag: Some(Flag { name, takes: Takes::Nothing(value, help) }), ..self }
    }

    /// Several values may be tried in one run.
    pub(super) fn tried(self) -> Form<T> {
        Form { tried: true, ..self }
    }
}

/// A range that ends here or later has no end that is worth naming.
const UNBOUNDED: usize = 1 << 40;

/// A whole number in a range.
pub(super) fn whole(range: RangeInclusive<usize>) -> Form<usize> {
    let legal = match (range.start(), range.end()) {
        (least, &(UNBOUNDED..)) => format!("a whole number, at least {least}"),
        (least, most) => format!("a whole number, at least {least} and at most {most}"),
    };
    let read = move |value: &Value| {
        let whole = value.as_integer().and_then(|v| usize::try_from(v).ok());
        whole.filter(|v| range.contains(v)).ok_or(None)
    };
    Form::new(legal, read, |value| Value::Integer(*value as i64)).range()
}

/// A finite number in a range.
pub(super) fn number(range: RangeInclusive<f64>) -> Form<f64> {
    let legal = match (range.start(), range.end()) {
        (least, &f64::MAX) => format!("a number from {least}"),
        (least, most) => format!("a number from {least} to {most}"),
    };
    Form::new(legal, move |value| finite(value).filter(|v| range.contains(v)).ok_or(None), |v| (*v).into()).range()
}

/// A finite number from 0, where 0 stands for none and may be written so.
pub(super) fn number_or_none() -> Form<f64> {
    let read = |value: &Value| match value.as_str() {
        Some("none") => Ok(0.0),
        _ => finite(value).filter(|v| *v >= 0.0).ok_or(None),
    };
    let show = |v: &f64| if *v == 0.0 { "none".into() } else { (*v).into() };
    Form::new("a number from 0, or none, which is 0", read, show).range()
}

/// A number above 0 and at most this.
pub(super) fn positive(most: f64) -> Form<f64> {
    let read = move |value: &Value| finite(value).filter(|v| *v > 0.0 && *v <= most).ok_or(None);
    Form::new(format!("a number above 0, at most {most}"), read, |v| (*v).into()).range()
}

/// True or false.
pub(super) fn truth() -> Form<bool> {
    Form::new("true or false", |value| value.as_bool().ok_or(None), |v| (*v).into())
}

/// One of these words.
pub(super) fn choice<T: Copy + PartialEq + Send + Sync + 'static>(names: &'static [(&'static str, T)]) -> Form<T> {
    let words: Vec<&str> = names.iter().map(|n| n.0).collect();
    let legal = files::format_list(&words, "or");
    let read = |value: &Value| names.iter().find(|n| Some(n.0) == value.as_str()).map(|n| n.1).ok_or(None);
    Form::new(legal, read, |value| names.iter().find(|n| n.1 == *value).map_or("auto", |n| n.0).into())
}

/// A text that is not blank.
pub(super) fn text(legal: &str) -> Form<String> {
    let read = |value: &Value| value.as_str().filter(|t| !t.trim().is_empty()).map(str::to_string).ok_or(None);
    Form::new(legal, read, |value| value.clone().into()).verbatim()
}

/// A file or folder, or none.
pub(super) fn path() -> Form<Option<PathBuf>> {
    let read =
        |value: &Value| value.as_str().map(|s| (!s.is_empty() && s != "auto").then(|| PathBuf::from(s))).ok_or(None);
    let show = |path: &Option<PathBuf>| path.as_ref().map_or(String::new(), |p| p.display().to_string()).into();
    Form::new("a path, or an empty string", read, show).range().verbatim()
}

/// What parses from text and shows as text; a number may be written without quotes.
pub(super) fn parsed<T: std::str::FromStr + std::fmt::Display + 'static>(legal: &str) -> Form<T> {
    Form::new(legal, |value| plain(value).parse().map_err(|_| None), |value: &T| value.to_string().into())
}

/// The f64 that is written as this f32 is.
pub(super) fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

pub(super) fn is_auto(value: &Value) -> bool {
    value.as_str() == Some("auto")
}

fn finite(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|i| i as f64)).filter(|v| v.is_finite())
}
