//! Moves messages to Trash, and restores messages from Trash to the folder that they came from.
//!
//! The message index records the previous folder of each message that is moved, also if another
//! client moves the message. The record contains the id of the folder, so a message is restored to
//! the same folder after a rename.

use std::collections::BTreeMap;
use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;
use latchmail_core::permissions::Right;
use latchmail_imap::INBOX;
use latchmail_imap::list::Role;

use super::Changer;
use super::change::{Action, Change, Source, after_changes};
use crate::access::Access;
use crate::error::Error;

impl Changer {
    /// Moves messages to the folder with the role `\Trash`. Returns the message numbers of the
    /// messages that exist. With `if_version`, `numbers` must contain one number.
    ///
    /// # Errors
    /// Returns [`Error::NoTrashFolder`] if no folder has the role. Returns [`Error::Denied`] if the
    /// caller is a member without the right to change the folder. Returns [`Error::MessageChanged`]
    /// if the message has another version than `if_version`. Returns another [`Error`] if the
    /// operation fails.
    pub async fn trash(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        if_version: Option<String>,
    ) -> Result<Vec<MessageNumber>, Error> {
        let (changer, access, numbers) = (Arc::clone(self), access.clone(), numbers.to_vec());
        self.run(async move {
            let (access, _lock) = &changer.lock(&access).await?;
            changer.trash_locked(access, numbers, if_version).await
        })
        .await
    }

    /// Like [`Changer::trash`]. The caller must hold the account's lock.
    pub(crate) async fn trash_locked(
        &self,
        access: &Access,
        numbers: Vec<MessageNumber>,
        if_version: Option<String>,
    ) -> Result<Vec<MessageNumber>, Error> {
        let to = self.trash_folder(access).await?;
        let change = Change {
            action: Action::Move { to },
            if_version,
            only_from: None,
        };
        let moved = self.change(access, numbers, &change).await?;
        Ok(moved.ok_or(Error::NoTrashFolder)?.numbers)
    }

    /// Moves messages from the folder with the role `\Trash` to the folder that they came from. If
    /// that folder is unknown or does not exist, moves them to INBOX. Skips messages that are not
    /// in Trash. Returns the message numbers of the restored messages.
    ///
    /// # Errors
    /// Returns [`Error::NotInTrash`] if messages exist, but none of them is in Trash. Returns the
    /// other errors of [`Changer::trash`] in the same cases.
    pub async fn restore(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
    ) -> Result<Vec<MessageNumber>, Error> {
        let (changer, access, numbers) = (Arc::clone(self), access.clone(), numbers.to_vec());
        self.run(async move {
            let (access, _lock) = &changer.lock(&access).await?;
            changer.restore_from_trash(access, &numbers).await
        })
        .await
    }

    async fn restore_from_trash(
        &self,
        access: &Access,
        numbers: &[MessageNumber],
    ) -> Result<Vec<MessageNumber>, Error> {
        let trash = self.trash_folder(access).await?;
        // The reconciliation also updates the paths of renamed folders.
        let source = Source::ReconciledIndex;
        let rights = [Right::MailWrite];
        let mut locations = self
            .authorized_locations(access, numbers, source, &rights)
            .await?;
        let exist = !locations.is_empty();
        locations.retain(|(_, location)| location.path == trash);
        if exist && locations.is_empty() {
            return Err(Error::NotInTrash);
        }
        let numbers: Vec<MessageNumber> = locations.iter().map(|(number, _)| *number).collect();
        let previous = self
            .context
            .message_index()
            .previous_folders(&access.account, &numbers)
            .await?;
        let previous: BTreeMap<MessageNumber, String> = previous.into_iter().collect();
        let mut by_folder: BTreeMap<&str, Vec<MessageNumber>> = BTreeMap::new();
        for number in numbers {
            let path = previous.get(&number).map_or(INBOX, String::as_str);
            let path = if path == trash { INBOX } else { path };
            by_folder.entry(path).or_default().push(number);
        }
        let mut restored = Vec::new();
        for (path, numbers) in by_folder {
            let moved = self.restore_to(access, numbers, &trash, path).await;
            restored.extend(moved.map_err(|error| after_changes(&restored, error))?);
        }
        restored.sort_unstable();
        Ok(restored)
    }

    /// Moves messages from the folder `from` to the folder `path`, or to INBOX if the folder `path`
    /// does not exist.
    pub(super) async fn restore_to(
        &self,
        access: &Access,
        numbers: Vec<MessageNumber>,
        from: &str,
        path: &str,
    ) -> Result<Vec<MessageNumber>, Error> {
        for to in [path, INBOX] {
            let change = Change {
                action: Action::Move { to: to.to_owned() },
                if_version: None,
                only_from: Some(from.to_owned()),
            };
            if let Some(moved) = self.change(access, numbers.clone(), &change).await? {
                return Ok(moved.numbers);
            }
            // The caller cannot see the folder, so a move to INBOX would put the message into the
            // wrong folder.
            if access.is_limited() {
                break;
            }
        }
        Err(Error::Denied(Right::MailWrite))
    }

    /// Returns the path of the folder with the role `\Trash`.
    async fn trash_folder(&self, access: &Access) -> Result<String, Error> {
        let trash = self.folders.with_role(access, Role::Trash).await?;
        let path = trash.ok_or(Error::NoTrashFolder)?.path;
        if access.member.is_some() {
            // The rights refer to the ids of folders. Therefore update their paths first.
            self.folders.refresh(access).await?;
            let folder_access = self.folders.usable_by(access).await?;
            let usable = folder_access.require_path(&path, Right::MailWrite)?;
            usable.ok_or(Error::Denied(Right::MailWrite))?;
        }
        Ok(path)
    }
}
