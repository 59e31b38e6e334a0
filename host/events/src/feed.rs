//! Reads events from the change log of a mailbox, with the rights of a caller.

use std::sync::Arc;

use latchmail_core::event_type::EventType;
use latchmail_mailbox::changelog::{Entry, EntryContent};
use latchmail_mailbox::{Access, Error, Mail};

use crate::event::{Event, EventFilter, change_json, classify};

/// Maximum number of entries of the change log that one call reads. A filter can skip entries.
const MAX_ENTRIES: usize = 2_000;
/// Maximum number of entries in one page of the change log.
const PAGE: usize = 500;

/// Consecutive events of a mailbox.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// The events, in the order in which a client must apply their changes.
    pub events: Vec<Event>,
    /// The cursor after these events, and after the events that the filter has skipped.
    pub cursor: String,
    /// `true` if more events can follow, so that the caller must read again.
    pub more: bool,
}

/// The events of all mailboxes. The change logs are their only source.
#[derive(Clone, Debug)]
pub struct Feed {
    mail: Arc<Mail>,
}

impl Feed {
    /// Creates the feed of mailboxes.
    #[must_use]
    pub fn new(mail: Arc<Mail>) -> Self {
        Self { mail }
    }

    /// Brings the change log to the state of the mail server, and returns up to `limit` events
    /// since a cursor. Without a cursor, returns the current cursor and no events. Returns `None`
    /// if the folder of the filter does not exist.
    ///
    /// # Errors
    /// Returns [`Error::CursorExpired`] if the cursor is not valid. Returns another [`Error`] if
    /// the operation fails.
    pub async fn read(
        &self,
        access: &Access,
        since: Option<&str>,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<Option<EventPage>, Error> {
        let log = &self.mail.changelog;
        let folder = filter.folder.as_deref();
        let mut read = EventPage {
            events: Vec::new(),
            cursor: since.unwrap_or_default().to_owned(),
            more: false,
        };
        let mut since = since.map(ToOwned::to_owned);
        let mut entries = 0;
        loop {
            let room = (limit - read.events.len()).min(PAGE);
            let size = if filter.types.is_empty() { room } else { PAGE };
            let page = log.entries(access, since.as_deref(), folder, size).await?;
            let Some(page) = page else {
                return Ok(None);
            };
            entries += page.entries.len();
            let last = page.entries.len();
            for (index, entry) in page.entries.into_iter().enumerate() {
                let Some(kind) = kind(&entry).filter(|kind| filter.accepts(*kind)) else {
                    continue;
                };
                // The cursor of the page is valid longer than the cursor after its last entry.
                let id = if index + 1 == last {
                    page.cursor.clone()
                } else {
                    log.cursor_after(access, &entry)?
                };
                let event = event(id, kind, entry)?;
                read.cursor.clone_from(&event.id);
                read.events.push(event);
                if read.events.len() == limit && index + 1 < last {
                    read.more = true;
                    return Ok(Some(read));
                }
            }
            read.cursor = page.cursor;
            read.more = page.more;
            if !page.more || read.events.len() >= limit || entries >= MAX_ENTRIES {
                return Ok(Some(read));
            }
            since = Some(read.cursor.clone());
        }
    }
}

/// Returns the type of the event of an entry. Returns `None` for a type of a later version.
fn kind(entry: &Entry) -> Option<EventType> {
    match &entry.content {
        EntryContent::Change(change) => Some(classify(change).0),
        EntryContent::Event { kind, .. } => EventType::named(kind),
    }
}

fn event(id: String, kind: EventType, entry: Entry) -> Result<Event, Error> {
    let time = entry.time;
    let (message, data) = match entry.content {
        EntryContent::Change(change) => (classify(&change).1, change_json(&change)),
        EntryContent::Event { data, .. } => {
            let invalid = |error: serde_json::Error| Error::Internal(error.to_string());
            (None, serde_json::from_str(&data).map_err(invalid)?)
        }
    };
    Ok(Event {
        id,
        kind,
        time,
        message,
        data,
    })
}
