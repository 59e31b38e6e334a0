//! Does the jobs that are due. Each host has one runner.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_directory::jobs::{Lease, NewLease, StoredJob};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::{Job, Jobs};

/// Maximum time between two reads of the due times. Other hosts add jobs without waking this
/// runner, and the clock can jump.
const POLL_INTERVAL: Duration = Duration::from_secs(3);
/// The delay after a failure of the database.
const ERROR_DELAY: Duration = Duration::from_secs(1);
/// The delay after the first failed attempt of a job. Each further failure doubles the delay.
const FIRST_DELAY: Duration = Duration::from_secs(2);
/// Maximum delay between two attempts of a job.
const MAX_DELAY: Duration = Duration::from_mins(10);

/// The limits of a runner. Kinds of jobs that must not delay each other have different runners.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of concurrent jobs of this host.
    pub running: usize,
    /// Maximum number of concurrent jobs of an account, on all hosts.
    pub of_account: u32,
    /// The duration of a lease. If a host is killed, another host does its jobs after this time.
    /// While a job runs, the lease is extended every third of this time.
    pub lease: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            running: 16,
            of_account: 4,
            lease: Duration::from_secs(10),
        }
    }
}

/// The result of an attempt to do a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The job is done. The runner deletes the job, unless the handler has already ended the lease
    /// together with its own changes.
    Done,
    /// The attempt failed for this reason. The runner repeats the job after a delay, which doubles
    /// with each attempt, up to 10 minutes.
    Retry(String),
    /// The job is not done. The runner repeats the job at this time.
    Later(Timestamp),
}

/// Does the jobs of one kind.
pub trait Handler: fmt::Debug + Send + Sync {
    /// The name of the kind. Lower-case letters, digits and hyphens.
    fn kind(&self) -> &'static str;

    /// Does a job. [`Job::lease`] is set.
    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome>;
}

/// Does the jobs that are due, until [`Runner::stop`] is called.
#[derive(Debug)]
pub struct Runner {
    stopping: CancellationToken,
    task: JoinHandle<()>,
    running: TaskTracker,
}

/// The values that the tasks of a runner share.
#[derive(Debug)]
struct Shared {
    jobs: Arc<Jobs>,
    host: String,
    handlers: HashMap<&'static str, Arc<dyn Handler>>,
    /// The kinds of all handlers, see [`NewLease::kinds`].
    kinds: String,
    permits: Arc<Semaphore>,
    limits: Limits,
    stopping: CancellationToken,
    running: TaskTracker,
}

impl Runner {
    /// Starts the runner. `host` is the id of this process among the hosts that share the database.
    #[must_use]
    pub fn start(
        jobs: Arc<Jobs>,
        host: &str,
        handlers: Vec<Arc<dyn Handler>>,
        limits: Limits,
    ) -> Self {
        let handlers = handlers.into_iter();
        let handlers: HashMap<_, _> = handlers.map(|one| (one.kind(), one)).collect();
        let kinds: Vec<_> = handlers.keys().copied().collect();
        let (stopping, running) = (CancellationToken::new(), TaskTracker::new());
        let shared = Arc::new(Shared {
            jobs,
            host: host.to_owned(),
            kinds: format!(",{},", kinds.join(",")),
            handlers,
            permits: Arc::new(Semaphore::new(limits.running)),
            limits,
            stopping: stopping.clone(),
            running: running.clone(),
        });
        Self {
            stopping,
            task: tokio::spawn(shared.run()),
            running,
        }
    }

    /// Leases no further jobs, and waits for the running jobs.
    pub async fn stop(self) {
        self.stopping.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the runner of jobs ended early");
        }
        self.running.close();
        self.running.wait().await;
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        let mut previous = Timestamp::from_millis(i64::MIN);
        let mut changed = self.jobs.changed.subscribe();
        while !self.stopping.is_cancelled() {
            let pause = match self.start_due(&mut previous).await {
                Ok(pause) => pause,
                Err(failure) => {
                    tracing::warn!(?failure, "failed to read the due jobs");
                    ERROR_DELAY
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                // The store of the jobs has the sender, so the channel is open.
                _ = changed.changed() => {}
                () = self.stopping.cancelled() => {}
            }
        }
    }

    /// Starts the jobs that are due, as far as permits are available. Returns the time until the
    /// next read of the due times.
    async fn start_due(self: &Arc<Self>, previous: &mut Timestamp) -> Result<Duration, Failure> {
        let stored = &self.jobs.stored;
        let now = self.jobs.now().await?;
        if now < *previous {
            stored.forget_delays(now.plus(MAX_DELAY)).await?;
        }
        *previous = now;
        // The end of a job wakes this task, so the task need not wait for a permit.
        while let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            let new = NewLease {
                host: &self.host,
                kinds: &self.kinds,
                now,
                duration: self.limits.lease,
                account_limit: self.limits.of_account,
            };
            let Some((lease, job)) = stored.lease(new).await? else {
                let next = stored.next_after(now).await?;
                let pause = next.map_or(POLL_INTERVAL, |next| next.since(now));
                return Ok(pause.min(POLL_INTERVAL));
            };
            self.running
                .spawn(Arc::clone(self).handle(lease, job, permit));
        }
        Ok(POLL_INTERVAL)
    }

    /// Does a job, and extends the lease during this time.
    async fn handle(
        self: Arc<Self>,
        lease: Lease,
        stored: StoredJob,
        permit: OwnedSemaphorePermit,
    ) {
        let (kind, account) = (stored.kind.clone(), stored.account.clone());
        let handler = self.handlers.get(kind.as_str());
        let job = self.jobs.open(Some(lease.clone()), stored);
        let work = async {
            match (handler, &job) {
                (Some(handler), Some(job)) => handler.run(job).await,
                (None, _) => Outcome::Retry("no handler has this kind".into()),
                (_, None) => {
                    Outcome::Retry("the payload cannot be opened with the service's keys".into())
                }
            }
        };
        let outcome = tokio::select! {
            outcome = AssertUnwindSafe(work).catch_unwind() => outcome,
            never = self.keep(&lease) => match never {},
        };
        let outcome = outcome.unwrap_or_else(|_| Outcome::Retry("the handler panicked".into()));
        if let Outcome::Retry(reason) = &outcome {
            tracing::warn!(
                kind,
                account,
                attempt = lease.attempt,
                reason,
                "a job failed"
            );
        }
        while let Err(failure) = self.end(&lease, &outcome).await {
            tracing::warn!(kind, ?failure, "failed to record the outcome of a job");
            if timeout(ERROR_DELAY, self.stopping.cancelled())
                .await
                .is_ok()
            {
                break;
            }
        }
        drop(permit);
        self.jobs.wake();
    }

    /// Extends a lease until the future is dropped. The handler continues after a lost lease,
    /// because its effect can already have happened.
    async fn keep(&self, lease: &Lease) -> Infallible {
        loop {
            sleep(self.limits.lease / 3).await;
            let extended = async {
                let until = self.jobs.now().await?.plus(self.limits.lease);
                Ok::<_, Failure>(self.jobs.stored.extend(lease, until).await?)
            };
            match extended.await {
                Ok(true) => {}
                Ok(false) => tracing::debug!(job = lease.job, "the lease of a job has ended"),
                Err(failure) => tracing::warn!(?failure, "failed to extend the lease of a job"),
            }
        }
    }

    async fn end(&self, lease: &Lease, outcome: &Outcome) -> Result<(), Failure> {
        match outcome {
            Outcome::Done => self.jobs.stored.end(lease).await?,
            Outcome::Retry(_) => {
                let next_at = self.jobs.now().await?.plus(delay(lease.attempt));
                self.jobs.stored.retry(lease, next_at).await?
            }
            Outcome::Later(next_at) => self.jobs.stored.retry(lease, *next_at).await?,
        };
        Ok(())
    }
}

/// Returns the delay after a failed attempt. Attempts are numbered from 1.
fn delay(attempt: i64) -> Duration {
    let doublings = u32::try_from(attempt - 1).unwrap_or(0).min(16);
    (FIRST_DELAY * 2_u32.pow(doublings)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests;
