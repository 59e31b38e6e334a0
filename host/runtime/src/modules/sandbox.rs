//! A sandbox is a Wasmtime store with one instance. By default, a sandbox is dropped after one
//! request, so that a request cannot read the data of another request. With the setting `reuse`, a
//! sandbox serves several requests. Between two requests, the host replaces the state that the host
//! stores for the sandbox. The guest's memory stays unchanged.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::metrics::GaugeSeries;
use tokio::time::sleep;
use wasmtime::component::ResourceTable;
use wasmtime::{CallHook, Engine, ResourceLimiter, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use super::limits::{self, HostCalls};
use super::linked::{Guest, Linked};
use super::module_metrics::ModuleMetrics;
use crate::api::{Call, MAX_HANDLES, OutgoingHttp};
use crate::log_line::to_log_line;

/// The maximum total size of the standard output and the standard error of a guest, in bytes. This
/// size is sufficient for the message of a panic.
const MAX_OUTPUT: usize = 64 * 1024;

/// The maximum number of random bytes that a guest can request in one call. The host creates these
/// bytes in its own memory.
const MAX_RANDOM: u64 = 64 * 1024;

/// The maximum size of a set of headers that a standard component creates, in bytes. A component
/// can have many sets.
const MAX_FIELDS: usize = 32 * 1024;

/// The maximum number of functions in a backtrace, and the maximum number of characters of a
/// function's name.
const MAX_FRAMES: usize = 32;
const MAX_FRAME_LENGTH: usize = 256;

/// The maximum number of requests that a reused sandbox serves. The maximum limits the effect of
/// memory leaks in the guest.
const MAX_REQUESTS: u32 = 1_000;

/// The data of a Wasmtime store. It contains the state of the current call, and a WASI context
/// without access to the system.
pub(crate) struct Sandbox {
    pub(crate) call: Call,
    wasi: WasiCtx,
    /// The resources of WASI. They are not in the table of `call`, because the guest's standard
    /// library can use them until the sandbox is dropped.
    wasi_table: ResourceTable,
    /// The state of `wasi:http`, and the client for outgoing requests. Only standard components use
    /// them.
    http: WasiHttpCtx,
    outgoing: Option<OutgoingHttp>,
    limits: Limits,
    host_calls: HostCalls,
    /// The metrics of the module. `None` for a component that is examined.
    metrics: Option<Arc<ModuleMetrics>>,
    output: MemoryOutputPipe,
    /// The size of the output of earlier requests, in bytes.
    earlier_output: usize,
    /// The number of requests that the sandbox has started to serve.
    served: u32,
}

impl Sandbox {
    /// Counts a host call. Does nothing if `hook` reports another transition between guest and
    /// host.
    fn count_host_call(&mut self, hook: CallHook) -> wasmtime::Result<()> {
        if let (CallHook::CallingHost, Some(metrics)) = (&hook, &self.metrics) {
            metrics.host_calls.inc();
        }
        self.host_calls.count(hook)
    }

    /// Returns whether the sandbox can serve another request after a successful request. The
    /// successful request must have released all host resources. The sandbox must have enough free
    /// memory and free space for output.
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

impl WasiHttpView for Sandbox {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let call = &self.call;
        WasiHttpCtxView {
            hooks: self.outgoing.get_or_insert_with(|| OutgoingHttp::new(call)),
            table: &mut self.wasi_table,
            ctx: &mut self.http,
        }
    }
}

/// The limits of a sandbox, from the policy of the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The maximum memory, in bytes.
    pub(crate) memory: usize,
    /// The maximum CPU time of one request.
    pub(crate) cpu: Duration,
    /// The maximum number of host calls of one request.
    pub(crate) host_calls: u32,
    /// The maximum size of a response body that is not a blob, in bytes.
    pub(crate) response: usize,
    /// Whether responses are allowed to contain content that a browser can run.
    pub(crate) active_content: bool,
    /// Whether the guest pauses regularly after it has used much CPU time, so that it does not
    /// delay requests. Handlers do.
    pub(crate) pauses: bool,
}

/// The pause of a guest after each tick of the engine. A guest that pauses uses at most a fifth of
/// a CPU.
const PAUSE: Duration = Duration::from_millis(4);

/// The limits on the memory and tables of a guest.
struct Limits {
    /// The maximum size of the memory, in bytes.
    memory: usize,
    /// Whether the host rejected a request of the guest for more memory. The guest usually traps
    /// after the rejection, and the error of the trap does not contain the cause.
    was_denied: bool,
    /// The current size of the memory, in bytes.
    current: usize,
    /// The size of the memory before the first request, in bytes.
    initial: usize,
    /// The metric of the memory of all sandboxes, and the contribution of this sandbox to it, in
    /// bytes.
    metric: Option<(GaugeSeries, i64)>,
}

impl Drop for Limits {
    fn drop(&mut self) {
        if let Some((total, bytes)) = &self.metric {
            total.sub(*bytes);
        }
    }
}

impl Limits {
    /// Returns whether the guest uses at most half of its additional memory. The size of the
    /// additional memory is the maximum size minus the initial size.
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
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let fits = desired <= self.memory;
        self.was_denied |= !fits;
        if fits {
            self.current = self.current.max(desired);
            if let Some((total, bytes)) = &mut self.metric {
                let growth = i64::try_from(desired.saturating_sub(current)).unwrap_or(0);
                total.add(growth);
                *bytes += growth;
            }
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

/// An instance of a component, with its own store.
pub(crate) struct Instance {
    pub(crate) store: Store<Sandbox>,
    pub(crate) guest: Guest,
}

impl Instance {
    /// Creates an instance for `call`. The caller must limit the CPU time and the wall-clock time
    /// of the guest.
    pub(crate) async fn new(
        engine: &Engine,
        linked: &Linked<Sandbox>,
        call: Call,
        budget: Budget,
        metrics: Option<Arc<ModuleMetrics>>,
    ) -> wasmtime::Result<Self> {
        let output = MemoryOutputPipe::new(MAX_OUTPUT);
        let wasi = wasi(&call, &output);
        let mut wasi_table = ResourceTable::new();
        wasi_table.set_max_capacity(MAX_HANDLES);
        let mut http = WasiHttpCtx::new();
        http.set_field_size_limit(MAX_FIELDS);
        let limits = Limits {
            memory: budget.memory,
            was_denied: false,
            current: 0,
            initial: 0,
            metric: metrics.as_ref().map(|metrics| (metrics.memory.clone(), 0)),
        };
        let mut store = Store::new(
            engine,
            Sandbox {
                call,
                wasi,
                wasi_table,
                http,
                outgoing: None,
                limits,
                host_calls: HostCalls::new(budget.host_calls),
                metrics,
                output,
                earlier_output: 0,
                served: 1,
            },
        );
        store.limiter(|sandbox| &mut sandbox.limits);
        store.set_hostcall_fuel(limits::max_transfer(budget.response));
        // Wasmtime counts a handle twice while the guest lends it to the host.
        store.set_max_component_handles(2 * MAX_HANDLES);
        store.call_hook(|mut store, hook| store.data_mut().count_host_call(hook));
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |mut store| {
            // Wasmtime reports a tick to the hook as a host call.
            store.data_mut().host_calls.restore();
            if budget.pauses && limits::is_long() {
                return Ok(UpdateDeadline::YieldCustom(1, Box::pin(sleep(PAUSE))));
            }
            Ok(UpdateDeadline::YieldCustom(
                limits::ticks(),
                Box::pin(tokio::task::yield_now()),
            ))
        });
        let guest = linked.instantiate(&mut store).await?;
        let limits = &mut store.data_mut().limits;
        limits.initial = limits.current;
        Ok(Self { store, guest })
    }

    /// Prepares an idle instance for the next request. `call` is the state of that request.
    pub(crate) fn reuse(mut self, call: Call, budget: Budget) -> Self {
        let sandbox = self.store.data_mut();
        sandbox.call = call;
        sandbox.host_calls = HostCalls::new(budget.host_calls);
        sandbox.served += 1;
        self.store.set_epoch_deadline(1);
        self
    }

    /// Removes all data of the caller after a successful request, so that the instance can become
    /// idle. `idle_call` creates the new call state. Returns `false`, and changes nothing, if the
    /// instance cannot serve another request.
    pub(crate) fn clear(&mut self, idle_call: impl FnOnce() -> Call) -> bool {
        let sandbox = self.store.data_mut();
        if !sandbox.is_reusable() {
            return false;
        }
        sandbox.call = idle_call();
        sandbox.earlier_output = sandbox.output.contents().len();
        true
    }
}

/// Returns the WASI context of a sandbox that is created for `call`.
fn wasi(call: &Call, output: &MemoryOutputPipe) -> WasiCtx {
    let mut wasi = WasiCtx::builder();
    wasi.stdout(output.clone())
        .stderr(output.clone())
        .max_random_size(MAX_RANDOM)
        // Without these settings, a guest can create sockets, although it cannot connect them.
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(ambient) = call.tape.ambient() {
        ambient.apply(&mut wasi);
    }
    wasi.build()
}

/// Returns the reason for a trap and the output of the guest, as text for the log. The output can
/// contain the message of a panic.
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
            // The trap is an error of a host function. Its root cause does not contain the frames
            // of the guest.
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
    // The first line of the text is a heading. Each other line starts with the number of a frame.
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

/// Returns the guest's standard output and standard error of this request, as one line for the log.
/// Returns `None` if the guest wrote nothing.
pub(crate) fn output(store: &Store<Sandbox>) -> Option<String> {
    let sandbox = store.data();
    let output = sandbox.output.contents();
    let recent = String::from_utf8_lossy(output.get(sandbox.earlier_output..).unwrap_or_default());
    let recent = recent.trim();
    (!recent.is_empty()).then(|| to_log_line(recent))
}
