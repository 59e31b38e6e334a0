//! Returns the changes of a mailbox since a cursor.
//!
//! The result contains the differences between the version of the cursor and the current version.
//! Therefore several changes of a message are at most one change in the result.

mod change;
mod cursor;
mod entry;
mod page;
mod plan;

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::keyring::Keyring;
use latchmail_core::permissions::{GrantedFolder, Resource, Right};
use latchmail_directory::message_index::FolderHistory;

use crate::access::Access;
use crate::blocking;
use crate::context::Context;
use crate::error::Error;
use crate::folders::Folders;
use crate::folders::path::normalize_path;
use crate::folders::rights::applies;
use crate::numbers::Numbers;
pub use change::Change;
use cursor::{Cursor, Tag, tag};
pub use entry::{Entry, EntryContent};
use page::{PageOptions, page};
use plan::Plan;

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePage {
    /// The cursor after this page.
    pub cursor: String,
    /// `true` if another page follows.
    pub more: bool,
    /// The changes, in the order in which a client must apply the changes.
    pub changes: Vec<Change>,
}

/// A page of the change log with the events of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPage {
    /// The cursor after this page.
    pub cursor: String,
    /// `true` if another page follows.
    pub more: bool,
    /// The entries, in the order in which a client must apply the changes.
    pub entries: Vec<Entry>,
}

impl EntryPage {
    /// Returns the page with the changes of messages and folders only.
    fn into_changes(self) -> ChangePage {
        let entries = self.entries.into_iter();
        ChangePage {
            cursor: self.cursor,
            more: self.more,
            changes: entries.filter_map(Entry::into_change).collect(),
        }
    }
}

/// The folders that a caller can see.
enum Visible<'a> {
    All,
    /// The folders that are granted to a member, by the folder's public id.
    Granted(HashMap<&'a str, Vec<&'a GrantedFolder>>),
}

/// The change logs of mailboxes.
#[derive(Debug)]
pub struct ChangeLog {
    context: Arc<Context>,
    folders: Arc<Folders>,
    numbers: Arc<Numbers>,
    /// The keys that encrypt and authenticate cursors.
    keys: Arc<Keyring>,
}

impl ChangeLog {
    pub(crate) fn new(
        context: Arc<Context>,
        folders: Arc<Folders>,
        numbers: Arc<Numbers>,
        keys: Arc<Keyring>,
    ) -> Self {
        Self {
            context,
            folders,
            numbers,
            keys,
        }
    }

    /// Returns at most `limit` changes since the cursor `since`, in one folder or in all folders.
    /// Without `since`, returns the current cursor and no changes. Returns `None` if the folder
    /// does not exist.
    ///
    /// # Errors
    /// Returns [`Error::CursorExpired`] if the cursor is not valid. Returns another [`Error`] if
    /// the operation fails.
    pub async fn page(
        &self,
        access: &Access,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<Option<ChangePage>, Error> {
        let options = PageOptions {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            has_events: false,
            has_all_messages: false,
        };
        let page = self.read(access, since, folder, options).await?;
        Ok(page.map(EntryPage::into_changes))
    }

    /// Like [`ChangeLog::page`] for all folders, but each message of a deleted folder has a change
    /// of its own, and a message that was moved out of a deleted folder has a move.
    ///
    /// # Errors
    /// Returns the errors of [`ChangeLog::page`].
    pub async fn message_page(
        &self,
        access: &Access,
        since: Option<&str>,
        limit: u32,
    ) -> Result<ChangePage, Error> {
        let options = PageOptions {
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            has_events: false,
            has_all_messages: true,
        };
        let page = self.read(access, since, None, options).await?;
        let missing = || Error::Internal("a page without a folder is missing".into());
        Ok(page.ok_or_else(missing)?.into_changes())
    }

    /// Like [`ChangeLog::page`], with the time of each change, and for the owner of the mailbox
    /// with the other events of the account. With `folder`, there are no other events.
    ///
    /// # Errors
    /// Returns the errors of [`ChangeLog::page`].
    pub async fn entries(
        &self,
        access: &Access,
        since: Option<&str>,
        folder: Option<&str>,
        limit: usize,
    ) -> Result<Option<EntryPage>, Error> {
        let has_events = access.member.is_none() && folder.is_none();
        let options = PageOptions {
            limit,
            has_events,
            has_all_messages: false,
        };
        self.read(access, since, folder, options).await
    }

    /// Brings the change log to the state of the mail server, and returns the version of its last
    /// entry. The caller must be the owner of the mailbox.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn version(&self, access: &Access) -> Result<u64, Error> {
        self.numbers.sync(access).await
    }

    /// Returns the cursor after an entry. A client that continues there gets the entries that
    /// follow.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if no cursor can be created.
    pub fn cursor_after(&self, access: &Access, entry: &Entry) -> Result<String, Error> {
        let is_member = access.member.is_some();
        entry.after.seal(&self.keys, &cursor_row(access), is_member)
    }

    async fn read(
        &self,
        access: &Access,
        since: Option<&str>,
        folder: Option<&str>,
        options: PageOptions,
    ) -> Result<Option<EntryPage>, Error> {
        let visible = Visible::of(access)?;
        let folder = folder.map(normalize_path);
        let row = cursor_row(access);
        let cursor = since.map(|text| {
            let cursor = Cursor::open(&self.keys, &row, text);
            let matches = |cursor: &Cursor| cursor.folder.is_some() == folder.is_some();
            cursor.filter(matches).ok_or(Error::CursorExpired)
        });
        let cursor = cursor.transpose()?;
        let version = self.numbers.sync(access).await?;
        let mut cursor = cursor.unwrap_or_else(|| Cursor::at(version));
        if cursor.until > version {
            return Err(Error::CursorExpired);
        }
        cursor.begin(version);
        let (message_index, account) = (self.context.message_index(), &access.account);
        let mut folders = message_index
            .log
            .folder_histories(account, cursor.since, cursor.until)
            .await?;
        folders.retain(|folder| visible.contains(folder));
        if let Some(path) = folder {
            let Some(found) = find_folder(&folders, &cursor, path)? else {
                self.folders.require(access, path, Right::MailRead).await?;
                return Ok(None);
            };
            cursor.folder = Some(folder_tag(found));
            folders = vec![found.clone()];
        }
        let plan = plan(folders).await?;
        let page = page(message_index, account, plan, cursor, version, options).await?;
        // The sweep can delete old changes from the change log at any time. Therefore check after
        // the changes were read whether some of these changes were deleted.
        let log = message_index.log.log_state(account).await?;
        if log.is_none_or(|log| log.pruned_version > cursor.since) {
            return Err(Error::CursorExpired);
        }
        Ok(Some(EntryPage {
            cursor: page
                .cursor
                .seal(&self.keys, &row, access.member.is_some())?,
            more: page.more,
            entries: page.entries,
        }))
    }
}

/// Returns the plan for these folders.
async fn plan(folders: Vec<FolderHistory>) -> Result<Plan, Error> {
    let bytes = folders.len() * size_of::<FolderHistory>();
    let plan = blocking::run_sized(bytes, move || Plan::new(&folders));
    plan.await.map_err(Error::Internal)
}

/// Returns the text to which the cursors of a caller are bound: the mailbox, and the grants of a
/// member. If a grant with the right to read mail is added or revoked, the member's cursors expire.
/// Therefore a member's cursor never has a version from before a grant, and the member cannot read
/// earlier changes.
#[must_use]
pub fn cursor_row(access: &Access) -> String {
    let Some(member) = &access.member else {
        return access.account.clone();
    };
    let readable = member
        .grants
        .iter()
        .filter(|granted| granted.rights.hold(Right::MailRead));
    let mut grants: Vec<String> = readable
        .filter_map(|granted| match &granted.resource {
            Resource::Mailbox => Some(format!("{} mailbox", granted.id)),
            Resource::Folder(folder) => {
                let GrantedFolder { id, uid_validity } = folder;
                Some(format!("{} folder {uid_validity} {id}", granted.id))
            }
            Resource::Alias(_) | Resource::AliasSet(_) => None,
        })
        .collect();
    grants.sort_unstable();
    grants.dedup();
    format!(
        "{}\0{}\0{}",
        access.account,
        member.account,
        grants.join("\0")
    )
}

/// Returns `true` if both callers can read the same folders of the same mailbox, with the same
/// grants. A cursor that is valid for one of the callers is valid for the other.
#[must_use]
pub fn reads_the_same(one: &Access, other: &Access) -> bool {
    cursor_row(one) == cursor_row(other)
}

/// Returns the folder of a request. `cursor.folder` is `None` if the request has no cursor. Returns
/// `None` if the folder does not exist.
///
/// # Errors
/// Returns [`Error::CursorExpired`] if the cursor belongs to another folder than the path.
fn find_folder<'f>(
    folders: &'f [FolderHistory],
    cursor: &Cursor,
    path: &str,
) -> Result<Option<&'f FolderHistory>, Error> {
    let has_path = |known: &Option<String>| known.as_deref() == Some(path);
    let now = folders.iter().find(|folder| has_path(&folder.now));
    let Some(tag) = cursor.folder else {
        return Ok(now);
    };
    let found = folders.iter().find(|folder| folder_tag(folder) == tag);
    let Some(found) = found else {
        // The folder of the cursor was deleted before the version of the cursor.
        return match now {
            Some(_) => Err(Error::CursorExpired),
            None => Ok(None),
        };
    };
    // Accept an earlier path of the folder, because the client may not know yet that the folder was
    // renamed.
    let is_named = [&found.before, &found.after, &found.now]
        .into_iter()
        .any(has_path);
    // The cursor identifies the folder. A stream and a webhook continue with their first path.
    if is_named || now.is_none() {
        return Ok(Some(found));
    }
    Err(Error::CursorExpired)
}

fn folder_tag(folder: &FolderHistory) -> Tag {
    tag(&folder.id)
}

impl<'a> Visible<'a> {
    /// Returns the folders that the caller is allowed to read.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller is not allowed to read any folder.
    fn of(access: &'a Access) -> Result<Self, Error> {
        let Some(member) = &access.member else {
            return Ok(Self::All);
        };
        if !member.grants.over_some_folder().hold(Right::MailRead) {
            return Err(Error::Denied(Right::MailRead));
        }
        if member.grants.over_every_folder().hold(Right::MailRead) {
            return Ok(Self::All);
        }
        let mut granted: HashMap<&str, Vec<&GrantedFolder>> = HashMap::new();
        for (folder, rights) in member.grants.folders() {
            if rights.hold(Right::MailRead) {
                granted.entry(&folder.id).or_default().push(folder);
            }
        }
        Ok(Self::Granted(granted))
    }

    /// Returns `true` if the caller is allowed to read the folder. See [`crate::folders::rights`].
    fn contains(&self, folder: &FolderHistory) -> bool {
        match self {
            Self::All => true,
            Self::Granted(granted) => {
                let granted = granted.get(folder.public_id.as_str());
                granted.is_some_and(|granted| {
                    let mut granted = granted.iter();
                    granted.any(|one| applies(one, folder.has_object_id, folder.uid_validity))
                })
            }
        }
    }
}

/// Reads pages without a mail server.
#[cfg(test)]
pub(crate) mod testing {
    use latchmail_directory::message_index::MessageIndex;

    use super::*;

    /// A position in the change log of a mailbox.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Position(Cursor);

    /// Returns the page after a position. `visible` selects the folders.
    pub(crate) async fn read_page(
        message_index: &MessageIndex,
        account: &str,
        position: Option<Position>,
        version: u64,
        limit: usize,
        visible: impl Fn(&FolderHistory) -> bool,
    ) -> Result<(ChangePage, Position), Error> {
        let mut cursor = position.map_or_else(|| Cursor::at(version), |position| position.0);
        cursor.begin(version);
        let (since, until) = (cursor.since, cursor.until);
        let mut folders = message_index
            .log
            .folder_histories(account, since, until)
            .await?;
        folders.retain(visible);
        let page = page(
            message_index,
            account,
            plan(folders).await?,
            cursor,
            version,
            PageOptions {
                limit,
                has_events: false,
                has_all_messages: false,
            },
        )
        .await?;
        let position = Position(page.cursor);
        let page = ChangePage {
            cursor: String::new(),
            more: page.more,
            changes: page
                .entries
                .into_iter()
                .filter_map(Entry::into_change)
                .collect(),
        };
        Ok((page, position))
    }
}
