//! Updates the message index after this service has moved, copied or expunged messages.

use std::collections::{BTreeMap, BTreeSet};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::Location;
use latchmail_imap::MessageRef;
use latchmail_imap::change::Moved;

use super::Numbers;
use crate::access::Access;
use crate::cache::FolderKey;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::identity::identity;

impl Numbers {
    /// Stores the new locations of moved messages. Returns the former IMAP UIDs of these messages.
    /// If the locations cannot be stored, a later reconciliation finds the messages by identity.
    pub(crate) async fn store_moved(
        &self,
        access: &Access,
        messages: &[(MessageNumber, Uid)],
        to: &str,
        moved: &Moved,
    ) -> BTreeSet<Uid> {
        let account = &access.account;
        let numbers: BTreeMap<Uid, MessageNumber> = messages
            .iter()
            .map(|(number, uid)| (*uid, *number))
            .collect();
        let new_uids: Vec<(MessageNumber, Uid)> = moved
            .uids
            .iter()
            .filter_map(|(old, new)| Some((*numbers.get(old)?, *new)))
            .collect();
        if !new_uids.is_empty() {
            let uid_validity = moved.uid_validity;
            let store = async {
                let stored = self
                    .context
                    .message_index()
                    .moved(account, to, uid_validity, &new_uids)
                    .await?;
                if !stored {
                    // The message index does not contain the destination folder, because another
                    // client created the folder after the last list of folders.
                    self.folders.refresh(access).await?;
                    self.context
                        .message_index()
                        .moved(account, to, uid_validity, &new_uids)
                        .await?;
                }
                Ok::<_, Error>(())
            };
            if let Err(error) = store.await {
                tracing::error!(%error, "failed to store the new locations of moved messages");
            }
        }
        for (number, _) in &new_uids {
            self.context.cache.remove_location(account, *number);
        }
        let folder = FolderKey::new(account, to, moved.uid_validity);
        let new_uids = new_uids.iter().map(|(_, uid)| *uid);
        self.context.cache.remove_moved_summaries(folder, new_uids);
        moved.uids.iter().map(|(old, _)| *old).collect()
    }

    /// Assigns message numbers to the copies of messages in the folder `to`. `originals` contains
    /// the message number and the IMAP UID of each original. Returns the IMAP UID of each original
    /// and the message number of its copy. A copy that another client has removed or moved has a
    /// number too, because the copy was made. A later reconciliation processes its removal.
    ///
    /// Does not reconcile, because the server has reported which messages are copies. Another
    /// reconciliation can have assigned a message number to a copy already.
    pub(crate) async fn number_copies(
        &self,
        access: &Access,
        originals: &[(MessageNumber, Uid)],
        to: &str,
        copied: &Moved,
    ) -> Result<Vec<(Uid, MessageNumber)>, Error> {
        let (account, uid_validity) = (&access.account, copied.uid_validity);
        let new: Vec<MessageRef<'_>> = copied
            .uids
            .iter()
            .map(|(_, uid)| MessageRef {
                path: to,
                uid_validity,
                uid: *uid,
            })
            .collect();
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let mut lease = self.context.connections.lease(access, Some(to)).await?;
        let fetched = retry_read!(lease, session => session.identities_at(&new));
        drop(lease);
        let fetched = fetched.unwrap_or_default();
        let mut messages: Vec<_> = fetched.iter().map(|m| (m.uid, identity(m))).collect();
        let index = self.context.message_index();
        let found: BTreeSet<Uid> = fetched.iter().map(|message| message.uid).collect();
        let removed: BTreeMap<MessageNumber, Uid> = (copied.uids.iter())
            .filter(|(_, copy)| !found.contains(copy))
            .filter_map(|(original, copy)| {
                let (number, _) = originals.iter().find(|(_, uid)| uid == original)?;
                Some((*number, *copy))
            })
            .collect();
        if !removed.is_empty() {
            // A copy has the identity of its original.
            let numbers: Vec<MessageNumber> = removed.keys().copied().collect();
            let originals = index.messages(account, &numbers).await?;
            let removed = originals.iter().filter_map(|original| {
                let copy = removed.get(&original.number())?;
                Some((*copy, original.identity()))
            });
            messages.extend(removed);
        }
        let mut numbers = index
            .assign_numbers(account, to, uid_validity, &messages, &[])
            .await?;
        if numbers.is_none() {
            // Another client created the folder after the last list of folders.
            self.folders.refresh(access).await?;
            numbers = index
                .assign_numbers(account, to, uid_validity, &messages, &[])
                .await?;
        }
        let numbers = numbers.unwrap_or_default();
        let numbers = copied.uids.iter().map(|(original, copy)| {
            let number = numbers.get(copy).copied();
            let gone = || Error::Internal("another client removed an original and its copy".into());
            Ok((*original, number.ok_or_else(gone)?))
        });
        numbers.collect()
    }

    /// Removes expunged messages from the message index. Returns the IMAP UIDs of the expunged
    /// messages that are in no other folder. If another client moved a message just before the
    /// expunge, the message still exists in its new folder.
    pub(crate) async fn remove_expunged(
        &self,
        access: &Access,
        messages: &[(MessageNumber, Uid)],
        expunged: &BTreeSet<Uid>,
    ) -> Result<BTreeSet<Uid>, Error> {
        let account = &access.account;
        let uids: BTreeMap<MessageNumber, Uid> = messages
            .iter()
            .filter(|(_, uid)| expunged.contains(uid))
            .copied()
            .collect();
        if uids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let unknown = |error: Error| {
            Error::Unknown(format!(
                "messages may have moved before they were expunged: {error}"
            ))
        };
        let before = self.indexed_locations(account, &uids).await;
        let before = before.map_err(unknown)?;
        let reconciled = async {
            let numbers: BTreeSet<MessageNumber> = uids.keys().copied().collect();
            self.reconcile_locked(access, &numbers).await?;
            self.indexed_locations(account, &uids).await
        };
        let after = reconciled.await.map_err(unknown)?;
        let was_moved = |number: &MessageNumber| {
            let location = after.get(number);
            location.is_some_and(|location| before.get(number) != Some(location))
        };
        let deleted: Vec<MessageNumber> = uids
            .keys()
            .filter(|number| !was_moved(number))
            .copied()
            .collect();
        if let Err(error) = self.context.message_index().remove(account, &deleted).await {
            tracing::error!(%error, "failed to remove deleted messages from the message index of the database");
        }
        for number in uids.keys() {
            match before.get(number) {
                Some(location) => self
                    .context
                    .cache
                    .remove_message(account, *number, location),
                None => self.context.cache.remove_location(account, *number),
            }
        }
        Ok(deleted.iter().map(|number| uids[number]).collect())
    }

    async fn indexed_locations(
        &self,
        account: &str,
        uids: &BTreeMap<MessageNumber, Uid>,
    ) -> Result<BTreeMap<MessageNumber, Location>, Error> {
        let numbers: Vec<MessageNumber> = uids.keys().copied().collect();
        let locations = self
            .context
            .message_index()
            .locations(account, &numbers)
            .await?;
        Ok(locations.into_iter().collect())
    }
}
