//! The compiled kernels, as they lie in the binary: PTX, and a cubin for each architecture that people have.
//!
//! `cargo xtask kernels` writes them from the `.cu` files, one image for each. A card takes the cubin made for it, else the newest older one of
//! its generation (cubins run on later minor versions), else the PTX, which the driver compiles when it is first loaded.

/// What one `.cu` file became.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image {
    /// The file's name without ending.
    pub(crate) name: &'static str,
    /// For `compute_80` and everything after it.
    pub(crate) ptx: &'static str,
    /// `[(compute capability, bytes)]`, oldest first; the bytes begin on a border of 16.
    pub(crate) cubins: &'static [((u32, u32), &'static [u8])],
}

/// What a card is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Ready to run.
    Cubin(&'static [u8]),
    /// For the driver to compile.
    Ptx(&'static str),
}

impl Image {
    /// The best for a card of this compute capability.
    pub(crate) fn pick(&self, capability: (u32, u32)) -> Pick {
        let fits = |of: (u32, u32)| of.0 == capability.0 && of.1 <= capability.1;
        match self.cubins.iter().filter(|(of, _)| fits(*of)).max_by_key(|(of, _)| *of) {
            Some((_, bytes)) => Pick::Cubin(bytes),
            None => Pick::Ptx(self.ptx),
        }
    }
}

/// The image of `src/**/NAME.cu` of the crate that says it, from its `kernels` folder.
macro_rules! image {
    ($name:literal) => {
        $crate::cuda::kernels::Image {
            name: $name,
            ptx: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $name, ".ptx")),
            cubins: &[
                ((8, 0), image!($name, ".sm_80.cubin")),
                ((8, 6), image!($name, ".sm_86.cubin")),
                ((8, 9), image!($name, ".sm_89.cubin")),
                ((9, 0), image!($name, ".sm_90.cubin")),
            ],
        }
    };
    ($name:literal, $end:literal) => {{
        const BYTES: &$crate::cuda::kernels::Aligned<[u8]> = &$crate::cuda::kernels::Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/kernels/",
            $name,
            $end
        )));
        &BYTES.0
    }};
}

/// Bytes on a border of 16: the driver reads tables of 8-byte words from them.
#[repr(C, align(16))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// `population/population.cu`: a step, all but the products.
pub(crate) static POPULATION: Image = image!("population");

/// `population/backward.cu`: a small head as a whole, and derivatives with their sums.
pub(crate) static BACKWARD: Image = image!("backward");

/// `ops/linear.cu`: our own products.
pub(crate) static LINEAR: Image = image!("linear");

/// `random/random.cu`: for the tests of parity alone.
#[cfg(test)]
pub(crate) static RANDOM: Image = image!("random");

/// Every image of this room.
#[cfg(test)]
pub(crate) static ALL: [&Image; 4] = [&POPULATION, &BACKWARD, &LINEAR, &RANDOM];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_gets_the_nearest() {
        let image = Image {
            name: "x",
            ptx: "p",
            cubins: &[((8, 0), b"80"), ((8, 6), b"86"), ((8, 9), b"89"), ((9, 0), b"90")],
        };
        for (capability, expected) in [
            ((8, 0), Pick::Cubin(b"80")),
            ((8, 6), Pick::Cubin(b"86")),
            ((8, 7), Pick::Cubin(b"86")),
            ((8, 9), Pick::Cubin(b"89")),
            ((9, 0), Pick::Cubin(b"90")),
            ((9, 3), Pick::Cubin(b"90")),
            ((10, 0), Pick::Ptx("p")),
            ((12, 1), Pick::Ptx("p")),
            ((7, 5), Pick::Ptx("p")),
        ] {
            assert_eq!(image.pick(capability), expected, "{capability:?}");
        }
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
            assert!(image.ptx.contains(".version 8.4") && image.ptx.contains(".target sm_80"), "{}", image.name);
            for ((major, minor), bytes) in image.cubins {
                assert_eq!(bytes.as_ptr().align_offset(16), 0);
                assert_eq!(bytes[..4], *b"\x7fELF", "{}", image.name);
                // The low byte of the ELF header's flags is the architecture.
                assert_eq!(u32::from(bytes[48]), major * 10 + minor, "{}", image.name);
            }
        }
    }
}
