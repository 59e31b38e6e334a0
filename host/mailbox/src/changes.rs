//! Returns the changes of a mailbox since a cursor.
//!
//! The result contains the differences between the version of the cursor and the current version.
//! Therefore several changes of a message are at most one change in the result.

mod cursor;
mod page;
mod plan;

use std::collections::HashMap;

use latchmail_core::permissions::{GrantedFolder, Resource, Right};
use latchmail_directory::message_index::FolderHistory;

use crate::access::Access;
use crate::blocking;
use crate::error::Error;
use crate::folder_access::applies;
use crate::folder_path;
use crate::mail::Mail;
use cursor::{Cursor, Tag, tag};
use page::page;
use plan::Plan;

/// A change of a mailbox. Paths are valid at the position of the change in its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A message was created in a folder.
    Created {
        /// The number of the message.
        uid: u64,
        /// The path of the folder.
        folder: String,
        /// The flags of the message.
        flags: Vec<String>,
    },
    /// The flags of a message changed.
    Flags {
        /// The number of the message.
        uid: u64,
        /// The path of the message's folder.
        folder: String,
        /// All flags of the message.
        flags: Vec<String>,
    },
    /// A message was moved.
    Moved {
        /// The number of the message.
        uid: u64,
        /// The path of the new folder.
        folder: String,
        /// The path of the old folder.
        from: String,
        /// All flags of the message.
        flags: Vec<String>,
    },
    /// A message was deleted.
    Deleted {
        /// The number of the message.
        uid: u64,
        /// The path of the folder that contained the message.
        folder: String,
    },
    /// A folder was created.
    FolderCreated {
        /// The path of the folder.
        folder: String,
        /// The id of the folder.
        id: String,
    },
    /// A folder was renamed.
    FolderRenamed {
        /// The new path of the folder.
        folder: String,
        /// The old path of the folder.
        from: String,
        /// The id of the folder.
        id: String,
    },
    /// A folder was deleted with its messages.
    FolderDeleted {
        /// The path of the folder.
        folder: String,
        /// The id of the folder.
        id: String,
    },
}

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePage {
    /// The cursor after this page.
    pub cursor: String,
    /// `true` if another page follows.
    pub more: bool,
    /// The changes, in the order in which a client must apply them.
    pub changes: Vec<Change>,
}

/// The folders that a caller can see.
enum Visible<'a> {
    All,
    /// The folders that are granted to a member, by id.
    Granted(HashMap<&'a str, Vec<&'a GrantedFolder>>),
}

impl Mail {
    /// Returns at most `limit` changes since the cursor `since`, in one folder or in all folders.
    /// Without `since`, returns the current cursor and no changes. Returns `None` if the folder
    /// does not exist.
    ///
    /// # Errors
    /// Returns [`Error::CursorExpired`] if the cursor is not valid. Returns another [`Error`] if
    /// the operation fails.
    pub async fn changes(
        &self,
        access: &Access,
        since: Option<&str>,
        folder: Option<&str>,
        limit: u32,
    ) -> Result<Option<ChangePage>, Error> {
        let visible = Visible::of(access)?;
        let folder = folder.map(folder_path::normalize);
        let row = cursor_row(access);
        let cursor = since.map(|text| {
            let cursor = Cursor::open(&self.keys, &row, text);
            let matches = |cursor: &Cursor| cursor.folder.is_some() == folder.is_some();
            cursor.filter(matches).ok_or(Error::CursorExpired)
        });
        let cursor = cursor.transpose()?;
        let version = self.sync(access).await?;
        let mut cursor = cursor.unwrap_or_else(|| Cursor::at(version));
        if cursor.until > version {
            return Err(Error::CursorExpired);
        }
        cursor.begin(version);
        let (message_index, account) = (self.message_index(), &access.account);
        let mut folders = message_index
            .log
            .folder_histories(account, cursor.since, cursor.until)
            .await?;
        folders.retain(|folder| visible.contains(folder));
        if let Some(path) = folder {
            let Some(found) = find_folder(&folders, &cursor, path)? else {
                self.require_folder(access, path, Right::MailRead).await?;
                return Ok(None);
            };
            cursor.folder = Some(folder_tag(found));
            folders = vec![found.clone()];
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let plan = plan(folders).await?;
        let page = page(message_index, account, plan, cursor, version, limit).await?;
        // The sweep can delete changes at any time. Therefore check after the changes were read.
        let log = message_index.log.log_state(account).await?;
        if log.is_none_or(|log| log.pruned_version > cursor.since) {
            return Err(Error::CursorExpired);
        }
        Ok(Some(ChangePage {
            cursor: page
                .cursor
                .seal(&self.keys, &row, access.member.is_some())?,
            more: page.more,
            changes: page.changes,
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
/// So no cursor of a member has a version before the grant.
fn cursor_row(access: &Access) -> String {
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

/// Returns the folder of a request. `cursor.folder` is `None` if the request has no cursor. Returns
/// `None` if the folder does not exist.
///
/// # Errors
/// Returns [`Error::CursorExpired`] if the cursor belongs to another folder.
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
        // The folder was deleted before the version of the cursor.
        return match now {
            Some(_) => Err(Error::CursorExpired),
            None => Ok(None),
        };
    };
    // The client may not know yet that the folder was renamed.
    let is_named = [&found.before, &found.after, &found.now]
        .into_iter()
        .any(has_path);
    if is_named {
        return Ok(Some(found));
    }
    if found.now.is_none() && now.is_none() {
        return Ok(None);
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

    /// Returns `true` if the caller is allowed to read the folder. See [`crate::folder_access`].
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
            limit,
        )
        .await?;
        let position = Position(page.cursor);
        let page = ChangePage {
            cursor: String::new(),
            more: page.more,
            changes: page.changes,
        };
        Ok((page, position))
    }
}
