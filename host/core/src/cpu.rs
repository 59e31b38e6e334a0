//! CPU time of requests of modules, on the thread that serves a request and on others that work for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

tokio::task_local! {
    /// Where work for the current request charges its CPU time.
    static CURRENT: Arc<AtomicU64>;
}

/// The CPU time, in nanoseconds, that other threads took for one request and that was not yet collected.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere(Arc<AtomicU64>);

impl Elsewhere {
    /// Runs a part of the request. Work that the part starts with [`charged`] is charged to the request.
    pub fn scope<T>(&self, part: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Arc::clone(&self.0), part)
    }

    /// Returns what was charged since the last call.
    #[must_use]
    pub fn collect(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Ordering::Relaxed))
    }
}

/// Work for another thread. Its CPU time is charged to the request of a module that it is made for, if there is one.
pub fn charged<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let request = CURRENT.try_with(Arc::clone).ok();
    move || {
        let before = thread_time();
        let done = work();
        if let Some(request) = request {
            let took = thread_time().saturating_sub(before).as_nanos();
            request.fetch_add(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        done
    }
}

/// The CPU time of the current thread so far.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
