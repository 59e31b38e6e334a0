//! Time measurement. The service and its counterpart (the two sides) run alternately, so that other
//! load on the machine affects both equally.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The amount of work of all benchmarks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// Number of messages in the inbox.
    pub(crate) messages: usize,
    /// Number of accounts in the comparison with many clients.
    pub(crate) accounts: usize,
    /// Numbers of messages in the small and in the large folder.
    pub(crate) folders: [usize; 2],
    /// Number of messages in the inbox of the account that is searched.
    pub(crate) searched: usize,
    /// Numbers of messages in the inboxes of the benchmark of large mailboxes.
    pub(crate) mailboxes: [usize; 3],
    /// Numbers of accounts in the benchmark of idle accounts. The least number is that of the
    /// accounts with messages.
    pub(crate) idle_accounts: [usize; 3],
    /// Number of measured intervals per side.
    pub(crate) rounds: usize,
    /// Duration of an interval.
    pub(crate) interval: Duration,
    /// Number of versions of a module that are installed.
    pub(crate) versions: usize,
    /// Number of changes of the serving version.
    pub(crate) swaps: usize,
}

impl Workload {
    /// The workload for meaningful figures.
    pub(crate) const FULL: Self = Self {
        messages: 10_000,
        accounts: 64,
        folders: [1_000, 100_000],
        searched: 100_000,
        mailboxes: [1_000, 10_000, 100_000],
        idle_accounts: [10, 1_000, 10_000],
        rounds: 8,
        interval: Duration::from_millis(400),
        versions: 5,
        swaps: 200,
    };
    /// A small workload that only checks that the benchmarks work.
    pub(crate) const QUICK: Self = Self {
        messages: 200,
        accounts: 8,
        folders: [100, 2_000],
        searched: 2_000,
        mailboxes: [100, 200, 400],
        idle_accounts: [10, 20, 40],
        rounds: 2,
        interval: Duration::from_millis(50),
        versions: 2,
        swaps: 10,
    };
}

/// The measurements of one side.
#[derive(Debug, Default)]
pub(crate) struct Timings {
    /// Duration of each call.
    durations: Vec<Duration>,
    /// Calls per second in each interval.
    rates: Vec<f64>,
    /// Number of calls that failed. Most benchmarks end with an error at the first failed call
    /// instead.
    pub(crate) errors: usize,
}

impl From<Vec<Duration>> for Timings {
    /// Creates timings of calls that were not made in intervals.
    fn from(durations: Vec<Duration>) -> Self {
        Self {
            durations,
            ..Self::default()
        }
    }
}

impl Timings {
    /// Returns the duration that the fraction `share` of the calls did not exceed.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let mut sorted = self.durations.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of a short list"
        )]
        let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(index).copied().unwrap_or_default()
    }

    /// Returns [`Timings::percentile`] in milliseconds.
    pub(crate) fn millis(&self, share: f64) -> f64 {
        self.percentile(share).as_secs_f64() * 1e3
    }

    /// Returns the median of the calls per second in each interval.
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// Returns the calls per second in each interval.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Adds the durations of the calls of an interval that took `elapsed`.
    pub(crate) fn add_interval(&mut self, durations: Vec<Duration>, elapsed: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
        self.rates
            .push(durations.len() as f64 / elapsed.as_secs_f64());
        self.durations.extend(durations);
    }
}

/// Returns the median, or the higher of the two middle values. Returns 0 if there are no samples.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Number of calls per side in [`compare_single_calls`] for each interval of [`compare`].
const CALLS_PER_INTERVAL: usize = 25;

/// An operation that is called repeatedly on its own connection.
pub(crate) type Call<'a> = Box<dyn FnMut() -> anyhow::Result<()> + Send + 'a>;

/// Measures both sides in alternating intervals. Each call runs repeatedly on a thread of its own.
pub(crate) fn compare<'a>(
    workload: &Workload,
    left: &mut [Call<'a>],
    right: &mut [Call<'a>],
) -> anyhow::Result<[Timings; 2]> {
    compare_with_settle(workload, left, right, || Ok(()))
}

/// Like [`compare`], for calls after which the mail server still works. `settle` waits for the end
/// of this work after every interval, so that it does not slow down the other side. The rate
/// includes this time, because a higher rate could otherwise mean only that more work was deferred.
pub(crate) fn compare_with_settle<'a>(
    workload: &Workload,
    left: &mut [Call<'a>],
    right: &mut [Call<'a>],
    mut settle: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<[Timings; 2]> {
    let mut timings = [Timings::default(), Timings::default()];
    // The first interval of each side is a warm-up.
    for round in 0..=workload.rounds {
        // The sides alternate in which runs first.
        for side in [round % 2, 1 - round % 2] {
            let calls = if side == 0 { &mut *left } else { &mut *right };
            let began = Instant::now();
            let durations = run_interval(calls, workload.interval)?;
            settle()?;
            if round > 0 {
                timings[side].add_interval(durations, began.elapsed());
            }
        }
    }
    Ok(timings)
}

/// Measures one side without a counterpart.
pub(crate) fn measure_alone(
    workload: &Workload,
    calls: &mut [Call<'_>],
) -> anyhow::Result<Timings> {
    let mut timings = Timings::default();
    // The first interval is a warm-up.
    for round in 0..=workload.rounds {
        let began = Instant::now();
        let durations = run_interval(calls, workload.interval)?;
        if round > 0 {
            timings.add_interval(durations, began.elapsed());
        }
    }
    Ok(timings)
}

/// Runs each call repeatedly on a thread of its own for `length`. Returns the duration of each
/// call.
pub(crate) fn run_interval(
    calls: &mut [Call<'_>],
    length: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let stop = AtomicBool::new(false);
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = calls
            .iter_mut()
            .map(|call| {
                let stop = &stop;
                scope.spawn(move || -> anyhow::Result<Vec<Duration>> {
                    let mut durations = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let began = Instant::now();
                        call()?;
                        durations.push(began.elapsed());
                    }
                    Ok(durations)
                })
            })
            .collect();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a call panicked"))
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(all.concat())
}

/// Measures single calls without other load: one call at a time, alternately, with `settle` after
/// each call. The median of the many calls is not affected by single slow calls.
pub(crate) fn compare_single_calls<'a>(
    workload: &Workload,
    left: &mut Call<'a>,
    right: &mut Call<'a>,
    mut settle: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<[Timings; 2]> {
    let mut timings = [Timings::default(), Timings::default()];
    for round in 0..=workload.rounds * CALLS_PER_INTERVAL {
        for side in [round % 2, 1 - round % 2] {
            let call = if side == 0 { &mut *left } else { &mut *right };
            let began = Instant::now();
            call()?;
            let elapsed = began.elapsed();
            settle()?;
            if round > 0 {
                timings[side].durations.push(elapsed);
            }
        }
    }
    Ok(timings)
}
