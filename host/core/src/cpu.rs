//! Measures the CPU time of requests to modules, including the work of other threads for a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Handle, RuntimeFlavor};

tokio::task_local! {
    /// The CPU time that other threads have used for the current request, in nanoseconds.
    static CURRENT: Arc<AtomicU64>;
}

/// The CPU time that other threads have used for one request, in nanoseconds.
/// [`ChargedTime::collect`] returns this time and resets it to zero.
#[derive(Clone, Debug, Default)]
pub struct ChargedTime(Arc<AtomicU64>);

impl ChargedTime {
    /// Runs a part of the request. Work that `part` wraps with [`charged`] adds its CPU time to
    /// this counter.
    pub fn scope<T>(&self, part: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Arc::clone(&self.0), part)
    }

    /// Returns the CPU time that was charged since the last call of this function.
    #[must_use]
    pub fn collect(&self) -> Duration {
        Duration::from_nanos(self.0.swap(0, Ordering::Relaxed))
    }
}

/// Wraps work for another thread. The CPU time of `work` is charged to the current request, if
/// there is one.
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

/// Returns the CPU time of the current thread.
#[must_use]
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns whether the runtime has several threads. Only such a runtime can move tasks to another
/// thread.
#[must_use]
pub fn is_multi_threaded() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}
