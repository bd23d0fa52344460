//! Memory of this computer for what may be large: where there is too little of it, an error instead of an abort.

use crate::allocator::fallible;
use crate::error::{Error, Result, format_bytes};

/// An empty vector with memory for `len` values; `what` they are.
pub(crate) fn reserve<T>(len: usize, what: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    fallible(|| values.try_reserve_exact(len)).map_err(|why| {
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        Error::OutOfMemory {
            call: format!("{} of {what}", format_bytes(bytes)),
            device: "cpu".into(),
            why: why.to_string(),
        }
    })?;
    Ok(values)
}

/// `len` times the same value.
pub(crate) fn filled<T: Clone>(value: T, len: usize, what: &str) -> Result<Vec<T>> {
    let mut values = reserve(len, what)?;
    values.resize(len, value);
    Ok(values)
}

/// A copy.
pub(crate) fn copied<T: Copy>(from: &[T], what: &str) -> Result<Vec<T>> {
    let mut values = reserve(from.len(), what)?;
    values.extend_from_slice(from);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error_with_its_bytes() {
        // More than any address space has, and more than a length can be.
        for (len, bytes) in [(1 << 58, "1048576 TiB"), (usize::MAX, "16777216 TiB")] {
            let error = reserve::<f32>(len, "activations").unwrap_err();
            assert!(error.is_memory(), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("cpu has not enough free memory for {bytes} of activations")), "{text}");
            assert!(!text.contains("nvidia"), "{text}");
            assert!(filled(0.0f32, len, "activations").is_err());
        }
    }

    #[test]
    fn what_fits_is_there() {
        assert_eq!(filled(1.5f32, 3, "numbers").unwrap(), [1.5; 3]);
        assert_eq!(copied(&[1u8, 2], "numbers").unwrap(), [1, 2]);
        assert!(filled(0u32, 0, "numbers").unwrap().is_empty());
    }
}
