//! Every key by every way in, and what is refused.

use super::parse::Origin;
use super::{Key, Settings};
use crate::kinds::LEARNERS;
use ::features::labels::TrainEnd;
use files::{Kind, Result};
use std::path::Path;

fn from_file(text: &str) -> Result<Settings> {
    let mut settings = Settings::default();
    settings.apply(text, Origin::File(Path::new("s.toml"), text))?;
    Ok(settings)
}

fn changed() -> Settings {
    let mut settings = Settings::default();
    for pair in [
        "memory=2GiB",
        "threads=3",
        "seed=7",
        "bars.timezone=America/New_York",
        "bars.stamp=end",
        "repair.order=refuse",
        "repair.unreadable=0.5",
        "universe.membership=/tmp/it's \"here\".csv",
        "features.set=rsi(14), ema(20)",
        "features.max_hole=0",
        "label.rule=triple(24, 1.5)",
        "label.cost_bp=12",
        "label.span=50",
        "cache.limit=0",
        "synth.years=6",
        "synth.timeframe=5m",
        "synth.plant=true",
        "synth.start=2020-02-29",
        "synth.ragged=false",
        "instrument.XAUUSD.spread_bp=1.5",
        "instrument.BTC/USDT:USDT.currency=EUR",
        "instrument.BRK.B.tick=0.05",
    ] {
        settings.set(pair).unwrap_or_else(|e| panic!("{e}"));
    }
    settings
}

#[test]
fn the_documentation_shows_every_setting_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.toml");
    // Tests have a learner more than users, the last.
    let names: Vec<&str> = LEARNERS.iter().map(|learner| learner.0).collect();
    let [all, users] = [names.len(), names.len() - 1].map(|n| files::format_list(&names[..n], "or"));
    let text = Settings::default().to_toml().replace(&all, &users);
    if std::env::var_os("UPDATE_SETTINGS").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    let shown = std::fs::read_to_string(path).expect("docs/settings.toml").replace('\r', "");
    assert_eq!(shown, text, "docs/settings.toml is stale: UPDATE_SETTINGS=1 cargo test -p fullbore-jobs writes it");
    assert!(text.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn to_toml_reads_back_as_itself() {
    for settings in [Settings::default(), changed()] {
        let text = settings.to_toml();
        assert_eq!(from_file(&text).unwrap_or_else(|e| panic!("{e}\n{text}")), settings);
        for key in Key::all() {
            assert!(text.replace("\n# ", " ").contains(&key.help), "{}", key.name);
        }
    }
    assert_eq!(changed().patches()["XAUUSD"].spread_bp, Some(1.5));
    assert_eq!(changed().patches()["BRK.B"].tick, Some(0.05));
    assert_eq!(changed().patches()["BTC/USDT:USDT"].currency.as_deref(), Some("EUR"));
}

#[test]
fn auto_is_legal_everywhere() {
    let mut settings = changed();
    for key in Key::all() {
        settings.set(&format!("{}=auto", key.name)).unwrap_or_else(|e| panic!("{e}"));
    }
    for key in ["XAUUSD.spread_bp", "BTC/USDT:USDT.currency", "BRK.B.tick"] {
        settings.set(&format!("instrument.{key}=auto")).unwrap_or_else(|e| panic!("{e}"));
    }
    settings.instruments.retain(|_, table| !table.is_empty());
    assert_eq!(settings, Settings::default());
}

#[test]
fn invalid_settings_are_reported_with_their_location() {
    let check = |text: &str, place: (u64, u64), words: &[&str]| {
        let error = from_file(text).expect_err(text);
        assert_eq!(error.kind, Kind::Usage);
        assert_eq!((error.line, error.column), (Some(place.0), Some(place.1)), "{text}: {error}");
        let all = format!("{error} {}", error.remedy.clone().unwrap_or_default());
        for word in words {
            assert!(all.contains(word), "{all} lacks {word}");
        }
    };
    check("seed = 1\n[repair]\n  ordr = \"sort\"\n", (3, 3), &["repair.ordr", "repair.order"]);
    check("[repair]\norder = \"sorted\"\n", (2, 9), &["repair.order", "sorted", "sort or refuse"]);
    check("threads = \"many\"", (1, 11), &["threads", "many", "whole number"]);
    check("threads = 0", (1, 11), &["threads", "0"]);
    check("seed = -1", (1, 8), &["seed", "-1"]);
    check("[synth]\naccuracy = 80\n", (2, 12), &["0.5 to 0.9999"]);
    check("[reapir]\norder = \"sort\"\n", (2, 1), &["repair.order"]);
    check("[instrument.XAUUSD]\nspred_bp = 1\n", (2, 1), &["instrument.XAUUSD.spred_bp", "spread_bp"]);
    check("[instrument.XAUUSD]\nspread_bp = \"wide\"\n", (2, 13), &["spread_bp", "wide"]);
    check("[instrument.XAUUSD]\nopen = \"25:00\"\n", (2, 8), &["open", "25:00"]);
    check("repair = 3\n", (1, 1), &["section"]);
    check("memory = 8GiB\n", (1, 10), &["TOML"]);
    check("seed = 1\nseed = 2\n", (2, 1), &["TOML"]);
    check("threads = [1, 2]", (1, 11), &["threads"]);
    check("threads = 2024-01-01", (1, 11), &["threads"]);
    check("a.b.c.d.e.f = 1", (1, 7), &["a.b.c.d"]);
}

#[test]
fn set_takes_toml_and_bare_words() {
    let mut s = Settings::default();
    for (pair, ok) in [
        ("repair.order=sort", true),
        ("repair.order=\"sort\"", true),
        ("repair.order = sort", true),
        ("seed=0x10", true),
        ("seed", false),
        ("seed=", false),
        ("=3", false),
        ("nonsense=3", false),
        ("seed=1\nthreads=2", false),
        ("memory=80%", true),
        ("memory=1073741824", true),
        ("synth.accuracy=.8", true),
        ("bars.timezone=-05:00", true),
        ("bars.timezone=UTC", true),
        ("bars.timezone=!!", false),
        ("label.rule=none", true),
        ("label.rule=tripel(24)", false),
        ("label.cost_bp=-1", false),
        ("features.max_hole=-1", false),
        ("features.set=full", true),
        ("cache.limit=1GiB", true),
        ("cache.limit=50%", false),
    ] {
        assert_eq!(s.set(pair).is_ok(), ok, "{pair}");
    }
    assert_eq!(s.general.seed, 16);
    let error = s.set("thread=3").expect_err("no such key");
    assert!(error.to_string().contains("--set thread=3") && error.remedy.is_some_and(|r| r.contains("threads")));
}

#[test]
fn the_first_training_share_follows_the_split() {
    let first = |pairs: &[&str]| {
        let mut settings = Settings::default();
        pairs.iter().for_each(|pair| settings.set(pair).unwrap());
        match settings.labeling().map(|l| l.first) {
            Some(TrainEnd::Share(share)) => share,
            other => panic!("{other:?}"),
        }
    };
    let usual = first(&[]);
    assert!(usual <= 0.29 && (usual - 0.83 * 0.4 * 0.85).abs() < 1e-12, "{usual}");
    assert!(first(&["split.tested=0.9"]) < usual / 3.9 && first(&["split.validation=0.5"]) < usual * 0.6);
    assert!(first(&["split.holdout=0.5", "split.tested=0.95", "split.validation=0.5"]) > 0.0);
}

#[test]
fn a_run_folder_is_read_by_its_settings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("settings.toml"), "seed = 9").expect("written");
    let mut settings = Settings::default();
    settings.read(folder.path()).expect("read");
    assert_eq!(settings.general.seed, 9);
    assert_eq!(settings.read(&folder.path().join("none.toml")).map_err(|e| e.kind), Err(Kind::Usage));
}

#[test]
fn a_key_that_was_renamed_is_read_from_runs_and_named_to_people() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("settings.toml");
    std::fs::write(&file, "[bars]\nlabel = \"end\"\n").expect("written");
    let (mut stored, mut today) = (Settings::default(), Settings::default());
    stored.read(folder.path()).expect("a run of an earlier version");
    today.set("bars.stamp=end").expect("legal");
    assert_eq!(stored, today);
    // A file of one's own and the command line are told the new name.
    for error in [Settings::default().read(&file), Settings::default().set("bars.label=end")] {
        let error = error.expect_err("another name");
        assert!(error.message.contains("`bars.label` is now called `bars.stamp`"), "{error}");
        assert_eq!(error.kind, Kind::Usage);
    }
}
