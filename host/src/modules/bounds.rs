//! What a guest may ask of its host and hand to it in one request, and how much CPU time it may take: its own and what the host takes for it.
//! Its memory is bounded in [`super::sandbox`], its wall-clock time in [`super::call`].

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;
use wasmtime::component::ResourceTableError;
use wasmtime::{CallHook, PoolConcurrencyLimitError};

use super::engine::Runs;
use crate::api::MOST_HANDLES;
use crate::cpu::{Elsewhere, thread_time};

/// The least of the host's memory that what a guest hands over at once may take: the arguments of a call, a manifest.
const LEAST_HANDOVER: usize = 16 * 1024 * 1024;

/// The CPU time from which on a request counts as long: some ten times what a usual one takes.
const LONG: Duration = Duration::from_millis(1);

/// Ticks of the engine between two looks at the CPU time of a request that works apart from the others: nobody waits for it to give way, and to be taken
/// up again costs more than to go on.
const APART_TICKS: u64 = 5;

thread_local! {
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// As long as there is this, what runs on the thread runs apart.
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

/// After how many ticks of the engine the guest that runs on this thread is to give way.
pub(crate) fn ticks() -> u64 {
    if APART.get() { APART_TICKS } else { 1 }
}

/// What an answer has beside its body.
const BESIDE_THE_BODY: usize = 1024 * 1024;

/// What a guest may hand over at once, where the body of its answer may have so many bytes.
pub(crate) fn handover(response: usize) -> usize {
    LEAST_HANDOVER.max(response.saturating_add(BESIDE_THE_BODY))
}

/// What a guest may still ask of its host in the request at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCalls {
    most: u32,
    left: u32,
}

impl HostCalls {
    pub(crate) fn new(most: u32) -> Self {
        Self { most, left: most }
    }

    /// Counts one where `hook` says that the guest asks for something.
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

/// The CPU time of one request. It is the thread's own clock that tells it, so that a busy machine costs a guest nothing, and what the host does for it
/// does; it is looked at whenever the guest yields, which it does at every tick of the engine, or every few.
#[derive(Debug)]
pub(crate) struct CpuTime {
    most: Duration,
    taken: Duration,
    elsewhere: Elsewhere,
}

impl CpuTime {
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            most,
            taken: Duration::ZERO,
            elsewhere: Elsewhere::default(),
        }
    }

    /// Does something of the request's. Where the request has worked for long, another thread takes over what waits for this one: the system then shares
    /// the CPU between them as between any two programs, and nobody waits until a guest gives way.
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

    /// Runs what is done for the request, as long as there is time left.
    pub(crate) fn spend<T>(
        &mut self,
        future: impl Future<Output = wasmtime::Result<T>>,
    ) -> impl Future<Output = wasmtime::Result<T>> {
        // On the heap: it is large, and would be moved about as part of those that wait for it.
        let mut future = Box::pin(future);
        poll_fn(move |context| {
            let _runs = Runs::begin();
            let before = thread_time();
            let polled = self.apart(|| self.elsewhere.scope(|| future.as_mut().poll(context)));
            self.taken += thread_time().saturating_sub(before) + self.elsewhere.collect();
            if polled.is_pending() && self.taken >= self.most {
                return Poll::Ready(Err(Exceeded::CpuTime(self.most).into()));
            }
            polled
        })
    }
}

/// Whether the thread is one of several that take turns at what there is to do: only there others can take over what this one leaves.
fn has_others() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Why a guest was ended that did nothing wrong but took too much.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Exceeded {
    /// Of the CPU.
    #[error("it used up its CPU time of {} s", .0.as_secs_f64())]
    CpuTime(Duration),
    /// Of the host's answers.
    #[error("it asked more than {0} things of the host")]
    HostCalls(u32),
    /// Of the host's resources.
    #[error("it held more than {0} handles")]
    Handles(usize),
    /// Of the host's memory.
    #[error("it handed over more than {} MiB at once", .0 / (1024 * 1024))]
    Handover(usize),
}

/// The bound that `error` is about, where it is about one; `handover` is what could be handed over.
pub(crate) fn exceeded(error: &wasmtime::Error, handover: usize) -> Option<Exceeded> {
    error.chain().find_map(|cause| {
        if let Some(exceeded) = cause.downcast_ref::<Exceeded>() {
            return Some(*exceeded);
        }
        if let Some(ResourceTableError::Full) = cause.downcast_ref() {
            return Some(Exceeded::Handles(MOST_HANDLES));
        }
        // These have no types of their own that could be asked for.
        let said = cause.to_string();
        if said.ends_with("store handle limit exceeded") {
            return Some(Exceeded::Handles(MOST_HANDLES));
        }
        said.ends_with("fuel allocated for hostcalls has been exhausted")
            .then_some(Exceeded::Handover(handover))
    })
}

/// Whether no instance could be made because all that there may be are at work, which is nobody's fault.
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
        // Used up is used up.
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
        // The only other thread there is for tasks is at work.
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
