//! The driver, the cards it knows, and an open card.

use super::blaslt::Blaslt;
use super::driver::NoDriver;
use super::memory::Slab;
use super::module::Module;
use super::workspace::{PAIR, Workspace};
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// A card, as the driver describes it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Gpu {
    /// The driver's number, from 0.
    pub index: usize,
    /// The vendor's name.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Major and minor.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory that one block may have.
    pub shared: u32,
    /// Bytes of second-level cache.
    pub cache: u64,
    /// Highest clock in MHz.
    pub clock_mhz: u32,
    /// The CUDA version the driver speaks: (13, 0).
    pub cuda: (u32, u32),
}

/// The cards of this computer; an error says why there are none to use.
pub fn gpus() -> Result<Vec<Gpu>> {
    start()?;
    let count = driver("cuDeviceGetCount", "cuda", result::device::get_count())?;
    (0..usize::try_from(count).unwrap_or(0)).map(describe).collect()
}

/// Loads and starts the driver, once.
fn start() -> Result<()> {
    static STARTED: OnceLock<Result<()>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        // Asked by hand first: what a driver lacks is an answer here, and would be a panic later.
        super::driver::driver().map_err(|why| Error::Device {
            remedy: match why {
                NoDriver::Absent(_) => "install NVIDIA's driver, or use <device=cpu>",
                NoDriver::NoGpu => "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use <device=cpu>",
                NoDriver::Unusable(_) => "install or repair NVIDIA's driver, or use <device=cpu>",
            }
            .into(),
            what: why.to_string(),
        })?;
        result::init().map_err(|e| Error::Device {
            what: format!("the CUDA driver is installed but does not start: {}", driver_message(e)),
            remedy: "check `nvidia-smi`, or use <device=cpu>".into(),
        })
    });
    started.clone()
}

/// At most what `FULLBORE_SHARED_KIB` says, so that a large card can run what small ones run.
fn capped(shared: u32) -> u32 {
    let from_env = std::env::var("FULLBORE_SHARED_KIB").ok().and_then(|text| text.parse::<u32>().ok());
    from_env.map_or(shared, |kib| shared.min(kib.saturating_mul(1024)))
}

fn describe(index: usize) -> Result<Gpu> {
    use sys::CUdevice_attribute as A;
    let device = format!("cuda:{index}");
    let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
    let card = driver("cuDeviceGet", &device, result::device::get(ordinal))?;
    // SAFETY: `card` was just given by the driver.
    let attribute =
        |which: A| driver("cuDeviceGetAttribute", &device, unsafe { result::device::get_attribute(card, which) });
    let plain = |which: A| attribute(which).map(|n| u32::try_from(n).unwrap_or(0));
    let mut cuda = 0;
    // SAFETY: writes one number.
    driver("cuDriverGetVersion", &device, unsafe { sys::cuDriverGetVersion(&raw mut cuda).result() })?;
    let cuda = u32::try_from(cuda).unwrap_or(0);
    Ok(Gpu {
        index,
        name: driver("cuDeviceGetName", &device, result::device::get_name(card))?,
        // SAFETY: as above.
        memory: driver("cuDeviceTotalMem", &device, unsafe { result::device::total_mem(card) })? as u64,
        capability: (
            plain(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            plain(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: plain(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared: capped(plain(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?),
        cache: u64::from(plain(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
        clock_mhz: plain(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? / 1000,
        cuda: (cuda / 1000, cuda % 1000 / 10),
    })
}

/// An open card: its context, what may be taken of its memory, and cuBLASLt where it was found.
pub struct Context {
    gpu: Gpu,
    device: String,
    raw: sys::CUcontext,
    blaslt: std::result::Result<Blaslt, String>,
    /// Modules that are loaded, by their images, and the populations' scratch memory: as long as somebody has them.
    modules: Mutex<BTreeMap<usize, Weak<Module>>>,
    workspace: Mutex<Weak<Workspace>>,
    /// Blocks of memory that were taken.
    #[cfg(test)]
    pub(crate) taken: std::sync::atomic::AtomicU64,
}

// SAFETY: a context may be used from any thread that makes it current, which every entry does.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks inside.
unsafe impl Sync for Context {}

impl Context {
    /// Opens a card.
    pub fn open(index: usize) -> Result<Arc<Context>> {
        Context::open_with(index, true)
    }

    /// Opens a card with or without cuBLASLt.
    pub fn open_with(index: usize, library: bool) -> Result<Arc<Context>> {
        let _lock = lock_driver();
        let gpus = gpus()?;
        let Some(gpu) = gpus.get(index) else {
            let known: Vec<String> = gpus.iter().map(|g| format!("cuda:{} ({})", g.index, g.name)).collect();
            let known = if known.is_empty() { "no GPU".into() } else { known.join(", ") };
            return Err(Error::Device {
                what: format!("there is no device cuda:{index}; the driver lists {known}"),
                remedy: "name one of these, or use <device=cpu>".into(),
            });
        };
        if gpu.capability < (8, 0) {
            return Err(Error::Device {
                what: format!(
                    "{} has compute capability {}.{}, and 8.0 is the oldest supported",
                    gpu.name, gpu.capability.0, gpu.capability.1
                ),
                remedy: "use <device=cpu>".into(),
            });
        }
        let device = format!("cuda:{index}");
        let card = driver("cuDeviceGet", &device, result::device::get(i32::try_from(index).unwrap_or(i32::MAX)))?;
        let raw = retained(index, card).map_err(|e| Error::Device {
            what: format!("{} cannot be opened: {}", gpu.name, driver_message(e)),
            remedy: "see whether another program holds it (`nvidia-smi`), or use <device=cpu>".into(),
        })?;
        let mut context = Context {
            gpu: gpu.clone(),
            device,
            raw,
            blaslt: Err(String::new()),
            modules: Mutex::default(),
            workspace: Mutex::default(),
            #[cfg(test)]
            taken: Default::default(),
        };
        context.bind()?;
        context.blaslt = if library { Blaslt::find() } else { Err("not asked for".into()) };
        Ok(Arc::new(context))
    }

    /// What the driver says of the card.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// `cuda:0`.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Makes the context this thread's own; every entry does it.
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context is alive as long as `self`.
        self.call("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.raw) })
    }

    /// Bytes that are free now, and bytes in all.
    pub fn memory(&self) -> Result<(u64, u64)> {
        self.bind()?;
        let (free, total) = self.call("cuMemGetInfo", result::mem_get_info())?;
        Ok((free as u64, total as u64))
    }

    /// cuBLASLt, or why there is none.
    pub(super) fn blaslt(&self) -> std::result::Result<&Blaslt, &str> {
        self.blaslt.as_ref().map_err(String::as_str)
    }

    /// Where cuBLASLt was found and its version, or what was looked for.
    pub fn library(&self) -> std::result::Result<String, String> {
        self.blaslt.as_ref().map(|b| format!("cuBLASLt {} ({})", b.version(), b.path().display())).map_err(Clone::clone)
    }

    /// One piece of memory, to be cut up.
    pub fn slab(self: &Arc<Context>, bytes: u64) -> Result<Slab> {
        Slab::new(self, bytes)
    }

    /// Scratch memory that all populations share.
    pub(super) fn workspace(self: &Arc<Context>) -> Result<Arc<Workspace>> {
        let mut shared = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = shared.upgrade() {
            return Ok(there);
        }
        let made = Workspace::new(self)?;
        *shared = Arc::downgrade(&made);
        Ok(made)
    }

    /// Bytes of what populations share that one has taken already.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let shared = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.strong_count() > 0 { PAIR } else { 0 }
    }

    /// A module by its image: the one that is loaded, or what `load` gives.
    pub(super) fn module(&self, image: usize, load: impl FnOnce() -> Result<Arc<Module>>) -> Result<Arc<Module>> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = modules.get(&image).and_then(Weak::upgrade) {
            return Ok(there);
        }
        let made = load()?;
        modules.insert(image, Arc::downgrade(&made));
        Ok(made)
    }

    /// Waits until everything on the card is done.
    pub fn wait(&self) -> Result<()> {
        self.bind()?;
        self.call("cuCtxSynchronize", result::ctx::synchronize())
    }

    /// An error where another context is of another card.
    pub(super) fn same(&self, other: &Context) -> Result<()> {
        match self.gpu.index == other.gpu.index {
            true => Ok(()),
            false => Err(Error::Invalid(format!(
                "arrays or kernels of {} cannot be used on a stream of {}",
                self.device, other.device
            ))),
        }
    }

    /// A driver's answer as ours.
    pub(super) fn call<T>(&self, call: &str, answer: std::result::Result<T, result::DriverError>) -> Result<T> {
        driver(call, &self.device, answer)
    }
}

/// The card's context, made once and kept for the life of the process: cuBLASLt keeps what it loaded into a context and
/// does not notice when that context is gone and another has taken its place.
fn retained(index: usize, card: sys::CUdevice) -> std::result::Result<sys::CUcontext, result::DriverError> {
    static KEPT: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(raw) = kept.get(&index) {
        return Ok(*raw as sys::CUcontext);
    }
    // SAFETY: the card exists.
    let raw = unsafe { result::primary_ctx::retain(card)? };
    kept.insert(index, raw as usize);
    Ok(raw)
}

/// Work that another thread's capture would not survive, or that would not survive it: capturing itself, taking and
/// giving back memory, loading modules, and first runs of a library's kernels. One thread at a time does such work;
/// replays and copies need no turn.
pub(crate) struct DriverLock {
    _held: Option<MutexGuard<'static, ()>>,
}

thread_local! {
    /// How often this thread has the turn already.
    static TURNS: Cell<u32> = const { Cell::new(0) };
}

/// Waits for the turn, unless this thread has it.
pub(crate) fn lock_driver() -> DriverLock {
    static ONE: Mutex<()> = Mutex::new(());
    let before = TURNS.replace(TURNS.get() + 1);
    DriverLock { _held: (before == 0).then(|| ONE.lock().unwrap_or_else(PoisonError::into_inner)) }
}

impl Drop for DriverLock {
    fn drop(&mut self) {
        TURNS.set(TURNS.get() - 1);
    }
}

fn driver<T>(call: &str, device: &str, answer: std::result::Result<T, result::DriverError>) -> Result<T> {
    answer.map_err(|e| {
        let (call, device, why) = (call.into(), device.into(), driver_message(e));
        match e.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory { call, device, why },
            _ => Error::Call { call, device, why },
        }
    })
}

fn driver_message(error: result::DriverError) -> String {
    let text =
        |s: std::result::Result<&std::ffi::CStr, _>| s.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{} ({})", text(error.error_string()), text(error.error_name()))
}
