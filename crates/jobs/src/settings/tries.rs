//! What is to be tried: keys of `[train]` with several values each, of which every combination is a config.

use super::{Key, Origin, Settings};
use bars::nearest;
use files::{Error, Kind, Result};
use toml::Value;

/// A key of `[train]` and the values it is tried with, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// Without `train.`.
    pub key: String,
    /// At least one, all different.
    pub values: Vec<String>,
}

/// What may be tried: everything that a member's own training is made of, and nothing that changes what there is to
/// learn.
const TRIED: [&str; 9] = ["net", "batch", "rate", "schedule", "warmup", "decay", "clip", "smoothing", "average"];

/// Combinations at most; a member's id has room for no more.
const MOST: usize = 1024;

impl std::fmt::Display for Try {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.key, self.values.join(", "))
    }
}

/// What is to be tried, from a list of texts or one text; what is wrong with it, and what to do.
pub(super) fn tries(value: &Value) -> Result<Vec<Try>, (String, String)> {
    let form = || "write [\"rate = 0.001, 0.0003\", \"decay = 0, 0.1\"], each key once".to_string();
    let texts = match value {
        Value::Array(all) => all.iter().map(Value::as_str).collect::<Option<Vec<&str>>>(),
        Value::String(one) => Some(vec![one.as_str()]),
        _ => None,
    };
    let texts = texts.ok_or_else(|| (format!("`train.try` cannot be {value}"), form()))?;
    let all = texts.into_iter().map(read_try).collect::<Result<Vec<Try>, _>>()?;
    if let Some((_, twice)) = all.iter().enumerate().find(|(i, t)| all[..*i].iter().any(|other| other.key == t.key)) {
        return Err((format!("`{}` is tried twice", twice.key), form()));
    }
    // Counted before any of them is made.
    match all.iter().fold(1usize, |n, tried| n.saturating_mul(tried.values.len())) {
        ..=MOST => Ok(all),
        n => Err((format!("{n} combinations are too many to try"), format!("at most {MOST}: fewer keys or values"))),
    }
}

/// `rate = 0.001, 0.0003`, each value legal for its key.
fn read_try(text: &str) -> Result<Try, (String, String)> {
    let form = || "write key = value, value, as in rate = 0.001, 0.0003".to_string();
    let (key, values) = text.split_once('=').ok_or_else(|| (format!("`{text}` has no `=`"), form()))?;
    let key = key.trim().trim_start_matches("train.").to_string();
    if !TRIED.contains(&key.as_str()) {
        let near = nearest(&key, TRIED.iter().copied());
        let remedy =
            near.map_or_else(|| format!("there are {}", TRIED.join(", ")), |near| format!("did you mean `{near}`?"));
        return Err((format!("`{key}` cannot be tried"), remedy));
    }
    let values: Vec<String> = values.split(',').map(|v| v.trim().to_string()).collect();
    for (i, value) in values.iter().enumerate() {
        if values[..i].contains(value) {
            return Err((format!("`{key}` is tried with {value} twice"), form()));
        }
        let name = format!("train.{key}");
        let tried = Settings::default().pair(&name, value, Origin::Words(&name));
        tried.map_err(|e| (format!("`{key}` cannot be tried with `{value}`"), e.remedy.unwrap_or_else(form)))?;
    }
    Ok(Try { key, values })
}

impl Settings {
    /// Takes what flags ask to try, instead of what was asked before.
    pub fn try_flags(&mut self, flag: &str, texts: &[String]) -> Result<()> {
        let list: Vec<Value> = texts.iter().map(|text| Value::from(text.as_str())).collect();
        let wrong = |(message, remedy): (String, String)| {
            Error::new(Kind::Usage, format!("{flag} {}: {message}", texts.join(&format!(" {flag} ")))).remedy(remedy)
        };
        self.train.tries = tries(&list.into()).map_err(wrong)?;
        Ok(())
    }

    /// The settings of every combination of what is tried, and its words: the last key changes first. Without anything
    /// to try, these alone.
    pub(crate) fn configs(&self) -> Vec<(String, Settings)> {
        let mut all = vec![(String::new(), self.clone())];
        for tried in &self.train.tries {
            let each = |(words, settings): (String, Settings)| {
                tried.values.iter().map(move |value| {
                    let mut own = settings.clone();
                    // Each value was read alone when it was set.
                    let _ = own.pair(&format!("train.{}", tried.key), value, Origin::Words(value));
                    let comma = if words.is_empty() { "" } else { ", " };
                    (format!("{words}{comma}{} {value}", tried.key), own)
                })
            };
            all = all.into_iter().flat_map(each).collect();
        }
        all.iter_mut().for_each(|(_, own)| own.train.tries.clear());
        all
    }

    /// Sentences about values that were set and are not used, since others are tried.
    pub(crate) fn overruled(&self) -> Vec<String> {
        let usual = Settings::default();
        let said = |tried: &Try| {
            let name = format!("train.{}", tried.key);
            let key = Key::ALL.iter().find(|key| key.name == name)?;
            let set = (key.show)(self);
            (set != (key.show)(&usual)).then(|| format!("{name} = {set} is not used: `{tried}` is tried instead"))
        };
        self.train.tries.iter().filter_map(said).collect()
    }

    /// For verbs that train one config and say so.
    pub(crate) fn no_tries(&self, who: &str) -> Result<()> {
        match self.train.tries.first() {
            None => Ok(()),
            Some(tried) => {
                Err(Error::new(Kind::Usage, format!("{who} trains one config, and train.try asks for `{tried}`"))
                    .remedy("`fullbore train` tries several; leave train.try out here"))
            }
        }
    }

    /// Whether a key of `[train]` is tried with several values.
    pub(crate) fn tries(&self, key: &str) -> bool {
        self.train.tries.iter().any(|t| t.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_is_checked_and_every_combination_is_a_config() {
        let mut settings = Settings::default();
        assert_eq!(settings.configs(), [(String::new(), Settings::default())]);
        settings.try_flags("--try", &["rate=1e-3, 3e-4".into(), "net = auto,8-16-3".into()]).expect("legal");
        let configs = settings.configs();
        let words: Vec<&str> = configs.iter().map(|c| c.0.as_str()).collect();
        assert_eq!(
            words,
            ["rate 1e-3, net auto", "rate 1e-3, net 8-16-3", "rate 3e-4, net auto", "rate 3e-4, net 8-16-3"]
        );
        assert_eq!((configs[3].1.train.rate, configs[3].1.train.net.as_deref()), (Some(3e-4), Some("8-16-3")));
        assert!(configs.iter().all(|c| c.1.train.tries.is_empty()));
        // As a file, and back.
        let mut again = Settings::default();
        again.apply(&settings.to_toml(), Origin::Words("its own")).expect("legal");
        assert_eq!(again, settings);
        settings.set("train.try=auto").expect("legal");
        assert_eq!(settings, Settings::default());
        settings.set("train.try=[\"decay = 0, 0.1\"]").expect("legal");
        settings.set("train.try=decay = 0.2").expect("legal");
        assert_eq!(settings.configs()[0].1.train.decay, 0.2);
        for (wrong, said) in [
            ("rat=1", "did you mean `rate`"),
            ("rate", "has no `=`"),
            ("rate=1e-3,1e-3", "twice"),
            ("rate=1e-3,fast", "cannot be tried with `fast`"),
            ("rate=1e-3,", "cannot be tried with ``"),
            ("epochs=5,10", "cannot be tried"),
        ] {
            let error = settings.try_flags("--try", &[wrong.into()]).expect_err(wrong);
            assert!(
                error.to_string().contains(said) || error.remedy.as_deref().unwrap_or("").contains(said),
                "{error}"
            );
        }
        assert!(settings.overruled().is_empty());
        settings.set("train.decay=0.3").expect("legal");
        assert_eq!(settings.overruled(), ["train.decay = 0.3 is not used: `decay = 0.2` is tried instead"]);
        // Too many are refused before they are made.
        let ten = |key: &str| format!("{key}={}", (1..=10).map(|i| format!("0.{i:02}")).collect::<Vec<_>>().join(","));
        let keys = ["rate", "warmup", "decay", "clip", "smoothing", "average"];
        let many: Vec<String> = keys.iter().map(|key| ten(key)).chain(["batch=1,2,3,4,5,6,7,8,9,10".into()]).collect();
        let error = settings.try_flags("--try", &many).expect_err("too many");
        assert!(error.to_string().contains("10000000 combinations"), "{error}");
        settings.try_flags("--try", &many[..3]).expect("a thousand");
        let twice = settings.try_flags("--try", &["rate=1".into(), "rate=0.1".into()]).expect_err("twice");
        assert!(twice.to_string().contains("tried twice"), "{twice}");
    }
}
