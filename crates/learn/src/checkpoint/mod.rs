//! Checkpoints: generations of named parts on disk, of which one is always whole. They know nothing of nets.
//!
//! ```text
//! checkpoints/LATEST                       a hint for people; nothing here reads it
//! checkpoints/generations/000007/weights   parts, each written, synced, and never touched again
//! checkpoints/generations/000007/MANIFEST  what belongs together, with lengths and hashes; written last
//! checkpoints/best/, checkpoints/last/     weights alone, copied out of the newest generation ([`View`])
//! ```
//!
//! A save is a new folder. Its manifest appears by rename once every part is on the disk, everything is then read back,
//! and only when that agrees may the generation before last go. So whenever the process is killed, the disk is full or
//! the power fails, what is found is the old generation or the new one, never a mixture. [`Store::newest`] takes the
//! newest whose hashes agree and says what it passed over.
//!
//! [`Writer`] does all this in a thread of its own: training waits only for a copy into memory that was made ready
//! before.
//!
//! Who saves holds the folder of the run ([`files::Lock`]); two savers are not provided for. Who only reads uses
//! [`newest`].

mod disk;
mod generation;
mod manifest;
mod store;
#[cfg(test)]
mod tests;
mod views;
mod writer;

pub use generation::{Generation, expect};
pub use manifest::{FORMAT, MAX_PARTS, Part, hash, is_sealed, sealed_json};
pub use store::{Listed, Store, list, newest};
pub use views::{View, copy_out};
pub use writer::{Staging, Writer};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a checkpoint belongs to and where in the run it was taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The net, as text.
    pub net: String,
    /// Fingerprint of the data.
    pub data: String,
    /// Hash of the settings that change a bit.
    pub config: String,
    /// How numbers are held, in a word; empty in what older programs wrote, as is the next.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub precision: String,
    /// What it is trained on, by name: another device gives other bits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// The vector instructions that decide its bits, on a processor; empty on a card, and in what older programs wrote.
    /// Others are no reason to refuse: the run goes on, with bits of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    /// Steps done.
    pub step: u64,
    /// Epochs done.
    pub epoch: u64,
    /// Anything else worth reading without the parts.
    #[serde(default)]
    pub more: Map<String, Value>,
}
