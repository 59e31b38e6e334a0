//! The change log of the fake host. Unlike the real host, the fake host does not collapse several
//! changes to one message.

use super::mail::Mail;
use crate::capability::{
    Change, ChangeList, ChangedMessage, ChangesError, DeletedMessage, Error, Events, StreamError,
};
use latchmail_shape::codes;
use latchmail_shape::event_type::EventType;
use serde_json::json;

/// Maximum number of changes in one response.
const MAX_CHANGES: u32 = 500;
/// Maximum time of a wait, in seconds.
const MAX_WAIT: u32 = 60;

impl Mail {
    /// Returns the changes since a cursor. A cursor contains the number of earlier changes, and the
    /// folder for which it is valid.
    pub(super) fn changes_since(
        &self,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<ChangeList, ChangesError> {
        if !(1..=MAX_CHANGES).contains(&limit) {
            return Err(ChangesError::Failed(Error::invalid(
                codes::INVALID_PAGING_PARAMETERS,
                format!("The limit must be 1 to {MAX_CHANGES}"),
            )));
        }
        if folder.is_some_and(|folder| !self.has(folder)) {
            return Err(ChangesError::Failed(Error::NotFound));
        }
        let suffix = folder.map_or_else(String::new, |folder| format!(" {folder}"));
        let start = match since {
            None => self.changes.len(),
            Some(cursor) => cursor
                .strip_suffix(suffix.as_str())
                .and_then(|number| number.parse().ok())
                .filter(|number| *number <= self.changes.len())
                .ok_or(ChangesError::CursorExpired)?,
        };
        let mut changes = Vec::new();
        let mut end = start;
        while end < self.changes.len() && changes.len() < limit as usize {
            changes.extend(seen_in(&self.changes[end], folder));
            end += 1;
        }
        Ok(ChangeList {
            cursor: format!("{end}{suffix}"),
            more: end < self.changes.len(),
            changes,
        })
    }
}

/// Returns a stream that contains only the cursor, because nothing changes while a test reads
/// the stream.
pub(super) fn stream(
    mail: &Mail,
    since: Option<&str>,
    folder: Option<&str>,
    types: &[String],
) -> Result<Events, StreamError> {
    if let Some(unknown) = types.iter().find(|name| EventType::named(name).is_none()) {
        let text = format!("unknown event type: {unknown}");
        return Err(StreamError::Failed(Error::invalid(
            codes::INVALID_EVENT_TYPE,
            text,
        )));
    }
    let list = mail.changes_since(since, folder, MAX_CHANGES);
    let cursor = list.map_err(stream_error)?.cursor;
    let text = format!(": waiting\nid: {cursor}\n\n");
    Ok(Events::Bytes(text.into_bytes()))
}

/// Returns the result of a wait without changes.
pub(super) fn wait(
    mail: &Mail,
    since: &str,
    folder: Option<&str>,
    limit: u32,
    seconds: u32,
) -> Result<Events, StreamError> {
    if !(1..=MAX_WAIT).contains(&seconds) {
        let text = format!("seconds must be between 1 and {MAX_WAIT}");
        let error = Error::invalid(codes::INVALID_CHANGES_PARAMETERS, text);
        return Err(StreamError::Failed(error));
    }
    let list = mail.changes_since(Some(since), folder, limit);
    let list = list.map_err(stream_error)?;
    let body = json!({ "cursor": list.cursor, "more": list.more, "changes": [] });
    Ok(Events::Bytes(body.to_string().into_bytes()))
}

fn stream_error(error: ChangesError) -> StreamError {
    match error {
        ChangesError::CursorExpired => StreamError::CursorExpired,
        ChangesError::Failed(error) => StreamError::Failed(error),
    }
}

/// Returns a change as it appears in one folder. Returns `None` if the change does not concern the
/// folder.
fn seen_in(change: &Change, folder: Option<&str>) -> Option<Change> {
    let Some(folder) = folder else {
        return Some(change.clone());
    };
    let path = match change {
        Change::Moved(moved) if moved.message.folder == folder => {
            return Some(Change::Created(moved.message.clone()));
        }
        Change::Moved(moved) => {
            let deleted = DeletedMessage {
                uid: moved.message.uid,
                folder: moved.from.clone(),
            };
            return (moved.from == folder).then_some(Change::Deleted(deleted));
        }
        Change::Created(ChangedMessage { folder, .. })
        | Change::Flags(ChangedMessage { folder, .. })
        | Change::Deleted(DeletedMessage { folder, .. }) => folder,
        Change::FolderCreated(changed) | Change::FolderDeleted(changed) => &changed.folder,
        Change::FolderRenamed(renamed) => &renamed.folder.folder,
    };
    (path == folder).then(|| change.clone())
}
