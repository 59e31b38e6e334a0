//! Reconciles the message index with the mail server after other clients have renamed, moved,
//! copied or deleted folders or messages.
//!
//! The mail server's ids identify folders. A message and its copies have the same [`Identity`]. The
//! stored locations distinguish a message from its copies.
//!
//! For each folder, the message index stores the first UID that no reconciliation has processed.
//! The messages from that UID upwards are the arrivals of the folder. If a message is missing at
//! its stored location, the reconciliation searches only the arrivals for the message. The
//! following rules apply to each arrival:
//!
//! - If a message with the same identity is missing at its stored location, the arrival is that
//!   message. The message number does not change.
//! - If all messages with the same identity are at their stored locations, the arrival is a copy
//!   and gets a new message number.
//!
//! After all arrivals are processed, the reconciliation permanently removes a missing message from
//! the message index if the message has copies. Otherwise, when a copy is moved, the copy could get
//! the message number of the missing message. A sync ([`crate::numbers::sync`]) also removes
//! missing messages without copies.
//!
//! A missing message is removed only after all folders were listed and no folder had arrivals. The
//! message might have moved again while arrivals were processed. In that case, the message is an
//! arrival in the next list of all folders.
//!
//! docs/http-api.md has a table of the cases.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::{IndexedFolder, IndexedMessage, Known};
use latchmail_imap::{Fetched, MessageRef, Opened};

use super::Numbers;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::states::FolderState;
use crate::message::identity::{Identity, identity};
use crate::numbers::moved_messages::{Candidates, find_moved};

/// Maximum number of arrivals that are processed together.
const BATCH: usize = 100;
/// Maximum number of times that one reconciliation lists all folders.
const MAX_LISTS: usize = 6;

/// The messages that are missing at their stored locations, by message number. The messages that
/// remain after the processing of all arrivals are lost.
#[derive(Default)]
struct MissingMessages(BTreeMap<MessageNumber, IndexedMessage>);

impl MissingMessages {
    fn add(&mut self, messages: &[IndexedMessage]) {
        let messages = messages
            .iter()
            .map(|message| (message.number(), message.clone()));
        self.0.extend(messages);
    }
}

/// The messages and folders that a sync did not find.
#[derive(Default)]
pub(crate) struct Vanished {
    /// The messages that are not at their stored locations.
    pub(crate) messages: Vec<IndexedMessage>,
    /// The service's own ids of the folders that are not in the mail server's list.
    pub(crate) folders: BTreeSet<String>,
}

impl Numbers {
    /// Reconciles the message index with the arrivals in all folders since the last reconciliation.
    pub(crate) async fn reconcile(&self, access: &Access) -> Result<(), Error> {
        let (access, _lock) = &self.folders.lock(access).await?;
        self.reconcile_locked(access, &BTreeSet::new()).await
    }

    /// Reconciles the message index with the mail server if the opened folder might have lost a
    /// message that has copies.
    pub(crate) async fn reconcile_if_copy_lost(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
    ) -> Result<(), Error> {
        if self.may_have_lost_copies(access, path, opened).await? {
            self.reconcile(access).await?;
        }
        Ok(())
    }

    /// Reconciles the message index with the mail server if any folder of the account might have
    /// lost a message that has copies.
    pub(crate) async fn reconcile_if_copies_lost(
        &self,
        access: &Access,
        states: &[FolderState],
    ) -> Result<(), Error> {
        if self.any_may_have_lost_copies(access, states).await? {
            self.reconcile(access).await?;
        }
        Ok(())
    }

    /// Returns the message numbers of messages in a folder, by IMAP UID. Assigns a message number
    /// to each message without a message number.
    pub(crate) async fn of_messages(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(Uid, Identity)],
    ) -> Result<HashMap<Uid, MessageNumber>, Error> {
        let mut checked = HashSet::new();
        self.of_part(access, path, opened, messages, &mut checked)
            .await
    }

    /// Like [`Self::of_messages`], for one part of the messages in a folder. `checked` contains the
    /// identities of the messages in earlier parts. Copies with these identities are not checked
    /// again. Otherwise the work for a folder with many copies of one message would be quadratic.
    pub(super) async fn of_part(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(Uid, Identity)],
        checked: &mut HashSet<Identity>,
    ) -> Result<HashMap<Uid, MessageNumber>, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let uids: Vec<Uid> = messages.iter().map(|(uid, _)| *uid).collect();
        let known = message_index
            .known(account, path, opened.uid_validity, &uids)
            .await?;
        let unnumbered = identities_without_number(messages, &known.numbers);
        if known.folder.is_some() && unnumbered.is_empty() {
            return Ok(known.numbers);
        }
        let unchecked: Vec<Identity> = unnumbered.difference(checked).copied().collect();
        if known.folder.is_none() || message_index.has_identity(account, &unchecked).await? {
            let (access, _lock) = &self.folders.lock(access).await?;
            self.reconcile_locked(access, &BTreeSet::new()).await?;
            // A message is not an arrival if it was in the folder before the folder was first
            // indexed. Therefore check here whether such a message is a copy of a lost message.
            let known = message_index
                .known(account, path, opened.uid_validity, &uids)
                .await?;
            let unnumbered = identities_without_number(messages, &known.numbers);
            let unchecked: Vec<Identity> = unnumbered.difference(checked).copied().collect();
            let copies = message_index.with_identities(account, &unchecked).await?;
            self.remove_lost(account, self.missing(access, copies).await?)
                .await?;
        }
        checked.extend(unchecked);
        let numbers = message_index
            .assign_numbers(account, path, opened.uid_validity, messages, &[])
            .await?;
        numbers.ok_or_else(|| Error::Unavailable("the folders changed while they were read".into()))
    }

    /// Reconciles the message index with the mail server. The caller must have acquired the
    /// mailbox's lock ([`crate::folders::Folders::locks`]). `expunged` contains the message numbers
    /// of messages that the caller has expunged under this lock.
    pub(super) async fn reconcile_locked(
        &self,
        access: &Access,
        expunged: &BTreeSet<MessageNumber>,
    ) -> Result<(), Error> {
        let vanished = Vanished::default();
        self.reconcile_lists(access, expunged, vanished).await?;
        Ok(())
    }

    /// Reconciles the message index with the mail server, and removes the messages of `vanished`
    /// that are in no folder. Returns the folders of `vanished` that do not exist. Returns `None`
    /// and removes no message if other clients moved messages during every attempt.
    pub(super) async fn remove_vanished(
        &self,
        access: &Access,
        vanished: Vanished,
    ) -> Result<Option<Vec<String>>, Error> {
        let (access, _lock) = &self.folders.lock(access).await?;
        self.reconcile_lists(access, &BTreeSet::new(), vanished)
            .await
    }

    async fn reconcile_lists(
        &self,
        access: &Access,
        expunged: &BTreeSet<MessageNumber>,
        vanished: Vanished,
    ) -> Result<Option<Vec<String>>, Error> {
        let account = &access.account;
        let first = self.folders.states(access).await?;
        let mut indexed = self.folders.update_index(access, &first).await?;
        let mut missing = MissingMessages::default();
        missing.add(&self.missing_copies(access, &first).await?);
        missing.add(&vanished.messages);
        let mut states = first.clone();
        let mut complete = false;
        for list in 0..MAX_LISTS {
            let none_missing = missing.0.is_empty() && vanished.folders.is_empty();
            if list > 0 || !none_missing {
                // List the folders again. A message that had left its stored location before the
                // first listing has arrived in its new folder before the second listing.
                states = self.folders.states(access).await?;
                indexed = self.folders.update_index(access, &states).await?;
            }
            let arrived = self
                .process_all_arrivals(access, &states, &indexed, expunged, &mut missing)
                .await?;
            complete = !arrived || (missing.0.is_empty() && vanished.folders.is_empty());
            if complete {
                break;
            }
        }
        if !complete {
            return Ok(None);
        }
        let listed: BTreeSet<&str> = indexed.iter().map(|folder| folder.id.as_str()).collect();
        // Keep the messages of a folder that is in the list again. A folder that is renamed during
        // a LIST can be missing in that list.
        let exists_again =
            |folder: &str| vanished.folders.contains(folder) && listed.contains(folder);
        missing
            .0
            .retain(|_, message| !exists_again(message.folder()));
        self.remove_lost(account, missing.0.into_values().collect())
            .await?;
        self.cache_counts(account, &first);
        let folders = vanished.folders.iter();
        let folders = folders.filter(|folder| !listed.contains(folder.as_str()));
        Ok(Some(folders.cloned().collect()))
    }

    /// Processes the arrivals of all folders. Returns `true` if a folder had arrivals.
    async fn process_all_arrivals(
        &self,
        access: &Access,
        states: &[FolderState],
        indexed: &[IndexedFolder],
        expunged: &BTreeSet<MessageNumber>,
        missing: &mut MissingMessages,
    ) -> Result<bool, Error> {
        let mut arrived = false;
        let mut arrivals = Vec::new();
        for (FolderState { path, opened, .. }, indexed) in states.iter().zip(indexed) {
            let (from, next) = (indexed.uid_next(), opened.uid_next);
            if (1..=from).contains(&next) || (next == 0 && opened.exists == 0) {
                continue;
            }
            let found = {
                let mut lease = self.context.connections.lease(access, Some(path)).await?;
                retry_read!(lease, session => session.arrivals(path, from))
            };
            // A higher UIDNEXT means that a message has arrived. If this message has already left
            // the folder again, the message is in another folder, and all folders must be listed
            // again. If the server does not report UIDNEXT, such an arrival is not detected.
            arrived |= next > 0;
            if let Some((opened, uids)) = found {
                arrived |= !uids.is_empty();
                arrivals.push((path, from, opened, uids));
            }
        }
        // All arrivals are listed before the first check of a stored location. Therefore one check
        // of a location is valid for all arrivals.
        let mut candidates = HashMap::new();
        for (path, from, opened, uids) in arrivals {
            let uid_validity = opened.uid_validity;
            let mut next = from;
            for uids in uids.chunks(BATCH) {
                let arrived = self.fetch_arrivals(access, path, opened, uids).await?;
                if !arrived.is_empty() {
                    let candidates = &mut candidates;
                    self.find_candidates(access, &arrived, expunged, candidates, missing)
                        .await?;
                    self.number_arrivals(access, path, opened, &arrived, candidates, missing)
                        .await?;
                }
                next = uids.last().map_or(next, |last| last.0.saturating_add(1));
                self.set_uid_next(access, path, uid_validity, next).await?;
            }
            self.set_uid_next(access, path, uid_validity, opened.uid_next)
                .await?;
        }
        Ok(arrived)
    }

    /// Reads the identities of those arrivals in a folder that have no message number.
    async fn fetch_arrivals(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        uids: &[Uid],
    ) -> Result<Vec<Fetched>, Error> {
        let (account, uid_validity) = (&access.account, opened.uid_validity);
        let known = self
            .context
            .message_index()
            .known(account, path, uid_validity, uids)
            .await?;
        let unnumbered = unnumbered(path, uid_validity, uids, &known);
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        Ok(retry_read!(lease, session => session.identities_at(&unnumbered)))
    }

    /// Adds an entry to `candidates` for the identity of each arrival. Adds the messages that are
    /// not at their stored locations to `missing`.
    async fn find_candidates(
        &self,
        access: &Access,
        arrived: &[Fetched],
        expunged: &BTreeSet<MessageNumber>,
        candidates: &mut HashMap<Identity, Candidates>,
        missing: &mut MissingMessages,
    ) -> Result<(), Error> {
        let identities: BTreeSet<Identity> = arrived.iter().map(identity).collect();
        let new = |identity: &Identity| !candidates.contains_key(identity);
        let identities: Vec<Identity> = identities.into_iter().filter(new).collect();
        for identity in &identities {
            candidates.insert(*identity, Candidates::default());
        }
        let indexed = self
            .context
            .message_index()
            .with_identities(&access.account, &identities)
            .await?;
        for message in &indexed {
            candidates.entry(message.identity()).or_default().indexed += 1;
        }
        let not_found = self.missing(access, indexed).await?;
        missing.add(&not_found);
        for message in not_found {
            let candidates = candidates.entry(message.identity()).or_default();
            let queue = if expunged.contains(&message.number()) {
                &mut candidates.expunged
            } else {
                &mut candidates.missing
            };
            queue.push_back(message);
        }
        Ok(())
    }

    /// Assigns a message number to each arrival in a folder: the message number of a moved message,
    /// or a new message number.
    async fn number_arrivals(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        arrived: &[Fetched],
        candidates: &mut HashMap<Identity, Candidates>,
        missing: &mut MissingMessages,
    ) -> Result<(), Error> {
        let (account, uid_validity) = (&access.account, opened.uid_validity);
        let messages: Vec<_> = arrived.iter().map(|m| (m.uid, identity(m))).collect();
        let deleted: BTreeSet<Uid> = arrived
            .iter()
            .filter(|m| m.flags.iter().any(|f| f.eq_ignore_ascii_case("\\Deleted")))
            .map(|m| m.uid)
            .collect();
        let moved = find_moved(&messages, &deleted, candidates);
        self.context
            .message_index()
            .assign_numbers(account, path, uid_validity, &messages, &moved)
            .await?;
        let moved_uids: HashSet<Uid> = moved.iter().map(|(uid, _)| *uid).collect();
        for (uid, identity) in &messages {
            if !moved_uids.contains(uid) {
                candidates.entry(*identity).or_default().indexed += 1;
            }
        }
        for (_, message) in &moved {
            self.context
                .cache
                .remove_location(account, message.number());
            missing.0.remove(&message.number());
        }
        Ok(())
    }

    /// Stores the first UID of a folder that no reconciliation has processed.
    async fn set_uid_next(
        &self,
        access: &Access,
        path: &str,
        uid_validity: u32,
        next: u32,
    ) -> Result<(), Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        Ok(message_index
            .set_uid_next(account, path, uid_validity, next)
            .await?)
    }
}

/// Returns the identities of the messages without a message number. Each message consists of its
/// IMAP UID and its identity.
fn identities_without_number(
    messages: &[(Uid, Identity)],
    numbers: &HashMap<Uid, MessageNumber>,
) -> HashSet<Identity> {
    let unnumbered = messages
        .iter()
        .filter(|(uid, _)| !numbers.contains_key(uid));
    unnumbered.map(|(_, identity)| *identity).collect()
}

/// Returns those messages with these IMAP UIDs in a folder that have no message number.
pub(crate) fn unnumbered<'p>(
    path: &'p str,
    uid_validity: u32,
    uids: &[Uid],
    known: &Known,
) -> Vec<MessageRef<'p>> {
    uids.iter()
        .filter(|uid| !known.numbers.contains_key(uid))
        .map(|uid| MessageRef {
            path,
            uid_validity,
            uid: *uid,
        })
        .collect()
}
