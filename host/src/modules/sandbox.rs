//! One sandbox: a store with a fresh instance, made for one request and dropped after it, so that no byte of one request can reach another.

use std::time::Duration;

use latchmail_bindings::{Everything, EverythingPre};
use wasmtime::{Engine, ResourceLimiter, Store, Trap, UpdateDeadline};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::bounds::{self, HostCalls};
use crate::api::{self, Call};

/// What a guest may write to its standard error in one call: a panic's message and a little more.
const LARGEST_OUTPUT: usize = 64 * 1024;

/// Random bytes that a guest may ask for at once: they are made in the host's memory.
const LARGEST_RANDOM: u64 = 64 * 1024;

/// What the store holds: the call at hand, and the empty world that a standard library expects.
pub(crate) struct Sandbox {
    pub(crate) call: Call,
    wasi: WasiCtx,
    limits: Limits,
    host_calls: HostCalls,
    output: MemoryOutputPipe,
}

impl WasiView for Sandbox {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.call.table,
        }
    }
}

/// How much a sandbox may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Its memory, in bytes.
    pub(crate) memory: usize,
    /// Its time on the CPU.
    pub(crate) cpu: Duration,
    /// What it may ask of the host.
    pub(crate) host_calls: u32,
    /// The body of its answer, in bytes of its own.
    pub(crate) response: usize,
}

/// What a guest's memory and tables may grow to. What goes beyond is refused, and remembered: a guest that gets no memory most often ends itself
/// in a way that does not tell why.
struct Limits {
    memory: usize,
    refused: bool,
}

/// Entries of a table: some have one for every function of theirs.
const LARGEST_TABLE: usize = 100_000;

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired <= self.memory;
        self.refused |= !fits;
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= LARGEST_TABLE)
    }
}

/// A fresh instance in a store of its own. It yields at every tick of the engine: whoever runs it keeps its time.
pub(crate) async fn instantiate(
    engine: &Engine,
    pre: &EverythingPre<Sandbox>,
    call: Call,
    budget: Budget,
) -> wasmtime::Result<(Store<Sandbox>, Everything)> {
    let output = MemoryOutputPipe::new(LARGEST_OUTPUT);
    let wasi = WasiCtx::builder()
        .stdout(output.clone())
        .stderr(output.clone())
        .max_random_size(LARGEST_RANDOM)
        .build();
    let limits = Limits {
        memory: budget.memory,
        refused: false,
    };
    let mut store = Store::new(
        engine,
        Sandbox {
            call,
            wasi,
            limits,
            host_calls: HostCalls::new(budget.host_calls),
            output,
        },
    );
    store.limiter(|sandbox| &mut sandbox.limits);
    store.set_hostcall_fuel(bounds::handover(budget.response));
    // Each counts where the guest has it, and once more while it is lent to the host.
    store.set_max_component_handles(2 * api::MOST_HANDLES);
    store.call_hook(|mut store, hook| store.data_mut().host_calls.count(hook));
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| {
        Ok(UpdateDeadline::YieldCustom(
            1,
            Box::pin(tokio::task::yield_now()),
        ))
    });
    let instance = pre.instantiate_async(&mut store).await?;
    Ok((store, instance))
}

/// How a call ended that had no answer, for the log: in words where it is one of the usual ways, and the last of what the guest wrote (a panic's
/// message).
pub(crate) fn trap(store: &Store<Sandbox>, error: &wasmtime::Error) -> String {
    let sandbox = store.data();
    let causes = || error.chain();
    let how = if let Some(exceeded) = bounds::exceeded(error, store.hostcall_fuel()) {
        exceeded.to_string()
    } else {
        match causes().find_map(|e| e.downcast_ref::<Trap>()) {
            Some(Trap::StackOverflow) => "it used up its stack".into(),
            Some(Trap::UnreachableCodeReached) if sandbox.limits.refused => format!(
                "it used up its memory of {} MiB",
                sandbox.limits.memory / (1024 * 1024)
            ),
            Some(Trap::UnreachableCodeReached) => "it gave up".into(),
            Some(trap) => trap.to_string(),
            // What the host says of a call that it would not take; without the guest's frames.
            None => error.root_cause().to_string(),
        }
    };
    match written(store) {
        Some(written) => format!("{how}; it wrote: {written}"),
        None => how,
    }
}

/// What the guest wrote to its standard output and error, fit for one line of the log; none where it wrote nothing.
pub(crate) fn written(store: &Store<Sandbox>) -> Option<String> {
    let output = store.data().output.contents();
    let written = String::from_utf8_lossy(&output);
    let written = written.trim();
    (!written.is_empty()).then(|| api::bounded(written))
}
