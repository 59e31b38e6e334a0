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
//! arrival in the next list of all folders. If another client has renamed or replaced a folder
//! since the list, its arrivals are not processed. They are arrivals in the next list too.
//!
//! docs/http-api.md has a table of the cases.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_directory::message_index::{IndexedFolder, IndexedMessage, Known};
use latchmail_imap::{Fetched, MessageRef, Opened};

use super::Numbers;
use crate::access::Access;
use crate::bounds;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::states::FolderState;
use crate::message::identity::{Identity, identity};
use crate::numbers::moved_messages::{Candidates, find_moved};

/// Maximum number of arrivals that are processed together.
const BATCH: usize = 100;
/// Maximum number of times that one reconciliation lists all folders.
const MAX_LISTS: usize = 6;

/// The messages that are missing at their stored locations.
#[derive(Default)]
struct MissingMessages {
    /// The messages that are lost if they remain after the processing of all arrivals.
    lost: BTreeMap<MessageNumber, IndexedMessage>,
    /// The messages that remain in the message index.
    kept: BTreeSet<MessageNumber>,
}

impl MissingMessages {
    fn add(&mut self, messages: &[IndexedMessage]) {
        let messages = messages
            .iter()
            .map(|message| (message.number(), message.clone()));
        self.lost.extend(messages);
    }

    fn remove(&mut self, number: MessageNumber) {
        self.lost.remove(&number);
        self.kept.remove(&number);
    }
}

/// The arrivals since the last reconciliation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrivals {
    /// No message has arrived.
    None,
    /// All arrivals were processed. A message that had left its stored location before the list of
    /// folders was one of them, or is in no folder.
    Processed,
    /// A message has arrived and left its folder before it was processed, or another client or host
    /// has changed its folder. All folders must be listed again.
    Left,
}

/// The messages and folders that a sync did not find.
#[derive(Default)]
pub(crate) struct Vanished {
    /// The messages that are not at their stored locations.
    pub(crate) messages: Vec<IndexedMessage>,
    /// The service's own ids of the folders that are not in the mail server's list.
    pub(crate) folders: BTreeSet<String>,
    /// The numbers of further messages that are not at their stored locations. The reconciliation
    /// does not remove them.
    pub(crate) kept: BTreeSet<MessageNumber>,
}

impl Numbers {
    /// Reconciles the message index with the arrivals in all folders since the last reconciliation.
    /// `sought` contains the numbers of messages that the caller has not found at their stored
    /// locations. If these locations are the same afterwards, the messages are in no folder.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if other clients moved messages during every attempt, so that
    /// a message of `sought` can be in any folder. Returns another [`Error`] if the operation
    /// fails.
    pub(crate) async fn reconcile(
        &self,
        access: &Access,
        sought: &[MessageNumber],
    ) -> Result<(), Error> {
        let (access, _lock) = &self.folders.lock(access).await?;
        let vanished = Vanished {
            kept: sought.iter().copied().collect(),
            ..Vanished::default()
        };
        self.reconcile_lists(access, &BTreeSet::new(), vanished)
            .await
            .map(drop)
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
            self.reconcile(access, &[]).await?;
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
            self.reconcile(access, &[]).await?;
        }
        Ok(())
    }

    /// Returns the message numbers of messages in a folder, by IMAP UID. Assigns a message number
    /// to each message without a message number. Omits messages that other clients have moved or
    /// removed.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if other clients changed the folder. Returns another
    /// [`Error`] if the operation fails.
    pub(crate) async fn of_messages(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(Uid, Identity)],
    ) -> Result<HashMap<Uid, MessageNumber>, Error> {
        let mut checked = HashSet::new();
        let numbers = self.of_part(access, path, opened, messages, &mut checked);
        numbers.await?.ok_or_else(|| {
            Error::Unavailable("other clients changed the folders while they were read".into())
        })
    }

    /// Like [`Self::of_messages`], for one part of the messages in a folder. `checked` contains the
    /// identities of the messages in earlier parts. Copies with these identities are not checked
    /// again. Otherwise the work for a folder with many copies of one message would be quadratic.
    /// Returns `None` if other clients changed the folder or moved messages during every attempt.
    pub(super) async fn of_part(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(Uid, Identity)],
        checked: &mut HashSet<Identity>,
    ) -> Result<Option<HashMap<Uid, MessageNumber>>, Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        let uids: Vec<Uid> = messages.iter().map(|(uid, _)| *uid).collect();
        let known = message_index
            .known(account, path, opened.uid_validity, &uids)
            .await?;
        let unnumbered = identities_without_number(messages, &known.numbers);
        if known.folder.is_some() && unnumbered.is_empty() {
            return Ok(Some(known.numbers));
        }
        let mut messages = Cow::Borrowed(messages);
        let unchecked: Vec<Identity> = unnumbered.difference(checked).copied().collect();
        if known.folder.is_none() || message_index.has_identity(account, &unchecked).await? {
            let (access, _lock) = &self.folders.lock(access).await?;
            self.reconcile_locked(access, &BTreeSet::new()).await?;
            // A message is not an arrival if it was in the folder before the folder was first
            // indexed. Therefore check here whether such a message is a copy of a lost message.
            let known = message_index
                .known(account, path, opened.uid_validity, &uids)
                .await?;
            let unnumbered = identities_without_number(&messages, &known.numbers);
            let unchecked: Vec<Identity> = unnumbered.difference(checked).copied().collect();
            let copies = message_index.with_identities(account, &unchecked).await?;
            if !copies.is_empty() {
                let lost = self.missing(access, copies).await?;
                if !self.remove_lost_originals(access, lost).await? {
                    return Ok(None);
                }
                // A message that has left the folder has its number at its new location. With a
                // second number, the message would be in the message index twice.
                let uid_validity = opened.uid_validity;
                let mut lease = self.context.connections.lease(access, Some(path)).await?;
                let existing =
                    retry_read!(lease, session => session.existing(path, uid_validity, &uids));
                let Some(existing) = existing else {
                    return Ok(None);
                };
                messages.to_mut().retain(|(uid, _)| existing.contains(uid));
            }
        }
        checked.extend(unchecked);
        Ok(message_index
            .assign_numbers(account, path, opened.uid_validity, &messages, &[])
            .await?)
    }

    /// Removes messages that are not at their stored locations and in no other folder. Returns
    /// `false` and removes none of them if other clients moved messages during every attempt.
    async fn remove_lost_originals(
        &self,
        access: &Access,
        messages: Vec<IndexedMessage>,
    ) -> Result<bool, Error> {
        if messages.is_empty() {
            return Ok(true);
        }
        let vanished = Vanished {
            messages,
            ..Vanished::default()
        };
        let none = BTreeSet::new();
        let removed = self.reconcile_lists(access, &none, vanished).await?;
        Ok(removed.is_some())
    }

    /// Reconciles the message index with the mail server. The caller must have acquired the
    /// mailbox's lock ([`crate::folders::Folders::locks`]). `expunged` contains the message numbers
    /// of messages that the caller has expunged under this lock.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if other clients moved messages during every attempt, so that
    /// a message of `expunged` can be in any folder. Returns another [`Error`] if the operation
    /// fails.
    pub(super) async fn reconcile_locked(
        &self,
        access: &Access,
        expunged: &BTreeSet<MessageNumber>,
    ) -> Result<(), Error> {
        let vanished = Vanished {
            kept: expunged.clone(),
            ..Vanished::default()
        };
        self.reconcile_lists(access, expunged, vanished)
            .await
            .map(drop)
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
        let mut missing = MissingMessages {
            kept: vanished.kept,
            ..MissingMessages::default()
        };
        missing.add(&self.missing_copies(access, &first).await?);
        missing.add(&vanished.messages);
        let mut states = first.clone();
        let mut folder_count = self.folders.counts.get(account).unwrap_or(0);
        let (mut complete, mut conclusive) = (false, false);
        for list in 0..MAX_LISTS {
            let none_lost = missing.lost.is_empty() && vanished.folders.is_empty();
            if list > 0 || !none_lost {
                // List the folders again. A message that had left its stored location before the
                // first listing has arrived in its new folder before the second listing.
                states = self.folders.states(access).await?;
                indexed = self.folders.update_index(access, &states).await?;
            }
            let arrivals = self
                .process_all_arrivals(access, &states, &indexed, expunged, &mut missing)
                .await?;
            let all_found = missing.lost.is_empty() && vanished.folders.is_empty();
            // A folder that is renamed during a LIST can be missing in that list.
            let is_shorter = states.len() < folder_count;
            folder_count = states.len();
            conclusive = missing.kept.is_empty() || (arrivals < Arrivals::Left && !is_shorter);
            complete = all_found || (arrivals == Arrivals::None && !is_shorter);
            if complete && conclusive {
                break;
            }
        }
        if !conclusive {
            return Err(Error::Unavailable(
                "other clients moved messages during every attempt to find a message".into(),
            ));
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
            .lost
            .retain(|_, message| !exists_again(message.folder()));
        self.remove_lost(account, missing.lost.into_values().collect())
            .await?;
        self.cache_counts(account, &first);
        let folders = vanished.folders.iter();
        let folders = folders.filter(|folder| !listed.contains(folder.as_str()));
        Ok(Some(folders.cloned().collect()))
    }

    /// Processes the arrivals of all folders.
    async fn process_all_arrivals(
        &self,
        access: &Access,
        states: &[FolderState],
        indexed: &[IndexedFolder],
        expunged: &BTreeSet<MessageNumber>,
        missing: &mut MissingMessages,
    ) -> Result<Arrivals, Error> {
        let mut result = Arrivals::None;
        let (mut arrivals, mut seen) = (Vec::new(), HashSet::new());
        for (FolderState { path, opened, .. }, indexed) in states.iter().zip(indexed) {
            let (from, next) = (indexed.uid_next(), opened.uid_next);
            // Two listed names can have the same path. In that case, the names share one entry.
            let is_new = seen.insert(indexed.id.as_str());
            if !is_new || (1..=from).contains(&next) || (next == 0 && opened.exists == 0) {
                continue;
            }
            let found = {
                let mut lease = self.context.connections.lease(access, Some(path)).await?;
                retry_read!(lease, session => session.arrivals(path, from))
            };
            let is_same = |(opened, _): &(Opened, _)| opened.uid_validity == indexed.uid_validity();
            let Some((opened, uids)) = found.filter(is_same) else {
                result = Arrivals::Left;
                continue;
            };
            // A higher UIDNEXT means that a message has arrived. If this message has already left
            // the folder again, the message is in another folder. If the server does not report
            // UIDNEXT, such an arrival is not detected.
            let listed = uids.iter().filter(|uid| uid.0 < next).count();
            if listed < bounds::to_usize(next.saturating_sub(from.max(1))) {
                result = Arrivals::Left;
            } else if !uids.is_empty() {
                result = result.max(Arrivals::Processed);
            }
            arrivals.push((path, next.max(opened.uid_next), opened, uids));
        }
        // All arrivals are listed before the first check of a stored location. Therefore one check
        // of a location is valid for all arrivals.
        let mut candidates = HashMap::new();
        for (path, uid_next, opened, uids) in arrivals {
            let mut is_processed = true;
            for uids in uids.chunks(BATCH) {
                let arrived = self.fetch_arrivals(access, path, opened, uids).await?;
                let Some((arrived, all)) = arrived else {
                    is_processed = false;
                    break;
                };
                if !all {
                    result = Arrivals::Left;
                }
                if !arrived.is_empty() {
                    let candidates = &mut candidates;
                    self.find_candidates(access, &arrived, expunged, candidates, missing)
                        .await?;
                    let numbered =
                        self.number_arrivals(access, path, opened, &arrived, candidates, missing);
                    if !numbered.await? {
                        is_processed = false;
                        break;
                    }
                }
                let next = uids.last().map_or(0, |last| last.0.saturating_add(1));
                self.set_uid_next(access, path, opened, next).await?;
            }
            if is_processed {
                self.set_uid_next(access, path, opened, uid_next).await?;
            } else {
                result = Arrivals::Left;
            }
        }
        Ok(result)
    }

    /// Reads the identities of those arrivals in a folder that have no message number. The second
    /// value is `false` if some of them have left the folder. Returns `None` if another client has
    /// deleted, renamed or replaced the folder.
    async fn fetch_arrivals(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        uids: &[Uid],
    ) -> Result<Option<(Vec<Fetched>, bool)>, Error> {
        let (account, uid_validity) = (&access.account, opened.uid_validity);
        let known = self
            .context
            .message_index()
            .known(account, path, uid_validity, uids)
            .await?;
        let unnumbered = unnumbered(path, uid_validity, uids, &known);
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let fetched = retry_read!(lease, session => session.identities_at(&unnumbered));
        Ok(fetched.map(|fetched| {
            let all = fetched.len() >= unnumbered.len();
            (fetched, all)
        }))
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
    /// or a new message number. Returns `false` if arrivals remain without a number because another
    /// host has changed the folder or the location of a moved message.
    async fn number_arrivals(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        arrived: &[Fetched],
        candidates: &mut HashMap<Identity, Candidates>,
        missing: &mut MissingMessages,
    ) -> Result<bool, Error> {
        let (account, uid_validity) = (&access.account, opened.uid_validity);
        let messages: Vec<_> = arrived.iter().map(|m| (m.uid, identity(m))).collect();
        let deleted: BTreeSet<Uid> = arrived
            .iter()
            .filter(|m| m.flags.iter().any(|f| f.eq_ignore_ascii_case("\\Deleted")))
            .map(|m| m.uid)
            .collect();
        let moved = find_moved(&messages, &deleted, candidates);
        let numbers = self
            .context
            .message_index()
            .assign_numbers(account, path, uid_validity, &messages, &moved)
            .await?;
        let Some(numbers) = numbers else {
            return Ok(false);
        };
        let moved_uids: HashSet<Uid> = moved.iter().map(|(uid, _)| *uid).collect();
        for (uid, identity) in &messages {
            if !moved_uids.contains(uid) {
                candidates.entry(*identity).or_default().indexed += 1;
            }
        }
        for (uid, message) in &moved {
            let number = message.number();
            if numbers.get(uid) == Some(&number) {
                self.context.cache.remove_location(account, number);
                missing.remove(number);
            }
        }
        Ok(messages.iter().all(|(uid, _)| numbers.contains_key(uid)))
    }

    /// Stores the first UID of a folder that no reconciliation has processed.
    async fn set_uid_next(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        next: u32,
    ) -> Result<(), Error> {
        let (message_index, account) = (self.context.message_index(), &access.account);
        Ok(message_index
            .set_uid_next(account, path, opened.uid_validity, next)
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
