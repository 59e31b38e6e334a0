//! One sandbox: a store with a fresh instance, made for one request and dropped after it, so that no byte of one request can reach another.

use std::time::Duration;

use latchmail_bindings::{Everything, EverythingPre};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder, UpdateDeadline};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::engine::TICK;
use crate::api::{self, Call};

/// What a guest may write to its standard error in one call: a panic's message and a little more.
const LARGEST_OUTPUT: usize = 64 * 1024;

/// What a guest may hand over to the host in all arguments of one host call, or in its answer, in bytes of its own memory.
const LARGEST_HANDOVER: usize = 16 * 1024 * 1024;

/// Random bytes that a guest may ask for at once: they are made in the host's memory.
const LARGEST_RANDOM: u64 = 64 * 1024;

/// What the store holds: the call at hand, and the empty world that a standard library expects.
pub(crate) struct Sandbox {
    pub(crate) call: Call,
    wasi: WasiCtx,
    limits: StoreLimits,
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
}

/// A fresh instance in a store of its own.
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
    let limits = StoreLimitsBuilder::new()
        .memory_size(budget.memory)
        .trap_on_grow_failure(false)
        .build();
    let mut store = Store::new(
        engine,
        Sandbox {
            call,
            wasi,
            limits,
            output,
        },
    );
    store.limiter(|sandbox| &mut sandbox.limits);
    store.set_hostcall_fuel(LARGEST_HANDOVER);
    let mut ticks = budget.cpu.as_millis().div_ceil(TICK.as_millis());
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        if ticks == 0 {
            return Err(wasmtime::Error::msg("its CPU budget is exhausted"));
        }
        ticks -= 1;
        Ok(UpdateDeadline::YieldCustom(
            1,
            Box::pin(tokio::task::yield_now()),
        ))
    });
    let instance = pre.instantiate_async(&mut store).await?;
    Ok((store, instance))
}

/// What is known of a trap: the sandbox's word, and the last of what the guest wrote (a panic's message).
pub(crate) fn trap(store: &Store<Sandbox>, error: &wasmtime::Error) -> String {
    match written(store) {
        Some(written) => format!("{error:#}; it wrote: {written}"),
        None => format!("{error:#}"),
    }
}

/// What the guest wrote to its standard output and error, fit for one line of the log; none where it wrote nothing.
pub(crate) fn written(store: &Store<Sandbox>) -> Option<String> {
    let output = store.data().output.contents();
    let written = String::from_utf8_lossy(&output);
    let written = written.trim();
    (!written.is_empty()).then(|| api::bounded(written))
}
