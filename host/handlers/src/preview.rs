//! Calls a module for past mail of a mailbox. Host functions that change or send something are
//! recorded instead.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_directory::events::{Event as AuditEvent, Kind};
use latchmail_events::Event;
use latchmail_mailbox::MessageQuery;
use latchmail_mailbox::changelog::Change;
use latchmail_runtime::api::Recorder;
use latchmail_runtime::modules::{HandlerOutcome, Trigger};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use crate::error::Error;
use crate::filter::Filter;
use crate::handlers::{Active, Handlers};

/// Maximum number of messages of a preview.
pub const MAX_MESSAGES: u32 = 500;
/// The time after which a preview ends before its last message. The request of the operator has
/// a longer deadline.
const MAX_TIME: Duration = Duration::from_secs(90);
/// Maximum number of messages that are listed at a time.
const PAGE: u32 = 100;

/// The result of a preview.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ModulePreview)]
pub struct Preview {
    /// The calls, one for each message, oldest message first.
    pub calls: Vec<PreviewedCall>,
    /// `false` if the preview ended before the last message, because it took too long.
    pub complete: bool,
}

/// A call for one message.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PreviewedCall {
    /// The number of the message.
    pub uid: u64,
    /// The folder of the message.
    pub folder: String,
    /// The result of the call: `done`, `retry in N s`, or the reason of a failure.
    pub outcome: String,
    /// The recorded changes, in their order.
    pub changes: Vec<String>,
}

impl Handlers {
    /// Calls a module for the newest `last` messages of each folder whose new messages it handles,
    /// at most [`MAX_MESSAGES`] in total. The messages arrive in the inbox if the module handles
    /// all folders.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such account, if its owner has not enabled the
    /// module, or if the module handles no new messages.
    pub async fn preview(
        &self,
        name: &str,
        address: &str,
        last: u32,
        origin: &Origin,
    ) -> Result<Preview, Error> {
        let account = self.account(address).await?;
        let active = self.active(&account, name).await?;
        let missing = || {
            let text = format!("module `{name}` is not enabled for {address}, or it is paused");
            Error::NotFound(text)
        };
        let active = active.ok_or_else(missing)?;
        let events = self.past_events(&active, last.min(MAX_MESSAGES)).await?;
        let now = self.jobs.now().await?;
        let audit = AuditEvent::of(Kind::ModuleHandlersPreviewed, &account, now).about(name);
        self.audit.record(audit, origin).await?;
        let end = Instant::now() + MAX_TIME;
        let mut preview = Preview {
            calls: Vec::with_capacity(events.len()),
            complete: true,
        };
        for (uid, folder, event) in events {
            // The owner can withdraw the consent during a preview.
            let current = self.active(&account, name).await?;
            let Some(current) = current else {
                preview.complete = false;
                break;
            };
            let recorder = Arc::new(Recorder::default());
            let trigger = Trigger::Event {
                id: &event.id,
                kind: event.kind.name(),
                time: event.time,
                data: &event.data,
            };
            let called = self.call(&current, trigger, Some(Arc::clone(&recorder)));
            let Ok(called) = timeout_at(end, called).await else {
                preview.complete = false;
                break;
            };
            let outcome = match called {
                Ok(HandlerOutcome::Done) => "done".to_owned(),
                Ok(HandlerOutcome::Retry(after)) => format!("retry in {} s", after.as_secs()),
                Ok(HandlerOutcome::Failed(reason)) => format!("failed: {reason}"),
                Err(error) => error.to_string(),
            };
            preview.calls.push(PreviewedCall {
                uid,
                folder,
                outcome,
                changes: recorder.take(),
            });
        }
        Ok(preview)
    }

    /// Returns an event for each of the newest messages, oldest first.
    async fn past_events(
        &self,
        active: &Active,
        last: u32,
    ) -> Result<Vec<(u64, String, Event)>, Error> {
        if !active.scopes.contains(&Scope::MailRead) {
            let text = "the module has no right to read mail";
            return Err(Error::NotFound(text.into()));
        }
        let filter = Filter::new(active.event_sets(), &self.mail, &active.access).await?;
        let folders = filter.folders_of_new_messages();
        if folders.is_empty() {
            let text = "the module does not handle new messages";
            return Err(Error::NotFound(text.into()));
        }
        let mut events: Vec<(Timestamp, u64, String, Event)> = Vec::new();
        for folder in folders {
            for (date, change) in self.newest(active, folder, last).await? {
                let Change::Created { number, .. } = &change else {
                    continue;
                };
                let number = number.0;
                let event = Event::of_change(format!("preview-{number}"), date, &change);
                events.push((date, number, folder.to_owned(), event));
            }
        }
        events.sort_by_key(|(date, number, ..)| (*date, *number));
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        let skipped = events.len().saturating_sub(last);
        let events = events.into_iter().skip(skipped);
        Ok(events
            .map(|(_, number, folder, event)| (number, folder, event))
            .collect())
    }

    /// Returns the newest messages of a folder, each as the change that creates it.
    async fn newest(
        &self,
        active: &Active,
        folder: &str,
        last: u32,
    ) -> Result<Vec<(Timestamp, Change)>, Error> {
        let mut found = Vec::new();
        let mut offset = 0;
        while offset < last {
            let query = MessageQuery::page(folder, offset, PAGE.min(last - offset));
            let listing = self.mail.listing.messages(&active.access, query).await?;
            let messages = listing.map(|listing| listing.messages).unwrap_or_default();
            if messages.is_empty() {
                break;
            }
            offset += PAGE;
            found.extend(messages.into_iter().map(|message| {
                let change = Change::Created {
                    number: message.number,
                    folder: folder.to_owned(),
                    flags: message.flags,
                };
                (message.date, change)
            }));
        }
        Ok(found)
    }
}
