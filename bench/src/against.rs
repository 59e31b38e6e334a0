//! `--against COMMIT`: compares the speed of the working tree with that of another commit.
//!
//! Both versions run at the same time, each with its own mail servers and the same mailbox. One
//! client calls both versions alternately, so that other load on the machine affects both equally.
//!
//! The calls of an operation are divided into intervals. A sample is the median duration of the
//! calls of one version in one interval, because single calls depend on each other: they share the
//! load of their moment. A one-sided Mann-Whitney U test compares the samples. Its p is multiplied
//! by the number of operations (Bonferroni), so that the error probability applies to the whole
//! table. An operation is slower if p is below [`MAX_P`] and the medians differ by more than
//! [`MAX_INCREASE`], in each of [`RUNS`] runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::api::{ApiOperation, KNOWN, MESSAGES, OPERATIONS};
use crate::mailbox::{self, Mailbox};
use crate::measure::median;
use crate::rank_test::p_of_larger;
use crate::service::Service;

/// Maximum p of a significant difference, after the correction for the number of operations.
const MAX_P: f64 = 0.01;

/// Maximum increase of the median that is accepted even if it is significant.
const MAX_INCREASE: f64 = 0.05;

/// Number of runs in which an operation must be slower. A process can be slower than another one of
/// the same version for its whole life, so each run has new processes.
const RUNS: usize = 3;

/// Number of intervals per operation, without the warm-up.
const INTERVALS: usize = 30;

/// Number of intervals per operation with `--quick`.
const QUICK_INTERVALS: usize = 2;

/// Minimum duration of an interval. An interval contains at least one call of each version.
const INTERVAL: Duration = Duration::from_millis(200);

/// The arguments of `--against`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Compare all operations with those of another commit. Exit with status 1 if an operation is
    /// significantly slower: p < 0.01 and more than 5 %.
    #[arg(
        long,
        value_name = "COMMIT",
        requires = "baseline",
        conflicts_with = "profile"
    )]
    against: Option<String>,
    /// Target folder with the program and the modules of the other commit, for `--against`.
    #[arg(long, value_name = "DIR")]
    baseline: Option<PathBuf>,
}

impl Arguments {
    /// Returns the name of the commit and the target folder with its program and modules.
    pub(crate) fn selected(&self) -> Option<(&str, &Path)> {
        self.against.as_deref().zip(self.baseline.as_deref())
    }
}

/// A version of the service with its mailbox.
struct Version<'a> {
    name: &'a str,
    service: Service,
    mailbox: Mailbox,
}

impl<'a> Version<'a> {
    async fn start(name: &'a str, host: &Path, modules: &Path) -> anyhow::Result<Self> {
        let start = async {
            let service = Service::start_for_api(&mut Command::new(host), modules).await?;
            let mailbox = mailbox::fill(&service, service.measured(), MESSAGES, &KNOWN)?;
            anyhow::Ok(Self {
                name,
                service,
                mailbox,
            })
        };
        start.await.with_context(|| {
            format!("{name} does not run with the configuration of the benchmark of the working tree; see its message above")
        })
    }
}

/// The samples of an operation in microseconds, of the other commit and of the working tree.
struct Row {
    samples: [Vec<f64>; 2],
}

impl Row {
    /// Returns the medians of the samples.
    fn medians(&self) -> [f64; 2] {
        self.samples.each_ref().map(|samples| median(samples))
    }

    /// Returns the relative increase of the median.
    fn increase(&self) -> f64 {
        let [before, now] = self.medians();
        now / before - 1.0
    }

    /// Returns the probability of samples that are at least as much slower as these, if the
    /// versions do not differ.
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    fn p(&self) -> f64 {
        let [before, now] = &self.samples;
        (p_of_larger(now, before) * OPERATIONS.len() as f64).min(1.0)
    }

    fn is_slower(&self) -> bool {
        self.increase() > MAX_INCREASE && self.p() < MAX_P
    }
}

/// Compares the program `host` with that of `commit` in the target folder `baseline`. Prints a
/// table. Returns an error if an operation is significantly slower.
#[expect(clippy::print_stdout, reason = "the table is output of the program")]
pub(crate) async fn run(
    commit: &str,
    baseline: &Path,
    host: &Path,
    modules: &Path,
    quick: bool,
) -> anyhow::Result<()> {
    let programs = [
        (
            commit,
            &*baseline.join("release/latchmail"),
            &*baseline.join("modules"),
        ),
        ("the working tree", host, modules),
    ];
    let intervals = if quick { QUICK_INTERVALS } else { INTERVALS };
    let mut slower: Vec<_> = OPERATIONS.iter().collect();
    for run in 0..RUNS {
        if slower.is_empty() {
            break;
        }
        if run > 0 {
            println!("measuring the slower operations again with new processes");
        }
        slower = Box::pin(compare(programs, slower, intervals)).await?;
    }
    let names: Vec<_> = slower.iter().map(|operation| operation.id).collect();
    anyhow::ensure!(
        names.is_empty(),
        "significantly slower than {commit}: {}",
        names.join(", ")
    );
    println!("no operation is significantly slower than {commit}");
    Ok(())
}

/// Starts both programs, measures the operations and prints a table. A program is a name, its path,
/// and the folder of its modules. Returns the slower operations.
#[expect(clippy::print_stdout, reason = "the table is output of the program")]
async fn compare(
    programs: [(&str, &Path, &Path); 2],
    operations: Vec<&'static ApiOperation>,
    intervals: usize,
) -> anyhow::Result<Vec<&'static ApiOperation>> {
    let [before, now] = programs;
    let versions = [
        Version::start(before.0, before.1, before.2).await?,
        Version::start(now.0, now.1, now.2).await?,
    ];
    let title: String = before.0.chars().take(20).collect();
    println!(
        "{:<20} {title:>20} {:>20} {:>12} {:>8}",
        "", "working tree", "difference", "p"
    );
    let mut slower = Vec::new();
    for operation in operations {
        let row = measure(operation, &versions, intervals)?;
        let [before, now] = row.medians();
        let verdict = if row.is_slower() {
            slower.push(operation);
            "  SLOWER"
        } else {
            ""
        };
        println!(
            "{:<20} {before:>17.0} µs {now:>17.0} µs {:>+10.1} % {:>8.4}{verdict}",
            operation.id,
            row.increase() * 100.0,
            row.p(),
        );
    }
    for version in versions {
        version.service.stop().await;
    }
    Ok(slower)
}

/// Calls an operation of both versions alternately.
fn measure(
    operation: &ApiOperation,
    versions: &[Version<'_>; 2],
    intervals: usize,
) -> anyhow::Result<Row> {
    let context = |version: &Version<'_>| format!("{} cannot run {}", version.name, operation.id);
    let mut calls = Vec::new();
    for version in versions {
        let call = (operation.open)(&version.service, &version.mailbox);
        calls.push(call.with_context(|| context(version))?);
    }
    let mut samples = [Vec::new(), Vec::new()];
    // The first interval is a warm-up.
    for interval in 0..=intervals {
        let mut durations = [Vec::new(), Vec::new()];
        let began = Instant::now();
        while began.elapsed() < INTERVAL {
            // Every call follows a call of the other version. A second call in a row would be
            // faster, because the process still has its CPU.
            for (side, call) in calls.iter_mut().enumerate() {
                let called = Instant::now();
                call().with_context(|| context(&versions[side]))?;
                durations[side].push(called.elapsed().as_secs_f64() * 1e6);
            }
        }
        if interval > 0 {
            for (samples, durations) in samples.iter_mut().zip(&durations) {
                samples.push(median(durations));
            }
        }
    }
    Ok(Row { samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a row with 30 samples per version, which differ by up to 3 %. Those of the working
    /// tree are multiplied by `factor`.
    fn row(factor: f64) -> Row {
        let before = (0..30_u32).map(|number| 100.0 + f64::from(number % 7) / 2.0);
        let now = (0..30_u32).map(|number| (100.0 + f64::from(number % 5) * 0.75) * factor);
        let samples = [before.collect(), now.collect()];
        Row { samples }
    }

    #[test]
    fn a_significant_increase_of_more_than_five_percent_is_slower() {
        assert!(row(1.1).is_slower());
    }

    #[test]
    fn a_significant_but_small_increase_is_not_slower() {
        assert!(row(1.04).p() < MAX_P);
        assert!(!row(1.04).is_slower());
    }

    #[test]
    fn a_faster_version_is_not_slower() {
        assert!(!row(0.8).is_slower());
    }

    #[test]
    fn a_large_increase_in_few_samples_is_not_slower() {
        let row = Row {
            samples: [vec![100.0, 101.0], vec![120.0, 121.0]],
        };
        assert!(!row.is_slower());
    }
}
