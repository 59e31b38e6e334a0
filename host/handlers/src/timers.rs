//! The steps of a job of a timer: calls the module once for each due time.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_directory::module_handlers::{FailedCall, TimerRow};
use latchmail_jobs::{NewJob, Step};
use latchmail_runtime::modules::{Schedule, Trigger};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::handlers::{Active, Handlers, TIMER, busy_until, subscriptions};
use crate::outcome::{MAX_RETRY, Next, next};

impl Handlers {
    /// Calls the module if the timer is due. All rights are read again.
    pub(crate) async fn timer_step(
        &self,
        account: &str,
        module: &str,
        timer: &str,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let Some(active) = self.active(account, module).await? else {
            return self.without_module(account, module, now).await;
        };
        let timers = subscriptions(&active.module).map_or(&[][..], |found| found.timers.as_slice());
        let Some(declared) = timers.iter().find(|one| one.name == timer) else {
            return Ok(Step::Done);
        };
        let Some(stored) = self.stored.timer(account, module, timer).await? else {
            return Ok(Step::Done);
        };
        let offset = offset(account, module, timer);
        let schedule = &declared.schedule;
        let Some(next_due) = schedule.next_after(now, offset) else {
            return Ok(Step::Done);
        };
        if !is_due_time(schedule, stored.due_at(), offset) || stored.due_at() > next_due {
            // The schedule of a new version differs, or the clock was set back.
            let row = &active.row;
            let changed = self
                .stored
                .change_timer(row, &stored, next_due, next_due, 0);
            changed.await?;
            return Ok(Step::At(next_due));
        }
        let next_at = stored.next_at();
        let rest = next_at.since(now);
        // A longer wait for another attempt is due to a clock that was set back.
        let is_attempt = next_at != stored.due_at();
        if !rest.is_zero() && (!is_attempt || rest <= MAX_RETRY) {
            return Ok(Step::At(next_at));
        }
        let Some(_permit) = self.permits.try_acquire(module) else {
            return Ok(Step::At(busy_until(now, next_at)?));
        };
        let work = self.call_timer(&active, &stored, schedule, offset);
        self.while_permitted(&active, now, work).await
    }

    async fn call_timer(
        &self,
        active: &Active,
        stored: &TimerRow,
        schedule: &Schedule,
        offset: Duration,
    ) -> Result<Step, Error> {
        let row = &active.row;
        let result = self.call(active, Trigger::Timer(&stored.timer), None).await;
        let now = self.jobs.now().await?;
        let (due_at, next_at, failures) = match next(result, stored.failures) {
            Next::Done => {
                // Due times that have passed are not made up for.
                let Some(due_at) = schedule.next_after(now.max(stored.due_at()), offset) else {
                    return Ok(Step::Done);
                };
                (due_at, due_at, 0)
            }
            Next::Repeat { after, failures } => (stored.due_at(), now.plus(after), failures),
            Next::Pause(reason) => {
                let failed = FailedCall::Timer(&stored.timer);
                self.pause(row, &reason, failed, now).await?;
                return Ok(Step::Continue);
            }
        };
        let changed = self
            .stored
            .change_timer(row, stored, due_at, next_at, failures);
        Ok(if changed.await? {
            Step::At(next_at)
        } else {
            Step::Continue
        })
    }

    /// Stores the first due times of the timers of a module, and starts their jobs.
    pub(crate) async fn start_timers(&self, account: &str, module: &str) -> Result<(), Error> {
        let Some(active) = self.active_module(module) else {
            return Ok(());
        };
        let Some(subscriptions) = subscriptions(&active) else {
            return Ok(());
        };
        for timer in &subscriptions.timers {
            let now = self.jobs.now().await?;
            let name = &timer.name;
            let next_due = timer
                .schedule
                .next_after(now, offset(account, module, name));
            let Some(next_due) = next_due else {
                continue;
            };
            self.stored
                .add_timer(account, module, name, next_due)
                .await?;
            let key = format!("{module}/{name}");
            // The step reads the due time, which can be earlier than the time of the job.
            self.jobs
                .ensure_due(NewJob {
                    kind: TIMER,
                    key: &key,
                    account,
                    due_at: now,
                    payload: &[],
                    limit: u32::MAX,
                })
                .await?;
        }
        Ok(())
    }
}

/// Returns `true` if a time is a due time of a schedule.
fn is_due_time(schedule: &Schedule, time: Timestamp, offset: Duration) -> bool {
    let before = time.minus(Duration::from_millis(1));
    schedule.next_after(before, offset) == Some(time)
}

/// Returns the offset of a mailbox in the intervals of a timer, so that the calls of all mailboxes
/// do not begin at the same time. It is the same on all hosts.
fn offset(account: &str, module: &str, timer: &str) -> Duration {
    let hash = Sha256::digest(format!("{account}\0{module}\0{timer}"));
    let first: [u8; 4] = [hash[0], hash[1], hash[2], hash[3]];
    Duration::from_millis(u32::from_be_bytes(first).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_timer_depends_on_the_mailbox_and_stays() {
        let offsets = |timer| ["ada", "bob", "eve"].map(|account| offset(account, "m", timer));
        assert_eq!(offsets("a"), offsets("a"));
        assert_ne!(offsets("a"), offsets("b"));
        let [ada, bob, eve] = offsets("a");
        assert!(ada != bob && bob != eve && ada != eve);
        let every = Schedule::Every(Duration::from_mins(1));
        let now = Timestamp::from_millis(1_795_161_600_000);
        let due = every.next_after(now, ada).unwrap();
        assert!(is_due_time(&every, due, ada));
        assert!(!is_due_time(&every, due.plus(Duration::from_secs(1)), ada));
    }
}
