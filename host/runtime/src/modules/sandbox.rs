//! A sandbox: a store with an instance. By default it is made for one request and dropped after it, so that no data of one request can reach another.
//! With `reuse` it serves several requests: all host state is replaced between them, and only the memory of the guest stays.

use std::time::Duration;

use latchmail_bindings::{Everything, EverythingPre};
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, ResourceLimiter, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::bounds::{self, HostCalls};
use crate::api::{self, Call};

/// The maximum size of the standard output and error of a guest, in bytes: the message of a panic and a little more.
const LARGEST_OUTPUT: usize = 64 * 1024;

/// The maximum number of random bytes of one call. They are made in the host's memory.
const LARGEST_RANDOM: u64 = 64 * 1024;

/// Maximum number of functions in a backtrace, and the maximum length of each in characters.
const MAX_FRAMES: usize = 32;
const LONGEST_FRAME: usize = 256;

/// The maximum number of requests of a reused sandbox. It limits leaks in the guest.
const MOST_REQUESTS: u32 = 1_000;

/// The data of a store: the state of the current call, and the WASI context without any access.
pub(crate) struct Sandbox {
    pub(crate) call: Call,
    wasi: WasiCtx,
    /// The resources of WASI. They are separate from those of the call, because the standard library may keep them for the lifetime of the
    /// sandbox.
    wasi_table: ResourceTable,
    limits: Limits,
    host_calls: HostCalls,
    output: MemoryOutputPipe,
    /// The length of the output of earlier requests.
    told: usize,
    /// The number of started requests.
    served: u32,
}

impl Sandbox {
    /// Returns whether the sandbox may serve another request after a successful one: the last request left no resources in the host, and enough
    /// memory and output space are left.
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

/// The limits of a sandbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The memory, in bytes.
    pub(crate) memory: usize,
    /// The CPU time of one request.
    pub(crate) cpu: Duration,
    /// The number of host calls of one request.
    pub(crate) host_calls: u32,
    /// The response body, in bytes, unless the body is a blob.
    pub(crate) response: usize,
    /// Whether it may respond with content that a browser runs.
    pub(crate) active_content: bool,
}

/// The limits on the memory and tables of a guest. A refused growth is recorded, because a guest without memory usually traps in a way that does not
/// show the cause.
struct Limits {
    memory: usize,
    refused: bool,
    /// The current size of the memory.
    held: usize,
    /// The size of the memory before the first request.
    initial: usize,
}

impl Limits {
    /// Returns whether at most half of the allowed growth is used.
    fn has_room(&self) -> bool {
        let grown = self.held.saturating_sub(self.initial);
        !self.refused && grown <= self.memory.saturating_sub(self.initial) / 2
    }
}

/// The maximum number of entries of a table. Some components have one for each function.
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
    /// Makes a fresh instance for `call`. The guest yields as often as [`bounds::ticks`] says. The caller measures its time.
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
            // Denied before a socket is created.
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
        // A handle counts once in the guest, and once more while it is lent to the host.
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

    /// Prepares a used instance for `call`.
    pub(crate) fn again(mut self, call: Call, budget: Budget) -> Self {
        let sandbox = self.store.data_mut();
        sandbox.call = call;
        sandbox.host_calls = HostCalls::new(budget.host_calls);
        sandbox.served += 1;
        self.store.set_epoch_deadline(1);
        self
    }

    /// Prepares the instance for idling after a successful request and removes all data of the caller. Returns the instance unchanged as an error
    /// if it may not serve again.
    pub(crate) fn rest(mut self, resting: impl FnOnce() -> Call) -> Result<Self, Self> {
        let sandbox = self.store.data_mut();
        if !sandbox.is_fit() {
            return Err(self);
        }
        sandbox.call = resting();
        sandbox.told = sandbox.output.contents().len();
        Ok(self)
    }
}

/// Returns the reason of a trap for the log: a short description of a usual reason, and the end of the guest's output, such as the message of a
/// panic.
pub(crate) fn trap(store: &Store<Sandbox>, error: &wasmtime::Error) -> String {
    let sandbox = store.data();
    let causes = || error.chain();
    let how = if let Some(exceeded) = bounds::exceeded(error, store.hostcall_fuel()) {
        exceeded.to_string()
    } else {
        match causes().find_map(|e| e.downcast_ref::<Trap>()) {
            Some(Trap::StackOverflow) => "it exceeded its stack".into(),
            Some(Trap::UnreachableCodeReached) if sandbox.limits.refused => format!(
                "it exceeded its memory of {} MiB",
                sandbox.limits.memory / (1024 * 1024)
            ),
            Some(Trap::UnreachableCodeReached) => "it aborted".into(),
            Some(trap) => trap.to_string(),
            // The error of a host function, without the frames of the guest.
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

/// Returns what the guest wrote to its standard output and error in this request, as one line for the log. Returns `None` if the guest wrote nothing.
pub(crate) fn written(store: &Store<Sandbox>) -> Option<String> {
    let sandbox = store.data();
    let output = sandbox.output.contents();
    let written = String::from_utf8_lossy(output.get(sandbox.told..).unwrap_or_default());
    let written = written.trim();
    (!written.is_empty()).then(|| api::bounded(written))
}
