//! Whether there is a driver, whether it works, and whether a card does what it is told. No context is made to ask the
//! first two.

use super::calls::FillArgs;
use super::context::Context;
use super::graph::Stream;
use super::kernels;
use super::memory::Slice;
use super::module::{Kernel, Module};
use crate::error::{Error, Result};
use crate::random::{self, philox, uniform};

/// What the NVIDIA driver says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// The newest CUDA it speaks: `12.4`.
    pub cuda: String,
    /// Cards it lets us see; `CUDA_VISIBLE_DEVICES` is already applied.
    pub devices: usize,
}

/// Why there is no driver to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDriver {
    /// Its library is not on this machine, or cannot be loaded.
    #[error("no CUDA driver found ({0})")]
    Absent(String),
    /// It is there and sees no card.
    #[error("the CUDA driver sees no GPU")]
    NoGpu,
    /// It is there and does not work.
    #[error("the CUDA driver does not work: {0}")]
    Unusable(String),
}

/// The oldest CUDA that a driver must speak: 12.4, where the kernels' PTX and `cuFuncGetParamInfo` come from.
const OLDEST: i32 = 12_040;

/// Every function of the driver that we call, by the names under which they are looked up. One that is missing would be
/// found out in the middle of a run; here it is found out at the start.
const CALLED: [&str; 43] = [
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetParamInfo",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphGetNodes",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuTensorMapEncodeTiled",
    "cuDriverGetVersion",
];

const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// Asks the driver whether it works, by its own functions: load, start, version, number of cards. No context is made.
pub fn driver() -> std::result::Result<Driver, NoDriver> {
    // SAFETY: the library is NVIDIA's driver under its fixed name; its initialisers have no preconditions.
    let library = unsafe { libloading::Library::new(LIBRARY) }.map_err(|e| NoDriver::Absent(cause(&e)))?;
    // Once started the driver keeps threads and state of its own: unloading it under them is not safe, so it stays.
    let library: &'static libloading::Library = Box::leak(Box::new(library));
    let lacks = |name: &str| NoDriver::Unusable(format!("{LIBRARY} has no {name}"));
    // SAFETY: the types are those of cuda.h: CUresult cuInit(unsigned), cuDriverGetVersion(int *), cuDeviceGetCount(int
    // *).
    let (init, version, count) = unsafe {
        (
            library.get::<unsafe extern "system" fn(u32) -> i32>(b"cuInit\0").map_err(|_| lacks("cuInit"))?,
            library
                .get::<unsafe extern "system" fn(*mut i32) -> i32>(b"cuDriverGetVersion\0")
                .map_err(|_| lacks("cuDriverGetVersion"))?,
            library
                .get::<unsafe extern "system" fn(*mut i32) -> i32>(b"cuDeviceGetCount\0")
                .map_err(|_| lacks("cuDeviceGetCount"))?,
        )
    };
    let done = |call: &str, code: i32| match code {
        0 => Ok(()),
        100 => Err(NoDriver::NoGpu), // CUDA_ERROR_NO_DEVICE
        34 => Err(NoDriver::Unusable(format!("{LIBRARY} is the toolkit's stand-in, not a driver"))),
        803 => Err(NoDriver::Unusable("the driver's library and its kernel module are of different versions".into())),
        _ => Err(NoDriver::Unusable(format!("{call} gave error {code}"))),
    };
    // SAFETY: zero is the only flag there is.
    done("cuInit", unsafe { init(0) })?;
    let (mut cuda, mut devices) = (0, 0);
    // SAFETY: both write one int to the place they are given.
    unsafe {
        done("cuDriverGetVersion", version(&mut cuda))?;
        done("cuDeviceGetCount", count(&mut devices))?;
    }
    if devices > 0 && cuda < OLDEST {
        let of = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
        return Err(NoDriver::Unusable(format!(
            "it speaks CUDA {} and {} is the oldest that will do",
            of(cuda),
            of(OLDEST)
        )));
    }
    for name in CALLED.iter().filter(|_| devices > 0) {
        // SAFETY: only looks whether there is something of that name; it is not called as this.
        if unsafe { library.get::<unsafe extern "system" fn()>(name.as_bytes()) }.is_err() {
            return Err(lacks(name));
        }
    }
    match usize::try_from(devices) {
        Ok(devices @ 1..) => Ok(Driver { cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10), devices }),
        _ => Err(NoDriver::NoGpu),
    }
}

/// Whether the card does what it is told: a context, copies there and back, a kernel, and every bit compared with the
/// processor's.
pub fn check(index: usize) -> Result<()> {
    let context = Context::open(index)?;
    let stream = Stream::new(&context)?;
    let mut slab = context.slab(8 << 20)?;
    let (there, twin): (Slice<u32>, Slice<u32>) = (slab.cut(1 << 20)?, slab.cut(1 << 20)?);
    let wrong = |what: &str| Error::Device {
        what: format!("{} ({}) {what}", context.device(), context.gpu().name),
        remedy: "test the card's memory and power, or use <device=cpu>".into(),
    };
    let sent: Vec<u32> = (0..1u32 << 20).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    stream.put(&there, &sent)?;
    stream.copy(&twin, &there)?;
    if stream.get(&twin)? != sent {
        return Err(wrong("gave back other bits than it was given"));
    }
    let fill: Kernel<FillArgs> = Module::load(&context, &kernels::POPULATION)?.typed("fill_random_f32")?;
    let args = FillArgs { out: there.address(), n: there.len(), seed: 11 };
    // SAFETY: as many numbers of four bytes as the slice holds.
    unsafe { fill.send(&stream, [256, 1, 1], 256, 0, &args)? };
    let drawn = stream.get(&there)?;
    let blocks = (0..there.len() as u32 / 4).map(|i| philox(11, [i, 0, random::Stream::Noise as u32, 0]));
    let mut expected = blocks.flatten().map(|bits| (2.0 * uniform(bits) - 1.0).to_bits());
    if drawn.iter().all(|bits| expected.next() == Some(*bits)) {
        Ok(())
    } else {
        Err(wrong("computes other bits than the processor"))
    }
}

/// The loader's own words where it has some.
fn cause(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), |source| source.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_is_not_there_is_an_error() {
        assert!(check(4_096).is_err());
    }

    #[test]
    fn a_missing_driver_is_an_error_with_its_cause() {
        // What holds on any machine: a verdict, the same twice.
        let (first, second) = (driver(), driver());
        assert_eq!(first, second);
        match first {
            Ok(driver) => assert!(driver.devices > 0 && driver.cuda.contains('.')),
            Err(NoDriver::Absent(why) | NoDriver::Unusable(why)) => assert!(!why.is_empty()),
            Err(NoDriver::NoGpu) => {}
        }
    }
}
