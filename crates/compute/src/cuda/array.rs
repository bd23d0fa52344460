//! Arrays on a card for other rooms: a type, a length, and a hold on the memory they lie in.
//!
//! An address without its length never leaves this room, and memory is given back only when nothing can reach it any
//! more: neither an array nor a graph that was captured with one, nor work that is still under way.

use super::context::{Context, lock_driver};
use super::graph::{self, Stream};
use super::memory::{Plain, Slice};
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// Device memory, given back when dropped.
pub(crate) struct Memory {
    context: Arc<Context>,
    start: u64,
    bytes: u64,
}

impl Memory {
    pub(super) fn new(context: &Arc<Context>, bytes: u64) -> Result<Memory> {
        let _lock = lock_driver();
        context.bind()?;
        // SAFETY: a plain allocation, freed in `drop`.
        let start = match unsafe { result::malloc_sync(usize::try_from(bytes).unwrap_or(usize::MAX)) } {
            // Planned by what was free then; whoever asks may ask for less.
            Err(why) if why.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                return Err(Error::Memory {
                    what: "what was planned".into(),
                    device: context.device().into(),
                    needed: bytes,
                    budget: context.memory().map_or(0, |(free, _)| free),
                    fits: crate::error::OTHERS.into(),
                });
            }
            other => context.call("cuMemAlloc", other)?,
        };
        #[cfg(test)]
        context.taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Memory { context: context.clone(), start, bytes })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _lock = lock_driver();
        // Work may still be under way that was launched with it. Where that cannot be waited for, the memory stays.
        if self.context.wait().is_ok() {
            // SAFETY: allocated in `new`, freed once; arrays and graphs that could reach it held it until now.
            let _ = unsafe { result::free_sync(self.start) };
        }
    }
}

/// Numbers in a card's memory.
#[derive(Clone)]
pub struct Array<T: Plain> {
    memory: Arc<Memory>,
    slice: Slice<T>,
}

impl<T: Plain> Array<T> {
    pub(super) fn new(memory: &Arc<Memory>, slice: Slice<T>) -> Array<T> {
        Array { memory: memory.clone(), slice }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// Elements from `from` on, `len` of them, of the same memory.
    pub fn part(&self, from: usize, len: usize) -> Result<Array<T>> {
        if from > self.len() || len > self.len() - from {
            return Err(Error::Invalid(format!(
                "{len} elements from {from} on are not all inside an array of {}",
                self.len()
            )));
        }
        Ok(Array { memory: self.memory.clone(), slice: self.slice.part(from, len) })
    }

    /// Copies to the card and waits.
    pub fn put(&self, stream: &Stream, from: &[T]) -> Result<()> {
        self.reaches(stream)?;
        self.as_long(from.len())?;
        stream.put(&self.slice, from)
    }

    /// Copies from the card and waits.
    pub fn get(&self, stream: &Stream) -> Result<Vec<T>> {
        self.reaches(stream)?;
        stream.get(&self.slice)
    }

    /// Copies from another array, in order with what else is on the stream.
    pub fn copy_from(&self, stream: &Stream, from: &Array<T>) -> Result<()> {
        self.reaches(stream)?;
        from.reaches(stream)?;
        self.as_long(from.len())?;
        graph::hold(stream, [&self.memory, &from.memory])?;
        stream.copy(&self.slice, &from.slice)
    }

    /// Sets every byte, in order with what else is on the stream.
    pub fn fill(&self, stream: &Stream, byte: u8) -> Result<()> {
        self.reaches(stream)?;
        graph::hold(stream, [&self.memory])?;
        stream.fill(&self.slice, byte)
    }

    /// Its elements, which do not keep the memory.
    pub(crate) fn slice(&self) -> Slice<T> {
        self.slice
    }

    pub(super) fn address(&self) -> u64 {
        self.slice.address()
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    fn as_long(&self, len: usize) -> Result<()> {
        match self.len() == len {
            true => Ok(()),
            false => {
                Err(Error::Invalid(format!("{len} elements cannot be copied to or from an array of {}", self.len())))
            }
        }
    }

    fn reaches(&self, stream: &Stream) -> Result<()> {
        self.memory.context().same(stream.context())
    }
}
