//! `checkpoints/best` and `checkpoints/last`: weights alone, for those who want no more than that.
//!
//! They are copies of what a generation holds, made after it was read back, so nothing here is ever needed to go on and
//! nothing fails for it. Each file is written beside and renamed, so none is seen half written; a file that would not
//! change is left alone. No links: there are disks that have none.

use files::replace_bytes_unsynced;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// A folder of weights beside the generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    /// Of each member's best epoch so far.
    Best,
    /// Of each member as it was saved last.
    Last,
}

impl View {
    /// Both.
    pub const ALL: [View; 2] = [View::Best, View::Last];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            View::Best => "best",
            View::Last => "last",
        }
    }
}

/// Hashes of what was written.
#[derive(Default)]
pub(super) struct Views(HashMap<(View, String), u64>);

impl Views {
    /// Writes what changed; a disk that will not take it gets it with the next save.
    pub(super) fn write<'a>(&mut self, checkpoints: &Path, all: impl Iterator<Item = (View, &'a str, &'a [u8])>) {
        for (view, name, bytes) in all {
            let key = (view, name.to_string());
            let hash = xxh3_64(bytes);
            if self.0.get(&key) == Some(&hash) {
                continue;
            }
            let folder = checkpoints.join(view.name());
            if fs::create_dir_all(&folder).is_ok() && replace_bytes_unsynced(&folder.join(name), bytes).is_ok() {
                self.0.insert(key, hash);
            }
        }
    }
}

/// Copies weights out of a generation that was read: whoever saved it may have been killed before its own copies were
/// made.
pub fn copy_out(checkpoints: &Path, all: &[(View, String, Vec<u8>)]) {
    let all = all.iter().map(|(view, name, bytes)| (*view, name.as_str(), bytes.as_slice()));
    Views::default().write(checkpoints, all);
}
