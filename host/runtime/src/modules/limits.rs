//! The limits of a guest in one request. They limit the number of host calls, the size of values,
//! the number of handles, and the CPU time. The CPU time includes the time of host functions.
//!
//! The memory limit is in [`super::sandbox`]. The limit on the wall-clock time is in
//! [`super::call`].

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use latchmail_core::cpu::{ChargedTime, is_multi_threaded, thread_time};
use latchmail_core::metrics::CounterSeries;
use tokio::task::block_in_place;
use wasmtime::component::ResourceTableError;
use wasmtime::{CallHook, PoolConcurrencyLimitError};

use super::engine::RunningGuest;
use crate::api::MAX_HANDLES;

/// The lower bound of the transfer limit, in bytes. The transfer limit is the maximum size of the
/// values that a guest passes to the host in one call. Such values are arguments of a host
/// function, or the result of a guest function.
const MIN_TRANSFER: usize = 16 * 1024 * 1024;

/// The CPU time above which a request is classified as long. It is about ten times the CPU time of
/// a usual request.
const LONG: Duration = Duration::from_millis(1);

/// The number of engine ticks between two yields of a long request. A long request yields less
/// often than other requests, because resuming a guest takes time and no other task waits for the
/// thread of a long request.
const EXCLUSIVE_TICKS: u64 = 5;

thread_local! {
    /// Whether no other task waits for this thread.
    static EXCLUSIVE: Cell<bool> = const { Cell::new(false) };
}

/// A marker for a thread that runs a long request. While this value exists, no other task waits for
/// the current thread.
struct ExclusiveThread {
    previous: bool,
}

impl ExclusiveThread {
    fn begin() -> Self {
        Self {
            previous: EXCLUSIVE.replace(true),
        }
    }
}

impl Drop for ExclusiveThread {
    fn drop(&mut self) {
        EXCLUSIVE.set(self.previous);
    }
}

/// Returns whether the guest on this thread has used much CPU time in its request.
pub(crate) fn is_long() -> bool {
    EXCLUSIVE.get()
}

/// Returns the number of engine ticks until the guest on this thread yields.
pub(crate) fn ticks() -> u64 {
    if EXCLUSIVE.get() { EXCLUSIVE_TICKS } else { 1 }
}

/// The maximum size of a response without its body, in bytes.
const MAX_RESPONSE_HEAD: usize = 1024 * 1024;

/// Returns the transfer limit of a module, in bytes. `response` is the maximum size of the module's
/// response bodies.
pub(crate) fn max_transfer(response: usize) -> usize {
    MIN_TRANSFER.max(response.saturating_add(MAX_RESPONSE_HEAD))
}

/// The remaining number of host calls in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCalls {
    limit: u32,
    left: u32,
}

impl HostCalls {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, left: limit }
    }

    /// Counts a host call. Does nothing if `hook` reports another transition between guest and
    /// host.
    pub(crate) fn count(&mut self, hook: CallHook) -> wasmtime::Result<()> {
        if matches!(hook, CallHook::CallingHost) {
            self.left = self
                .left
                .checked_sub(1)
                .ok_or(Exceeded::HostCalls(self.limit))?;
        }
        Ok(())
    }

    /// Takes back the last counted call.
    pub(crate) fn restore(&mut self) {
        self.left = self.limit.min(self.left + 1);
    }
}

/// The CPU time of one request, measured with the CPU clock of the thread. The time includes the
/// work of host functions, but not the wait for a CPU. The limit is checked whenever the guest
/// yields.
#[derive(Debug)]
pub(crate) struct CpuTime {
    limit: Duration,
    used: Duration,
    charged: ChargedTime,
    /// The metric to which the time is added at the end.
    total: Option<CounterSeries>,
}

impl Drop for CpuTime {
    fn drop(&mut self) {
        if let Some(total) = &self.total {
            total.inc_by(self.used.as_secs_f64());
        }
    }
}

impl CpuTime {
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            limit,
            used: Duration::ZERO,
            charged: ChargedTime::default(),
            total: None,
        }
    }

    /// Adds the time to the metric `total` at the end.
    pub(crate) fn counted_in(mut self, total: &CounterSeries) -> Self {
        self.total = Some(total.clone());
        self
    }

    /// Runs `work`. If the request is long, the other tasks of this thread first move to another
    /// thread. The operating system then schedules the two threads, so the other tasks do not wait
    /// until the guest yields.
    pub(crate) fn run_exclusively<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.used >= LONG && is_multi_threaded() {
            block_in_place(|| {
                let _exclusive = ExclusiveThread::begin();
                work()
            })
        } else {
            work()
        }
    }

    /// Returns a future that runs `future` until it is ready, or until the CPU limit is exceeded.
    pub(crate) fn spend<T>(
        &mut self,
        future: impl Future<Output = wasmtime::Result<T>>,
    ) -> impl Future<Output = wasmtime::Result<T>> {
        // The future is large, so it is boxed. Otherwise, each awaiting future would contain the
        // large future.
        let mut future = Box::pin(future);
        poll_fn(move |context| {
            let _running = RunningGuest::begin();
            let before = thread_time();
            let polled =
                self.run_exclusively(|| self.charged.scope(|| future.as_mut().poll(context)));
            self.used += thread_time().saturating_sub(before) + self.charged.collect();
            if polled.is_pending() && self.used >= self.limit {
                return Poll::Ready(Err(Exceeded::CpuTime(self.limit).into()));
            }
            polled
        })
    }
}

/// A limit that a guest exceeded.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Exceeded {
    /// The maximum CPU time was exceeded.
    #[error("it exceeded its CPU time of {} s", .0.as_secs_f64())]
    CpuTime(Duration),
    /// The maximum number of host calls was exceeded.
    #[error("it exceeded {0} host calls")]
    HostCalls(u32),
    /// The maximum number of open handles was exceeded.
    #[error("it had more than {0} open handles")]
    Handles(usize),
    /// The transfer limit was exceeded. The value is the limit, in bytes.
    #[error("it passed more than {} MiB to the host in one call", .0 / (1024 * 1024))]
    Transfer(usize),
}

/// Returns the exceeded limit that caused `error`, or `None` if the error has another cause.
/// `max_transfer` is the transfer limit of the module, in bytes.
pub(crate) fn exceeded(error: &wasmtime::Error, max_transfer: usize) -> Option<Exceeded> {
    error.chain().find_map(|cause| {
        if let Some(exceeded) = cause.downcast_ref::<Exceeded>() {
            return Some(*exceeded);
        }
        if let Some(ResourceTableError::Full) = cause.downcast_ref() {
            return Some(Exceeded::Handles(MAX_HANDLES));
        }
        // Wasmtime has no error types for the next two limits, so their error messages are
        // compared.
        let message = cause.to_string();
        if message.ends_with("store handle limit exceeded") {
            return Some(Exceeded::Handles(MAX_HANDLES));
        }
        message
            .ends_with("fuel allocated for hostcalls has been exhausted")
            .then_some(Exceeded::Transfer(max_transfer))
    })
}

/// Returns whether an instantiation failed because the engine's pool has no free entry.
pub(crate) fn is_pool_full(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>()
        || error
            .chain()
            .any(<dyn std::error::Error>::is::<PoolConcurrencyLimitError>)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Notify;

    use wasmtime::component::{Component, Linker};
    use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

    use super::*;

    #[test]
    fn host_calls_above_the_limit_are_errors() {
        let mut calls = HostCalls::new(2);
        for hook in [
            CallHook::CallingHost,
            CallHook::ReturningFromHost,
            CallHook::CallingWasm,
            CallHook::CallingHost,
            CallHook::ReturningFromWasm,
        ] {
            assert!(calls.count(hook).is_ok(), "{hook:?}");
        }
        let error = calls.count(CallHook::CallingHost).unwrap_err();
        assert_eq!(exceeded(&error, 0), Some(Exceeded::HostCalls(2)));
    }

    #[tokio::test]
    async fn waiting_uses_no_cpu_time_and_computing_uses_it() {
        let limit = Duration::from_millis(50);
        let mut time = CpuTime::new(limit);
        let waiting = async {
            tokio::time::sleep(4 * limit).await;
            Ok(())
        };
        assert!(time.spend(waiting).await.is_ok());
        let computing = async {
            let until = thread_time() + 2 * limit;
            while thread_time() < until {}
            tokio::task::yield_now().await;
            pending::<wasmtime::Result<()>>().await
        };
        let error = time.spend(computing).await.unwrap_err();
        assert_eq!(exceeded(&error, 0), Some(Exceeded::CpuTime(limit)));
        // The limit stays exceeded.
        let again = time.spend(pending::<wasmtime::Result<()>>()).await;
        assert!(again.is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_run_while_a_long_request_computes() {
        let (started, done) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let long = tokio::spawn({
            let (started, done) = (Arc::clone(&started), Arc::clone(&done));
            async move {
                let mut time = CpuTime::new(Duration::from_mins(1));
                time.used = LONG;
                let computing = async {
                    started.notify_one();
                    let until = thread_time() + Duration::from_secs(20);
                    while !done.load(Ordering::Relaxed) && thread_time() < until {}
                    Ok((done.load(Ordering::Relaxed), ticks()))
                };
                time.spend(computing).await
            }
        });
        started.notified().await;
        // The only worker thread of the runtime is busy with the request.
        let other = tokio::spawn(async move { done.store(true, Ordering::Relaxed) });
        other.await.unwrap();
        assert_eq!(long.await.unwrap().unwrap(), (true, EXCLUSIVE_TICKS));
        assert_eq!(ticks(), 1);
    }

    #[test]
    fn an_instantiation_that_fails_because_the_pool_is_full_is_recognized() {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(1);
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).unwrap();
        let component = Component::new(&engine, b"\0asm\x0d\0\x01\0").unwrap();
        let linker = Linker::<()>::new(&engine);
        let mut stores = [Store::new(&engine, ()), Store::new(&engine, ())];
        assert!(linker.instantiate(&mut stores[0], &component).is_ok());
        let error = linker.instantiate(&mut stores[1], &component).unwrap_err();
        assert!(is_pool_full(&error), "{error:#}");
        assert!(!is_pool_full(&wasmtime::Error::msg("something else")));
    }
}
