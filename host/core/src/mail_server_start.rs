//! Whether the mail server is starting. The specification has an error text for a mail server that
//! starts. While the service has not reached the mail server since the start of the process, both
//! are assumed to be starting. After that, an unreachable mail server is an outage.

use std::sync::atomic::{AtomicBool, Ordering};

static REACHED: AtomicBool = AtomicBool::new(false);

/// Records that the mail server sent a greeting.
pub fn set_reached() {
    REACHED.store(true, Ordering::Relaxed);
}

/// Returns `true` until the first greeting of the mail server.
#[must_use]
pub fn is_starting() -> bool {
    !REACHED.load(Ordering::Relaxed)
}
