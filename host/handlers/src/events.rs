//! The events of a mailbox: reads the next events, and calls the module for each of them.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::{metrics, secrets};
use latchmail_directory::module_handlers::{EnabledModule, FailedCall, Progress};
use latchmail_events::{Event, EventPage, EventType};
use latchmail_jobs::{Step, TURN};
use latchmail_mailbox::Error as MailboxError;
use latchmail_runtime::modules::Trigger;
use tokio::time::Instant;

use crate::error::Error;
use crate::filter::Filter;
use crate::handlers::{Active, Handlers};
use crate::outcome::{Next, next};

/// Maximum number of events that are read from the change log at a time.
const PAGE: usize = 50;
/// The interval at which the position is stored while events are done. After a kill of the host,
/// the events of this time are handled again.
const STORE_INTERVAL: Duration = Duration::from_millis(50);
/// The time of the next call if no call must be repeated. A clock that is set back does not delay
/// such a call.
const AT_ONCE: Timestamp = Timestamp::from_millis(0);

impl Handlers {
    /// Handles the next events of a mailbox. Returns [`Step::Done`] if there are no more events.
    pub(crate) async fn handle_events(
        &self,
        active: &Active,
        now: Timestamp,
    ) -> Result<Step, Error> {
        let mut row = active.row.clone();
        let page = self.read_events(active, Some(&row.cursor)).await;
        let page = match page {
            Ok(page) => page,
            Err(Error::Mailbox(MailboxError::CursorExpired)) => {
                return self.skip_lost_events(active).await;
            }
            Err(error) => return Err(error),
        };
        let filter = Filter::new(active.event_sets(), &self.mail, &active.access).await?;
        let began = Instant::now();
        let mut stored_at = began;
        let mut position = row.cursor.clone();
        for event in &page.events {
            if filter.accepts(event) {
                let lag = now.plus(began.elapsed()).since(event.time);
                metrics::HANDLER_LAG.observe([], lag);
                let next = self.handle_event(active, event, row.failures).await;
                if next != Next::Done {
                    return self.stop_at(&mut row, &position, event, next).await;
                }
                row.failures = 0;
            }
            position.clone_from(&event.id);
            if stored_at.elapsed() >= STORE_INTERVAL {
                if !self.store(&mut row, &position, AT_ONCE, 0).await? {
                    return Ok(Step::Continue);
                }
                stored_at = Instant::now();
                // The calls for a page can take minutes, and other mailboxes wait.
                if began.elapsed() >= TURN {
                    return Ok(Step::Continue);
                }
            }
        }
        if page.events.is_empty() && page.cursor == row.cursor {
            return Ok(if page.more {
                Step::Continue
            } else {
                Step::Done
            });
        }
        // Another host can do the step at the same time, if this host has lost its lease.
        let is_stored = self.store(&mut row, &page.cursor, AT_ONCE, 0).await?;
        let is_done = is_stored && page.events.is_empty() && !page.more;
        Ok(if is_done { Step::Done } else { Step::Continue })
    }

    /// Reads events after a position. Without a position, returns the current position.
    async fn read_events(&self, active: &Active, since: Option<&str>) -> Result<EventPage, Error> {
        let filter = Filter::of_feed(active.event_sets());
        let page = self.feed.read(&active.access, since, &filter, PAGE).await?;
        // Only a filter with a folder can return `None`.
        page.ok_or_else(|| Error::NotFound("the mailbox has no change log".into()))
    }

    async fn handle_event(&self, active: &Active, event: &Event, failures: i64) -> Next {
        let id = event_key(&active.row.account, event);
        let trigger = Trigger::Event {
            id: &id,
            kind: event.kind.name(),
            time: event.time,
            data: &event.data,
        };
        next(self.call(active, trigger, None).await, failures)
    }

    /// Records a call that did not handle its event. `position` is the position before the event.
    /// The next step waits for the next call.
    async fn stop_at(
        &self,
        row: &mut EnabledModule,
        position: &str,
        event: &Event,
        next: Next,
    ) -> Result<Step, Error> {
        let now = self.jobs.now().await?;
        match next {
            Next::Done => {}
            Next::Repeat { after, failures } => {
                self.store(row, position, now.plus(after), failures).await?;
            }
            Next::Pause(reason) => {
                let failures = row.failures;
                if self.store(row, position, AT_ONCE, failures).await? {
                    let failed = FailedCall::Event(&event.id);
                    self.pause(row, &reason, failed, now).await?;
                }
            }
        }
        // The next step finds out what another host has stored.
        Ok(Step::Continue)
    }

    /// Pauses a module for a mailbox.
    pub(crate) async fn pause(
        &self,
        row: &EnabledModule,
        reason: &str,
        failed: FailedCall<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.stored.pause(row, reason, failed, now).await? {
            let (module, account) = (&row.module, &row.account);
            tracing::warn!(module, account, reason, "paused a module for a mailbox");
        }
        Ok(())
    }

    /// Stores a position, unless it is stored. Returns `false` if the row has changed since it was
    /// read.
    async fn store(
        &self,
        row: &mut EnabledModule,
        cursor: &str,
        next_at: Timestamp,
        failures: i64,
    ) -> Result<bool, Error> {
        let progress = Progress {
            cursor,
            next_at,
            failures,
        };
        let is_stored = self.stored.advance(row, progress).await?;
        cursor.clone_into(&mut row.cursor);
        Ok(is_stored)
    }

    /// Continues with the current position of the change log, because the events since the old
    /// position are not known any longer.
    async fn skip_lost_events(&self, active: &Active) -> Result<Step, Error> {
        let page = self.read_events(active, None).await?;
        let mut row = active.row.clone();
        if self.store(&mut row, &page.cursor, AT_ONCE, 0).await? {
            let (module, account) = (&row.module, &row.account);
            tracing::warn!(
                module,
                account,
                "the module missed events, because the change log does not have them any longer"
            );
            metrics::HANDLER_GAPS.increment([]);
        }
        Ok(Step::Continue)
    }
}

/// Returns the id of an event for the module. The cursor of an event is no such id: it is another
/// one if the mailbox has changed before the event is read again.
///
/// A flag or a folder that was changed again before the event is read again makes it another event,
/// which a module that ignores known ids must not ignore.
fn event_key(account: &str, event: &Event) -> String {
    let kind = event.kind.name();
    let time = event.time.millis();
    let subject = match (event.kind, event.message) {
        (EventType::MessageCreated | EventType::MessageDeleted, Some(number)) => {
            number.0.to_string()
        }
        _ => event.data.to_string(),
    };
    secrets::sha256_hex(&format!("{account}\0{kind}\0{time}\0{subject}"))
}

#[cfg(test)]
mod tests {
    use latchmail_core::message_number::MessageNumber;
    use latchmail_mailbox::changelog::Change;

    use super::*;

    #[test]
    fn the_id_of_an_event_does_not_depend_on_the_page_in_which_it_is_read() {
        let flags = |set: &[&str]| -> Vec<String> { set.iter().map(ToString::to_string).collect() };
        let at = |cursor: &str, change: &Change, time| {
            Event::of_change(cursor.into(), Timestamp::from_millis(time), change)
        };
        let event = |cursor: &str, number, set: &[&str], time| {
            let change = Change::Created {
                number: MessageNumber(number),
                folder: "INBOX".into(),
                flags: flags(set),
            };
            at(cursor, &change, time)
        };
        let first = event_key("ada", &event("c1", 7, &[], 1000));
        // The message got a flag before the event was read again.
        assert_eq!(event_key("ada", &event("c2", 7, &["\\Seen"], 1000)), first);
        assert_ne!(event_key("bob", &event("c1", 7, &[], 1000)), first);
        assert_ne!(event_key("ada", &event("c1", 8, &[], 1000)), first);
        assert_ne!(event_key("ada", &event("c1", 7, &[], 1001)), first);
        // Two changes of flags that are read together are another event than the first one.
        let flagged = |cursor: &str, set: &[&str]| {
            let change = Change::Flags {
                number: MessageNumber(7),
                folder: "INBOX".into(),
                flags: flags(set),
            };
            event_key("ada", &at(cursor, &change, 1000))
        };
        let seen = flagged("c1", &["\\Seen"]);
        assert_eq!(flagged("c2", &["\\Seen"]), seen);
        assert_ne!(flagged("c2", &["\\Seen", "\\Flagged"]), seen);
    }
}
