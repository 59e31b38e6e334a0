//! Determines whether the mail server is starting, because the API has an error text for this case.
//! In the first minutes after the start of the service, a mail server that the service has not
//! reached yet is assumed to be starting too. After these minutes, an unreachable mail server is an
//! outage.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The maximum time that a mail server needs to start.
const STARTUP: Duration = Duration::from_mins(5);

static SERVICE_STARTED: OnceLock<Instant> = OnceLock::new();
static REACHED: AtomicBool = AtomicBool::new(false);

/// Records the start of the service. Further calls have no effect.
pub fn set_service_started() {
    SERVICE_STARTED.get_or_init(Instant::now);
}

/// Records that the mail server sent a greeting.
pub fn set_reached() {
    REACHED.store(true, Ordering::Relaxed);
}

/// Returns `true` until the first greeting of the mail server, for at most five minutes.
#[must_use]
pub fn is_starting() -> bool {
    let started = SERVICE_STARTED.get_or_init(Instant::now);
    !REACHED.load(Ordering::Relaxed) && started.elapsed() < STARTUP
}
