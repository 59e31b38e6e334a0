//! `--soak [MINUTES]`: calls the service with half of its maximum load for a long time, and checks
//! that it does not use more and more resources.
//!
//! Clients of several accounts list, read, search, flag, send and delete mail. First, they call
//! without pauses, which is the maximum load. Then they start calls at half of that rate. A latency
//! is measured from the planned start of a call, so that a slow response also counts for the calls
//! that it delays.
//!
//! The run fails if a request fails, or if the memory or the number of descriptors grows steadily.
//! It writes a page with plots.

mod clients;
mod growth;
mod page;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use self::clients::{Client, Recorder};
use self::growth::Growth;
use crate::memory::anonymous;
use crate::service::Service;

/// Number of samples per minute.
const SAMPLES_PER_MINUTE: u64 = 6;

/// Least number of samples, also in a short run.
const MIN_SAMPLES: u64 = 24;

/// The share of the maximum load.
const LOAD: f64 = 0.5;

/// The duration of the measurement of the maximum load. The part before it is a warm-up.
const MAXIMUM: Duration = Duration::from_secs(20);
const WARM_UP: Duration = Duration::from_secs(10);

/// Growth of the memory that is accepted in addition to the share, in KiB.
const MEMORY_ALLOWANCE: f64 = 8.0 * 1024.0;

/// Growth of the number of descriptors that is accepted in addition to the share. The pools open
/// connections when they are needed.
const DESCRIPTOR_ALLOWANCE: f64 = 32.0;

/// The arguments of `--soak`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Call the service with half of its maximum load for this number of minutes. Exit with status
    /// 1 if a request fails, or if the memory or the number of descriptors grows steadily.
    #[arg(
        long,
        value_name = "MINUTES",
        num_args = 0..=1,
        default_missing_value = "60",
        value_parser = clap::value_parser!(u64).range(1..=10_000),
        conflicts_with_all = ["profile", "against", "only", "quick"]
    )]
    soak: Option<u64>,
}

impl Arguments {
    /// Returns the number of minutes.
    pub(crate) fn selected(&self) -> Option<u64> {
        self.soak
    }
}

/// The state of the service at the end of an interval, and the calls of the interval.
struct Sample {
    /// The time since the start of the load.
    at: Duration,
    /// Anonymous memory in KiB.
    memory: f64,
    /// Number of open descriptors.
    descriptors: f64,
    /// The index of the operation in [`clients::OPERATIONS`] and the latency of each successful
    /// call.
    calls: Vec<(usize, Duration)>,
    /// Number of failed calls.
    errors: usize,
}

/// The results of a run.
struct Results {
    minutes: u64,
    /// The maximum load and the load of the run, in calls per second.
    rates: [f64; 2],
    /// The interval of the samples.
    interval: Duration,
    samples: Vec<Sample>,
}

/// Runs the load, and writes `soak.md` and its plots to the folder `page`.
pub(crate) fn run(
    minutes: u64,
    host: &Path,
    modules: &Path,
    page: &Path,
    runtime: &Runtime,
) -> anyhow::Result<()> {
    let service = runtime.block_on(Service::start_with(&mut Command::new(host), modules, ""))?;
    let accounts = clients::create_accounts(&service, runtime)?;
    let mut clients = clients::create(&service, &accounts)?;
    let results = measure(&service, &mut clients, minutes)?;
    drop(clients);
    runtime.block_on(service.stop());
    page::write(&results, page)?;
    let problems = results.problems();
    anyhow::ensure!(
        problems.is_empty(),
        "the soak failed: {}",
        problems.join("; ")
    );
    Ok(())
}

fn measure(service: &Service, clients: &mut [Client<'_>], minutes: u64) -> anyhow::Result<Results> {
    let recorder = Recorder::default();
    let fastest = clients::run(clients, None, &recorder, || {
        std::thread::sleep(WARM_UP);
        recorder.take();
        std::thread::sleep(MAXIMUM);
        let (calls, errors) = recorder.take();
        anyhow::ensure!(
            errors == 0,
            "{errors} requests failed with the maximum load"
        );
        #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
        let count = calls.len() as f64;
        Ok(count / MAXIMUM.as_secs_f64())
    })?;
    let rate = fastest * LOAD;
    // The mail server delivers the remaining mail of the maximum load during the first part of this
    // load.
    recorder.take();
    let samples = u32::try_from((minutes * SAMPLES_PER_MINUTE).max(MIN_SAMPLES))?;
    let interval = Duration::from_mins(minutes) / samples;
    let samples = clients::run(clients, Some(rate), &recorder, || {
        let start = Instant::now();
        (1..=samples)
            .map(|number| {
                let at = interval * number;
                std::thread::sleep((start + at).saturating_duration_since(Instant::now()));
                let (calls, errors) = recorder.take();
                Ok(Sample {
                    at,
                    memory: anonymous(service.pid())?,
                    descriptors: descriptors(service.pid())?,
                    calls,
                    errors,
                })
            })
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(Results {
        minutes,
        rates: [fastest, rate],
        interval,
        samples,
    })
}

impl Results {
    fn memory(&self) -> Growth {
        let samples: Vec<_> = self.samples.iter().map(|sample| sample.memory).collect();
        Growth::of(&samples)
    }

    fn descriptors(&self) -> Growth {
        let samples: Vec<_> = self
            .samples
            .iter()
            .map(|sample| sample.descriptors)
            .collect();
        Growth::of(&samples)
    }

    fn errors(&self) -> usize {
        self.samples.iter().map(|sample| sample.errors).sum()
    }

    /// Returns the reasons why the run failed.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.errors() > 0 {
            problems.push(format!("{} requests failed", self.errors()));
        }
        let (memory, descriptors) = (self.memory(), self.descriptors());
        if memory.is_steady(MEMORY_ALLOWANCE) {
            problems.push(format!(
                "the memory grows steadily: {:.1} MiB in the second quarter of the run, {:.1} MiB in the last quarter",
                memory.before / 1024.0,
                memory.after / 1024.0
            ));
        }
        if descriptors.is_steady(DESCRIPTOR_ALLOWANCE) {
            problems.push(format!(
                "the number of open descriptors grows steadily: {} in the second quarter of the run, {} in the last quarter",
                descriptors.before, descriptors.after
            ));
        }
        problems
    }
}

/// Returns the number of open descriptors of a process.
#[expect(clippy::cast_precision_loss, reason = "a count of descriptors")]
fn descriptors(pid: u32) -> anyhow::Result<f64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as f64)
}
