//! The cache of feature tables.

use super::form::Form;
use super::key::{plain, section};
use crate::memory::Memory;

section! {
    /// The cache of feature tables.
    CacheSettings at cache, "cache.";

    /// Disk that the cache of feature tables may take; the oldest tables go first.
    limit: u64 = 8 << 30, size();
}

/// A size on disk; 0 is one.
fn size() -> Form<u64> {
    let read = |value: &toml::Value| match (plain(value).trim(), plain(value).parse()) {
        ("0", _) => Ok(0),
        (_, Ok(Memory::Bytes(bytes))) => Ok(bytes),
        _ => Err(None),
    };
    Form::new("8GiB, 512MiB (64MiB at least), or 0 for no cache", read, |bytes| match bytes {
        0 => "0".into(),
        bytes => Memory::Bytes(*bytes).to_string().into(),
    })
}
