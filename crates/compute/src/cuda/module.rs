//! Modules of kernels, loaded on use, and a launch that checks its arguments.

use super::context::{Context, turn};
use super::graph::Stream;
use super::kernels::{Image, Pick, inflate};
use super::memory::Slice;
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// A loaded module.
pub struct Module {
    context: Arc<Context>,
    name: String,
    raw: sys::CUmodule,
}

// SAFETY: a module may be used from any thread that has its context.
unsafe impl Send for Module {}
// SAFETY: as above; the driver locks inside.
unsafe impl Sync for Module {}

impl Module {
    /// Loads the cubin for this card, or the PTX where there is none.
    pub(crate) fn load(context: &Arc<Context>, image: &Image) -> Result<Arc<Module>> {
        let _turn = turn();
        context.bind()?;
        let Some(Pick::Cubin(deflated) | Pick::Ptx(deflated)) = image.pick(context.gpu().capability) else {
            let (name, (major, minor)) = (image.name, context.gpu().capability);
            return Err(Error::Asked(format!("kernels of {name}, which have no code for capability {major}.{minor}")));
        };
        let words = inflate(image.name, deflated)?;
        // SAFETY: a cubin carries its own length, PTX ends with a zero.
        let raw = unsafe { result::module::load_data(words.as_ptr().cast()) };
        let raw = context.call(&format!("cuModuleLoadData of {}", image.name), raw)?;
        Ok(Arc::new(Module { context: context.clone(), name: image.name.into(), raw }))
    }

    /// One of its functions.
    pub fn function(self: &Arc<Module>, name: &str) -> Result<Function> {
        self.context.bind()?;
        let text = CString::new(name).map_err(|e| Error::Asked(format!("{name}: {e}")))?;
        // SAFETY: the module is loaded.
        let raw = unsafe { result::module::get_function(self.raw, text) };
        let raw = self.context.call(&format!("cuModuleGetFunction {name} in {}", self.name), raw)?;
        // Drivers from CUDA 12.4 on know the size of every parameter; asking once lets each launch be checked.
        // SAFETY: only looks whether the symbol is there.
        let known = unsafe { sys::culib().get::<*const c_void>(b"cuFuncGetParamInfo").is_ok() };
        let size = |at: usize| {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function is valid; beyond its last parameter this is an error.
            let asked = unsafe { sys::cuFuncGetParamInfo(raw, at, &raw mut offset, &raw mut size) };
            asked.result().is_ok().then_some(size)
        };
        let sizes = known.then(|| (0..).map_while(size).collect());
        Ok(Function { module: self.clone(), name: name.into(), raw, sizes })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _turn = turn();
        if self.context.bind().is_ok() {
            // SAFETY: loaded in `load`, unloaded once; functions hold an `Arc` of it.
            let _ = unsafe { result::module::unload(self.raw) };
        }
    }
}

/// A kernel.
pub struct Function {
    module: Arc<Module>,
    name: String,
    raw: sys::CUfunction,
    sizes: Option<Vec<usize>>,
}

// SAFETY: as for modules.
unsafe impl Send for Function {}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Arg<'a> {
    /// A device address; 0 is none.
    At(u64),
    /// A number.
    U32(u32),
    /// A number.
    U64(u64),
    /// A number.
    F32(f32),
    /// A struct by value.
    Bytes(&'a [u8]),
}

impl<T> From<&Slice<T>> for Arg<'_> {
    fn from(slice: &Slice<T>) -> Self {
        Arg::At(slice.address())
    }
}

impl Function {
    /// Allows more than 48 KiB of dynamic shared memory.
    pub fn allow_shared(&self, bytes: u32) -> Result<()> {
        use sys::CUfunction_attribute_enum as A;
        self.module.context.bind()?;
        let most = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is valid.
        let set = unsafe {
            result::function::set_function_attribute(self.raw, most, i32::try_from(bytes).unwrap_or(i32::MAX))
        };
        self.module.context.call(&format!("shared memory of {}", self.name), set)
    }

    /// Launches it. Number and sizes of the arguments are checked against the kernel's own.
    ///
    /// # Safety
    /// Addresses must be of memory that is large enough and lives until the work is done.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Arg<'_>],
    ) -> Result<()> {
        // SAFETY: the caller answers for the addresses.
        unsafe { self.launch_in_clusters(stream, 1, grid, block, shared, args) }
    }

    /// The same with so many blocks side by side as a cluster, on cards that have them; one is a block by itself, on
    /// any card.
    ///
    /// # Safety
    /// As for `launch`.
    pub unsafe fn launch_in_clusters(
        &self,
        stream: &Stream,
        cluster: u32,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Arg<'_>],
    ) -> Result<()> {
        let size = |arg: &Arg<'_>| match arg {
            Arg::At(_) | Arg::U64(_) => 8,
            Arg::U32(_) | Arg::F32(_) => 4,
            Arg::Bytes(bytes) => bytes.len(),
        };
        let given: Vec<usize> = args.iter().map(size).collect();
        if self.sizes.as_ref().is_some_and(|sizes| *sizes != given) {
            let sizes = self.sizes.as_deref().unwrap_or_default();
            return Err(Error::Asked(format!(
                "kernel {} takes arguments of {sizes:?} bytes and was given {given:?}",
                self.name
            )));
        }
        if grid.contains(&0) {
            return Ok(());
        }
        let pointer = |arg: &Arg<'_>| -> *mut c_void {
            match arg {
                Arg::At(n) | Arg::U64(n) => std::ptr::from_ref(n).cast_mut().cast(),
                Arg::U32(n) => std::ptr::from_ref(n).cast_mut().cast(),
                Arg::F32(n) => std::ptr::from_ref(n).cast_mut().cast(),
                Arg::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
            }
        };
        let mut pointers: Vec<*mut c_void> = args.iter().map(pointer).collect();
        self.module.context.bind()?;
        let launched = if cluster == 1 {
            let (grid, block) = ((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]));
            // SAFETY: the arguments have the kernel's sizes and are copied by the call; the caller answers for the
            // addresses.
            unsafe { result::launch_kernel(self.raw, grid, block, shared, stream.raw(), &mut pointers) }
        } else {
            let mut wish = sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: cluster, y: 1, z: 1 },
                },
            };
            let config = sys::CUlaunchConfig {
                gridDimX: grid[0],
                gridDimY: grid[1],
                gridDimZ: grid[2],
                blockDimX: block[0],
                blockDimY: block[1],
                blockDimZ: block[2],
                sharedMemBytes: shared,
                hStream: stream.raw(),
                attrs: &raw mut wish,
                numAttrs: 1,
            };
            // SAFETY: as above; the attribute lives until the call returns.
            unsafe {
                sys::cuLaunchKernelEx(&raw const config, self.raw, pointers.as_mut_ptr(), std::ptr::null_mut()).result()
            }
        };
        self.module.context.call(&format!("launch of {}", self.name), launched)
    }
}
