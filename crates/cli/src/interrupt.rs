//! Ctrl-C: the first asks the work to stop, which removes what is half written; the second ends at once. With `--json`
//! there is one object on standard output either way.

use files::{Error, Kind};
use std::sync::atomic::Ordering;

/// Listens from now on; `json` and `schema` are how the verb answers.
pub(crate) fn listen(json: bool, schema: &'static str) {
    let stop = jobs::stop_flag();
    // Without a handler Ctrl-C ends the process as it always did.
    let _ = ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::SeqCst) {
            crate::terminal::restore();
            if json {
                let error = Error::new(Kind::Interrupted, "interrupted twice: the work was not waited for");
                crate::fail::report(&error.remedy("run the same command again"), true, schema, &[]);
            }
            std::process::exit(130);
        }
    });
}
