//! The metrics of one version of a module.

use std::collections::HashMap;
use std::time::Duration;

use latchmail_core::metrics::{self, CounterSeries, GaugeSeries, HistogramSeries, InProgress};

use super::error::CallError;

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
    pub(super) fn finished<T>(
        &self,
        result: &Result<T, CallError>,
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

    /// Counts one sandbox as in use until the returned value is dropped.
    pub(super) fn use_sandbox(&self) -> InProgress {
        InProgress::begin(self.in_use.clone())
    }
}

/// The calls of one version of a module on this host since the start of the service. All values are
/// floating-point numbers, because they come from the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The number of finished calls.
    pub calls: f64,
    /// The number of calls in which the module trapped.
    pub trapped: f64,
    /// The number of calls for which the module returned an invalid response.
    pub invalid_response: f64,
    /// The number of calls that exceeded their deadline.
    pub deadline: f64,
    /// The number of calls that failed because no sandbox became free within the timeout.
    pub busy: f64,
    /// The CPU time of all calls, in seconds.
    pub cpu: f64,
}

impl Usage {
    /// Returns the number of calls that failed because of the module or because of a missing
    /// sandbox.
    #[must_use]
    pub fn failed(&self) -> f64 {
        self.trapped + self.invalid_response + self.deadline + self.busy
    }
}

/// The usage of all versions of all modules.
#[derive(Debug, Default)]
pub struct AllUsage(HashMap<[String; 2], Usage>);

impl AllUsage {
    /// Reads the metrics.
    #[must_use]
    pub fn read() -> Self {
        let mut all: HashMap<_, Usage> = HashMap::new();
        for ([module, version, outcome], calls) in metrics::SANDBOX_CALLS.read() {
            let usage = all.entry([module, version]).or_default();
            usage.calls += calls;
            match &*outcome {
                "trapped" => usage.trapped = calls,
                "invalid_response" => usage.invalid_response = calls,
                "deadline" => usage.deadline = calls,
                "busy" => usage.busy = calls,
                _ => {}
            }
        }
        for (labels, seconds) in metrics::SANDBOX_CPU.read() {
            all.entry(labels).or_default().cpu = seconds;
        }
        Self(all)
    }

    /// Returns the usage of a version. It is zero if the version was not loaded since the start of
    /// the service.
    #[must_use]
    pub fn of(&self, module: &str, version: &str) -> Usage {
        let labels = [module.to_owned(), version.to_owned()];
        self.0.get(&labels).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_a_version_is_read_from_the_metrics() {
        let loaded = ModuleMetrics::new("read", "1.0.0");
        let module = String::from("read");
        let failures = [
            CallError::Busy {
                module: module.clone(),
            },
            CallError::Deadline { module },
        ];
        for failure in failures {
            loaded.finished::<()>(&Err(failure), Duration::from_millis(1));
        }
        loaded.cpu.inc_by(0.25);
        let all = AllUsage::read();
        let expected = Usage {
            calls: 2.0,
            busy: 1.0,
            deadline: 1.0,
            cpu: 0.25,
            ..Usage::default()
        };
        assert_eq!(all.of("read", "1.0.0"), expected);
        assert!(all.of("read", "1.0.0").failed() > 1.0);
        assert_eq!(all.of("read", "2.0.0"), Usage::default());
    }
}
