//! Limits of one request of a guest: host calls, size of passed values, handles, and CPU time. The CPU time includes the time of host functions. The
//! memory limit is in [`super::sandbox`], the wall-clock limit in [`super::call`].

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use latchmail_core::cpu::{ChargedTime, thread_time};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use wasmtime::component::ResourceTableError;
use wasmtime::{CallHook, PoolConcurrencyLimitError};

use super::engine::Runs;
use crate::api::MOST_HANDLES;

/// The minimum limit on the size of the values that a guest passes to the host at once: the arguments of a call, a manifest.
const LEAST_HANDOVER: usize = 16 * 1024 * 1024;

/// The CPU time above which a request is long: about ten times that of a usual request.
const LONG: Duration = Duration::from_millis(1);

/// Engine ticks between two yields of a long request, which runs with its thread to itself. No other task waits for that thread, and resuming a guest
/// has a cost.
const APART_TICKS: u64 = 5;

thread_local! {
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// While this value exists, no other task waits for the current thread.
struct Apart {
    before: bool,
}

impl Apart {
    fn begin() -> Self {
        Self {
            before: APART.replace(true),
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        APART.set(self.before);
    }
}

/// Returns the number of engine ticks until the guest on this thread yields again.
pub(crate) fn ticks() -> u64 {
    if APART.get() { APART_TICKS } else { 1 }
}

/// The size allowed for the rest of a response, in bytes.
const BESIDE_THE_BODY: usize = 1024 * 1024;

/// Returns the limit on the size of the values that a guest passes at once, from the limit on its response body.
pub(crate) fn handover(response: usize) -> usize {
    LEAST_HANDOVER.max(response.saturating_add(BESIDE_THE_BODY))
}

/// The number of host calls that are left in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCalls {
    most: u32,
    left: u32,
}

impl HostCalls {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, left: most }
    }

    /// Counts a call if `hook` reports that the guest calls the host.
    pub(crate) fn count(&mut self, hook: CallHook) -> wasmtime::Result<()> {
        if matches!(hook, CallHook::CallingHost) {
            self.left = self
                .left
                .checked_sub(1)
                .ok_or(Exceeded::HostCalls(self.most))?;
        }
        Ok(())
    }
}

/// The CPU time of one request, measured with the clock of the thread. Waiting for a busy machine does not count; the work of host functions does.
/// The limit is checked whenever the guest yields, which is at every engine tick or every few ticks.
#[derive(Debug)]
pub(crate) struct CpuTime {
    most: Duration,
    taken: Duration,
    charged: ChargedTime,
}

impl CpuTime {
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            most,
            taken: Duration::ZERO,
            charged: ChargedTime::default(),
        }
    }

    /// Runs `does`. If the request has used much CPU time, another thread takes over the tasks of this thread. The operating system then
    /// schedules the two threads, and no task waits for the guest to yield.
    pub(crate) fn apart<T>(&self, does: impl FnOnce() -> T) -> T {
        if self.taken >= LONG && has_others() {
            block_in_place(|| {
                let _apart = Apart::begin();
                does()
            })
        } else {
            does()
        }
    }

    /// Runs a future of the request until it is ready or the CPU time is used up.
    pub(crate) fn spend<T>(
        &mut self,
        future: impl Future<Output = wasmtime::Result<T>>,
    ) -> impl Future<Output = wasmtime::Result<T>> {
        // On the heap, because the future is large and the futures that await it would contain it.
        let mut future = Box::pin(future);
        poll_fn(move |context| {
            let _runs = Runs::begin();
            let before = thread_time();
            let polled = self.apart(|| self.charged.scope(|| future.as_mut().poll(context)));
            self.taken += thread_time().saturating_sub(before) + self.charged.collect();
            if polled.is_pending() && self.taken >= self.most {
                return Poll::Ready(Err(Exceeded::CpuTime(self.most).into()));
            }
            polled
        })
    }
}

/// Returns whether the runtime has several threads. Only then can another thread take over tasks.
fn has_others() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The exceeded limit of a guest that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Exceeded {
    /// The CPU time.
    #[error("it exceeded its CPU time of {} s", .0.as_secs_f64())]
    CpuTime(Duration),
    /// The number of host calls.
    #[error("it exceeded {0} host calls")]
    HostCalls(u32),
    /// The number of handles.
    #[error("it held more than {0} handles")]
    Handles(usize),
    /// The size of values passed at once, in bytes.
    #[error("it passed more than {} MiB to the host at once", .0 / (1024 * 1024))]
    Handover(usize),
}

/// Returns the exceeded limit that caused `error`, if a limit did. `handover` is the limit on the size of values passed at once.
pub(crate) fn exceeded(error: &wasmtime::Error, handover: usize) -> Option<Exceeded> {
    error.chain().find_map(|cause| {
        if let Some(exceeded) = cause.downcast_ref::<Exceeded>() {
            return Some(*exceeded);
        }
        if let Some(ResourceTableError::Full) = cause.downcast_ref() {
            return Some(Exceeded::Handles(MOST_HANDLES));
        }
        // Wasmtime has no error types for these, so their texts are compared.
        let said = cause.to_string();
        if said.ends_with("store handle limit exceeded") {
            return Some(Exceeded::Handles(MOST_HANDLES));
        }
        said.ends_with("fuel allocated for hostcalls has been exhausted")
            .then_some(Exceeded::Handover(handover))
    })
}

/// Returns whether the instantiation failed because the pool is full.
pub(crate) fn no_room(error: &wasmtime::Error) -> bool {
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
    fn what_a_guest_asks_of_the_host_is_counted_and_ends_at_its_bound() {
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
    async fn waiting_takes_no_cpu_time_and_working_does() {
        let most = Duration::from_millis(50);
        let mut time = CpuTime::new(most);
        let waits = async {
            tokio::time::sleep(4 * most).await;
            Ok(())
        };
        assert!(time.spend(waits).await.is_ok());
        let works = async {
            let until = thread_time() + 2 * most;
            while thread_time() < until {}
            tokio::task::yield_now().await;
            pending::<wasmtime::Result<()>>().await
        };
        let error = time.spend(works).await.unwrap_err();
        assert_eq!(exceeded(&error, 0), Some(Exceeded::CpuTime(most)));
        // The CPU time does not become available again.
        let again = time.spend(pending::<wasmtime::Result<()>>()).await;
        assert!(again.is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn who_works_for_long_leaves_its_thread_to_others() {
        let (begun, done) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let works = tokio::spawn({
            let (begun, done) = (Arc::clone(&begun), Arc::clone(&done));
            async move {
                let mut time = CpuTime::new(Duration::from_mins(1));
                time.taken = LONG;
                let waits_busily = async {
                    begun.notify_one();
                    let until = thread_time() + Duration::from_secs(20);
                    while !done.load(Ordering::Relaxed) && thread_time() < until {}
                    Ok((done.load(Ordering::Relaxed), ticks()))
                };
                time.spend(waits_busily).await
            }
        });
        begun.notified().await;
        // The only worker thread of the runtime is busy.
        let other = tokio::spawn(async move { done.store(true, Ordering::Relaxed) });
        other.await.unwrap();
        assert_eq!(works.await.unwrap().unwrap(), (true, APART_TICKS));
        assert_eq!(ticks(), 1);
    }

    #[test]
    fn an_instance_that_there_is_no_room_for_is_told_from_one_that_cannot_be() {
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
        assert!(no_room(&error), "{error:#}");
        assert!(!no_room(&wasmtime::Error::msg("something else")));
    }
}
