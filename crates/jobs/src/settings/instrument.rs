//! `[instrument.SYMBOL]`: changes to the presets of one symbol, by the names that [`bars::InstrumentPatch`] has.

use super::Settings;
use super::parse::Refusal;
use ::bars::{Class, Instrument, InstrumentPatch, nearest};
use std::collections::BTreeMap;
use toml::Value;

impl Settings {
    /// The changes to the presets, by symbol.
    pub fn patches(&self) -> BTreeMap<String, InstrumentPatch> {
        // Each value was checked when it was set, so the whole reads too.
        let read = |table: &toml::Table| table.clone().try_into().unwrap_or_default();
        self.instruments.iter().map(|(symbol, table)| (symbol.clone(), read(table))).collect()
    }

    /// Sets one key of one symbol.
    pub(super) fn patch(&mut self, symbol: &str, key: &str, value: &Value) -> Result<(), Refusal> {
        let keys = patch_keys();
        if !keys.iter().any(|k| k == key) {
            let near = nearest(key, keys.iter().map(String::as_str));
            let remedy =
                near.map_or_else(|| format!("the keys are {}", keys.join(", ")), |n| format!("did you mean `{n}`?"));
            return Err(Refusal::Key(format!("there is no setting `instrument.{symbol}.{key}`"), remedy));
        }
        let mut table = self.instruments.get(symbol).cloned().unwrap_or_default();
        if super::form::is_auto(value) {
            table.remove(key);
        } else {
            let alone = toml::Table::from_iter([(key.to_string(), value.clone())]);
            let wrong = |why: String| Refusal::Value(format!("`instrument.{symbol}.{key}` cannot be {value}"), why);
            let patch: InstrumentPatch =
                alone.try_into().map_err(|e: toml::de::Error| wrong(e.message().trim().to_string()))?;
            patch.apply(&mut Instrument::preset(Class::Equity, "USD")).map_err(wrong)?;
            table.insert(key.to_string(), value.clone());
        }
        self.instruments.insert(symbol.to_string(), table);
        Ok(())
    }
}

/// The fields of [`InstrumentPatch`], as serde names them.
pub(super) fn patch_keys() -> Vec<String> {
    match serde_json::to_value(InstrumentPatch::default()) {
        Ok(serde_json::Value::Object(map)) => map.keys().cloned().collect(),
        _ => Vec::new(),
    }
}
