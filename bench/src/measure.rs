//! How things are timed: two sides in turns, so that whatever else the machine does meets both alike.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Messages in the mailbox.
    pub(crate) messages: usize,
    /// Messages in a small and in a large folder beside it.
    pub(crate) folders: [usize; 2],
    /// Turns of each side.
    pub(crate) rounds: usize,
    /// How long a turn lasts.
    pub(crate) turn: Duration,
    /// Versions of a module that are installed.
    pub(crate) versions: usize,
    /// How often one of them takes another's place.
    pub(crate) swaps: usize,
}

impl Size {
    /// What the figures are made of.
    pub(crate) const FULL: Self = Self {
        messages: 10_000,
        folders: [1_000, 100_000],
        rounds: 8,
        turn: Duration::from_millis(400),
        versions: 5,
        swaps: 200,
    };
    /// What tells that the bench works.
    pub(crate) const QUICK: Self = Self {
        messages: 200,
        folders: [100, 2_000],
        rounds: 2,
        turn: Duration::from_millis(50),
        versions: 2,
        swaps: 10,
    };
}

/// What was measured of one side.
#[derive(Debug, Default)]
pub(crate) struct Times {
    each: Vec<Duration>,
    /// Of every turn: how many a second.
    rates: Vec<f64>,
}

impl From<Vec<Duration>> for Times {
    /// Of calls that were not made in turns.
    fn from(each: Vec<Duration>) -> Self {
        let rates = Vec::new();
        Self { each, rates }
    }
}

impl Times {
    /// The time that `share` of the calls took at most.
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

    /// Calls a second, in the middling turn.
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

/// Calls of each side that are made alone in the place of a turn.
const CALLS: usize = 25;

/// What is called again and again, on a connection of its own.
pub(crate) type Call<'a> = Box<dyn FnMut() -> anyhow::Result<()> + Send + 'a>;

/// Both sides in turns, each with as many callers at once as it has calls.
pub(crate) fn both<'a>(
    size: &Size,
    left: &mut [Call<'a>],
    right: &mut [Call<'a>],
) -> anyhow::Result<[Times; 2]> {
    settled(size, left, right, || Ok(()))
}

/// The same of calls that leave work behind: `settle` waits after every turn until it is done, so that no turn pays for another. How many a second there are counts that work:
/// who calls more often may only have put more of it off.
pub(crate) fn settled<'a>(
    size: &Size,
    left: &mut [Call<'a>],
    right: &mut [Call<'a>],
    mut settle: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<[Times; 2]> {
    let mut times = [Times::default(), Times::default()];
    // One turn of each to warm up.
    for round in 0..=size.rounds {
        // Now one first, now the other.
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

/// How long a call of each side takes while there is nothing else to do: one at a time, now the one first, now the other, and `settle` waits after each until what it left behind is
/// done. The middling one of so many that a call which was held up does not count.
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
