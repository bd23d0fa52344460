//! The compiled kernels, as they lie in the binary: PTX, and a cubin for each architecture that people have.
//!
//! `cargo xtask kernels` writes them from the `.cu` files, one image for each. A card takes the cubin made for it, else
//! the newest older one of its generation (cubins run on later minor versions), else the PTX, which the driver compiles
//! when it is first loaded. Code for one card's own units (`sm_90a`) runs on exactly that card: it has no PTX, and
//! other cards do without it. All of it is deflated by `build.rs` and inflated when a module is loaded.

use crate::error::{Error, Result};
use std::io::Read;

/// What one `.cu` file became.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image {
    /// The file's name without ending.
    pub(crate) name: &'static str,
    /// For `compute_80` and everything after it, deflated; none where the code is for exactly the cards of its cubins.
    pub(crate) ptx: Option<&'static [u8]>,
    /// `[(compute capability, deflated bytes)]`, oldest first.
    pub(crate) cubins: &'static [((u32, u32), &'static [u8])],
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

/// The image of `src/**/NAME.cu` of the crate that says it, from its `kernels` folder.
macro_rules! image {
    ($name:literal) => {
        $crate::cuda::kernels::Image {
            name: $name,
            ptx: Some(image!($name, ".ptx")),
            cubins: &[
                ((8, 0), image!($name, ".sm_80.cubin")),
                ((8, 6), image!($name, ".sm_86.cubin")),
                ((8, 9), image!($name, ".sm_89.cubin")),
                ((9, 0), image!($name, ".sm_90.cubin")),
            ],
        }
    };
    ($name:literal, $end:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, $end))
    };
}

/// The bytes as the compiler made them, with a zero behind them, on a border of 8: the driver reads tables of 8-byte
/// words from them.
pub(crate) fn inflate(name: &str, deflated: &[u8]) -> Result<Vec<u64>> {
    let wrong = |what: String| Error::Asked(format!("the kernels {name} in this program are damaged: {what}"));
    let (size, deflated) = deflated.split_first_chunk().ok_or_else(|| wrong("they are too short".into()))?;
    let size = u64::from_le_bytes(*size) as usize;
    let mut bytes = Vec::with_capacity(size);
    let mut from = flate2::read::DeflateDecoder::new(deflated).take(size as u64 + 1);
    from.read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
    if bytes.len() != size {
        return Err(wrong(format!("{} bytes instead of {size}", bytes.len())));
    }
    bytes.resize((size + 1).next_multiple_of(8), 0);
    Ok(bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// `population/population.cu`: a step, all but the products.
pub(crate) static POPULATION: Image = image!("population");

/// `population/backward.cu`: a small head as a whole, and derivatives with their sums.
pub(crate) static BACKWARD: Image = image!("backward");

/// `population/between.cu`: norms, and values left out.
pub(crate) static BETWEEN: Image = image!("between");

/// `population/small.cu`: whole small nets.
pub(crate) static SMALL: Image = image!("small");

/// `population/small_step.cu`: whole training steps of small nets, where blocks form clusters.
pub(crate) static SMALL_STEP: Image =
    Image { name: "small_step", ptx: None, cubins: &[((9, 0), image!("small_step", ".sm_90.cubin"))] };

/// `ops/linear.cu`: our own products.
pub(crate) static LINEAR: Image = image!("linear");

/// `ops/lstm.cu`: recurrent layers, whole windows at once.
pub(crate) static LSTM: Image = image!("lstm");

/// `ops/lstm_steps.cu`: recurrent layers step by step, all but the products.
pub(crate) static LSTM_STEPS: Image = image!("lstm_steps");

/// `ops/recurrent.cu`: what a call of recurrent layers has beside them.
pub(crate) static RECURRENT: Image = image!("recurrent");

/// `ops/hopper.cu`: products on units that compute capability 9.0 alone has.
pub(crate) static HOPPER: Image =
    Image { name: "hopper", ptx: None, cubins: &[((9, 0), image!("hopper", ".sm_90a.cubin"))] };

/// `random/random.cu`: for the tests of parity alone.
#[cfg(test)]
pub(crate) static RANDOM: Image = image!("random");

/// Every image of this room.
#[cfg(test)]
pub(crate) static ALL: [&Image; 11] =
    [&POPULATION, &BACKWARD, &BETWEEN, &SMALL, &SMALL_STEP, &LINEAR, &LSTM, &LSTM_STEPS, &RECURRENT, &HOPPER, &RANDOM];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_gets_the_nearest() {
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

    #[test]
    fn damage_is_seen() {
        let ptx = POPULATION.ptx.unwrap();
        for cut in [0, 7, 8, 9, ptx.len() / 2, ptx.len() - 1] {
            assert!(inflate("x", &ptx[..cut]).is_err(), "{cut}");
        }
        let mut long = ptx.to_vec();
        long[0] ^= 1;
        assert!(inflate("x", &long).is_err());
    }

    #[test]
    fn every_kernel_is_here_and_what_it_says() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|e| Some(e.unwrap().file_name().to_str()?.strip_suffix(".ptx")?.to_string()))
            .collect();
        files.sort();
        let mut names: Vec<&str> = ALL.iter().map(|i| i.name).collect();
        names.sort();
        assert_eq!(names, files, "each .cu has its const here");
        for image in &ALL {
            let whole = |deflated: &[u8]| -> Vec<u8> {
                inflate(image.name, deflated).unwrap().into_iter().flat_map(u64::to_ne_bytes).collect()
            };
            if let Some(deflated) = image.ptx {
                let ptx = String::from_utf8(whole(deflated)).unwrap();
                assert!(ptx.contains(".version 8.4") && ptx.contains(".target sm_80"), "{}", image.name);
                assert!(ptx.ends_with('\0'), "{}", image.name);
            }
            for ((major, minor), deflated) in image.cubins {
                let bytes = whole(deflated);
                assert_eq!(bytes[..4], *b"\x7fELF", "{}", image.name);
                // The low byte of the ELF header's flags is the architecture.
                assert_eq!(u32::from(bytes[48]), major * 10 + minor, "{}", image.name);
            }
        }
    }
}
