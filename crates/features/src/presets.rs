//! Feature sets that come with the house, where others are read, and what the columns of a set are.

use crate::indicators::{Indicator, catalogue};
use crate::language::{Set, parse};
use crate::plan::{self, Plan};
use crate::table::Feature;
use bars::{Timeframe, nearest};
use files::{Error, Kind, Result};
use std::path::Path;

/// Name, what it is for, and its text.
pub const PRESETS: &[(&str, &str, &str)] = &[
    ("basic", "about twenty features for a first model", include_str!("presets/basic.txt")),
    ("full", "more than eighty features from every group of indicators", include_str!("presets/full.txt")),
    (
        "universe",
        "basic, and features of the whole market, for many symbols at once",
        include_str!("presets/universe.txt"),
    ),
    (
        "two_timeframe",
        "a fast, a slow and a strategy group for a network that reads two windows",
        include_str!("presets/two_timeframe.txt"),
    ),
];

/// No set is longer.
const LONGEST: u64 = 1 << 20;

/// The text of a preset.
pub fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|p| p.0 == name).map(|p| p.2)
}

/// The set behind some words: a preset's name, else a file, else the text of a set.
pub fn read_set(words: &str) -> Result<Set> {
    let name = words.trim();
    if let Some(text) = preset(name) {
        return parse(text, None);
    }
    let path = Path::new(words);
    // A path may not hold everything a set may (a newline, or 1 MiB of text): such words are no path.
    if !name.is_empty() && path.is_file() {
        return parse(&text_of(path)?, Some(path));
    }
    let is_text = name.contains(['(', ',', '=', '\n', ';']) && !name.ends_with(".txt");
    if is_text || parse(words, None).is_ok_and(|set| Plan::new(&set).is_ok()) {
        return parse(words, None);
    }
    if name.contains(['/', '\\']) || name.ends_with(".txt") {
        return Err(Error::input("there is no such file")
            .at(path)
            .remedy("give a file with a feature set, a preset, or features: <features.set=\"rsi(14), ema(20)\">"));
    }
    let names: Vec<&str> = PRESETS.iter().map(|p| p.0).collect();
    let all = names.join(", ");
    let error = Error::new(Kind::Usage, format!("`{name}` is not a feature set: no preset, no file, no indicator"));
    Err(match nearest(name, names.into_iter().chain(catalogue().map(|i| i.name))) {
        Some(near) => error.remedy(format!("did you mean `{near}`? The presets are {all}")),
        None => error.remedy(format!("the presets are {all}; or write features: \"rsi(14), ema(20)\"")),
    })
}

fn text_of(path: &Path) -> Result<String> {
    let bytes = files::read_file(path, LONGEST)?;
    String::from_utf8(bytes).map_err(|_| Error::input("this is not text in UTF-8").at(path))
}

/// The columns that a plan makes, with the timeframe of their table (`None`: that of the bars); nothing is computed.
pub fn columns(plan: &Plan) -> Vec<(Option<Timeframe>, Feature)> {
    let of = |layer: &plan::Layer| {
        layer.outputs.iter().map(|output| (layer.timeframe, Feature::new(output, layer, None))).collect::<Vec<_>>()
    };
    plan.layers.iter().flat_map(of).collect()
}

/// How an indicator is written, with what is taken when nothing is said: `macd(close, 12, 26, 9).line`.
pub fn usage(indicator: &Indicator) -> String {
    plan::usage(indicator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_resolves() {
        for (name, about, _) in PRESETS {
            let set = read_set(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            let plan = Plan::new(&set).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(!about.is_empty() && columns(&plan).len() == plan.width() && plan.width() >= 20, "{name}");
        }
    }

    #[test]
    fn feature_argument_is_a_preset_file_or_text() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("mine.txt");
        std::fs::write(&file, "rsi(14)\nsma(20)\n").expect("written");
        let file = file.display().to_string();
        let wide = |words: &str| read_set(words).map(|set| set.groups.iter().map(|g| g.features.len()).sum::<usize>());
        for (words, expected) in [(&*file, 2), ("rsi(14)", 1), ("close", 1), ("close/open", 1), ("a = close\nhigh", 2)]
        {
            assert_eq!(wide(words), Ok(expected), "{words}");
        }
        for (words, kind, part) in [
            ("ful", Kind::Usage, "`full`"),
            ("bsic", Kind::Usage, "`basic`"),
            ("zzzzzzzz", Kind::Usage, "presets are basic"),
            ("no/such/set", Kind::Input, "a file"),
            ("none.txt", Kind::Input, "a file"),
            ("", Kind::Usage, "presets are basic"),
        ] {
            let error = wide(words).expect_err(words);
            let remedy = error.remedy.clone().unwrap_or_default();
            assert!(error.kind == kind && remedy.contains(part), "{words}: {error:?}");
        }
    }
}
