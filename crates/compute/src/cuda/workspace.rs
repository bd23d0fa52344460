//! Scratch memory of cuBLASLt: one pair for all populations of an open card, and one for each `Nets`.
//!
//! Populations share the card's. Each use waits on the card for the one before it, whichever population that was, so
//! that no two are ever in the same memory. Work of `Nets` may be captured from somebody else's stream and launched at
//! any time, and so has a pair of its own.

use super::array::Memory;
use super::context::Context;
use super::graph::{Event, Stream};
use super::memory::{Slab, Slice, aligned};
use crate::error::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of scratch memory for each of an engine's two streams.
pub(super) const WORKSPACE: usize = 32 << 20;

/// Bytes of a pair.
pub(super) const PAIR: u64 = 2 * WORKSPACE as u64;

/// A pair of scratch memories.
pub(crate) struct Workspace {
    spaces: [Slice<u8>; 2],
    slab: Slab,
    /// The end of the last use.
    last: Mutex<Event>,
}

/// The use of a pair by one stream's work, until it is dropped.
pub(super) struct Use<'a> {
    last: MutexGuard<'a, Event>,
    stream: &'a Stream,
}

impl Workspace {
    pub(super) fn new(context: &Arc<Context>) -> Result<Arc<Workspace>> {
        let mut slab = context.slab(2 * aligned::<u8>(WORKSPACE))?;
        let spaces = [slab.cut(WORKSPACE)?, slab.cut(WORKSPACE)?];
        Ok(Arc::new(Workspace { spaces, slab, last: Mutex::new(Event::new(context, false)?) }))
    }

    pub(super) fn addresses(&self) -> [u64; 2] {
        self.spaces.map(|space| space.address())
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        self.slab.memory()
    }

    /// What is put on a stream now has the pair for itself.
    pub(super) fn lock<'a>(&'a self, stream: &'a Stream) -> Result<Use<'a>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        stream.after(&last)?;
        Ok(Use { last, stream })
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        // Where the stream is broken, nothing of it will use the memory any more.
        let _ = self.last.record(self.stream);
    }
}
