//! What the engine says, in the words of the command line.

use compute::Error as Engine;
use files::{Error, Kind};

/// The engine's error as one that says whose fault it is.
pub fn failed(error: Engine) -> Error {
    match error {
        Engine::Device { what, remedy } => Error::new(Kind::Machine, what).remedy(remedy),
        Engine::Asked(what) => Error::new(Kind::Usage, what),
        other => Error::new(Kind::Machine, other.to_string()),
    }
}
