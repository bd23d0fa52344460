//! Settings as text: files, `key=value` pairs and flags are read, and all of them are written.

use super::Settings;
use super::form::is_auto;
use super::instrument::patch_keys;
use super::key::{Flag, Key, Takes};
use ::bars::nearest;
use files::{Error, Kind, Result};
use std::fmt::Write;
use std::path::Path;
use toml::Value;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// In a file with this text.
    File(&'a Path, &'a str),
    /// In the settings that a run stored, with this text; an older version may have written them.
    Stored(&'a Path, &'a str),
    /// In these words of the command line.
    Words(&'a str),
}

impl Origin<'_> {
    fn error(self, at: usize, message: String) -> Error {
        match self {
            Origin::File(path, text) | Origin::Stored(path, text) => {
                let before = text.get(..at.min(text.len())).unwrap_or(text);
                let line = before.matches('\n').count() as u64 + 1;
                let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u64 + 1;
                Error::new(Kind::Usage, message).at(path).line(line).column(column)
            }
            Origin::Words(words) => Error::new(Kind::Usage, format!("{words}: {message}")),
        }
    }
}

/// Why a key or a value is refused: message and remedy.
pub(super) enum Refusal {
    /// The key is at fault.
    Key(String, String),
    /// The value is at fault.
    Value(String, String),
}

impl Settings {
    /// Reads a settings file, or the `settings.toml` of a run folder, over what is set already.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        // A run by its folder, or by its name where there is nothing of that name here.
        let named = if path.exists() { None } else { crate::runs::find_run(path).ok() };
        let path = named.as_deref().unwrap_or(path);
        let stored = path.is_dir();
        let path = if stored { path.join("settings.toml") } else { path.to_path_buf() };
        let usage = |error: Error| {
            let message = error.message.replacen("reading the file", "reading the settings", 1);
            Error { kind: Kind::Usage, message, ..error }
        };
        let text = String::from_utf8(files::read_file(&path, 1 << 20).map_err(usage)?)
            .map_err(|_| Error::new(Kind::Usage, "these settings are not text in UTF-8").at(&path))?;
        self.apply(&text, if stored { Origin::Stored(&path, &text) } else { Origin::File(&path, &text) })
    }

    /// Sets one `key=value`; the value is TOML, and a bare word is a string.
    pub fn set(&mut self, pair: &str) -> Result<()> {
        let words = format!("--set {pair}");
        let origin = Origin::Words(&words);
        let Some((key, value)) = pair.split_once('=') else {
            return Err(origin
                .error(0, "has no `=`".into())
                .remedy("write --set key=value, as in --set repair.order=refuse"));
        };
        self.pair(key.trim(), value.trim(), origin)
    }

    /// Sets a key to what its flag was given; errors name the flag.
    pub fn set_flag(&mut self, key: &Key, values: &[&str]) -> Result<()> {
        let Some(Flag { name, takes }) = key.flag else {
            return Err(Error::new(Kind::Usage, format!("`{}` has no flag", key.name)));
        };
        let words: Vec<String> = values.iter().map(|value| format!("--{name} {value}")).collect();
        let origin = Origin::Words(&words.join(" "));
        match (takes, values) {
            (Takes::Values(_), values) => {
                let list = values.iter().map(|value| Value::from(*value)).collect::<Vec<Value>>();
                self.assign(&key.name.split('.').collect::<Vec<_>>(), &list.into()).map_err(|refusal| {
                    let (Refusal::Key(message, remedy) | Refusal::Value(message, remedy)) = refusal;
                    origin.error(0, message).remedy(remedy)
                })
            }
            (Takes::Nothing(value, _), _) => self.pair(key.name, value, origin),
            (Takes::Value(_), values) => values.iter().try_for_each(|value| self.pair(key.name, value.trim(), origin)),
        }
    }

    /// Sets a key that still has its default: what the user set stays.
    pub(crate) fn suggest(&mut self, key: &str, value: &str) -> Result<()> {
        match Key::find(key) {
            Some(k) if k.is_set(self) => Ok(()),
            _ => self.pair(key, value, Origin::Words(key)),
        }
    }

    pub(super) fn pair(&mut self, key: &str, value: &str, origin: Origin<'_>) -> Result<()> {
        // A name with odd characters, as symbols have, is quoted here so that nobody has to in a shell.
        let quoted = |key: &str| {
            let bare =
                |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            let parts: Vec<&str> = match key.strip_prefix("instrument.").and_then(|rest| rest.rsplit_once('.')) {
                Some((symbol, last)) => vec!["instrument", symbol.trim_matches('"'), last],
                None => key.split('.').collect(),
            };
            let parts = parts.into_iter().map(|p| if bare(p) { p.to_string() } else { Value::from(p).to_string() });
            parts.collect::<Vec<_>>().join(".")
        };
        let text = Key::find(key).is_some_and(|k| k.text) && !value.starts_with(['"', '\'']);
        let key = quoted(key);
        // TOML wants a digit before the point; people leave it out.
        let value = &value
            .strip_prefix('.')
            .filter(|v| v.bytes().all(|b| b.is_ascii_digit()))
            .map_or(value.to_string(), |v| format!("0.{v}"));
        let as_toml = format!("{key} = {value}");
        let text = if !text && !value.is_empty() && !value.contains('\n') && DeTable::parse(&as_toml).is_ok() {
            as_toml
        } else {
            format!("{key} = {}", Value::from(value.as_str()))
        };
        self.apply(&text, origin)
    }

    pub(super) fn apply(&mut self, text: &str, origin: Origin<'_>) -> Result<()> {
        let table = DeTable::parse(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            origin
                .error(at, format!("this is not TOML: {}", e.message().trim()))
                .remedy("docs/settings.toml is a whole settings file")
        })?;
        self.walk(table.get_ref(), &mut Vec::new(), text, origin)
    }

    fn walk<'t>(
        &mut self,
        table: &'t DeTable<'_>,
        path: &mut Vec<&'t str>,
        text: &str,
        origin: Origin<'_>,
    ) -> Result<()> {
        for (key, value) in table {
            path.push(key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if path.len() < 4 => self.walk(inner, path, text, origin)?,
                _ => {
                    // Written out again and read back as a plain value: the span is exactly its source.
                    let source = text.get(value.span()).unwrap_or("");
                    let plain = format!("v = {source}").parse::<toml::Table>().ok().and_then(|mut t| t.remove("v"));
                    let plain = plain.unwrap_or_else(|| source.into());
                    let name = path.join(".");
                    let assigned = match (origin, renamed(&name)) {
                        (Origin::Stored(..), Some(now)) => self.assign(&now.split('.').collect::<Vec<_>>(), &plain),
                        _ => self.assign(path, &plain),
                    };
                    assigned.map_err(|refusal| match refusal {
                        Refusal::Key(message, remedy) => origin.error(key.span().start, message).remedy(remedy),
                        Refusal::Value(message, remedy) => origin.error(value.span().start, message).remedy(remedy),
                    })?;
                }
            }
            path.pop();
        }
        Ok(())
    }

    /// Sets the key at a path.
    pub(super) fn assign(&mut self, path: &[&str], value: &Value) -> Result<(), Refusal> {
        if let ["instrument", symbol, key] = path {
            return self.patch(symbol, key, value);
        }
        let name = path.join(".");
        let Some(key) = Key::find(stands_for(&name)) else {
            return Err(unknown(&name));
        };
        let default = is_auto(value).then(|| (key.show)(&Settings::default()));
        (key.set)(self, default.as_ref().unwrap_or(value)).map_err(|wrong| {
            let usual = || (format!("`{name}` cannot be {value}"), format!("write {}", key.legal));
            let (message, remedy) = wrong.unwrap_or_else(usual);
            Refusal::Value(message, remedy)
        })
    }

    /// Every key with its value as it is written, and what was changed of instruments.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let keys = Key::all().iter().map(|key| (key.name.to_string(), (key.show)(self).to_string()));
        let instruments = self.instruments.iter().flat_map(|(symbol, table)| {
            table.iter().map(move |(key, value)| (format!("instrument.{symbol}.{key}"), value.to_string()))
        });
        keys.chain(instruments).collect()
    }

    /// Every key with its value, its meaning and what is legal; reads back as the same settings.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("# Fullbore settings. `auto` is legal everywhere and means the default.\n");
        let mut section = "";
        for key in Key::all() {
            let (head, last) = key.name.split_once('.').unwrap_or(("", key.name));
            if head != section {
                let _ = write!(text, "\n[{head}]");
                section = head;
            }
            comment(&mut text, &format!("{} Legal: {}.", key.help, key.legal));
            let _ = writeln!(text, "{last} = {}", (key.show)(self));
        }
        if self.instruments.is_empty() {
            comment(&mut text, &format!("Changes to the presets of one symbol. Keys: {}.", patch_keys().join(", ")));
            text.push_str("# [instrument.XAUUSD]\n# spread_bp = 1.5\n");
        }
        for (symbol, table) in &self.instruments {
            let _ = write!(text, "\n[instrument.{}]\n{table}", Value::from(symbol.as_str()));
        }
        text
    }
}

/// A comment on lines of its own, at most 120 columns wide.
fn comment(text: &mut String, words: &str) {
    let mut width = usize::MAX;
    for word in words.split(' ') {
        let long = word.chars().count() + 1;
        if width.saturating_add(long) > 120 {
            text.push_str("\n#");
            width = 1;
        }
        let _ = write!(text, " {word}");
        width += long;
    }
    text.push('\n');
}

/// Keys that had another name in an earlier version: what runs and models stored is read by it.
const RENAMED: &[(&str, &str)] = &[("bars.label", "bars.stamp")];

/// Names that Stable-Baselines3 has for keys which other learners have too.
const ALIASES: &[(&str, &str)] = &[
    ("ppo.learning_rate", "train.rate"),
    ("ppo.batch_size", "train.batch"),
    ("ppo.net_arch", "train.net"),
    ("ppo.total_timesteps", "ppo.timesteps"),
];

/// The key that a name stands for.
pub(super) fn stands_for(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, key)| key)
}

/// What a key of an earlier version is called now.
pub(super) fn renamed(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(then, _)| *then == name).map(|(_, now)| *now)
}

fn unknown(name: &str) -> Refusal {
    if let Some(now) = renamed(name) {
        return Refusal::Key(format!("`{name}` is now called `{now}`"), format!("write `{now}`"));
    }
    if name == "ppo.ent_coef" {
        let what = "there is no fixed weight of the entropy: it is kept in a band";
        return Refusal::Key(what.into(), "set <ppo.entropy=0.2..0.8>, a share of what is possible".into());
    }
    // Other names of Stable-Baselines3, whose remedy no nearest name would be.
    let (what, remedy) = match name {
        "ppo.ortho_init" => ("weights of a policy always begin orthogonal", "leave it out"),
        "ppo.activation_fn" => (
            "activations stand in the net",
            "write `t` behind a width for tanh, and nothing for ReLU: <train.net=64t,64t>",
        ),
        "ppo.log_std_init" => (
            "the deviation of continuous targets is an output of the net, and begins near 1",
            "leave it out; <ppo.entropy=-1.5..1.5> is the band of its entropy in nats",
        ),
        _ => ("", ""),
    };
    if !what.is_empty() {
        return Refusal::Key(what.into(), remedy.into());
    }
    if ["ppo.use_sde", "ppo.sde_sample_freq"].contains(&name) {
        let what =
            "there is no state-dependent exploration: a policy of positions has no motor that noise could wear out";
        return Refusal::Key(what.into(), "leave it out; <ppo.entropy=-1.5..1.5> says how much is tried".into());
    }
    let names = || Key::all().iter().map(|k| k.name);
    let last = |name: &'static str| name.rsplit('.').next().unwrap_or(name);
    let near = nearest(name, names()).or_else(|| {
        // `ordr` without its section, or the right word under the wrong one.
        let best = nearest(name.rsplit('.').next().unwrap_or(name), names().map(last))?;
        names().find(|n| last(n) == best)
    });
    let is_section = names().any(|n| n.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')));
    let message = if is_section {
        format!("`{name}` is a section, not a value")
    } else {
        format!("there is no setting `{name}`")
    };
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the settings are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Refusal::Key(message, remedy)
}
