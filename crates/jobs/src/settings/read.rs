//! How bars are read, repaired and put together: with the set of features it decides what a feature is, so a model
//! carries it and predicts with it.

use super::parse::{Refusal, renamed};
use super::{Key, Settings};
use files::{Error, Kind, Result};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Value;

/// Beside the sections below, what shapes features though the bars are the same.
const FEATURES: [&str; 2] = ["features.max_hole", "features.settle"];

/// Every setting that shapes bars and features, with its value; paths are absolute.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ReadSettings {
    /// `bars.*`, `repair.*`, `universe.*` and [`FEATURES`]; those of an earlier version under today's names.
    #[serde(deserialize_with = "under_todays_names")]
    keys: BTreeMap<String, Value>,
    /// `[instrument.SYMBOL]`
    #[serde(default)]
    instruments: BTreeMap<String, toml::Table>,
}

fn under_todays_names<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<BTreeMap<String, Value>, D::Error> {
    let stored = BTreeMap::<String, Value>::deserialize(from)?;
    Ok(stored.into_iter().map(|(name, value)| (renamed(&name).map_or(name, str::to_string), value)).collect())
}

/// The settings of a section with their values, as a model keeps them; paths are absolute.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SectionSettings(#[serde(deserialize_with = "under_todays_names")] BTreeMap<String, Value>);

impl SectionSettings {
    /// What differs from `then`, a sentence each.
    pub(crate) fn differences(&self, then: &SectionSettings) -> Vec<String> {
        let shown = |of: &SectionSettings, name: &str| of.0.get(name).map_or("auto".into(), plain);
        let names: BTreeSet<&String> = self.0.keys().chain(then.0.keys()).collect();
        let others = names.into_iter().filter(|name| self.0.get(*name) != then.0.get(*name));
        let sentence = |name: &String| {
            let [here, then] = [self, then].map(|of| shown(of, name));
            format!("{name} is {here} here and was {then} in training: the policy is shown another account")
        };
        others.map(sentence).collect()
    }
}

/// A value as it is written; no text is none.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |s| if s.is_empty() { "none" } else { s }.into())
}

impl Settings {
    /// The settings of the account.
    pub(crate) fn account_settings(&self) -> SectionSettings {
        let own = |key: &Key| {
            let value = (key.show)(self);
            let path = value.as_str().filter(|path| key.name == "account.funding" && !path.is_empty());
            let path = path.and_then(|path| std::path::absolute(Path::new(path)).ok());
            (key.name.to_string(), path.map_or(value, |path| path.display().to_string().into()))
        };
        SectionSettings(Key::all().iter().filter(|key| key.name.starts_with("account.")).map(own).collect())
    }

    /// Takes settings that a model kept.
    ///
    /// # Errors
    ///
    /// Where a key is unknown here or has a value that it cannot have.
    pub(crate) fn take_section(&mut self, section: &SectionSettings) -> Result<()> {
        for (name, value) in &section.0 {
            let path: Vec<&str> = name.split('.').collect();
            self.assign(&path, value).map_err(|refusal| {
                let (Refusal::Key(what, remedy) | Refusal::Value(what, remedy)) = refusal;
                Error::new(Kind::State, format!("the account that the model was trained on is damaged: {what}"))
                    .remedy(remedy)
            })?;
        }
        Ok(())
    }

    /// What of these settings shapes bars and features.
    pub(crate) fn read_settings(&self) -> ReadSettings {
        let mine = |name: &str| {
            ["bars.", "repair.", "universe."].iter().any(|s| name.starts_with(s)) || FEATURES.contains(&name)
        };
        let shown = |key: &Key| {
            let value = (key.show)(self);
            let path = value.as_str().filter(|path| key.name.starts_with("universe.") && !path.is_empty());
            let path = path.and_then(|path| std::path::absolute(Path::new(path)).ok());
            (key.name.to_string(), path.map_or(value, |path| path.display().to_string().into()))
        };
        let some = |(_, table): &(&String, &toml::Table)| !table.is_empty();
        ReadSettings {
            keys: Key::all().iter().filter(|key| mine(key.name)).map(shown).collect(),
            instruments: self.instruments.iter().filter(some).map(|(s, t)| (s.clone(), t.clone())).collect(),
        }
    }

    /// The defaults, but for these.
    ///
    /// # Errors
    ///
    /// Where a key is unknown here or has a value that it cannot have.
    pub(crate) fn from_read_settings(reading: &ReadSettings) -> Result<Settings> {
        let mut settings = Settings::default();
        let wrong = |refusal: Refusal| {
            let (Refusal::Key(what, remedy) | Refusal::Value(what, remedy)) = refusal;
            Error::new(Kind::State, format!("the settings its bars were read with are missing or damaged: {what}"))
                .remedy(remedy)
        };
        for (name, value) in &reading.keys {
            let path: Vec<&str> = name.split('.').collect();
            settings.assign(&path, value).map_err(wrong)?;
        }
        for (symbol, table) in &reading.instruments {
            for (key, value) in table {
                settings.patch(symbol, key, value).map_err(wrong)?;
            }
        }
        Ok(settings)
    }
}

impl ReadSettings {
    /// The keys whose values differ.
    pub(crate) fn differing_names(&self, other: &ReadSettings) -> Vec<String> {
        let [here, other] = [self.flat(), other.flat()];
        let names: BTreeSet<&String> = here.keys().chain(other.keys()).collect();
        names.into_iter().filter(|name| here.get(*name) != other.get(*name)).cloned().collect()
    }

    /// What differs from `then`, a sentence each. Bars that are the same to the bit were read the same, whatever the
    /// settings: then only what bars do not show is named.
    pub(crate) fn differences(&self, then: &ReadSettings, same_bars: bool) -> Vec<String> {
        let others = self.differing_names(then);
        let [here, then] = [self.flat(), then.flat()];
        let shown = |of: &BTreeMap<String, String>, name: &str| of.get(name).map_or("auto".into(), String::clone);
        let sentence = |name: &String| {
            let [here, then] = [&here, &then].map(|of| shown(of, name));
            format!("{name} is {here} here and was {then} in training: features may differ")
        };
        others.iter().filter(|name| !same_bars || FEATURES.contains(&name.as_str())).map(sentence).collect()
    }

    /// Names and values as they are written.
    fn flat(&self) -> BTreeMap<String, String> {
        let keys = self.keys.iter().map(|(name, value)| (name.clone(), plain(value)));
        let of = |(symbol, table): (&String, &toml::Table)| {
            let name = |key: &String| format!("instrument.{symbol}.{key}");
            table.iter().map(|(key, value)| (name(key), plain(value))).collect::<Vec<_>>()
        };
        keys.chain(self.instruments.iter().flat_map(of)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[&str]) -> Settings {
        let mut settings = Settings::default();
        pairs.iter().for_each(|pair| settings.set(pair).unwrap());
        settings
    }

    const ALL: [&str; 8] = [
        "bars.timezone=America/New_York",
        "bars.stamp=end",
        "repair.splits=keep",
        "repair.unreadable=0.25",
        "universe.factors=/tmp/it's \"here\".csv",
        "features.max_hole=3",
        "instrument.BRK.B.open=10:00",
        "instrument.BTC/USDT:USDT.spread_bp=1.5",
    ];

    #[test]
    fn feature_settings_are_saved_and_restored() {
        let own = settings(&ALL);
        let reading = own.read_settings();
        let text = serde_json::to_string(&reading).unwrap();
        let read: ReadSettings = serde_json::from_str(&text).unwrap();
        assert_eq!(read, reading);
        assert_eq!(Settings::from_read_settings(&read).unwrap(), own);
        // What shapes none is not in it, and a path is found from everywhere.
        let more = settings(&["seed=9", "train.epochs=3", "label.rule=fixed(3)", "memory=2GiB"]);
        assert_eq!(more.read_settings(), Settings::default().read_settings());
        let relative = settings(&["universe.membership=m.csv"]).read_settings();
        assert!(Path::new(relative.keys["universe.membership"].as_str().unwrap()).is_absolute());
    }

    #[test]
    fn an_account_is_saved_restored_and_compared() {
        let own = settings(&["account.leverage=3", "account.funding=f.csv", "account.sizing=vol-target(0.1)"]);
        let text = serde_json::to_string(&own.account_settings()).unwrap();
        let mut read = Settings::default();
        read.take_section(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!((read.account.leverage, read.account.sizing), (3.0, own.account.sizing));
        assert!(read.account.funding.as_ref().is_some_and(|path| path.is_absolute()));
        assert_eq!(read.account_settings().differences(&own.account_settings()), Vec::<String>::new());
        let other = settings(&["account.leverage=2"]).account_settings().differences(&own.account_settings());
        assert_eq!(other.len(), 3, "{other:?}");
        assert!(other.iter().any(|d| d.starts_with("account.leverage is 2.0 here and was 3.0")), "{other:?}");
        let strange: SectionSettings = serde_json::from_str("{\"account.levrage\": 1.0}").unwrap();
        assert!(read.take_section(&strange).is_err());
    }

    #[test]
    fn every_difference_is_named() {
        let (all, none) = (settings(&ALL).read_settings(), Settings::default().read_settings());
        assert_eq!(all.differences(&all, false), Vec::<String>::new());
        let differences = none.differences(&all, false);
        assert_eq!(differences.len(), ALL.len(), "{differences:?}");
        assert!(differences.contains(
            &"bars.timezone is auto here and was America/New_York in training: features may differ".to_string()
        ));
        // The same bars: only what bars do not show.
        let differences = none.differences(&all, true);
        assert!(differences.len() == 1 && differences[0].starts_with("features.max_hole is auto"), "{differences:?}");
    }

    #[test]
    fn a_model_of_an_earlier_version_is_read() {
        let stored: ReadSettings = serde_json::from_str(r#"{"keys": {"bars.label": "end"}}"#).unwrap();
        let today: ReadSettings = serde_json::from_str(r#"{"keys": {"bars.stamp": "end"}}"#).unwrap();
        assert_eq!(stored, today);
        assert_eq!(Settings::from_read_settings(&stored).unwrap(), settings(&["bars.stamp=end"]));
    }

    #[test]
    fn a_key_that_is_unknown_here_is_refused() {
        for text in [
            r#"{"keys": {"bars.colour": "red"}}"#,
            r#"{"keys": {"bars.stamp": "middle"}}"#,
            r#"{"keys": {}, "instruments": {"X": {"opens": "10:00"}}}"#,
        ] {
            let reading: ReadSettings = serde_json::from_str(text).unwrap();
            let error = Settings::from_read_settings(&reading).unwrap_err();
            assert!(error.kind == Kind::State && error.message.contains("its bars were read with"), "{error}");
        }
    }
}
