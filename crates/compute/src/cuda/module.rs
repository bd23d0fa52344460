//! Modules of kernels, loaded on use, and launches that check their arguments.
//!
//! A room loads a [`Module`] of its own [`Image`] and takes a [`Kernel`] from it by name and by the struct that the
//! kernel takes. The symbol that is looked up holds the struct's name (kernels of rooms are plain C++ functions, not
//! `extern "C"`), the driver says how large it is, and the fields were compared when the crate was compiled: what does
//! not fit is an error before anything runs.

use super::arguments::{Argument, Arguments, Packer};
use super::context::{Context, lock_driver};
use super::graph::{Stream, hold, hold_module};
use super::image::{Image, Pick, inflate};
use super::memory::Slice;
use crate::error::{Error, Result};
use cudarc::driver::{result, sys};
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
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
    /// The cubin for this card, or the PTX where there is none; loaded once, whoever asks for it.
    pub fn load(context: &Arc<Context>, image: &Image) -> Result<Arc<Module>> {
        let _lock = lock_driver();
        let Some(Pick::Cubin(gzip) | Pick::Ptx(gzip)) = image.pick(context.gpu().capability) else {
            let (name, (major, minor)) = (image.name(), context.gpu().capability);
            return Err(Error::Invalid(format!(
                "the kernels of {name} have no code for GPUs of compute capability {major}.{minor}"
            )));
        };
        // The bytes are part of the program: where they lie is what they are.
        context.module(gzip.as_ptr() as usize, || {
            context.bind()?;
            let words = inflate(image.name(), gzip)?;
            // SAFETY: a cubin carries its own length, PTX ends with a zero.
            let raw = unsafe { result::module::load_data(words.as_ptr().cast()) };
            let raw = context.call(&format!("cuModuleLoadData of {}", image.name()), raw)?;
            Ok(Arc::new(Module { context: context.clone(), name: image.name().into(), raw }))
        })
    }

    /// One of its kernels, `void name(const A)`.
    pub fn kernel<A: Arguments>(self: &Arc<Module>, name: &str) -> Result<Kernel<A>> {
        let function = self.function(&symbol(name, A::NAME))?;
        refuse(name, function.sizes.as_deref(), &[A::KIND.size()])?;
        Ok(Kernel { function, takes: PhantomData })
    }

    /// One of this room's own kernels, `extern "C" void name(const A)`.
    pub(crate) fn typed<A: Arguments>(self: &Arc<Module>, name: &str) -> Result<Kernel<A>> {
        let function = self.function(name)?;
        refuse(name, function.sizes.as_deref(), &[A::KIND.size()])?;
        Ok(Kernel { function, takes: PhantomData })
    }

    /// One of its functions.
    pub(crate) fn function(self: &Arc<Module>, name: &str) -> Result<Function> {
        self.context.bind()?;
        let text = CString::new(name).map_err(|e| Error::Invalid(format!("{name}: {e}")))?;
        // SAFETY: the module is loaded.
        let raw = unsafe { result::module::get_function(self.raw, text) };
        let raw = self.context.call(&format!("cuModuleGetFunction {name} in {}", self.name), raw)?;
        // Drivers from CUDA 12.4 on know the size of every parameter; reading them once lets each launch be checked.
        // SAFETY: only looks whether the symbol is there.
        let known = unsafe { sys::culib().get::<*const c_void>(b"cuFuncGetParamInfo").is_ok() };
        let size = |at: usize| {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function is valid; beyond its last parameter this is an error.
            let status = unsafe { sys::cuFuncGetParamInfo(raw, at, &raw mut offset, &raw mut size) };
            status.result().is_ok().then_some(size)
        };
        let sizes = known.then(|| (0..).map_while(size).collect());
        Ok(Function { module: self.clone(), name: name.into(), raw, sizes })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _lock = lock_driver();
        // Kernels of it may still run. Where they cannot be waited for, the module stays.
        if self.context.wait().is_ok() {
            // SAFETY: loaded in `load`, unloaded once; functions and graphs hold an `Arc` of it.
            let _ = unsafe { result::module::unload(self.raw) };
        }
    }
}

/// The symbol of `void name(const Arguments)` as C++ compilers write it.
fn symbol(name: &str, arguments: &str) -> String {
    format!("_Z{}{name}{}{arguments}", name.len(), arguments.len())
}

/// An error where a kernel takes parameters of other sizes than it is given; the driver may not know them.
fn refuse(kernel: &str, takes: Option<&[usize]>, given: &[usize]) -> Result<()> {
    match takes {
        Some(sizes) if sizes != given => {
            Err(Error::Invalid(format!("kernel {kernel} takes arguments of {sizes:?} bytes and was given {given:?}")))
        }
        _ => Ok(()),
    }
}

/// How a kernel is laid over the card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block in x, y and z.
    pub threads: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
}

impl Grid {
    /// At least `elements` threads in a row, in blocks of so many.
    pub fn row(elements: usize, threads: u32) -> Grid {
        let blocks = elements.div_ceil(threads.max(1) as usize);
        Grid { blocks: [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1], threads: [threads, 1, 1], shared: 0 }
    }
}

/// A kernel that takes one struct.
pub struct Kernel<A> {
    function: Function,
    takes: PhantomData<fn(&A)>,
}

impl<A: Arguments> Kernel<A> {
    /// Allows more than 48 KiB of dynamic shared memory.
    pub fn allow_shared(&self, bytes: u32) -> Result<()> {
        self.function.allow_shared(bytes)
    }

    /// Puts it on a stream, or into the graph that is captured from it. The memory of its arrays lives until the work
    /// is done, or as long as the graph.
    pub fn launch(&self, stream: &Stream, grid: Grid, arguments: &A) -> Result<()> {
        self.launch_as(stream, grid, Together::Blocks(1), arguments)
    }

    /// The same for a kernel whose blocks wait for each other: they all run at once, or it is an error.
    pub fn launch_at_once(&self, stream: &Stream, grid: Grid, arguments: &A) -> Result<()> {
        self.launch_as(stream, grid, Together::Grid, arguments)
    }

    fn launch_as(&self, stream: &Stream, grid: Grid, together: Together, arguments: &A) -> Result<()> {
        let packed = Packer::pack(arguments);
        let module = &self.function.module;
        module.context.same(stream.context())?;
        packed.memory().iter().try_for_each(|memory| memory.context().same(stream.context()))?;
        hold(stream, packed.memory())?;
        // SAFETY: the struct has the kernel's name for it, its fields and its size; every address in it is of memory
        // that is held and comes with its length, which the kernel's `View` keeps to.
        unsafe {
            let args = [Arg::Bytes(packed.bytes())];
            self.function.launch_with(stream, together, grid.blocks, grid.threads, grid.shared, &args)
        }
    }
}

impl<A: Arguments> Kernel<A> {
    /// Launches it with addresses of any memory.
    ///
    /// # Safety
    /// Addresses must be of memory that is large enough and lives until the work is done.
    pub(crate) unsafe fn send(
        &self,
        stream: &Stream,
        grid: [usize; 3],
        threads: usize,
        shared: usize,
        arguments: &A,
    ) -> Result<()> {
        // SAFETY: the caller answers for the addresses.
        unsafe { self.send_in_clusters(stream, 1, grid, threads, shared, arguments) }
    }

    /// The same with so many blocks side by side as a cluster.
    ///
    /// # Safety
    /// As for `send`.
    pub(crate) unsafe fn send_in_clusters(
        &self,
        stream: &Stream,
        cluster: usize,
        grid: [usize; 3],
        threads: usize,
        shared: usize,
        arguments: &A,
    ) -> Result<()> {
        let packed = Packer::pack(arguments);
        let args = [Arg::Bytes(packed.bytes())];
        // Beyond 32 bits the driver refuses the launch.
        let n = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        let (grid, threads) = (grid.map(n), [n(threads), 1, 1]);
        // SAFETY: the caller answers for the addresses.
        unsafe { self.function.launch_with(stream, Together::Blocks(n(cluster)), grid, threads, n(shared), &args) }
    }
}

/// Which blocks of a launch run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    /// So many side by side, as a cluster on cards that have them; one is a block by itself, on any card.
    Blocks(u32),
    /// All of them; the driver refuses a grid that does not fit on the card.
    Grid,
}

/// A kernel with any parameters.
pub(crate) struct Function {
    module: Arc<Module>,
    name: String,
    raw: sys::CUfunction,
    sizes: Option<Vec<usize>>,
}

// SAFETY: as for modules.
unsafe impl Send for Function {}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A device address; 0 is none.
    At(u64),
    /// A struct by value.
    Bytes(&'a [u8]),
}

impl<T> From<&Slice<T>> for Arg<'_> {
    fn from(slice: &Slice<T>) -> Self {
        Arg::At(slice.address())
    }
}

impl Function {
    /// Allows more than 48 KiB of dynamic shared memory. Others may have the same function and need more: what is
    /// allowed never shrinks.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<()> {
        use sys::CUfunction_attribute_enum as A;
        self.module.context.bind()?;
        let most = A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is valid.
        let now = unsafe { result::function::get_function_attribute(self.raw, most) };
        let now = self.module.context.call(&format!("shared memory of {}", self.name), now)?;
        if u32::try_from(now).is_ok_and(|now| now >= bytes) {
            return Ok(());
        }
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
    pub(crate) unsafe fn launch(
        &self,
        stream: &Stream,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Arg<'_>],
    ) -> Result<()> {
        // SAFETY: the caller answers for the addresses.
        unsafe { self.launch_with(stream, Together::Blocks(1), grid, block, shared, args) }
    }

    /// The same with blocks that run at once.
    ///
    /// # Safety
    /// As for `launch`.
    unsafe fn launch_with(
        &self,
        stream: &Stream,
        together: Together,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        args: &[Arg<'_>],
    ) -> Result<()> {
        let size = |arg: &Arg<'_>| match arg {
            Arg::At(_) => 8,
            Arg::Bytes(bytes) => bytes.len(),
        };
        let given: Vec<usize> = args.iter().map(size).collect();
        refuse(&self.name, self.sizes.as_deref(), &given)?;
        if grid.contains(&0) {
            return Ok(());
        }
        let pointer = |arg: &Arg<'_>| -> *mut c_void {
            match arg {
                Arg::At(n) => std::ptr::from_ref(n).cast_mut().cast(),
                Arg::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
            }
        };
        let mut pointers: Vec<*mut c_void> = args.iter().map(pointer).collect();
        hold_module(&self.module);
        self.module.context.bind()?;
        let launched = if together == Together::Blocks(1) {
            let (grid, block) = ((grid[0], grid[1], grid[2]), (block[0], block[1], block[2]));
            // SAFETY: the arguments have the kernel's sizes and are copied by the call; the caller answers for the
            // addresses.
            unsafe { result::launch_kernel(self.raw, grid, block, shared, stream.raw(), &mut pointers) }
        } else {
            let (id, value) = match together {
                Together::Blocks(x) => (
                    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                    sys::CUlaunchAttributeValue {
                        clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y: 1, z: 1 },
                    },
                ),
                Together::Grid => (
                    sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                    sys::CUlaunchAttributeValue { cooperative: 1 },
                ),
            };
            let mut wish = sys::CUlaunchAttribute { id, pad: [0; 4], value };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_holds_the_name_of_the_struct() {
        assert_eq!(symbol("saxpy", "Saxpy"), "_Z5saxpy5Saxpy");
    }

    #[test]
    fn arguments_of_another_size_are_refused() {
        assert!(refuse("k", Some(&[40]), &[40]).is_ok() && refuse("k", None, &[40]).is_ok());
        for (takes, given) in [(&[40][..], &[48][..]), (&[40, 8], &[40]), (&[], &[40])] {
            let why = refuse("k", Some(takes), given).unwrap_err().to_string();
            assert!(why.contains("kernel k takes") && why.contains(&format!("{given:?}")), "{why}");
        }
    }

    #[test]
    fn a_row_of_blocks_covers_all_elements() {
        let blocks = |n, threads| Grid::row(n, threads).blocks;
        assert_eq!([blocks(0, 256), blocks(1, 256), blocks(257, 256)], [[0, 1, 1], [1, 1, 1], [2, 1, 1]]);
    }
}
