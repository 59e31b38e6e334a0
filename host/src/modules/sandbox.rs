//! One sandbox: a store with an instance. It is made for one request and dropped after it, so that no byte of one request can reach another, unless the
//! operator lets its module keep it: then it serves the next request with everything of the host's made new, and only the guest's own memory is kept.

use std::time::Duration;

use latchmail_bindings::{Everything, EverythingPre};
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, ResourceLimiter, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::bounds::{self, HostCalls};
use crate::api::{self, Call};

/// What a guest may write to its standard error in one call: a panic's message and a little more.
const LARGEST_OUTPUT: usize = 64 * 1024;

/// Random bytes that a guest may ask for at once: they are made in the host's memory.
const LARGEST_RANDOM: u64 = 64 * 1024;

/// Maximum number of functions in a backtrace, and the maximum length of each in characters.
const MAX_FRAMES: usize = 32;
const LONGEST_FRAME: usize = 256;

/// Requests that a sandbox serves at most, where it may serve several: what a guest forgets to free does not grow for ever.
const MOST_REQUESTS: u32 = 1_000;

/// What the store holds: the call at hand, and the empty world that a standard library expects.
pub(crate) struct Sandbox {
    pub(crate) call: Call,
    wasi: WasiCtx,
    /// The standard library's own resources. Apart from the call's, because it may keep them for as long as there is the sandbox.
    wasi_table: ResourceTable,
    limits: Limits,
    host_calls: HostCalls,
    output: MemoryOutputPipe,
    /// How much of the output is of earlier requests.
    told: usize,
    /// Requests that were begun.
    served: u32,
}

impl Sandbox {
    /// Whether it may serve another request after one that ended well: it holds nothing of that request's in the host, and has room left.
    fn is_fit(&self) -> bool {
        self.served < MOST_REQUESTS
            && self.limits.has_room()
            && self.output.contents().len() <= LARGEST_OUTPUT / 2
            && self.call.table.is_empty()
    }
}

impl WasiView for Sandbox {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.wasi_table,
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
    /// Whether it may respond with content that a browser runs.
    pub(crate) active_content: bool,
}

/// What a guest's memory and tables may grow to. What goes beyond is refused, and remembered: a guest that gets no memory most often ends itself
/// in a way that does not tell why.
struct Limits {
    memory: usize,
    refused: bool,
    /// What it has.
    held: usize,
    /// What it had before its first request.
    initial: usize,
}

impl Limits {
    /// Whether half of what it may grow by is left.
    fn has_room(&self) -> bool {
        let grown = self.held.saturating_sub(self.initial);
        !self.refused && grown <= self.memory.saturating_sub(self.initial) / 2
    }
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
        if fits {
            self.held = self.held.max(desired);
        }
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

/// An instance in a store of its own.
pub(crate) struct Instance {
    pub(crate) store: Store<Sandbox>,
    pub(crate) guest: Everything,
}

impl Instance {
    /// A fresh one, for `call`. It yields as often as [`bounds::ticks`] says: whoever runs it keeps its time.
    pub(crate) async fn make(
        engine: &Engine,
        pre: &EverythingPre<Sandbox>,
        call: Call,
        budget: Budget,
    ) -> wasmtime::Result<Self> {
        let output = MemoryOutputPipe::new(LARGEST_OUTPUT);
        let wasi = WasiCtx::builder()
            .stdout(output.clone())
            .stderr(output.clone())
            .max_random_size(LARGEST_RANDOM)
            // Refused before the system is asked for a socket.
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(api::MOST_HANDLES);
        let limits = Limits {
            memory: budget.memory,
            refused: false,
            held: 0,
            initial: 0,
        };
        let mut store = Store::new(
            engine,
            Sandbox {
                call,
                wasi,
                wasi_table,
                limits,
                host_calls: HostCalls::new(budget.host_calls),
                output,
                told: 0,
                served: 1,
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
                bounds::ticks(),
                Box::pin(tokio::task::yield_now()),
            ))
        });
        let guest = pre.instantiate_async(&mut store).await?;
        let limits = &mut store.data_mut().limits;
        limits.initial = limits.held;
        Ok(Self { store, guest })
    }

    /// One that has served before, for `call`.
    pub(crate) fn again(mut self, call: Call, budget: Budget) -> Self {
        let sandbox = self.store.data_mut();
        sandbox.call = call;
        sandbox.host_calls = HostCalls::new(budget.host_calls);
        sandbox.served += 1;
        self.store.set_epoch_deadline(1);
        self
    }

    /// After a request that ended well: the same for another one, holding nothing of this one's caller; as it was where it is not fit to serve again.
    pub(crate) fn rest(mut self, nobody: impl FnOnce() -> Call) -> Result<Self, Self> {
        let sandbox = self.store.data_mut();
        if !sandbox.is_fit() {
            return Err(self);
        }
        sandbox.call = nobody();
        sandbox.told = sandbox.output.contents().len();
        Ok(self)
    }
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

/// Returns the functions of the guest that were active at a trap, the innermost first.
pub(crate) fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else {
        return Vec::new();
    };
    // The first line is a heading, and each line starts with the number of its frame.
    let trace = trace.to_string();
    let frames = trace.lines().skip(1).take(MAX_FRAMES);
    frames
        .map(|line| {
            let frame = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
            let frame = frame.strip_prefix(": ").unwrap_or(frame).trim();
            api::bounded(frame).chars().take(LONGEST_FRAME).collect()
        })
        .collect()
}

/// What the guest wrote to its standard output and error in this request, fit for one line of the log; none where it wrote nothing.
pub(crate) fn written(store: &Store<Sandbox>) -> Option<String> {
    let sandbox = store.data();
    let output = sandbox.output.contents();
    let written = String::from_utf8_lossy(output.get(sandbox.told..).unwrap_or_default());
    let written = written.trim();
    (!written.is_empty()).then(|| api::bounded(written))
}
