//! Creates one page of changes between two versions of a mailbox.
//!
//! The changes between the versions `since` and `until` are divided into six segments, in the order
//! of [`super::plan`]. The last segment contains the events of the account that are no changes of
//! messages or folders. The constants are the numbers of the segments. A page continues at the
//! segment and position of the cursor. The work for a page is limited, so a page can have fewer
//! changes than its limit although more pages follow.

use latchmail_core::clock::Timestamp;
use latchmail_directory::message_index::{MessageChange, MessageIndex};

use super::change::Change;
use super::cursor::Cursor;
use super::entry::{Entry, EntryContent};
use super::plan::Plan;
use crate::error::Error;

/// The renames and creations before the early deletions.
const FIRST: u8 = 0;
/// The messages that were moved out of folders in [`EARLY_DELETIONS`].
const MOVED_EARLY: u8 = 1;
const EARLY_DELETIONS: u8 = 2;
/// The renames and creations after the early deletions. The other changes of messages follow in
/// segment 4.
const SECOND: u8 = 3;
const LATE_DELETIONS: u8 = 5;
/// The events of the account.
const EVENTS: u8 = 6;

/// Maximum number of versions of the change log that one query reads.
const STEP: u64 = 1000;
/// Maximum number of versions that one page reads.
const MAX_VERSIONS: u64 = 20_000;

/// A page that is being created.
struct Page {
    plan: Plan,
    entries: Vec<Entry>,
    limit: usize,
    /// `true` if the page contains the events of the account.
    has_events: bool,
    /// `true` if each message of a deleted folder has a change of its own.
    has_all_messages: bool,
    /// The number of versions that this page can still read.
    versions: u64,
}

/// A page of changes before its cursor is sealed.
#[derive(Debug)]
pub(super) struct UnsealedPage {
    /// The cursor after this page.
    pub(super) cursor: Cursor,
    /// `true` if another page follows.
    pub(super) more: bool,
    pub(super) entries: Vec<Entry>,
}

/// The size and the contents of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageOptions {
    /// Maximum number of entries.
    pub(super) limit: usize,
    /// `true` if the page contains the events of the account.
    pub(super) has_events: bool,
    /// `true` if each message of a deleted folder has a change of its own.
    pub(super) has_all_messages: bool,
}

/// Returns a page of changes. `plan` contains the visible folders. `version` is the version of the
/// mailbox after the last sync.
pub(super) async fn page(
    message_index: &MessageIndex,
    account: &str,
    plan: Plan,
    mut cursor: Cursor,
    version: u64,
    options: PageOptions,
) -> Result<UnsealedPage, Error> {
    let mut page = Page {
        plan,
        entries: Vec::new(),
        limit: options.limit,
        has_events: options.has_events,
        has_all_messages: options.has_all_messages,
        versions: MAX_VERSIONS,
    };
    while cursor.segment <= EVENTS {
        let ended = match cursor.segment {
            FIRST => page.folders(&mut cursor, |plan| &plan.first),
            MOVED_EARLY if page.plan.deleted_early.is_empty() => true,
            EARLY_DELETIONS => page.folders(&mut cursor, |plan| &plan.early_deletions),
            // Renames must come first in a page, so this page ends if renames follow.
            SECOND if renames_follow(&page, &cursor) => false,
            SECOND => page.folders(&mut cursor, |plan| &plan.second),
            LATE_DELETIONS => page.folders(&mut cursor, |plan| &plan.late_deletions),
            EVENTS => page.events(message_index, account, &mut cursor).await?,
            _ => page.messages(message_index, account, &mut cursor).await?,
        };
        if !ended {
            return Ok(page.into_page(cursor, true));
        }
        cursor.segment += 1;
        cursor.position = 0;
    }
    let cursor = Cursor {
        since: cursor.until,
        segment: FIRST,
        position: 0,
        ..cursor
    };
    Ok(page.into_page(cursor, cursor.until < version))
}

fn renames_follow(page: &Page, cursor: &Cursor) -> bool {
    let renamed = |entry: &Entry| {
        let renamed = |change: &Change| matches!(change, Change::FolderRenamed { .. });
        matches!(&entry.content, EntryContent::Change(change) if renamed(change))
    };
    cursor.position < page.plan.second_renames as u64
        && page.entries.last().is_some_and(|last| !renamed(last))
}

impl Page {
    fn into_page(self, cursor: Cursor, more: bool) -> UnsealedPage {
        UnsealedPage {
            cursor,
            more,
            entries: self.entries,
        }
    }

    /// Adds the changes of folders after the position of the cursor. Returns `true` if the page
    /// contains the last change of the segment.
    fn folders(&mut self, cursor: &mut Cursor, segment: impl Fn(&Plan) -> &Vec<Change>) -> bool {
        let all = segment(&self.plan);
        let from = usize::try_from(cursor.position)
            .unwrap_or(usize::MAX)
            .min(all.len());
        cursor.position = from as u64;
        let room = self.limit.saturating_sub(self.entries.len());
        let added = all[from..].iter().take(room).map(|change| {
            cursor.position += 1;
            Entry {
                time: self.plan.time(change),
                content: EntryContent::Change(change.clone()),
                after: *cursor,
            }
        });
        let added: Vec<Entry> = added.collect();
        let ended = from + added.len() == all.len();
        self.entries.extend(added);
        ended
    }

    /// Adds the changes of messages after the position of the cursor. Returns `true` if the page
    /// contains the last change of the segment.
    async fn messages(
        &mut self,
        message_index: &MessageIndex,
        account: &str,
        cursor: &mut Cursor,
    ) -> Result<bool, Error> {
        cursor.position = cursor.position.clamp(cursor.since, cursor.until);
        while cursor.position < cursor.until {
            if self.versions == 0 {
                return Ok(false);
            }
            let end = cursor.until.min(cursor.position + STEP.min(self.versions));
            self.versions -= end - cursor.position;
            let (span, range) = ((cursor.since, cursor.until), (cursor.position, end));
            for message in message_index
                .log
                .message_changes(account, span, range)
                .await?
            {
                let (version, time) = (message.version, message.changed_at);
                if let Some(change) = self.change(message, cursor.segment) {
                    if self.entries.len() >= self.limit {
                        cursor.position = version - 1;
                        return Ok(false);
                    }
                    cursor.position = version;
                    self.add(EntryContent::Change(change), time, cursor);
                }
            }
            cursor.position = end;
        }
        Ok(true)
    }

    /// Adds the events of the account after the position of the cursor. Returns `true` if the page
    /// contains the last event.
    async fn events(
        &mut self,
        message_index: &MessageIndex,
        account: &str,
        cursor: &mut Cursor,
    ) -> Result<bool, Error> {
        if !self.has_events {
            return Ok(true);
        }
        cursor.position = cursor.position.clamp(cursor.since, cursor.until);
        let room = self.limit.saturating_sub(self.entries.len());
        let range = (cursor.position, cursor.until);
        // One more event shows whether the page contains the last one.
        let limit = u32::try_from(room + 1).unwrap_or(u32::MAX);
        let events = message_index.log.events(account, range, limit).await?;
        let ended = events.len() <= room;
        for event in events.into_iter().take(room) {
            let time = event.time();
            cursor.position = event.version();
            let content = EntryContent::Event {
                kind: event.kind,
                data: event.data,
            };
            self.add(content, time, cursor);
        }
        Ok(ended)
    }

    fn add(&mut self, content: EntryContent, time: Timestamp, after: &Cursor) {
        self.entries.push(Entry {
            content,
            time,
            after: *after,
        });
    }

    /// Returns the change of a message in a segment. Returns `None` if the client does not need
    /// this change in this segment.
    fn change(&self, message: MessageChange, segment: u8) -> Option<Change> {
        let MessageChange {
            number,
            before,
            after,
            ..
        } = message;
        let plan = &self.plan;
        let before = before.filter(|state| plan.paths.contains_key(&state.folder));
        let after = after.filter(|state| {
            plan.paths.contains_key(&state.folder) && !plan.deleted.contains(&state.folder)
        });
        let flags = |flags: &str| {
            flags
                .split(' ')
                .filter(|f| !f.is_empty())
                .map(ToOwned::to_owned)
                .collect()
        };
        let path = |id: &str| plan.paths.get(id).cloned().unwrap_or_default();
        let moved_early = |from: &str, to: &str| {
            let to = plan.paths_after_first.get(to)?;
            plan.deleted_early.contains(from).then_some(to)
        };
        match (before, after) {
            (None, None) => None,
            (Some(before), Some(after)) if moved_early(&before.folder, &after.folder).is_some() => {
                let folder = moved_early(&before.folder, &after.folder)?.clone();
                (segment == MOVED_EARLY).then(|| Change::Moved {
                    number,
                    folder,
                    from: path(&before.folder),
                    flags: flags(&after.flags),
                })
            }
            _ if segment == MOVED_EARLY => None,
            (None, Some(after)) => Some(Change::Created {
                number,
                folder: path(&after.folder),
                flags: flags(&after.flags),
            }),
            (Some(before), None) => {
                let is_implied = plan.deleted.contains(&before.folder) && !self.has_all_messages;
                (!is_implied).then(|| Change::Deleted {
                    number,
                    folder: path(&before.folder),
                })
            }
            (Some(before), Some(after)) if before.folder == after.folder => {
                (before.flags != after.flags).then(|| Change::Flags {
                    number,
                    folder: path(&after.folder),
                    flags: flags(&after.flags),
                })
            }
            // The client has already deleted the message together with the old folder. Therefore
            // the move is reported as a creation.
            (Some(before), Some(after))
                if plan.deleted_early.contains(&before.folder) && !self.has_all_messages =>
            {
                Some(Change::Created {
                    number,
                    folder: path(&after.folder),
                    flags: flags(&after.flags),
                })
            }
            (Some(before), Some(after)) => Some(Change::Moved {
                number,
                folder: path(&after.folder),
                from: path(&before.folder),
                flags: flags(&after.flags),
            }),
        }
    }
}
