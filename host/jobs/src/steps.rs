//! A job that consists of many steps, for example of one step for each event of a mailbox.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_core::traces::Span;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runner::Outcome;
use crate::store::{Job, Jobs};

/// The time after which other jobs are served first. A step that can take much longer ends after
/// this time and returns [`Step::Continue`].
pub const TURN: Duration = Duration::from_secs(3);
/// The delay after a failure of the database or of the mail server.
const ERROR_DELAY: Duration = Duration::from_secs(2);
/// The shortest and the longest wait for a busy resource, without the random part.
const MIN_BUSY_WAIT: Duration = Duration::from_millis(500);
const MAX_BUSY_WAIT: Duration = Duration::from_secs(5);

/// What follows after a step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next step can follow at once.
    Continue,
    /// The next step follows at this time, or when [`Jobs::ensure_due`] is called.
    At(Timestamp),
    /// There is nothing to do. [`Jobs::ensure`] stores the job again.
    Done,
}

/// Does the steps of a job that [`Jobs::ensure`] stored, until a step must wait, or for three
/// seconds. `step` does the next step at this time. A failed step is logged and repeated later, and
/// `span`, which is the span of the job, fails.
pub async fn run_steps<'f, E: fmt::Display>(
    jobs: &Jobs,
    job: &Job,
    stopping: &CancellationToken,
    mut span: Span,
    step: impl Fn(Timestamp) -> BoxFuture<'f, Result<Step, E>>,
) -> Outcome {
    let began = Instant::now();
    loop {
        let Ok(now) = jobs.now().await else {
            // The runner waits until the database responds. The delay of `Retry` grows with the
            // number of leases, although these are no failures.
            return Outcome::Later(job.due_at);
        };
        match step(now).await {
            Ok(Step::Continue) if began.elapsed() < TURN && !stopping.is_cancelled() => {}
            Ok(Step::Continue) => return Outcome::Later(now),
            Ok(Step::At(time)) => {
                return match jobs.postpone(job, time).await {
                    Ok(()) => Outcome::Done,
                    Err(_) => Outcome::Later(time),
                };
            }
            Ok(Step::Done) => return Outcome::Done,
            Err(error) => {
                let (kind, key) = (&job.kind, &job.key);
                tracing::warn!(kind, key, %error, "a step of a job failed");
                span.fail("failed");
                return Outcome::Later(now.plus(ERROR_DELAY));
            }
        }
    }
}

/// Returns the time after which a job asks again for a permit of a busy resource. `waited` is the
/// time for which the job is due. The time grows, so that many jobs of a slow resource cause few
/// leases. Adds up to a half of the time, so that they do not ask at the same moment.
#[must_use]
pub fn busy_wait(waited: Duration, jitter: u8) -> Duration {
    let wait = (waited / 2).clamp(MIN_BUSY_WAIT, MAX_BUSY_WAIT);
    wait + wait * u32::from(jitter) / 512
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_for_a_permit_asks_less_and_less_often() {
        let waits = |jitter| {
            let mut waited = Duration::ZERO;
            let waits = std::iter::repeat_with(move || {
                let wait = busy_wait(waited, jitter);
                waited += wait;
                wait
            });
            waits.take(20).collect::<Vec<_>>()
        };
        let (shortest, longest) = (waits(0), waits(255));
        assert_eq!(shortest[0], MIN_BUSY_WAIT);
        assert!(shortest.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(shortest[19], MAX_BUSY_WAIT);
        assert!(longest.iter().all(|wait| *wait < MAX_BUSY_WAIT * 3 / 2));
    }
}
