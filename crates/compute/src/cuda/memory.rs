//! Memory of a card, taken as one slab and cut into slices.
//!
//! A slab is taken once, when its size is known; nothing is allocated while work runs. Slices begin on 256-byte
//! borders. The engines keep a slab and their slices of it together; other rooms cut an [`Array`], which keeps the
//! memory it lies in.

use super::array::{Array, Memory};
use super::context::Context;
use super::graph::Stream;
use crate::error::{Error, Result};
use cudarc::driver::result;
use std::marker::PhantomData;
use std::sync::Arc;

/// One piece of device memory to be cut up, given back when it and all arrays of it are dropped.
pub struct Slab {
    memory: Arc<Memory>,
    used: u64,
}

/// Numbers that may cross to the device: plain, without padding or pointers.
///
/// # Safety
/// Any bit pattern must be a valid value, and there must be no padding.
pub unsafe trait Plain: Copy + Default + Send + 'static {}
// SAFETY: plain numbers.
unsafe impl Plain for u8 {}
// SAFETY: plain numbers.
unsafe impl Plain for u16 {}
// SAFETY: plain numbers.
unsafe impl Plain for u32 {}
// SAFETY: plain numbers.
unsafe impl Plain for u64 {}
// SAFETY: plain numbers.
unsafe impl Plain for f32 {}
// SAFETY: plain numbers.
unsafe impl Plain for f64 {}
// SAFETY: `repr(C)`, numbers of 4 bytes, no padding (tested).
unsafe impl Plain for crate::population::SlotState {}
// SAFETY: `repr(C)`, 4 numbers of 4 bytes and 3 of 8 on their borders, no padding (tested).
unsafe impl Plain for crate::population::EpochState {}

/// Some of a slab. It does not keep the slab alive: whoever cuts it keeps both.
#[derive(Debug, Clone, Copy)]
pub struct Slice<T> {
    address: u64,
    len: usize,
    kind: PhantomData<T>,
}

impl<T> Slice<T> {
    /// A slice of nothing, for counting.
    pub(crate) fn none(len: usize) -> Slice<T> {
        Slice { address: 0, len, kind: PhantomData }
    }

    /// The same bytes as elements of another kind.
    pub(crate) fn cast<U>(&self) -> Slice<U> {
        Slice { address: self.address, len: self.len * size_of::<T>() / size_of::<U>(), kind: PhantomData }
    }

    /// The device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Elements from `from` on, `len` of them.
    ///
    /// # Panics
    /// Where these are not inside.
    pub fn part(&self, from: usize, len: usize) -> Slice<T> {
        assert!(from <= self.len && len <= self.len - from, "elements {from}..{} of {}", from + len, self.len);
        Slice { address: self.address + (from * size_of::<T>()) as u64, len, kind: PhantomData }
    }
}

/// Bytes a slice of so many elements takes.
pub(crate) fn aligned<T>(len: usize) -> u64 {
    ((len as u64).saturating_mul(size_of::<T>() as u64)).checked_next_multiple_of(256).unwrap_or(u64::MAX)
}

impl Slab {
    pub(super) fn new(context: &Arc<Context>, bytes: u64) -> Result<Slab> {
        Ok(Slab { memory: Arc::new(Memory::new(context, bytes.max(256))?), used: 0 })
    }

    /// The next piece, not yet written to.
    pub fn cut<T>(&mut self, len: usize) -> Result<Slice<T>> {
        let (needed, left) = (aligned::<T>(len), self.bytes() - self.used);
        if needed > left {
            return Err(Error::Memory {
                what: "a buffer".into(),
                device: self.memory.context().device().into(),
                needed,
                budget: left,
                fits: "this is a bug in the count of memory; please report it".into(),
            });
        }
        let address = self.memory.start() + self.used;
        self.used += needed;
        Ok(Slice { address, len, kind: PhantomData })
    }

    /// The next piece as an array of its own, not yet written to.
    pub fn array<T: Plain>(&mut self, len: usize) -> Result<Array<T>> {
        let slice = self.cut(len)?;
        Ok(Array::new(&self.memory, slice))
    }

    /// A slice of it as an array.
    pub(crate) fn share<T: Plain>(&self, slice: &Slice<T>) -> Array<T> {
        Array::new(&self.memory, *slice)
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Bytes it has.
    pub fn bytes(&self) -> u64 {
        self.memory.bytes()
    }
}

impl Stream {
    /// Copies to the device and waits.
    pub fn put<T: Plain>(&self, to: &Slice<T>, from: &[T]) -> Result<()> {
        assert_eq!(to.len(), from.len(), "lengths of a copy to the device");
        if from.is_empty() {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: `to` lies in a slab and is as long as `from`; the wait below keeps `from` alive long enough.
        let copy = unsafe { result::memcpy_htod_async(to.address(), from, self.raw()) };
        self.context().call("cuMemcpyHtoDAsync", copy)?;
        self.wait()
    }

    /// Copies from the device and waits.
    pub fn get<T: Plain>(&self, from: &Slice<T>) -> Result<Vec<T>> {
        let mut to = vec![T::default(); from.len()];
        if to.is_empty() {
            return Ok(to);
        }
        self.context().bind()?;
        // SAFETY: as in `put`, the other way; `T` is valid for any bits.
        let copy = unsafe { result::memcpy_dtoh_async(&mut to, from.address(), self.raw()) };
        self.context().call("cuMemcpyDtoHAsync", copy)?;
        self.wait()?;
        Ok(to)
    }

    /// Copies within the device, in order with what else is on the stream.
    pub fn copy<T>(&self, to: &Slice<T>, from: &Slice<T>) -> Result<()> {
        assert_eq!(to.len(), from.len(), "lengths of a copy on the device");
        self.context().bind()?;
        // SAFETY: both lie in slabs and have that many bytes.
        let copy =
            unsafe { result::memcpy_dtod_async(to.address(), from.address(), to.len() * size_of::<T>(), self.raw()) };
        self.context().call("cuMemcpyDtoDAsync", copy)
    }

    /// Sets every byte.
    pub fn fill<T>(&self, to: &Slice<T>, byte: u8) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        self.context().bind()?;
        // SAFETY: lies in a slab and has that many bytes.
        let set = unsafe { result::memset_d8_async(to.address(), byte, to.len() * size_of::<T>(), self.raw()) };
        self.context().call("cuMemsetD8Async", set)
    }
}
