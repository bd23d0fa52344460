//! Values to try: keys with several values each, of which every combination is a config.

use super::form::{Form, Wrong};
use super::parse::{Origin, stands_for};
use super::{Key, Settings};
use ::bars::nearest;
use files::{Error, Kind, Result};
use toml::Value;

/// A key and the values it is tried with, as they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidates {
    /// Without `train.`; those of other sections are whole: `ppo.gamma`.
    pub key: String,
    /// At least one, all different.
    pub values: Vec<String>,
}

/// Combinations at most; a member's id has room for no more.
const MOST: usize = 1024;

impl std::fmt::Display for Candidates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.key, self.values.join(", "))
    }
}

/// The prefix that keys to be tried are written without.
const SECTION: &str = "train.";

/// The whole name of a key.
fn name_of(key: &str) -> String {
    if key.contains('.') { key.to_string() } else { format!("{SECTION}{key}") }
}

/// The keys that may be tried, as they are written: everything that a member's own training is made of, and nothing
/// that changes what there is to learn.
fn tried(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().filter(|key| key.tried).map(|key| key.name.strip_prefix(SECTION).unwrap_or(key.name)).collect()
}

/// A list of texts, or one text.
pub(super) fn candidates() -> Form<Vec<Candidates>> {
    let policies: Vec<Key> =
        super::ppo::keys().into_iter().chain(super::evolve::keys()).chain(super::search::keys()).collect();
    let [keys, policies] = [super::classify::keys(), policies].map(|keys| tried(&keys).join(", "));
    let legal =
        format!("a list, as in [\"rate = 0.001, 0.0003\", \"decay = 0, 0.1\"], of {keys}; for policies of {policies}");
    let show =
        |all: &Vec<Candidates>| all.iter().map(|one| Value::from(one.to_string())).collect::<Vec<Value>>().into();
    Form::new(legal, read_all, show).flags(
        "try",
        "KEY=V,V",
        format!("for {keys}, or keys of policies (ppo.gamma); repeat --try for more keys"),
    )
}

fn read_all(value: &Value) -> Result<Vec<Candidates>, Wrong> {
    let form = || "write [\"rate = 0.001, 0.0003\", \"decay = 0, 0.1\"], each key once".to_string();
    let texts = match value {
        Value::Array(all) => all.iter().map(Value::as_str).collect::<Option<Vec<&str>>>(),
        Value::String(one) => Some(vec![one.as_str()]),
        _ => None,
    };
    let texts = texts.ok_or_else(|| Some((format!("`train.try` cannot be {value}"), form())))?;
    let all = texts.into_iter().map(read_one).collect::<Result<Vec<Candidates>, _>>()?;
    if let Some((_, twice)) = all.iter().enumerate().find(|(i, t)| all[..*i].iter().any(|other| other.key == t.key)) {
        return Err(Some((format!("`{}` is tried twice", twice.key), form())));
    }
    // Counted before any of them is made.
    match all.iter().fold(1usize, |n, one| n.saturating_mul(one.values.len())) {
        ..=MOST => Ok(all),
        n => {
            let remedy = format!("at most {MOST}: fewer keys or values");
            Err(Some((format!("{n} combinations are too many to try"), remedy)))
        }
    }
}

/// `rate = 0.001, 0.0003`, each value legal for its key.
fn read_one(text: &str) -> Result<Candidates, Wrong> {
    let form = || "write key = value, value, as in rate = 0.001, 0.0003".to_string();
    let (key, values) = text.split_once('=').ok_or_else(|| Some((format!("`{text}` has no `=`"), form())))?;
    let key = stands_for(key.trim()).trim_start_matches(SECTION).to_string();
    let keys = tried(Key::all());
    if !keys.contains(&key.as_str()) {
        let near = nearest(&key, keys.iter().copied());
        let remedy =
            near.map_or_else(|| format!("choose one of {}", keys.join(", ")), |near| format!("did you mean `{near}`?"));
        return Err(Some((format!("`{key}` cannot be tried"), remedy)));
    }
    let values: Vec<String> = values.split(',').map(|v| v.trim().to_string()).collect();
    for (i, value) in values.iter().enumerate() {
        if values[..i].contains(value) {
            return Err(Some((format!("`{key}` is tried with {value} twice"), form())));
        }
        let name = name_of(&key);
        let tried = Settings::default().pair(&name, value, Origin::Words(&name));
        tried.map_err(|e| Some((format!("`{key}` cannot be tried with `{value}`"), e.remedy.unwrap_or_else(form))))?;
    }
    Ok(Candidates { key, values })
}

impl Settings {
    /// The settings of every combination of candidates, and its description: the last key changes first. Without
    /// candidates, these settings alone.
    pub(crate) fn configs(&self) -> Vec<(String, Settings)> {
        let mut all = vec![(String::new(), self.clone())];
        for tried in &self.train.candidates {
            let each = |(description, settings): (String, Settings)| {
                tried.values.iter().map(move |value| {
                    let mut own = settings.clone();
                    // Each value was checked when it was set.
                    let _ = own.pair(&name_of(&tried.key), value, Origin::Words(value));
                    let comma = if description.is_empty() { "" } else { ", " };
                    (format!("{description}{comma}{} {value}", tried.key), own)
                })
            };
            all = all.into_iter().flat_map(each).collect();
        }
        all.iter_mut().for_each(|(_, own)| own.train.candidates.clear());
        all
    }

    /// Sentences about values that were set and are not used, since others are tried.
    pub(crate) fn overruled(&self) -> Vec<String> {
        let sentence = |tried: &Candidates| {
            let key = Key::find(&name_of(&tried.key))?;
            let value = (key.show)(self);
            key.is_set(self).then(|| format!("{} = {value} is not used: `{tried}` is tried instead", key.name))
        };
        self.train.candidates.iter().filter_map(sentence).collect()
    }

    /// Refuses candidates, for verbs that train one config.
    pub(crate) fn refuse_candidates(&self, verb: &str) -> Result<()> {
        match self.train.candidates.first() {
            None => Ok(()),
            Some(tried) => {
                Err(Error::new(Kind::Usage, format!("{verb} trains one config, and train.try has `{tried}`"))
                    .remedy("`fullbore train` tries several; leave train.try out here"))
            }
        }
    }

    /// Whether a key is tried with several values.
    pub(crate) fn has_candidates(&self, key: &str) -> bool {
        self.train.candidates.iter().any(|t| t.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_values(settings: &mut Settings, texts: &[impl AsRef<str>]) -> Result<()> {
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        settings.set_flag(Key::find("train.try").expect("a key"), &texts)
    }

    #[test]
    fn keys_that_can_be_tried_are_named_in_its_help() {
        let legal = &Key::find("train.try").expect("a key").legal;
        for key in Key::all().iter().filter(|key| key.tried) {
            let name = key.name.strip_prefix(SECTION).unwrap_or(key.name);
            assert!(legal.split([' ', ',', ';']).any(|word| word == name), "{name}: {legal}");
            assert_eq!(name_of(name), key.name);
        }
    }

    /// Every hyper-parameter that Stable-Baselines3 has for PPO is a key, or another name of one.
    #[test]
    fn names_of_stable_baselines_are_read() {
        let mut settings = Settings::default();
        for pair in [
            "learning_rate=0.001",
            "n_steps=256",
            "batch_size=128",
            "n_epochs=7",
            "gamma=0.98",
            "gae_lambda=0.9",
            "clip_range=0.1",
            "clip_range_vf=0.3",
            "normalize_advantage=false",
            "vf_coef=0.25",
            "max_grad_norm=1.5",
            "target_kl=0.02",
            "net_arch=32,32",
            "total_timesteps=5000",
        ] {
            settings.set(&format!("ppo.{pair}")).expect(pair);
        }
        let own = &settings.ppo;
        assert_eq!((own.n_steps, own.n_epochs, own.timesteps), (Some(256), 7, Some(5000)));
        assert_eq!((own.gamma, own.gae_lambda, own.vf_coef), (0.98, 0.9, 0.25));
        assert_eq!((own.clip_range, own.clip_range_vf, own.normalize_advantage), (0.1, 0.3, false));
        assert_eq!((own.max_grad_norm, own.target_kl), (1.5, 0.02));
        let shared = &settings.classify;
        assert_eq!((shared.rate, shared.batch, shared.net.as_deref()), (Some(0.001), Some(128), Some("32,32")));
    }

    #[test]
    fn keys_of_policies_are_tried_by_their_whole_names() {
        let mut settings = Settings::default();
        try_values(&mut settings, &["ppo.clip_range=0.1,0.3", "ppo.entropy=auto,0.1..0.5", "rate=1e-3"])
            .expect("legal");
        let configs = settings.configs();
        let words: Vec<&str> = configs.iter().map(|c| c.0.as_str()).collect();
        assert_eq!((words.len(), words[1]), (4, "ppo.clip_range 0.1, ppo.entropy 0.1..0.5, rate 1e-3"));
        assert_eq!((configs[2].1.ppo.clip_range, configs[2].1.ppo.entropy), (0.3, None));
        assert_eq!(configs[3].1.ppo.entropy.map(|band| band.most), Some(0.5));
        let mut again = Settings::default();
        again.apply(&settings.to_toml(), Origin::Words("its own")).expect("legal");
        assert_eq!(again, settings);
        settings.set("train.try=[\"ppo.learning_rate = 0.01, 0.02\"]").expect("legal");
        assert_eq!(settings.configs()[1], ("rate 0.02".into(), settings.configs()[1].1.clone()));
        settings.set("ppo.learning_rate=0.5").expect("another name");
        settings.set("ppo.batch_size=96").expect("another name");
        assert_eq!((settings.classify.rate, settings.classify.batch), (Some(0.5), Some(96)));
        let band = settings.set("ppo.ent_coef=0.1").expect_err("there is none");
        assert!(band.to_string().contains("kept in a band"), "{band}");
        let noise = settings.set("ppo.use_sde=true").expect_err("there is none");
        assert!(noise.to_string().contains("state-dependent exploration"), "{noise}");
        for (name, why, way) in [
            ("ortho_init=false", "always begin orthogonal", "leave it out"),
            ("activation_fn=relu", "stand in the net", "<train.net=64t,64t>"),
            ("log_std_init=0", "an output of the net", "<ppo.entropy=-1.5..1.5>"),
        ] {
            let error = settings.set(&format!("ppo.{name}")).expect_err("there is none");
            let remedy = error.remedy.clone().unwrap_or_default();
            assert!(error.to_string().contains(why) && remedy.contains(way), "{error}: {remedy}");
        }
        settings = again;
        settings.set("ppo.clip_range=0.2").expect("legal");
        settings.set("ppo.entropy=0.3..0.4").expect("legal");
        let overruled = settings.overruled();
        assert_eq!(overruled.len(), 1, "{overruled:?}");
        for (wrong, wanted) in [("ppo.gama=1", "did you mean `ppo.gamma`"), ("ppo.timesteps=5,6", "cannot be tried")] {
            let error = try_values(&mut settings, &[wrong]).expect_err(wrong);
            let remedy = error.remedy.clone().unwrap_or_default();
            assert!(error.to_string().contains(wanted) || remedy.contains(wanted), "{error}: {remedy}");
        }
    }

    #[test]
    fn candidates_are_checked_and_every_combination_is_a_config() {
        let mut settings = Settings::default();
        assert_eq!(settings.configs(), [(String::new(), Settings::default())]);
        try_values(&mut settings, &["rate=1e-3, 3e-4", "net = auto,8-16-3"]).expect("legal");
        let configs = settings.configs();
        let words: Vec<&str> = configs.iter().map(|c| c.0.as_str()).collect();
        assert_eq!(
            words,
            ["rate 1e-3, net auto", "rate 1e-3, net 8-16-3", "rate 3e-4, net auto", "rate 3e-4, net 8-16-3"]
        );
        assert_eq!((configs[3].1.classify.rate, configs[3].1.classify.net.as_deref()), (Some(3e-4), Some("8-16-3")));
        assert!(configs.iter().all(|c| c.1.train.candidates.is_empty()));
        // As a file, and back.
        let mut again = Settings::default();
        again.apply(&settings.to_toml(), Origin::Words("its own")).expect("legal");
        assert_eq!(again, settings);
        settings.set("train.try=auto").expect("legal");
        assert_eq!(settings, Settings::default());
        settings.set("train.try=[\"decay = 0, 0.1\"]").expect("legal");
        settings.set("train.try=decay = 0.2").expect("legal");
        assert_eq!(settings.configs()[0].1.classify.decay, 0.2);
        for (wrong, wanted) in [
            ("rat=1", "did you mean `rate`"),
            ("rate", "has no `=`"),
            ("rate=1e-3,1e-3", "twice"),
            ("rate=1e-3,fast", "cannot be tried with `fast`"),
            ("rate=1e-3,", "cannot be tried with ``"),
            ("epochs=5,10", "cannot be tried"),
        ] {
            let error = try_values(&mut settings, &[wrong]).expect_err(wrong);
            assert!(
                error.to_string().contains(wanted) || error.remedy.as_deref().unwrap_or("").contains(wanted),
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
        let error = try_values(&mut settings, &many).expect_err("too many");
        assert!(error.to_string().contains("10000000 combinations"), "{error}");
        try_values(&mut settings, &many[..3]).expect("a thousand");
        let twice = try_values(&mut settings, &["rate=1", "rate=0.1"]).expect_err("twice");
        assert!(twice.to_string().contains("tried twice"), "{twice}");
    }
}
