//! One key, and the macro that declares a section of them.

use super::Settings;
use super::form::{Form, Wrong};
use std::sync::LazyLock;
use toml::Value;

/// Sets a key to a value.
type Set = Box<dyn Fn(&mut Settings, &Value) -> Result<(), Wrong> + Send + Sync>;

/// One setting: its name, what it does, what is legal, and its flag.
pub struct Key {
    /// Dotted: `repair.order`.
    pub name: &'static str,
    /// What it does, in a sentence or two.
    pub help: String,
    /// What may be written: `sort or refuse`.
    pub legal: String,
    /// The flag that stands for it on verbs that have one.
    pub flag: Option<Flag>,
    /// What its flag's help says is legal; none for a range of numbers.
    pub(super) choices: Option<String>,
    /// Whether a value is text as it stands, never a number or a date.
    pub(super) text: bool,
    /// Whether several values may be tried.
    pub(super) tried: bool,
    pub(super) show: Box<dyn Fn(&Settings) -> Value + Send + Sync>,
    pub(super) set: Set,
}

/// A flag of the command line that stands for a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flag {
    /// Without the dashes: `batch-size`.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Takes {
    /// A value, called this in the help: `N`.
    Value(&'static str),
    /// Values, each with the flag before it.
    Values(&'static str),
    /// Nothing: the flag stands for this value, and its help is this.
    Nothing(&'static str, &'static str),
}

impl Key {
    /// Every key but those of `[instrument.SYMBOL]`, in the order they are shown.
    pub fn all() -> &'static [Key] {
        static ALL: LazyLock<Vec<Key>> = LazyLock::new(super::keys);
        &ALL
    }

    /// The key of that name.
    pub fn find(name: &str) -> Option<&'static Key> {
        Key::all().iter().find(|key| key.name == name)
    }

    /// Whether it has another value than its default.
    pub(super) fn is_set(&self, settings: &Settings) -> bool {
        (self.show)(settings) != (self.show)(&Settings::default())
    }

    /// What its flag's help says; `default` is a verb's own.
    pub fn flag_help(&self, default: Option<&str>) -> String {
        if let Some(Flag { takes: Takes::Nothing(_, help), .. }) = self.flag {
            return help.to_string();
        }
        let sentence = self.help.split_once(". ").map_or(self.help.as_str(), |(first, _)| first);
        let sentence = sentence.trim_end_matches('.');
        let sentence = match (&self.choices, sentence.split_once("; ")) {
            (None, _) => sentence.to_string(),
            (Some(choices), None) => format!("{sentence}: {choices}"),
            (Some(choices), Some((what, more))) => format!("{what}: {choices}; {more}"),
        };
        let own = (self.show)(&Settings::default());
        match default.map_or_else(|| plain(&own), str::to_string) {
            none if none.is_empty() || none == "[]" => sentence,
            value => format!("{sentence} [default: {value}]"),
        }
    }

    /// A key whose value is at one place in the settings.
    pub(super) fn new<T: 'static>(
        name: &'static str,
        help: &str,
        form: Form<T>,
        place: fn(&Settings) -> &T,
        place_mut: fn(&mut Settings) -> &mut T,
    ) -> Key {
        let Form { legal, flag, choices, text, tried, read, show } = form;
        Key {
            name,
            help: help.trim().to_string(),
            legal,
            flag,
            choices,
            text,
            tried,
            show: Box::new(move |settings| show(place(settings))),
            set: Box::new(move |settings, value| {
                *place_mut(settings) = read(value)?;
                Ok(())
            }),
        }
    }
}

/// A value as a user writes it: text without quotes.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Declares a section: a struct, its defaults and its keys, each once.
///
/// `/// help` `field: Type = default, form;` where a form ([`Form`]) says what is legal and which flag stands for the
/// key. The key is called as the field, behind the section's prefix, unless `as "name"` says otherwise. Without types
/// and defaults the struct is another room's, with defaults of its own.
macro_rules! section {
    (
        $(#[$about:meta])*
        $name:ident at $place:ident, $prefix:literal;
        $($(#[doc = $help:literal])+ $field:ident $(as $key:literal)?: $type:ty = $default:expr, $form:expr;)+
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name { $($(#[doc = $help])+ pub $field: $type,)+ }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default),+ }
            }
        }

        section! { keys at $place, $prefix; $($(#[doc = $help])+ $field $(as $key)?: $form;)+ }
    };
    (
        keys at $place:ident, $prefix:literal;
        $($(#[doc = $help:literal])+ $field:ident $(as $key:literal)?: $form:expr;)+
    ) => {
        pub(super) fn keys() -> Vec<$crate::settings::key::Key> {
            vec![$($crate::settings::key::Key::new(
                section!(@name $prefix, $field $(, $key)?),
                concat!($($help),+),
                $form,
                |settings| &settings.$place.$field,
                |settings| &mut settings.$place.$field,
            )),+]
        }
    };
    (@name $prefix:literal, $field:ident) => { concat!($prefix, stringify!($field)) };
    (@name $prefix:literal, $field:ident, $key:literal) => { concat!($prefix, $key) };
}
pub(super) use section;
