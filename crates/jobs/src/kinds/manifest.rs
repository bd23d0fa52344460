//! `MANIFEST` of a model's folder: length and hash of every part, the trials of its run, and a hash of itself. Its own
//! hash stands in the ledger, in the row that says that the trial has finished.
//!
//! Whoever opens a model holds every part against it. Where the run's row is not in the ledger of this computer (the
//! folder came from elsewhere), the manifest alone is checked, and that is a note. A model of an older version has
//! none: it is read, and a note says that a change cannot be seen.

use files::{Error, Kind, Result};
use judge::ledger::{Ledger, Outcome, StartedTrial};
use learn::checkpoint::{Part, hash, is_sealed, sealed_json};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

const FILE: &str = "MANIFEST";
/// What it is called in the metrics of a finished trial.
pub(crate) const KEY: &str = "model";
/// No manifest is longer: 4,096 members of ten configs.
const LONGEST: u64 = 16 << 20;
const REMEDY: &str = "bring the folder back as the run wrote it, from a copy; or train again with `fullbore train`";

/// What belongs to a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ModelManifest {
    format: u64,
    program: String,
    trials: Vec<StartedTrial>,
    parts: Vec<Part>,
}

impl ModelManifest {
    /// Of the run that wrote these trials; without parts yet.
    pub(crate) fn new(trials: &[StartedTrial]) -> ModelManifest {
        ModelManifest {
            format: 1,
            program: env!("CARGO_PKG_VERSION").into(),
            trials: trials.to_vec(),
            parts: Vec::new(),
        }
    }

    /// Takes a part in.
    pub(crate) fn add(&mut self, name: &str, bytes: &[u8]) {
        self.parts.push(Part::of(name, bytes));
    }

    /// The file, and the hash that goes into the ledger.
    pub(crate) fn seal(&self) -> Result<(Vec<u8>, String)> {
        let text = sealed_json(self)
            .map_err(|e| Error::new(Kind::State, format!("the manifest of a model cannot be written: {e}")))?;
        let hash = hash(&text);
        Ok((text, hash))
    }

    /// Puts the file into the model's folder.
    pub(crate) fn write(folder: &Path, text: &[u8]) -> Result<()> {
        files::replace_bytes(&folder.join(FILE), text)
    }

    /// Reads the manifest of a folder and holds it against the ledger; none where there is none. The note is for
    /// people: what could not be checked.
    pub(crate) fn read(folder: &Path, ledger: &Path) -> Result<Option<(ModelManifest, Option<String>)>> {
        let path = folder.join(FILE);
        let changed = |what: String| Error::new(Kind::State, what).at(&path).remedy(REMEDY);
        if std::fs::symlink_metadata(&path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
            return Ok(None);
        }
        let text = files::read_file(&path, LONGEST)?;
        if !is_sealed(&text) {
            return Err(changed(format!("the model was changed: {FILE} is not what the run wrote")));
        }
        let manifest: ModelManifest =
            serde_json::from_slice(&text).map_err(|e| changed(format!("{FILE} cannot be read: {e}")))?;
        let note = match written(ledger, &manifest.trials) {
            Ok(Some(known)) if known == hash(&text) => None,
            Ok(Some(_)) => {
                let what = "the model was changed: the ledger has another MANIFEST for this run";
                return Err(changed(what.into()));
            }
            Ok(None) => {
                Some("its run is not in the ledger here: the model was checked by its own manifest alone".into())
            }
            Err(why) => {
                Some(format!("the model was checked by its own manifest alone, since the ledger cannot be read: {why}"))
            }
        };
        Ok(Some((manifest, note)))
    }

    /// How long a part is; none where the model has no such part.
    pub(crate) fn length(&self, name: &str) -> Option<u64> {
        self.parts.iter().find(|part| part.name == name).map(|part| part.length)
    }

    /// Refuses bytes that are not what the run wrote under that name.
    pub(crate) fn check(&self, folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
        if self.parts.iter().any(|part| part.name == name && part.is(bytes)) {
            return Ok(());
        }
        let what = format!("the model was changed: {name} is not what the run wrote");
        Err(Error::new(Kind::State, what).at(&folder.join(name)).remedy(REMEDY))
    }
}

/// The hash of the manifest as the ledger has it; none where the ledger knows nothing of the run.
fn written(ledger: &Path, trials: &[StartedTrial]) -> Result<Option<String>> {
    let (Some(trial), true) = (trials.first(), ledger.is_file()) else { return Ok(None) };
    Ok(match Ledger::open(ledger)?.outcome(trial)? {
        Some(Outcome::Finished { metrics, .. }) => {
            Some(metrics.get(KEY).and_then(Value::as_str).unwrap_or_default().to_string())
        }
        Some(_) => Some(String::new()),
        None => None,
    })
}

/// Adds the hash of a model's manifest to what the ledger is told.
pub(crate) fn note_in(metrics: &mut Value, hash: Option<&str>) {
    if let (Some(object), Some(hash)) = (metrics.as_object_mut(), hash) {
        object.extend(Map::from_iter([(KEY.to_string(), hash.into())]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use features::Span;
    use judge::ledger::Trial;

    const PARTS: [&str; 3] = ["model.json", "fold-1-seed-1.safetensors", "fold-2-seed-1.safetensors"];

    /// A model of three parts, and a ledger that knows it.
    fn model(folder: &Path) -> ModelManifest {
        let ledger = Ledger::open(&folder.join("ledger.sqlite")).expect("a ledger");
        let trial = Trial {
            id: "trial".into(),
            symbols: vec!["PX".into()],
            span: Span::new(0, 10).expect("a span"),
            code: "1".into(),
            data: "d".into(),
            folds: 2,
            seeds: vec![1],
            parent: None,
            what: None,
        };
        let started = ledger.start(&trial).expect("started");
        let mut manifest = ModelManifest::new(std::slice::from_ref(&started));
        for (at, name) in PARTS.iter().enumerate() {
            let bytes: Vec<u8> = (0..700).map(|i| (i * (at + 3) % 251) as u8).collect();
            manifest.add(name, &bytes);
            std::fs::write(folder.join(name), bytes).expect("written");
        }
        let (text, hash) = manifest.seal().expect("sealed");
        let mut metrics = serde_json::json!({"judged": null});
        note_in(&mut metrics, Some(&hash));
        ledger.finish(&started, &metrics, None).expect("finished");
        ModelManifest::write(folder, &text).expect("written");
        manifest
    }

    /// What opening every part says.
    fn open(folder: &Path, ledger: &str) -> Result<Option<String>> {
        let (manifest, note) = ModelManifest::read(folder, &folder.join(ledger))?.expect("a manifest");
        for name in PARTS {
            manifest.check(folder, name, &files::read_file(&folder.join(name), 1 << 20)?)?;
        }
        Ok(note)
    }

    #[test]
    fn every_flipped_bit_of_a_model_is_refused_with_the_part_named() {
        let folder = tempfile::tempdir().expect("a folder");
        model(folder.path());
        assert_eq!(open(folder.path(), "ledger.sqlite").expect("whole"), None);
        for name in PARTS.into_iter().chain([FILE]) {
            let path = folder.path().join(name);
            let whole = std::fs::read(&path).expect("a part");
            // Every seventh bit: some hundred of each part.
            for bit in (0..whole.len() * 8).step_by(whole.len() * 8 / 120) {
                let mut bytes = whole.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, bytes).expect("written");
                for ledger in ["ledger.sqlite", "none.sqlite"] {
                    let error = open(folder.path(), ledger).expect_err("changed").to_string();
                    assert!(error.contains(name) && error.contains("was changed"), "bit {bit}: {error}");
                }
            }
            std::fs::write(&path, &whole[..whole.len() / 2]).expect("cut");
            assert!(open(folder.path(), "ledger.sqlite").is_err(), "{name} cut");
            std::fs::write(&path, whole).expect("restored");
        }
        let [a, b] = [1, 2].map(|at| folder.path().join(PARTS[at]));
        let (first, second) = (std::fs::read(&a).expect("a"), std::fs::read(&b).expect("b"));
        std::fs::write(&a, second).expect("swapped");
        std::fs::write(&b, first).expect("swapped");
        assert!(open(folder.path(), "ledger.sqlite").expect_err("swapped").to_string().contains(PARTS[1]));
    }

    #[test]
    fn a_sealed_change_is_seen_in_the_ledger_and_elsewhere_the_note_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut manifest = model(folder.path());
        let note = open(folder.path(), "none.sqlite").expect("whole").expect("a note");
        assert!(note.contains("not in the ledger"), "{note}");
        // Somebody edits the model and writes a manifest that agrees.
        std::fs::write(folder.path().join(PARTS[0]), "{}").expect("written");
        manifest.parts[0] = Part::of(PARTS[0], b"{}");
        ModelManifest::write(folder.path(), &manifest.seal().expect("sealed").0).expect("written");
        let error = open(folder.path(), "ledger.sqlite").expect_err("another model").to_string();
        assert!(error.contains("the ledger has another MANIFEST"), "{error}");
    }
}
