//! Ctrl-C: the first asks the work to stop, which removes what is half written; the second ends at once.

use std::sync::atomic::Ordering;

/// Listens from now on.
pub(crate) fn listen() {
    let stop = jobs::stop_flag();
    // Without a handler Ctrl-C ends the process as it always did.
    let _ = ctrlc::set_handler(move || {
        if stop.swap(true, Ordering::SeqCst) {
            crate::terminal::restore();
            std::process::exit(130);
        }
    });
}
