//! The engine's errors as those that say whose fault it is.

use compute::Error as Engine;
use files::{Error, Kind};

/// The engine's error as one that says whose fault it is.
pub fn failed(error: Engine) -> Error {
    match error {
        Engine::Device { what, remedy } => Error::new(Kind::Machine, what).remedy(remedy),
        Engine::Invalid(what) => Error::new(Kind::Usage, what),
        Engine::Memory { .. } | Engine::OutOfMemory { .. } => Error::new(Kind::Memory, error.to_string()),
        other @ (Engine::Call { .. } | Engine::NotFinite { .. }) => Error::new(Kind::Machine, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_keeps_its_kind_and_nothing_else_takes_it() {
        let (call, device, why) = ("cuMemAlloc".to_string(), "cuda:0".to_string(), "no (2)".to_string());
        let refused = Engine::Memory {
            what: "a population".into(),
            device: device.clone(),
            needed: 2 << 30,
            budget: 1 << 30,
            fits: "one member fits".into(),
        };
        let lacking = Engine::OutOfMemory { call: call.clone(), device: device.clone(), why: why.clone() };
        for error in [refused, lacking] {
            assert!(error.is_memory());
            assert_eq!(failed(error.clone()).kind, Kind::Memory, "{error}");
        }
        // The words decide nothing.
        let other = Engine::Call { call, device, why: "CUDA_ERROR_OUT_OF_MEMORY".into() };
        assert!(!other.is_memory() && failed(other).kind == Kind::Machine);
    }
}
