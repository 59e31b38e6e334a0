//! Runs the jobs of events and of timers. A call stops when the owner or the operator withdraws the
//! rights of the module, and when the service stops.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use latchmail_core::clock::Timestamp;
use latchmail_jobs::{Handler, Job, Limits, Outcome, Step, run_steps};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::error::Error;
use crate::handlers::{Active, EVENTS, Handlers, TIMER};

/// The limits of the runner that calls handlers. Most of these jobs wait for a sandbox, because
/// `[handlers] concurrency` limits the calls.
pub const LIMITS: Limits = Limits {
    running: 64,
    of_account: 4,
    lease: Duration::from_secs(6),
};
/// The interval at which the rights of a running call are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which a job is tried again on a host that could not load the module.
const FAILED_MODULE_INTERVAL: Duration = Duration::from_secs(5);

/// Calls the handlers of events.
#[derive(Debug)]
pub struct EventJobs(pub Arc<Handlers>);

/// Calls the handlers of timers.
#[derive(Debug)]
pub struct TimerJobs(pub Arc<Handlers>);

impl Handler for EventJobs {
    fn kind(&self) -> &'static str {
        EVENTS
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let handlers = &self.0;
        let (trace, mut span) = handlers.tracer.begin_work(|| "module job".into());
        span.set("latchmail.module", &job.key);
        let step = move |now| handlers.event_step(job, now).boxed();
        let steps = run_steps(&handlers.jobs, job, &handlers.stopping, span, step);
        trace.scope(steps).boxed()
    }
}

impl Handler for TimerJobs {
    fn kind(&self) -> &'static str {
        TIMER
    }

    fn run<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Outcome> {
        let Some((module, timer)) = job.key.split_once('/') else {
            return std::future::ready(Outcome::Done).boxed();
        };
        let handlers = &self.0;
        let (trace, mut span) = handlers.tracer.begin_work(|| "module job".into());
        span.set("latchmail.module", module);
        span.set("latchmail.timer", timer);
        let step = move |now| {
            handlers
                .timer_step(&job.account, module, timer, now)
                .boxed()
        };
        let steps = run_steps(&handlers.jobs, job, &handlers.stopping, span, step);
        trace.scope(steps).boxed()
    }
}

impl Handlers {
    /// Awaits `work` of a module. Drops `work` and returns the next step if the module loses a
    /// right, or if the service stops. A change of the mailbox that has begun is completed.
    pub(crate) async fn while_permitted(
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

    /// Returns the next step of a job whose module cannot act for the mailbox on this host. Another
    /// host can have the module, if this host could not load it.
    pub(crate) async fn without_module(
        &self,
        account: &str,
        module: &str,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let is_failed = !self.serves(module) && self.stored.is_running(account, module).await?;
        Ok(if is_failed {
            Step::At(now.plus(FAILED_MODULE_INTERVAL))
        } else {
            // The host that watches the mailbox starts the job again when the module can act.
            Step::Done
        })
    }
}
