//! What differs between operating systems: waiting for a key. Every `cfg` has its counterpart.

use std::io::Result;
use std::time::Duration;

/// Waits until there is something to read, a signal comes (a changed size is one) or the time is over.
#[cfg(unix)]
pub(crate) fn wait_for_input(patience: Duration) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdin = std::io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec::try_from(patience).map_err(std::io::Error::other)?;
    match poll(&mut fds, Some(&patience)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "it was closed"));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn wait_for_input(patience: Duration) -> Result<()> {
    crossterm::event::poll(patience).map(|_| ())
}
