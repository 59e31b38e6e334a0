//! A sandbox: a store with one instance. By default, a sandbox serves one request and is then dropped, so one request cannot read data of another. With
//! `reuse`, a sandbox serves several requests: all state in the host is replaced between them, and only the memory of the guest stays.

use std::time::Duration;

use latchmail_bindings::{Everything, EverythingPre};
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, ResourceLimiter, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::limits::{self, HostCalls};
use crate::api::{Call, MAX_HANDLES};
use crate::log_line::to_log_line;

/// The maximum size of the standard output and error of a guest, in bytes. This is enough for the message of a panic.
const MAX_OUTPUT: usize = 64 * 1024;

/// The maximum number of random bytes that a guest gets in one call. The host creates them in its own memory.
const MAX_RANDOM: u64 = 64 * 1024;

/// The maximum number of functions in a backtrace, and the maximum length of each in characters.
const MAX_FRAMES: usize = 32;
const MAX_FRAME_LENGTH: usize = 256;

/// The maximum number of requests that a reused sandbox serves. This limits memory leaks of the guest.
const MAX_REQUESTS: u32 = 1_000;

/// The data of a store: the state of the current call, and the WASI context without any access.
pub(crate) struct Sandbox {
    pub(crate) call: Call,
    wasi: WasiCtx,
    /// The resources of WASI. They are not in the table of the call, because the standard library may keep them as long as the sandbox exists.
    wasi_table: ResourceTable,
    limits: Limits,
    host_calls: HostCalls,
    output: MemoryOutputPipe,
    /// The length of the output of earlier requests, in bytes.
    earlier_output: usize,
    /// The number of started requests.
    served: u32,
}

impl Sandbox {
    /// Returns whether the sandbox can serve another request after a successful one: the last request left no resources in the host, and enough memory and
    /// output space are left.
    fn is_reusable(&self) -> bool {
        self.served < MAX_REQUESTS
            && self.limits.has_free_memory()
            && self.output.contents().len() <= MAX_OUTPUT / 2
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
    /// Whether the response may have content that a browser runs.
    pub(crate) active_content: bool,
}

/// The limits on the memory and tables of a guest.
struct Limits {
    /// The maximum size of the memory, in bytes.
    memory: usize,
    /// Whether the guest was denied more memory. It usually traps then, and the trap does not show the cause.
    was_denied: bool,
    /// The current size of the memory, in bytes.
    current: usize,
    /// The size of the memory before the first request, in bytes.
    initial: usize,
}

impl Limits {
    /// Returns whether the guest has used at most half of the memory that it may add to its initial memory.
    fn has_free_memory(&self) -> bool {
        let grown = self.current.saturating_sub(self.initial);
        !self.was_denied && grown <= self.memory.saturating_sub(self.initial) / 2
    }
}

/// The maximum number of entries of a table. Some components have one entry for each function.
const MAX_TABLE: usize = 100_000;

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired <= self.memory;
        self.was_denied |= !fits;
        if fits {
            self.current = self.current.max(desired);
        }
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE)
    }
}

/// An instance with its own store.
pub(crate) struct Instance {
    pub(crate) store: Store<Sandbox>,
    pub(crate) guest: Everything,
}

impl Instance {
    /// Creates an instance for `call`. The caller limits the CPU time and the wall-clock time of the guest.
    pub(crate) async fn new(
        engine: &Engine,
        pre: &EverythingPre<Sandbox>,
        call: Call,
        budget: Budget,
    ) -> wasmtime::Result<Self> {
        let output = MemoryOutputPipe::new(MAX_OUTPUT);
        let wasi = WasiCtx::builder()
            .stdout(output.clone())
            .stderr(output.clone())
            .max_random_size(MAX_RANDOM)
            // Without this, a guest can create sockets, although it cannot connect them.
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(MAX_HANDLES);
        let limits = Limits {
            memory: budget.memory,
            was_denied: false,
            current: 0,
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
                earlier_output: 0,
                served: 1,
            },
        );
        store.limiter(|sandbox| &mut sandbox.limits);
        store.set_hostcall_fuel(limits::max_transfer(budget.response));
        // A handle counts twice while the guest lends it to the host.
        store.set_max_component_handles(2 * MAX_HANDLES);
        store.call_hook(|mut store, hook| store.data_mut().host_calls.count(hook));
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|_| {
            Ok(UpdateDeadline::YieldCustom(
                limits::ticks(),
                Box::pin(tokio::task::yield_now()),
            ))
        });
        let guest = pre.instantiate_async(&mut store).await?;
        let limits = &mut store.data_mut().limits;
        limits.initial = limits.current;
        Ok(Self { store, guest })
    }

    /// Prepares an idle instance for the request of `call`.
    pub(crate) fn reuse(mut self, call: Call, budget: Budget) -> Self {
        let sandbox = self.store.data_mut();
        sandbox.call = call;
        sandbox.host_calls = HostCalls::new(budget.host_calls);
        sandbox.served += 1;
        self.store.set_epoch_deadline(1);
        self
    }

    /// Removes all data of the caller after a successful request, so that the instance can be idle. `idle_call` creates the call state that replaces the
    /// state of the request. Returns the instance unchanged as an error if it cannot serve another request.
    pub(crate) fn into_idle(mut self, idle_call: impl FnOnce() -> Call) -> Result<Self, Self> {
        let sandbox = self.store.data_mut();
        if !sandbox.is_reusable() {
            return Err(self);
        }
        sandbox.call = idle_call();
        sandbox.earlier_output = sandbox.output.contents().len();
        Ok(self)
    }
}

/// Returns the reason of a trap for the log, followed by the output of the guest, such as the message of a panic.
pub(crate) fn trap_reason(store: &Store<Sandbox>, error: &wasmtime::Error) -> String {
    let sandbox = store.data();
    let reason = if let Some(exceeded) = limits::exceeded(error, store.hostcall_fuel()) {
        exceeded.to_string()
    } else {
        match error.chain().find_map(|e| e.downcast_ref::<Trap>()) {
            Some(Trap::StackOverflow) => "it exceeded its stack".into(),
            Some(Trap::UnreachableCodeReached) if sandbox.limits.was_denied => format!(
                "it exceeded its memory of {} MiB",
                sandbox.limits.memory / (1024 * 1024)
            ),
            Some(Trap::UnreachableCodeReached) => "it aborted".into(),
            Some(trap) => trap.to_string(),
            // An error of a host function. The root cause does not contain the frames of the guest.
            None => error.root_cause().to_string(),
        }
    };
    match output(store) {
        Some(output) => format!("{reason}; it wrote: {output}"),
        None => reason,
    }
}

/// Returns the functions of the guest that were active at a trap, the innermost first.
pub(crate) fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else {
        return Vec::new();
    };
    // The first line is a heading. Each other line starts with the number of its frame.
    let trace = trace.to_string();
    let frames = trace.lines().skip(1).take(MAX_FRAMES);
    frames
        .map(|line| {
            let frame = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
            let frame = frame.strip_prefix(": ").unwrap_or(frame).trim();
            to_log_line(frame).chars().take(MAX_FRAME_LENGTH).collect()
        })
        .collect()
}

/// Returns what the guest wrote to its standard output and error in this request, as one line for the log. Returns `None` if the guest wrote nothing.
pub(crate) fn output(store: &Store<Sandbox>) -> Option<String> {
    let sandbox = store.data();
    let output = sandbox.output.contents();
    let recent = String::from_utf8_lossy(output.get(sandbox.earlier_output..).unwrap_or_default());
    let recent = recent.trim();
    (!recent.is_empty()).then(|| to_log_line(recent))
}
