//! The change log of the fake host. Unlike the real host, the fake host does not collapse several
//! changes to one message.

use super::mail::Mail;
use crate::capability::{Change, ChangeList, ChangedMessage, ChangesError, DeletedMessage, Error};
use latchmail_shape::codes;

/// Maximum number of changes in one response.
const MAX_CHANGES: u32 = 500;

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
