//! The kernels of this room, one image for each `.cu` file.

use super::image::Image;
use crate::image;

/// `population/population.cu`: a step, all but the products.
pub(crate) static POPULATION: Image = image!("population");

/// `population/backward.cu`: a small head as a whole, and derivatives with their sums.
pub(crate) static BACKWARD: Image = image!("backward");

/// `population/between.cu`: norms, and values left out.
pub(crate) static BETWEEN: Image = image!("between");

/// `population/nets.cu`: nets without a loss.
pub(crate) static NETS: Image = image!("nets");

/// `population/small.cu`: whole small nets.
pub(crate) static SMALL: Image = image!("small");

/// `population/small_step.cu`: whole training steps of small nets, where blocks form clusters.
pub(crate) static SMALL_STEP: Image = image!("small_step", (9, 0), "sm_90");

/// `ops/linear.cu`: our own products.
pub(crate) static LINEAR: Image = image!("linear");

/// `ops/lstm.cu`: recurrent layers, whole windows at once.
pub(crate) static LSTM: Image = image!("lstm");

/// `ops/lstm_steps.cu`: recurrent layers step by step, all but the products.
pub(crate) static LSTM_STEPS: Image = image!("lstm_steps");

/// `ops/recurrent.cu`: what a call of recurrent layers has beside them.
pub(crate) static RECURRENT: Image = image!("recurrent");

/// `ops/sequence.cu`: what stands between rows of sequences and nets whose LSTM layers carry a state.
pub(crate) static SEQUENCE: Image = image!("sequence");

/// `ops/hopper.cu`: products on units that compute capability 9.0 alone has.
pub(crate) static HOPPER: Image = image!("hopper", (9, 0), "sm_90a");

/// `random/random.cu`: for the tests of parity alone.
#[cfg(test)]
pub(crate) static RANDOM: Image = image!("random");

/// Every image of this room.
#[cfg(test)]
pub(crate) static ALL: [&Image; 13] = [
    &POPULATION,
    &BACKWARD,
    &BETWEEN,
    &NETS,
    &SMALL,
    &SMALL_STEP,
    &LINEAR,
    &LSTM,
    &LSTM_STEPS,
    &RECURRENT,
    &SEQUENCE,
    &HOPPER,
    &RANDOM,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::image::inflate;

    #[test]
    fn a_damaged_image_is_refused() {
        let ptx = POPULATION.ptx().unwrap();
        for cut in [0, 7, 18, ptx.len() / 2, ptx.len() - 1] {
            assert!(inflate("x", &ptx[..cut]).is_err(), "{cut}");
        }
        // The header, a byte of the content, the sum and the length.
        for at in [0, ptx.len() / 2, ptx.len() - 8, ptx.len() - 1] {
            let mut changed = ptx.to_vec();
            changed[at] ^= 1;
            assert!(inflate("x", &changed).is_err(), "{at}");
        }
    }

    #[test]
    fn every_kernel_is_embedded_with_its_name() {
        let manifest: toml::Table = include_str!("../../kernels/manifest.toml").parse().unwrap();
        let ours = |kernel: &&toml::Value| kernel["sources"][0].as_str().unwrap().starts_with("crates/compute/src/");
        let listed = manifest["kernel"].as_array().unwrap().iter().filter(ours).map(|k| k["name"].as_str().unwrap());
        let mut names: Vec<&str> = ALL.iter().map(|i| i.name()).collect();
        names.sort();
        assert_eq!(names, listed.collect::<Vec<_>>(), "each .cu has its const here");
        for image in &ALL {
            let whole = |gzip: &[u8]| -> Vec<u8> {
                inflate(image.name(), gzip).unwrap().into_iter().flat_map(u64::to_ne_bytes).collect()
            };
            if let Some(gzip) = image.ptx() {
                let ptx = String::from_utf8(whole(gzip)).unwrap();
                assert!(ptx.contains(".version 8.4") && ptx.contains(".target sm_80"), "{}", image.name());
                assert!(ptx.ends_with('\0'), "{}", image.name());
            }
            for ((major, minor), gzip) in image.cubins() {
                let bytes = whole(gzip);
                assert_eq!(bytes[..4], *b"\x7fELF", "{}", image.name());
                // The low byte of the ELF header's flags is the architecture.
                assert_eq!(u32::from(bytes[48]), major * 10 + minor, "{}", image.name());
            }
        }
    }
}
