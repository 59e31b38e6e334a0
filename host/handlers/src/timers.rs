//! The timers of a module: calls the module once for each due time.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_directory::module_handlers::{FailedCall, TimerRow};
use latchmail_jobs::Step;
use latchmail_runtime::modules::{Schedule, Trigger};
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::handlers::{Active, Handlers};
use crate::job::repeated_at;
use crate::outcome::{Next, next};

/// The next call of a timer.
pub(crate) struct NextTimer<'t> {
    /// The time of the call.
    pub(crate) next_at: Timestamp,
    row: TimerRow,
    schedule: &'t Schedule,
    offset: Duration,
}

impl Handlers {
    /// Returns the timer with the earliest next call. Stores the due times of new timers, and of
    /// timers whose schedule has changed.
    pub(crate) async fn next_timer<'t>(
        &self,
        active: &'t Active,
        now: Timestamp,
    ) -> Result<Option<NextTimer<'t>>, Error> {
        let timers = active.timers();
        if timers.is_empty() {
            return Ok(None);
        }
        let (account, module) = (&active.row.account, &active.row.module);
        let mut stored = self.stored.timers(account, module).await?;
        let mut first: Option<NextTimer<'t>> = None;
        for timer in timers {
            let (name, schedule) = (timer.name.as_str(), &timer.schedule);
            let offset = offset(account, module, name);
            let Some(due_at) = schedule.next_after(now, offset) else {
                continue;
            };
            let found = stored.iter().position(|row| row.timer == name);
            let row = match found.map(|index| stored.swap_remove(index)) {
                None => {
                    self.stored.add_timer(account, module, name, due_at).await?;
                    TimerRow::due(name, due_at)
                }
                // The schedule of a new version differs, or the clock was set back.
                Some(row)
                    if !is_due_time(schedule, row.due_at(), offset) || row.due_at() > due_at =>
                {
                    let changed = self
                        .stored
                        .change_timer(&active.row, &row, due_at, due_at, 0);
                    changed.await?;
                    TimerRow::due(name, due_at)
                }
                Some(row) => row,
            };
            let next_at = if row.next_at() == row.due_at() {
                row.next_at()
            } else {
                repeated_at(row.next_at(), now)
            };
            if first.as_ref().is_none_or(|first| next_at < first.next_at) {
                first = Some(NextTimer {
                    next_at,
                    row,
                    schedule,
                    offset,
                });
            }
        }
        Ok(first)
    }

    /// Calls the module for a timer. The next step waits for the next call.
    pub(crate) async fn call_timer(
        &self,
        active: &Active,
        timer: NextTimer<'_>,
    ) -> Result<Step, Error> {
        let (row, stored) = (&active.row, &timer.row);
        let result = self.call(active, Trigger::Timer(&stored.timer), None).await;
        let now = self.jobs.now().await?;
        let (due_at, next_at, failures) = match next(result, stored.failures) {
            Next::Done => {
                // Due times that have passed are not made up for.
                let after = now.max(stored.due_at());
                let Some(due_at) = timer.schedule.next_after(after, timer.offset) else {
                    return Ok(Step::Continue);
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
        // Another host can have changed the row, if this host has lost its lease.
        let changed = self
            .stored
            .change_timer(row, stored, due_at, next_at, failures);
        changed.await?;
        Ok(Step::Continue)
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
