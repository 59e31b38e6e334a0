//! Syncs the message index with the mail server: folders, locations and flags, including the
//! changes of other clients. The message index adds each difference to the change log.
//!
//! A sync lists all folders with their HIGHESTMODSEQ, and reads the changes of those folders whose
//! HIGHESTMODSEQ differs from the stored HIGHESTMODSEQ. If the server has no QRESYNC, a sync
//! compares the flags of all messages. New messages get message numbers as in listings
//! ([`crate::numbers::reconcile`]), so a message that another client has moved keeps its message
//! number. A message that is not at its stored location is removed only if the message has arrived
//! in no folder.
//!
//! The HIGHESTMODSEQ of a folder is stored after all changes of the folder are stored. Therefore,
//! if a sync ends early, the next sync reads the same changes again.

use std::collections::{BTreeMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use latchmail_core::message_number::Uid;
use latchmail_directory::message_index::{
    FolderMessages, IndexedFolder, IndexedMessage, StoredFlags, SyncedFolder,
};
use latchmail_imap::Opened;

use super::Numbers;
use crate::access::Access;
use crate::blocking;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::states::FolderState;
use crate::message::identity::identity;
use crate::numbers::reconcile::{Vanished, unnumbered};

/// Maximum number of attempts if other clients or hosts change the mailbox during a sync.
const ATTEMPTS: usize = 6;
/// Maximum number of messages that get message numbers in one transaction.
const BATCH: usize = 500;
/// Like [`BATCH`], for a server without message ids. Without ids, each message needs up to 256 KiB
/// of memory for its header.
const BATCH_WITH_HEADERS: usize = 100;
/// Estimated memory of a message while its flags are compared, in bytes.
const BYTES_PER_MESSAGE: usize = 64;
/// Maximum number of messages in one SEARCH.
const SEARCH_BATCH: usize = 1000;

impl Numbers {
    /// Brings the message index to the state of the mail server. Returns the version of the change
    /// log.
    ///
    /// Only one sync of an account runs at a time on this host. A call that has waited uses the
    /// result of another call's sync if that sync started after this call.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the mailbox changed during every attempt. Returns another
    /// [`Error`] if the operation fails.
    pub(crate) async fn sync(&self, access: &Access) -> Result<u64, Error> {
        let asked = self.sync_ticket.fetch_add(1, Ordering::Relaxed);
        let (access, _lock) = &self
            .context
            .connections
            .lock(&self.sync_locks, access)
            .await?;
        if let Some((started, version)) = self.syncs.get(&access.account)
            && started > asked
        {
            return Ok(version);
        }
        let started = self.sync_ticket.fetch_add(1, Ordering::Relaxed);
        for attempt in 0..ATTEMPTS {
            if let Some(version) = self.sync_once(access, attempt > 0).await? {
                self.syncs
                    .insert(access.account.clone(), (started, version));
                return Ok(version);
            }
        }
        Err(Error::Unavailable(
            "the mailbox changed during every attempt to read it".into(),
        ))
    }

    /// Syncs once. Returns `None` if the sync must be repeated. `again` is `true` if an earlier
    /// attempt was not successful.
    async fn sync_once(&self, access: &Access, again: bool) -> Result<Option<u64>, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let states = self.folders.states_with_modseqs(access).await?;
        let listed = self.folders.update_index(access, &states).await?;
        let mut vanished = Vanished::default();
        let (mut synced, mut seen) = (Vec::new(), HashSet::new());
        for (state, folder) in states.iter().zip(&listed) {
            if !seen.insert(folder.id.as_str()) || is_current(state, folder) {
                continue;
            }
            let highest_modseq = self.sync_folder(access, folder, &mut vanished).await?;
            let Some(highest_modseq) = highest_modseq else {
                return Ok(None);
            };
            synced.push((folder, highest_modseq));
        }
        self.find_missing_folders(access, &seen, again, &mut vanished)
            .await?;
        if !vanished.messages.is_empty() || !vanished.folders.is_empty() {
            let Some(removed) = self.remove_vanished(access, vanished).await? else {
                return Ok(None);
            };
            message_index.remove_folders(account, &removed).await?;
        }
        for (folder, highest_modseq) in synced {
            if folder.highest_modseq() != Some(highest_modseq) {
                message_index
                    .set_highest_modseq(account, &synced_folder(folder), highest_modseq)
                    .await?;
            }
        }
        Ok(message_index.log.start_log(account).await?)
    }

    /// Syncs the messages of one folder. Adds the messages that are not at their stored locations
    /// to `vanished`. Returns the HIGHESTMODSEQ of the folder, or 0 if the server has no QRESYNC.
    /// Returns `None` if the sync must be repeated: another sync changed the folder, the folder
    /// does not exist any longer, or other clients moved its messages.
    async fn sync_folder(
        &self,
        access: &Access,
        folder: &IndexedFolder,
        vanished: &mut Vanished,
    ) -> Result<Option<u64>, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let (path, uid_validity) = (&folder.path, folder.uid_validity());
        let since = folder.highest_modseq();
        let changes = {
            let mut lease = self.context.connections.lease(access, Some(path)).await?;
            retry_read!(lease, session => session.flags_since(path, uid_validity, since))
        };
        let Some(changes) = changes.filter(|c| c.opened.uid_validity == uid_validity) else {
            return Ok(None);
        };
        let at = synced_folder(folder);
        let stored = if changes.vanished.is_some() {
            let uids: Vec<Uid> = changes.flags.iter().map(|(uid, _)| *uid).collect();
            message_index.flags_at(&at, &uids).await?
        } else {
            message_index.folder_flags(&at).await?
        };
        let bytes = (changes.flags.len() + stored.count()) * BYTES_PER_MESSAGE;
        let compared = blocking::run_sized(bytes, move || Differences::new(changes.flags, stored));
        let compared = compared.await.map_err(Error::Internal)?;
        let is_numbered = self.number_messages(access, path, changes.opened, &compared.new);
        if !is_numbered.await? {
            return Ok(None);
        }
        if !message_index
            .set_flags(account, &at, &compared.flags)
            .await?
        {
            return Ok(None);
        }
        let messages = match &changes.vanished {
            Some(ranges) => {
                let selection = FolderMessages::Ranges(uid_validity, ranges);
                message_index
                    .folder_messages(account, &folder.id, selection)
                    .await?
            }
            None => self.not_found(access, folder, &compared.unlisted).await?,
        };
        vanished.messages.extend(messages);
        Ok(Some(changes.highest_modseq.unwrap_or(0)))
    }

    /// Returns the messages of a folder that are in the message index but not in the folder on the
    /// mail server. `unlisted` contains the stored UIDs that the server has not listed.
    async fn not_found(
        &self,
        access: &Access,
        folder: &IndexedFolder,
        unlisted: &[RangeInclusive<Uid>],
    ) -> Result<Vec<IndexedMessage>, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let uid_validity = folder.uid_validity();
        let mut messages = Vec::new();
        for ranges in unlisted.chunks(SEARCH_BATCH) {
            let selection = FolderMessages::Ranges(uid_validity, ranges);
            let found = message_index
                .folder_messages(account, &folder.id, selection)
                .await?;
            // A message can have arrived between the FETCH and the database query. Therefore check
            // on the mail server whether the messages are missing.
            messages.extend(self.missing(access, found).await?);
        }
        let selection = FolderMessages::OtherUidValidity(uid_validity);
        messages.extend(
            message_index
                .folder_messages(account, &folder.id, selection)
                .await?,
        );
        Ok(messages)
    }

    /// Adds the folders that are not in the mail server's list, and their messages, to `vanished`.
    /// If `again` is `true`, also adds the messages of folders whose deletion is in the change log.
    async fn find_missing_folders(
        &self,
        access: &Access,
        listed: &HashSet<&str>,
        again: bool,
        vanished: &mut Vanished,
    ) -> Result<(), Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let folders = if again {
            message_index.occupied_folders(account).await?
        } else {
            message_index.existing_folders(account).await?
        };
        for folder in folders {
            if listed.contains(folder.id.as_str()) {
                continue;
            }
            // The list can omit a folder that the server fails to open. In that case, the SEARCH
            // returns an error, so the folder is not treated as deleted.
            let (path, uid_validity) = (&folder.path, folder.uid_validity());
            let mut lease = self.context.connections.lease(access, None).await?;
            let _ = retry_read!(lease, session => session.existing(path, uid_validity, &[Uid(1)]));
            drop(lease);
            let selection = FolderMessages::All;
            let messages = message_index.folder_messages(account, &folder.id, selection);
            vanished.messages.extend(messages.await?);
            vanished.folders.insert(folder.id);
        }
        Ok(())
    }

    /// Assigns message numbers to messages of a folder. Returns `false` if other clients or hosts
    /// changed the folder or moved the messages.
    async fn number_messages(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        uids: &[Uid],
    ) -> Result<bool, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let uid_validity = opened.uid_validity;
        let mut rest = uids;
        let mut checked = HashSet::new();
        while !rest.is_empty() {
            let mut lease = self.context.connections.lease(access, Some(path)).await?;
            let has_ids = lease.session().await?.has_message_ids();
            let batch = if has_ids { BATCH } else { BATCH_WITH_HEADERS };
            let (uids, remaining) = rest.split_at(batch.min(rest.len()));
            rest = remaining;
            // The processing of an earlier batch may have assigned message numbers to these
            // messages.
            let known = message_index
                .known(account, path, uid_validity, uids)
                .await?;
            let new = unnumbered(path, uid_validity, uids, &known);
            if new.is_empty() {
                continue;
            }
            let fetched = retry_read!(lease, session => session.identities_at(&new));
            drop(lease);
            let Some(fetched) = fetched else {
                return Ok(false);
            };
            let messages: Vec<_> = fetched.iter().map(|m| (m.uid, identity(m))).collect();
            if !messages.is_empty() {
                let numbers = self.of_part(access, path, opened, &messages, &mut checked);
                if numbers.await?.is_none() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The differences between the messages that the server has listed and the stored messages.
struct Differences {
    /// The UIDs of the messages that are not stored.
    new: Vec<Uid>,
    /// The UIDs and current flags of the new messages, and of the messages whose stored flags
    /// differ.
    flags: Vec<(Uid, Arc<str>)>,
    /// The UIDs of the stored messages that are not listed.
    unlisted: Vec<RangeInclusive<Uid>>,
}

impl Differences {
    fn new(listed: Vec<(Uid, Arc<str>)>, stored: StoredFlags) -> Self {
        // If a message is listed twice, the last flags are the newest.
        let listed: BTreeMap<Uid, Arc<str>> = listed.into_iter().collect();
        let stored = stored.into_map();
        let mut unlisted: Vec<RangeInclusive<Uid>> = stored
            .keys()
            .filter(|uid| !listed.contains_key(uid))
            .map(|uid| *uid..=*uid)
            .collect();
        unlisted.sort_unstable_by_key(|range| *range.start());
        let new = listed.keys().filter(|uid| !stored.contains_key(uid));
        Self {
            new: new.copied().collect(),
            unlisted,
            flags: listed
                .into_iter()
                .filter(|(uid, flags)| stored.get(uid).and_then(Option::as_ref) != Some(flags))
                .collect(),
        }
    }
}

/// Returns `true` if the message index contains all changes of the folder.
fn is_current(state: &FolderState, folder: &IndexedFolder) -> bool {
    state.highest_modseq.is_some() && state.highest_modseq == folder.highest_modseq()
}

fn synced_folder(folder: &IndexedFolder) -> SyncedFolder<'_> {
    SyncedFolder {
        id: &folder.id,
        uid_validity: folder.uid_validity(),
        highest_modseq: folder.highest_modseq(),
    }
}
