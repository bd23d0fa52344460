//! cuBLASLt: found at run time, called through a dozen functions, with plans that are pinned.
//!
//! A [`Product`] describes one kind of product of the net; [`Blaslt::plans`] asks the library for the algorithms it
//! would take for one member and keeps it, so that a member's bits do not depend on how many others there are. Matrices
//! are row-major here and the library's are column-major, so every product is stated the other way round once, in
//! [`Product`], and nowhere else.

use crate::error::{Error, Result};
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};

type Handle = *mut c_void;
type Status = c_int;

/// An algorithm as the library hands it out; plain bytes that may be stored and given back to the same version.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Algorithm([u64; 8]);

#[repr(C)]
#[derive(Clone, Copy)]
struct Found {
    algorithm: Algorithm,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

macro_rules! functions {
    ($($name:ident: $symbol:literal fn($($arg:ty),*);)*) => {
        struct Functions { $($name: unsafe extern "C" fn($($arg),*) -> Status,)* }

        impl Functions {
            fn load(library: &Library) -> std::result::Result<Functions, libloading::Error> {
                // SAFETY: the symbols have these signatures in every cuBLASLt of CUDA 12 and 13.
                unsafe { Ok(Functions { $($name: *library.get($symbol)?,)* }) }
            }
        }
    };
}

functions! {
    create: b"cublasLtCreate\0" fn(*mut Handle);
    destroy: b"cublasLtDestroy\0" fn(Handle);
    desc_create: b"cublasLtMatmulDescCreate\0" fn(*mut Handle, c_int, c_int);
    desc_destroy: b"cublasLtMatmulDescDestroy\0" fn(Handle);
    desc_set: b"cublasLtMatmulDescSetAttribute\0" fn(Handle, c_int, *const c_void, usize);
    layout_create: b"cublasLtMatrixLayoutCreate\0" fn(*mut Handle, c_int, u64, u64, i64);
    layout_destroy: b"cublasLtMatrixLayoutDestroy\0" fn(Handle);
    layout_set: b"cublasLtMatrixLayoutSetAttribute\0" fn(Handle, c_int, *const c_void, usize);
    preference_create: b"cublasLtMatmulPreferenceCreate\0" fn(*mut Handle);
    preference_destroy: b"cublasLtMatmulPreferenceDestroy\0" fn(Handle);
    preference_set: b"cublasLtMatmulPreferenceSetAttribute\0" fn(Handle, c_int, *const c_void, usize);
    heuristic: b"cublasLtMatmulAlgoGetHeuristic\0" fn(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Found, *mut c_int);
    check: b"cublasLtMatmulAlgoCheck\0" fn(Handle, Handle, Handle, Handle, Handle, Handle, *const Algorithm, *mut Found);
    matmul: b"cublasLtMatmul\0" fn(Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void, *const c_void, Handle, *mut c_void, Handle, *const Algorithm, *mut c_void, usize, *mut c_void);
}

/// The library, loaded.
pub(crate) struct Blaslt {
    functions: Functions,
    handle: Handle,
    path: PathBuf,
    version: String,
}

// SAFETY: a handle may be used from several threads.
unsafe impl Send for Blaslt {}
// SAFETY: as above.
unsafe impl Sync for Blaslt {}

impl Blaslt {
    /// Looks for the library; the error says where. Its context must be current.
    pub(super) fn find() -> std::result::Result<Blaslt, String> {
        if std::env::var_os("FULLBORE_NO_BLASLT").is_some() {
            return Err("FULLBORE_NO_BLASLT is set".into());
        }
        let places = places();
        for place in &places {
            // SAFETY: NVIDIA's library; loading it runs its constructors only.
            let Ok(library) = (unsafe { Library::new(place) }) else { continue };
            // It stays loaded: it has threads and tables of its own that would outlive an unloading.
            let library: &'static Library = Box::leak(Box::new(library));
            let Ok(functions) = Functions::load(library) else { continue };
            let mut handle = std::ptr::null_mut();
            // SAFETY: writes one pointer.
            let status = unsafe { (functions.create)(&raw mut handle) };
            if status != 0 {
                return Err(format!("{} was found but does not start (status {status})", place.display()));
            }
            // SAFETY: takes nothing and gives a number, in every version.
            let version =
                unsafe { library.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion\0").map(|f| f()) };
            let version = version.map_or("of unknown version".into(), |v| {
                // 13.1.0 is 130100, 12.4.5 is 120405 (and 11.x was 11xxxx).
                format!("{}.{}.{}", v / 10000, v / 100 % 100, v % 100)
            });
            return Ok(Blaslt { functions, handle, path: place.clone(), version });
        }
        let names = "libcublasLt.so.13 or .12 (cublasLt64_13.dll, cublasLt64_12.dll)";
        Err(format!("no {names} on the library path, in a CUDA toolkit or in a Python environment's nvidia packages"))
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Blaslt {
    fn drop(&mut self) {
        // SAFETY: created in `find`, destroyed once.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

/// Where the library may be, the likeliest first.
fn places() -> Vec<PathBuf> {
    let names: &[&str] = if cfg!(windows) {
        &["cublasLt64_13.dll", "cublasLt64_12.dll"]
    } else {
        &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    for home in ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(set) {
        folders.extend([home.join("lib64"), home.join("bin"), home.join("bin/x64")]);
    }
    folders.push("/usr/local/cuda/lib64".into());
    // A Python environment: the active one, and those whose `python3` is on the path.
    let mut homes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(set).collect();
    for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        if folder.join("python3").exists() || folder.join("python.exe").exists() {
            homes.extend(folder.parent().map(Path::to_path_buf));
            homes.push(folder);
        }
    }
    for home in homes {
        let mut packages = vec![home.join("Lib/site-packages")];
        for lib in [home.join("lib"), home.join("local/lib")] {
            let pythons = std::fs::read_dir(lib).into_iter().flatten().flatten().map(|e| e.path());
            let pythons = pythons.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python3")));
            packages.extend(pythons.flat_map(|p| [p.join("site-packages"), p.join("dist-packages")]));
        }
        for package in packages {
            folders.extend(
                ["nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cu13/bin/x86_64", "nvidia/cublas/bin", "torch/lib"]
                    .map(|f| package.join(f)),
            );
        }
    }
    let plain = names.iter().map(PathBuf::from);
    let full = folders.iter().flat_map(|f| names.iter().map(move |n| f.join(n))).filter(|p| p.exists());
    plain.chain(full).collect()
}

/// The kind of numbers of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Numbers {
    F32,
    Bf16,
}

impl Numbers {
    fn code(self) -> c_int {
        match self {
            Numbers::F32 => 0,
            Numbers::Bf16 => 14,
        }
    }

    /// Bytes of one.
    pub(crate) fn size(self) -> u64 {
        match self {
            Numbers::F32 => 4,
            Numbers::Bf16 => 2,
        }
    }
}

/// What is done to a product before it is written. The library can do more (masks, bias gradients), but on an H200
/// these doubled the time of a product, and our own pass over the result is cheaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Epilogue {
    None,
    /// Adds a bias of the output's numbers to each row.
    Bias,
    /// Adds a bias and keeps what is positive.
    ReluBias,
}

/// A row-major matrix `[rows, columns]` of every member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Matrix {
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    /// Elements from row to row.
    pub(crate) stride: u64,
    /// Elements from member to member.
    pub(crate) member: u64,
    pub(crate) numbers: Numbers,
}

/// One kind of product: `out = left · right`, each optionally transposed, row-major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) left: Matrix,
    pub(crate) left_transposed: bool,
    pub(crate) right: Matrix,
    pub(crate) right_transposed: bool,
    pub(crate) out: Matrix,
    pub(crate) epilogue: Epilogue,
    /// Elements from member to member of the bias.
    pub(crate) bias_member: u64,
    pub(crate) tf32: bool,
    /// The smallest alignment of any of its addresses, in bytes.
    pub(crate) aligned: u32,
}

/// Where one call reads and writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) left: u64,
    pub(crate) right: u64,
    pub(crate) out: u64,
    pub(crate) bias: u64,
    /// Adds to what is there.
    pub(crate) accumulate: bool,
}

/// A product with its algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) product: Product,
    pub(crate) algorithm: Algorithm,
}

/// The library's descriptors of a product, destroyed together.
struct Descriptors<'b> {
    blaslt: &'b Blaslt,
    desc: Handle,
    a: Handle,
    b: Handle,
    d: Handle,
}

impl Drop for Descriptors<'_> {
    fn drop(&mut self) {
        // SAFETY: created together, destroyed once; null where creation failed.
        unsafe {
            if !self.desc.is_null() {
                (self.blaslt.functions.desc_destroy)(self.desc);
            }
            for layout in [self.a, self.b, self.d] {
                if !layout.is_null() {
                    (self.blaslt.functions.layout_destroy)(layout);
                }
            }
        }
    }
}

fn check_status(call: &str, status: Status) -> Result<()> {
    let (call, device, why) = (call.into(), "cuda".into(), format!("cuBLAS status {status}"));
    match status {
        0 => Ok(()),
        3 => Err(Error::OutOfMemory { call, device, why }), // CUBLAS_STATUS_ALLOC_FAILED
        _ => Err(Error::Call { call, device, why }),
    }
}

impl Blaslt {
    /// The descriptors for so many members.
    fn descriptors(&self, product: &Product, members: usize, at: Option<&Addresses>) -> Result<Descriptors<'_>> {
        let f = &self.functions;
        let null = std::ptr::null_mut();
        let mut made = Descriptors { blaslt: self, desc: null, a: null, b: null, d: null };
        let compute = if product.tf32 { 77 } else { 68 };
        // SAFETY: writes one pointer.
        check_status("cublasLtMatmulDescCreate", unsafe { (f.desc_create)(&raw mut made.desc, compute, 0) })?;
        let set = |attribute: c_int, value: &[u8]| {
            // SAFETY: the value is copied; its size is the attribute's.
            check_status("cublasLtMatmulDescSetAttribute", unsafe {
                (f.desc_set)(made.desc, attribute, value.as_ptr().cast(), value.len())
            })
        };
        // Row-major out = left · right is column-major outᵀ = rightᵀ · leftᵀ: the right factor comes first, transposed
        // as it is.
        set(3, &i32::from(product.right_transposed).to_ne_bytes())?;
        set(4, &i32::from(product.left_transposed).to_ne_bytes())?;
        let epilogue: i32 = match product.epilogue {
            Epilogue::None => 1,
            Epilogue::Bias => 4,
            Epilogue::ReluBias => 6,
        };
        set(7, &epilogue.to_ne_bytes())?;
        if product.epilogue != Epilogue::None {
            let bias = at.map_or(256, |at| at.bias);
            set(8, &bias.to_ne_bytes())?;
            set(10, &(product.bias_member as i64).to_ne_bytes())?;
            set(26, &product.out.numbers.code().to_ne_bytes())?;
        }
        made.a = self.layout(&product.right, members)?;
        made.b = self.layout(&product.left, members)?;
        made.d = self.layout(&product.out, members)?;
        Ok(made)
    }

    fn layout(&self, matrix: &Matrix, members: usize) -> Result<Handle> {
        let f = &self.functions;
        let mut layout = std::ptr::null_mut();
        let (rows, columns) = (matrix.columns, matrix.rows);
        // SAFETY: writes one pointer.
        let made =
            unsafe { (f.layout_create)(&raw mut layout, matrix.numbers.code(), rows, columns, matrix.stride as i64) };
        check_status("cublasLtMatrixLayoutCreate", made)?;
        let members = i32::try_from(members).unwrap_or(i32::MAX);
        // SAFETY: the values are copied; their sizes are the attributes'.
        let set = unsafe {
            let count = (f.layout_set)(layout, 5, (&raw const members).cast(), 4);
            let member = matrix.member as i64;
            if count == 0 { (f.layout_set)(layout, 6, (&raw const member).cast(), 8) } else { count }
        };
        if set != 0 {
            // SAFETY: created above.
            unsafe { (f.layout_destroy)(layout) };
        }
        check_status("cublasLtMatrixLayoutSetAttribute", set).map(|()| layout)
    }

    /// The algorithms the library would take for so many members, the best guess first; none where it cannot do the
    /// product.
    pub(crate) fn plans(&self, product: &Product, members: usize, workspace: usize, most: usize) -> Result<Vec<Plan>> {
        let f = &self.functions;
        let made = self.descriptors(product, members, None)?;
        let mut preference = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        check_status("cublasLtMatmulPreferenceCreate", unsafe { (f.preference_create)(&raw mut preference) })?;
        let empty = Found { algorithm: Algorithm([0; 8]), workspace: 0, state: 0, waves: 0.0, reserved: [0; 4] };
        let mut found = vec![empty; most];
        let mut count = 0;
        // SAFETY: attributes are copied with their sizes; at most `most` results are written.
        let status = unsafe {
            (f.preference_set)(preference, 1, (&raw const workspace).cast(), 8);
            for attribute in 5..=8 {
                (f.preference_set)(preference, attribute, (&raw const product.aligned).cast(), 4);
            }
            let most = c_int::try_from(most).unwrap_or(c_int::MAX);
            let (desc, a, b, d) = (made.desc, made.a, made.b, made.d);
            let status =
                (f.heuristic)(self.handle, desc, a, b, d, d, preference, most, found.as_mut_ptr(), &raw mut count);
            (f.preference_destroy)(preference);
            status
        };
        // 7 and 15 are "invalid value" and "not supported": no algorithm for these shapes and numbers, which is an
        // answer.
        if !matches!(status, 0 | 7 | 15) {
            check_status("cublasLtMatmulAlgoGetHeuristic", status)?;
        }
        let found = found.iter().take(usize::try_from(count).unwrap_or(0)).filter(|found| found.state == 0);
        Ok(found.map(|f| Plan { product: *product, algorithm: f.algorithm }).collect())
    }

    /// Whether a plan also does so many members.
    pub(crate) fn supports(&self, plan: &Plan, members: usize, workspace: usize) -> Result<bool> {
        let made = self.descriptors(&plan.product, members, None)?;
        let mut found = Found { algorithm: plan.algorithm, workspace: 0, state: 0, waves: 0.0, reserved: [0; 4] };
        let (desc, a, b, d) = (made.desc, made.a, made.b, made.d);
        // SAFETY: all descriptors are alive; one result is written.
        let status =
            unsafe { (self.functions.check)(self.handle, desc, a, b, d, d, &raw const plan.algorithm, &raw mut found) };
        Ok(status == 0 && found.workspace <= workspace)
    }

    /// How many members at once a plan does with this workspace: all, or about the largest power of two that it does.
    pub(crate) fn most(&self, plan: &Plan, members: usize, workspace: usize) -> Result<usize> {
        let mut some = members;
        while some > 0 && !self.supports(plan, some, workspace)? {
            some = if some == 1 { 0 } else { (some / 2).next_power_of_two().min(some - 1) };
        }
        Ok(some)
    }

    /// Puts a product on a stream.
    ///
    /// # Safety
    /// The addresses must be of memory that the product's shapes fit into, alive until the work is done; the workspace
    /// is used by no other work at that time.
    pub(crate) unsafe fn run(
        &self,
        plan: &Plan,
        members: usize,
        at: &Addresses,
        workspace: (u64, usize),
        stream: &super::Stream,
    ) -> Result<()> {
        let made = self.descriptors(&plan.product, members, Some(at))?;
        let (one, beta) = (1.0f32, if at.accumulate { 1.0f32 } else { 0.0 });
        let (desc, a, b, d) = (made.desc, made.a, made.b, made.d);
        let here = |address: u64| address as *const c_void;
        stream.context().bind()?;
        // SAFETY: the caller's promise; the library copies what it needs before it returns.
        let status = unsafe {
            (self.functions.matmul)(
                self.handle,
                desc,
                (&raw const one).cast(),
                here(at.right),
                a,
                here(at.left),
                b,
                (&raw const beta).cast(),
                here(at.out),
                d,
                here(at.out).cast_mut(),
                d,
                &raw const plan.algorithm,
                here(workspace.0).cast_mut(),
                workspace.1,
                stream.raw().cast(),
            )
        };
        check_status("cublasLtMatmul", status)
    }
}

impl Algorithm {
    /// As text, to be stored.
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|word| format!("{word:016x}")).collect()
    }

    /// From text.
    pub(crate) fn parse(text: &str) -> Option<Algorithm> {
        let mut words = [0; 8];
        if text.len() != 128 || !text.is_ascii() {
            return None;
        }
        for (i, word) in words.iter_mut().enumerate() {
            *word = u64::from_str_radix(&text[i * 16..i * 16 + 16], 16).ok()?;
        }
        Some(Algorithm(words))
    }
}
