//! Compiled kernels, as they lie in the binary: PTX, and a cubin for each architecture that people have.
//!
//! `cargo xtask kernels` writes them from the `.cu` files, one image for each. A card takes the cubin made for it, else
//! the newest older one of its generation (cubins run on later minor versions), else the PTX, which the driver compiles
//! when it is first loaded. Code for one card's own units (`sm_90a`) runs on exactly that card: it has no PTX, and
//! other cards do without it. All of it is compressed in the tree and in the binary, and inflated when a module is
//! loaded.

use crate::error::{Error, Result};
use std::io::Read;

/// What one `.cu` file became.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// The file's name without ending.
    name: &'static str,
    /// For `compute_80` and everything after it, as gzip; none where the code is for exactly the cards of its cubins.
    ptx: Option<&'static [u8]>,
    /// `[(compute capability, gzip)]`, oldest first.
    cubins: &'static [((u32, u32), &'static [u8])],
}

/// What a card is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Ready to run.
    Cubin(&'static [u8]),
    /// For the driver to compile.
    Ptx(&'static [u8]),
}

impl Image {
    /// Compiled code under a name; [`image!`](crate::image) finds it.
    pub const fn new(
        name: &'static str,
        ptx: Option<&'static [u8]>,
        cubins: &'static [((u32, u32), &'static [u8])],
    ) -> Image {
        Image { name, ptx, cubins }
    }

    /// The `.cu` file's name without ending.
    pub fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(test)]
    pub(crate) fn ptx(&self) -> Option<&'static [u8]> {
        self.ptx
    }

    #[cfg(test)]
    pub(crate) fn cubins(&self) -> &'static [((u32, u32), &'static [u8])] {
        self.cubins
    }

    /// The best for a card of this compute capability, where there is one.
    pub(crate) fn pick(&self, capability: (u32, u32)) -> Option<Pick> {
        let exact = self.ptx.is_none();
        let fits = |of: (u32, u32)| of == capability || !exact && of.0 == capability.0 && of.1 <= capability.1;
        match self.cubins.iter().filter(|(of, _)| fits(*of)).max_by_key(|(of, _)| *of) {
            Some((_, bytes)) => Some(Pick::Cubin(bytes)),
            None => self.ptx.map(Pick::Ptx),
        }
    }
}

/// The image of `NAME.cu` of the crate that says it, from its `kernels` folder, where `cargo xtask kernels` puts it.
/// For a file that asks for an architecture of its own, that capability and architecture follow: `image!("x", (9, 0),
/// "sm_90a")`.
#[macro_export]
macro_rules! image {
    ($name:literal) => {
        $crate::cuda::Image::new(
            $name,
            Some($crate::image!(@ $name, ".ptx")),
            &[
                ((8, 0), $crate::image!(@ $name, ".sm_80.cubin")),
                ((8, 6), $crate::image!(@ $name, ".sm_86.cubin")),
                ((8, 9), $crate::image!(@ $name, ".sm_89.cubin")),
                ((9, 0), $crate::image!(@ $name, ".sm_90.cubin")),
            ],
        )
    };
    ($name:literal, $capability:expr, $architecture:literal) => {
        $crate::cuda::Image::new(
            $name,
            None,
            &[($capability, $crate::image!(@ $name, concat!(".", $architecture, ".cubin")))],
        )
    };
    (@ $name:literal, $end:expr) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name, $end, ".gz"))
    };
}

/// The bytes as the compiler made them, with a zero behind them, on a border of 8: the driver reads tables of 8-byte
/// words from them.
pub(crate) fn inflate(name: &str, gzip: &[u8]) -> Result<Vec<u64>> {
    let wrong = |what: String| Error::Invalid(format!("the kernels {name} in this program are damaged: {what}"));
    // The last four bytes are the length; what they say is believed for the reservation alone.
    let size = gzip.last_chunk().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    let mut bytes = Vec::with_capacity(size.min(64 << 20) + 8);
    flate2::read::GzDecoder::new(gzip).read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    Ok(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_gets_the_nearest_image() {
        let image = Image {
            name: "x",
            ptx: Some(b"p"),
            cubins: &[((8, 0), b"80"), ((8, 6), b"86"), ((8, 9), b"89"), ((9, 0), b"90")],
        };
        for (capability, expected) in [
            ((8, 0), Pick::Cubin(b"80")),
            ((8, 6), Pick::Cubin(b"86")),
            ((8, 7), Pick::Cubin(b"86")),
            ((8, 9), Pick::Cubin(b"89")),
            ((9, 0), Pick::Cubin(b"90")),
            ((9, 3), Pick::Cubin(b"90")),
            ((10, 0), Pick::Ptx(b"p")),
            ((12, 1), Pick::Ptx(b"p")),
            ((7, 5), Pick::Ptx(b"p")),
        ] {
            assert_eq!(image.pick(capability), Some(expected), "{capability:?}");
        }
        let exact = Image { name: "x", ptx: None, cubins: &[((9, 0), b"90a")] };
        assert_eq!(exact.pick((9, 0)), Some(Pick::Cubin(b"90a")));
        assert_eq!([(8, 9), (9, 1), (10, 0)].map(|c| exact.pick(c)), [None; 3]);
    }
}
