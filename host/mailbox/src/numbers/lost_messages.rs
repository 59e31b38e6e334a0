//! Detects lost messages that have copies, and removes the lost messages from the message index. A
//! message is lost if the message is in no folder of the mailbox. If the message index still
//! contained a lost message, a copy could get the message number of the lost message when the copy
//! is moved.
//!
//! A folder has certainly lost no message if its message count and its UIDNEXT have grown by the
//! same amount. A listing reports the message count and UIDNEXT.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::IndexedMessage;
use latchmail_imap::Opened;

use super::Numbers;
use crate::access::Access;
use crate::cache::FolderKey;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::states::FolderState;
use crate::numbers::locations::message_ref;

impl Numbers {
    /// Returns `true` if the opened folder might have lost a message that has copies. Otherwise
    /// caches the folder's message count and UIDNEXT for the next check.
    pub(super) async fn may_have_lost_copies(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
    ) -> Result<bool, Error> {
        let folder = FolderKey::new(&access.account, path, opened.uid_validity);
        if self.lost_no_message(folder, opened) {
            return Ok(false);
        }
        let with_copies = self
            .context
            .message_index()
            .copied_folders(&access.account)
            .await?;
        if with_copies.iter().any(|copied| copied == path) {
            return Ok(true);
        }
        self.cache_message_count(folder, opened);
        Ok(false)
    }

    /// Returns `true` if any folder of the account might have lost a message of which another copy
    /// exists. Otherwise caches the message count and UIDNEXT of each folder for the next check.
    pub(super) async fn any_may_have_lost_copies(
        &self,
        access: &Access,
        states: &[FolderState],
    ) -> Result<bool, Error> {
        let account = &access.account;
        // The deletion of a folder changes the folder count, unless a new folder was created too.
        // For a new folder, `lost_no_message` returns `false`, because no count is cached.
        let is_same_number = self.folders.counts.get(account) == Some(states.len());
        if is_same_number
            && states
                .iter()
                .all(|state| self.lost_no_message(state.key(account), state.opened))
        {
            return Ok(false);
        }
        let with_copies = self.context.message_index().copied_folders(account).await?;
        let complete = self.complete_folders(account, states);
        if !with_copies
            .iter()
            .all(|path| complete.contains(path.as_str()))
        {
            return Ok(true);
        }
        self.cache_counts(account, states);
        Ok(false)
    }

    /// Returns the paths of the folders that have certainly lost no message since the last check.
    fn complete_folders<'s>(&self, account: &str, states: &'s [FolderState]) -> HashSet<&'s str> {
        let complete = states.iter();
        let complete =
            complete.filter(|state| self.lost_no_message(state.key(account), state.opened));
        complete.map(|state| state.path.as_str()).collect()
    }

    /// Returns `true` if the folder has certainly lost no message since the last call of
    /// [`Self::cache_message_count`]. In that case, the message count and UIDNEXT have grown by the
    /// same amount.
    fn lost_no_message(&self, folder: FolderKey, now: Opened) -> bool {
        let growth = |now: u32, before: u32| i64::from(now) - i64::from(before);
        self.message_counts
            .get(&folder)
            .is_some_and(|(exists, uid_next)| {
                growth(now.exists, exists) == growth(now.uid_next, uid_next) && now.uid_next > 0
            })
    }

    fn cache_message_count(&self, folder: FolderKey, now: Opened) {
        self.message_counts
            .insert(folder, (now.exists, now.uid_next));
    }

    /// Caches the folder count of the account, and the message count and UIDNEXT of each folder,
    /// for the next check.
    pub(super) fn cache_counts(&self, account: &str, states: &[FolderState]) {
        for state in states {
            self.cache_message_count(state.key(account), state.opened);
        }
        self.folders.counts.insert(account.to_owned(), states.len());
    }

    /// Removes lost messages from the message index and from the cache.
    pub(super) async fn remove_lost(
        &self,
        account: &str,
        messages: Vec<IndexedMessage>,
    ) -> Result<(), Error> {
        self.context
            .message_index()
            .remove_lost(account, &messages)
            .await?;
        for message in messages {
            self.context
                .cache
                .remove_message(account, message.number(), &message.location);
        }
        Ok(())
    }

    /// Returns the messages that have copies and are missing at their stored locations.
    pub(super) async fn missing_copies(
        &self,
        access: &Access,
        states: &[FolderState],
    ) -> Result<Vec<IndexedMessage>, Error> {
        let account = &access.account;
        let mut missing = Vec::new();
        let complete = self.complete_folders(account, states);
        for path in self.context.message_index().copied_folders(account).await? {
            if !complete.contains(path.as_str()) {
                let copies = self
                    .context
                    .message_index()
                    .copies_in(account, &path)
                    .await?;
                missing.extend(self.missing(access, copies).await?);
            }
        }
        Ok(missing)
    }

    /// Checks on the mail server which messages are missing at their stored locations. Returns
    /// these messages.
    pub(super) async fn missing(
        &self,
        access: &Access,
        messages: Vec<IndexedMessage>,
    ) -> Result<Vec<IndexedMessage>, Error> {
        let mut present = BTreeSet::new();
        let unopened = self.find_present(access, &messages, &mut present).await?;
        if !unopened.is_empty() {
            // Another client may have renamed the folders in `unopened` since the last list of
            // folders. In that case, the messages are at the new paths of these folders.
            let states = self.folders.states(access).await?;
            let indexed = self.folders.update_index(access, &states).await?;
            let paths: HashMap<&str, &str> = indexed
                .iter()
                .map(|folder| (folder.id.as_str(), folder.path.as_str()))
                .collect();
            let renamed = messages.iter().filter_map(|message| {
                let path = *paths.get(message.folder())?;
                let is_renamed = path != message.location.path;
                (is_renamed && unopened.contains(&message.location.path)).then(|| {
                    let mut renamed = message.clone();
                    path.clone_into(&mut renamed.location.path);
                    renamed
                })
            });
            let renamed: Vec<IndexedMessage> = renamed.collect();
            self.find_present(access, &renamed, &mut present).await?;
        }
        let missing = messages.into_iter();
        Ok(missing
            .filter(|message| !present.contains(&message.number()))
            .collect())
    }

    /// Adds the message numbers of the messages that exist at their stored locations to `present`.
    /// Returns the paths of the folders that do not exist.
    async fn find_present(
        &self,
        access: &Access,
        messages: &[IndexedMessage],
        present: &mut BTreeSet<MessageNumber>,
    ) -> Result<BTreeSet<String>, Error> {
        let mut folders: BTreeMap<(&str, u32), Vec<(Uid, MessageNumber)>> = BTreeMap::new();
        for message in messages {
            let at = message_ref(&message.location);
            let folder = folders.entry((at.path, at.uid_validity)).or_default();
            folder.push((at.uid, message.number()));
        }
        let mut unopened = BTreeSet::new();
        for ((path, uid_validity), messages) in folders {
            let uids: Vec<Uid> = messages.iter().map(|(uid, _)| *uid).collect();
            let mut lease = self.context.connections.lease(access, Some(path)).await?;
            let existing =
                retry_read!(lease, session => session.existing(path, uid_validity, &uids));
            let Some(existing) = existing else {
                unopened.insert(path.to_owned());
                continue;
            };
            let found = messages.iter().filter(|(uid, _)| existing.contains(uid));
            present.extend(found.map(|(_, number)| *number));
        }
        Ok(unopened)
    }
}
