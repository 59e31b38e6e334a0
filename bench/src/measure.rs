//! Time measurement. The two sides run alternately, so that other load of the machine affects both equally.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The amount of work in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Number of messages in the inbox.
    pub(crate) messages: usize,
    /// Numbers of messages in the small and in the large folder.
    pub(crate) folders: [usize; 2],
    /// Number of turns of each side.
    pub(crate) rounds: usize,
    /// Duration of a turn.
    pub(crate) turn: Duration,
    /// Number of versions of a module that are installed.
    pub(crate) versions: usize,
    /// Number of changes of the serving version.
    pub(crate) swaps: usize,
}

impl Size {
    /// The size for meaningful figures.
    pub(crate) const FULL: Self = Self {
        messages: 10_000,
        folders: [1_000, 100_000],
        rounds: 8,
        turn: Duration::from_millis(400),
        versions: 5,
        swaps: 200,
    };
    /// The size to check that the benchmarks work.
    pub(crate) const QUICK: Self = Self {
        messages: 200,
        folders: [100, 2_000],
        rounds: 2,
        turn: Duration::from_millis(50),
        versions: 2,
        swaps: 10,
    };
}

/// Measured times of one side.
#[derive(Debug, Default)]
pub(crate) struct Times {
    each: Vec<Duration>,
    /// Calls per second of each turn.
    rates: Vec<f64>,
}

impl From<Vec<Duration>> for Times {
    /// Creates times of calls that were not made in turns.
    fn from(each: Vec<Duration>) -> Self {
        let rates = Vec::new();
        Self { each, rates }
    }
}

impl Times {
    /// Returns the duration that `share` of the calls did not exceed.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let mut sorted = self.each.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a place in a list"
        )]
        let place = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or_default()
    }

    /// Returns the calls per second of the median turn.
    pub(crate) fn rate(&self) -> f64 {
        let mut sorted = self.rates.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    fn turn(&mut self, times: Vec<Duration>, took: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
        self.rates.push(times.len() as f64 / took.as_secs_f64());
        self.each.extend(times);
    }
}

/// Number of individual calls of each side that replace a turn.
const CALLS: usize = 25;

/// An operation that is called repeatedly on its own connection.
pub(crate) type Call<'a> = Box<dyn FnMut() -> anyhow::Result<()> + Send + 'a>;

/// Runs both sides in turns. Each side has as many concurrent callers as it has calls.
pub(crate) fn both<'a>(
    size: &Size,
    left: &mut [Call<'a>],
    right: &mut [Call<'a>],
) -> anyhow::Result<[Times; 2]> {
    settled(size, left, right, || Ok(()))
}

/// Like [`both`], for calls that leave work behind. `settle` waits after every turn until the work is done, so that no turn slows down
/// another. The rate includes this work, because otherwise a higher rate could mean only that more work was deferred.
pub(crate) fn settled<'a>(
    size: &Size,
    left: &mut [Call<'a>],
    right: &mut [Call<'a>],
    mut settle: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<[Times; 2]> {
    let mut times = [Times::default(), Times::default()];
    // The first turn of each side is a warm-up.
    for round in 0..=size.rounds {
        // The sides take turns in going first.
        for side in [round % 2, 1 - round % 2] {
            let calls = if side == 0 { &mut *left } else { &mut *right };
            let began = Instant::now();
            let each = turn(calls, size.turn)?;
            settle()?;
            if round > 0 {
                times[side].turn(each, began.elapsed());
            }
        }
    }
    Ok(times)
}

fn turn(calls: &mut [Call<'_>], length: Duration) -> anyhow::Result<Vec<Duration>> {
    let over = AtomicBool::new(false);
    let all = std::thread::scope(|scope| {
        let callers: Vec<_> = calls
            .iter_mut()
            .map(|call| {
                let over = &over;
                scope.spawn(move || -> anyhow::Result<Vec<Duration>> {
                    let mut each = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        let began = Instant::now();
                        call()?;
                        each.push(began.elapsed());
                    }
                    Ok(each)
                })
            })
            .collect();
        std::thread::sleep(length);
        over.store(true, Ordering::Relaxed);
        callers
            .into_iter()
            .map(|caller| caller.join().expect("a caller panicked"))
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(all.concat())
}

/// Measures single calls without other load: one call at a time, alternately, with `settle` after each call. There are so many calls that
/// the median is not affected by a delayed call.
pub(crate) fn alone<'a>(
    size: &Size,
    left: &mut Call<'a>,
    right: &mut Call<'a>,
    mut settle: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<[Times; 2]> {
    let mut times = [Times::default(), Times::default()];
    for round in 0..=size.rounds * CALLS {
        for side in [round % 2, 1 - round % 2] {
            let call = if side == 0 { &mut *left } else { &mut *right };
            let began = Instant::now();
            call()?;
            let took = began.elapsed();
            settle()?;
            if round > 0 {
                times[side].each.push(took);
            }
        }
    }
    Ok(times)
}
