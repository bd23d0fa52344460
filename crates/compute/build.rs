//! Compiled kernels, deflated for the binary: 20 MB of them would be most of it, and they are four times smaller this
//! way.
//!
//! `kernels/NAME.ptx` and `kernels/NAME.sm_90.cubin` become files of the same names in the build's own folder, each the
//! number of its bytes (8, little-endian) and then its deflated bytes. What is checked in stays as the compiler made
//! it.

use std::io::Write;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let from = Path::new("kernels");
    println!("cargo::rerun-if-changed=kernels");
    let to = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names a folder"));
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|e| e == "ptx" || e == "cubin"))
        else {
            continue;
        };
        let bytes = std::fs::read(&path)?;
        let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
        let mut deflated = flate2::write::DeflateEncoder::new(&mut file, flate2::Compression::best());
        deflated.write_all(&bytes)?;
        deflated.finish()?;
        std::fs::write(to.join(name), file)?;
    }
    Ok(())
}
