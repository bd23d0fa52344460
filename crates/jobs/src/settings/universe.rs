//! Which symbols belong to the universe and when, and what their prices are multiplied with.

use super::form::path;
use super::key::section;
use std::path::PathBuf;

section! {
    /// Which symbols belong to the universe and when, and what their prices are multiplied with.
    UniverseSettings at universe, "universe.";

    /// File with symbol, from, to: when each symbol belonged to the universe. Empty for none.
    membership: Option<PathBuf> = None, path().flag("membership", "FILE");
    /// File or folder of split and dividend factors. Empty for none.
    factors: Option<PathBuf> = None, path().flag("factors", "FILE|FOLDER");
}
