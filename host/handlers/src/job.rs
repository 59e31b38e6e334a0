//! Runs the jobs, one for each mailbox and module, so that there is one call at a time. A call
//! stops when the owner or the operator withdraws the rights of the module, and when the service
//! stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::caller::Scope;
use latchmail_core::clock::Timestamp;
use latchmail_core::secrets;
use latchmail_jobs::{Handler, Job, Limits, Outcome, Step, busy_wait, run_steps};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::error::Error;
use crate::handlers::{Active, Handlers, KIND};
use crate::outcome::MAX_RETRY;

/// The limits of the runner that calls handlers. Most of these jobs wait for a sandbox, because
/// `[handlers] concurrency` limits the calls.
pub const LIMITS: Limits = Limits {
    running: 64,
    of_account: 4,
    lease: Duration::from_secs(6),
};
/// The interval at which the rights of a running call are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest and the longest time after which a job is tried again while this host cannot load
/// the module. The time grows, because the module can have many mailboxes. A job of a disabled
/// account waits for the longest time.
const MIN_ABSENCE: Duration = Duration::from_secs(5);
const MAX_ABSENCE: Duration = Duration::from_mins(1);
/// The time for which a job waits in the queue for a permit of its module. After this time, the job
/// leaves its permit of the runner to other modules, and tries again later.
const PERMIT_WAIT: Duration = Duration::from_millis(100);

/// Calls the handlers of modules.
#[derive(Debug)]
pub struct HandlerJobs(pub Arc<Handlers>);

impl Handler for HandlerJobs {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let handlers = &self.0;
        let (trace, mut span) = handlers.tracer.begin_work(|| "module job".into());
        span.set("latchmail.module", &job.key);
        let step = move |now| handlers.step(job, now).boxed();
        let steps = run_steps(&handlers.jobs, job, &handlers.stopping, span, step);
        trace.scope(steps).boxed()
    }
}

impl Handlers {
    /// Calls the module for a timer that is due, or for the next events. All rights are read again.
    async fn step(&self, job: &Job, now: Timestamp) -> Result<Step, Error> {
        let (account, module) = (&job.account, &job.key);
        let Some(active) = self.active(account, module).await? else {
            return self.without_rights(job, now).await;
        };
        let timer = self.next_timer(&active, now).await?;
        let timer_at = timer.as_ref().map(|timer| timer.next_at);
        let next_at = timer_at.into_iter().chain(events_at(&active, now)).min();
        match next_at {
            None => return Ok(Step::Done),
            Some(next_at) if next_at > now => return Ok(Step::At(next_at)),
            Some(_) => {}
        }
        // The queue is fair: a job that has a permit goes to its end after each step.
        let permit = timeout(PERMIT_WAIT, self.permits.acquire(module));
        let Ok(Some(_permit)) = permit.await else {
            let jitter = secrets::random::<1>()?[0];
            let wait = busy_wait(now.since(job.due_at), jitter);
            return Ok(Step::At(now.plus(wait)));
        };
        // Boxing reduces the size of this function's future, which contains `work` several times.
        let work = Box::pin(async {
            match timer.filter(|timer| timer.next_at <= now) {
                Some(timer) => self.call_timer(&active, timer).await,
                None => self.handle_events(&active, now).await,
            }
        });
        let step = self.while_permitted(&active, now, work).await?;
        Ok(match (step, timer_at) {
            (Step::Done, Some(timer_at)) => Step::At(timer_at),
            (step, _) => step,
        })
    }

    /// Awaits `work` of a module. Drops `work` and returns the next step if the module loses a
    /// right, or if the service stops. A change of the mailbox that has begun is completed.
    async fn while_permitted(
        &self,
        active: &Active,
        now: Timestamp,
        work: impl Future<Output = Result<Step, Error>>,
    ) -> Result<Step, Error> {
        tokio::select! {
            biased;
            () = self.stopping.cancelled() => Ok(Step::At(now)),
            // The next step finds out which right is missing.
            () = self.withdrawal(active) => Ok(Step::Continue),
            step = work => step,
        }
    }

    /// Returns when the module loses a right over the mailbox.
    async fn withdrawal(&self, active: &Active) {
        let Some(manager) = self.manager() else {
            return;
        };
        let (mut switched, mut modules) = (self.switched.subscribe(), manager.changes());
        drop(manager);
        let first = Instant::now() + CHECK_INTERVAL;
        let mut checks = interval_at(first, CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // The sender is in `self`, so the channel is open.
                _ = switched.changed() => {}
                // The channel is closed at the end of the service.
                Ok(()) = modules.changed() => {}
                _ = checks.tick() => {}
            }
            let (account, module) = (&active.row.account, &active.row.module);
            // An error is no reason to end a call.
            let Ok(current) = self.active(account, module).await else {
                continue;
            };
            let keeps_rights = current.is_some_and(|current| {
                let policy = active.module.policy();
                let scopes = &current.scopes;
                current.row.is_same_consent(&active.row)
                    && active.scopes.iter().all(|scope| scopes.contains(scope))
                    && !policy.has_lost_rights(current.module.policy())
            });
            if !keeps_rights {
                return;
            }
        }
    }

    /// Returns the next step of a job whose module cannot act for the mailbox on this host.
    async fn without_rights(&self, job: &Job, now: Timestamp) -> Result<Step, Error> {
        let (account, module) = (&job.account, &job.key);
        if !self.stored.is_running(account, module).await? {
            // The host that watches the mailbox starts the job again when the module can act.
            return Ok(Step::Done);
        }
        let wait = if self.active_module(module).is_some() {
            MAX_ABSENCE
        } else if self.serves(module) {
            // This version has no handlers. The watching host starts the job of another version.
            return Ok(Step::Done);
        } else {
            // Another host can have the module, if this host could not load it.
            (now.since(job.due_at) / 2).clamp(MIN_ABSENCE, MAX_ABSENCE)
        };
        Ok(Step::At(now.plus(wait)))
    }
}

/// Returns the time of the next call for an event, if there is one. Returns `None` if the module
/// gets no events.
fn events_at(active: &Active, now: Timestamp) -> Option<Timestamp> {
    // An event shows what is in the mailbox.
    let gets_events = !active.event_sets().is_empty() && active.scopes.contains(&Scope::MailRead);
    gets_events.then(|| repeated_at(active.row.next_at(), now))
}

/// Returns the time of a call that waits until `next_at`, because an earlier call must be repeated.
/// A wait that is too long is due to a clock that was set back.
pub(crate) fn repeated_at(next_at: Timestamp, now: Timestamp) -> Timestamp {
    if next_at.since(now) > MAX_RETRY {
        now
    } else {
        next_at
    }
}
