//! The metrics of one version of a module.

use std::time::Duration;

use latchmail_core::metrics::{
    self, CounterSeries, GaugeSeries, HistogramSeries, InProgress, MODULE_FAILING, SANDBOXES_IDLE,
};

use super::error::CallError;
use super::message::Response;
use super::module::Module;

/// The values of the label `outcome`.
const OUTCOMES: [&str; 6] = [
    "ok",
    "trapped",
    "invalid_response",
    "deadline",
    "busy",
    "ended_by_host",
];

/// The metrics of one version of a module. All series exist from the start.
#[derive(Debug)]
pub(crate) struct ModuleMetrics {
    /// One counter for each outcome.
    calls: [CounterSeries; OUTCOMES.len()],
    duration: HistogramSeries,
    in_use: GaugeSeries,
    pub(super) cpu: CounterSeries,
    pub(super) host_calls: CounterSeries,
    pub(super) memory: GaugeSeries,
}

impl ModuleMetrics {
    pub(super) fn new(module: &str, version: &str) -> Self {
        let labels = [module, version];
        Self {
            calls: OUTCOMES.map(|outcome| metrics::SANDBOX_CALLS.with([module, version, outcome])),
            duration: metrics::SANDBOX_CALL_DURATION.with(labels),
            in_use: metrics::SANDBOXES_IN_USE.with(labels),
            cpu: metrics::SANDBOX_CPU.with(labels),
            host_calls: metrics::HOST_CALLS.with(labels),
            memory: metrics::SANDBOX_MEMORY.with(labels),
        }
    }

    /// Counts a finished call. Returns the outcome, as in the label `outcome`.
    pub(super) fn finished(
        &self,
        result: &Result<Response, CallError>,
        duration: Duration,
    ) -> &'static str {
        let outcome = match result {
            Ok(_) => 0,
            Err(CallError::Trapped { .. }) => 1,
            Err(CallError::InvalidResponse { .. }) => 2,
            Err(CallError::Deadline { .. }) => 3,
            Err(CallError::Busy { .. }) => 4,
            Err(CallError::EndedByHost { .. }) => 5,
        };
        self.calls[outcome].inc();
        self.duration.observe(duration.as_secs_f64());
        OUTCOMES[outcome]
    }

    /// Counts a sandbox that serves a request until the returned value is dropped.
    pub(super) fn use_sandbox(&self) -> InProgress {
        InProgress::begin(self.in_use.clone())
    }
}

/// Sets the metrics that are read at each scrape, for the serving modules.
pub(crate) fn set<'m>(serving: impl Iterator<Item = &'m Module>) {
    SANDBOXES_IDLE.clear();
    MODULE_FAILING.clear();
    for module in serving {
        let labels = [&*module.name, module.manifest.version.as_str()];
        SANDBOXES_IDLE.set(labels, module.idle.count());
        MODULE_FAILING.set(labels, i64::from(module.health().failing));
    }
}
