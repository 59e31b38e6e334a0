//! Reconciles the index with the mail server: finds out which folders and messages are the same after other clients renamed, moved, copied or deleted them.
//!
//! Folders are identified by the mail server's ids. Messages are identified by an [`Identity`]. A copy has the identity of its original, so the two are
//! distinguished by location. A message that is not at its stored location is searched for only among the messages that arrived since, because the index has
//! the first UID of each folder that has not been reconciled. If an arrival has the identity of a message whose own location is now empty, it is that message,
//! moved. If all messages with its identity are still at their locations, it is a copy and gets a new number. After all arrivals were processed, a message with
//! copies that is at no location is removed permanently. Otherwise a copy that is moved later could get its number.
//!
//! docs/http-api.md has a table of the cases.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use latchmail_core::account_permits::AccountPermits;
use latchmail_directory::message_index::{self, IndexedFolder, IndexedMessage, ListedFolder};
use latchmail_imap::list::{Listed, POSITIONS};
use latchmail_imap::{Fetched, MessageRef, Opened};
use tokio::sync::OwnedSemaphorePermit;

use super::identity::{Identity, identity};
use super::pairing::paired;
use super::places::spot_of;
use super::{Access, Error, Mail, reading};

/// Maximum number of messages that are processed together.
const AT_ONCE: usize = 100;

/// A folder in the mail server's list, with its state.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) opened: Opened,
    /// The mail server's id of the folder, if the server has folder ids.
    pub(crate) object_id: Option<String>,
}

impl Seen {
    fn listed(&self) -> ListedFolder<'_> {
        ListedFolder {
            path: &self.path,
            uid_validity: self.opened.uid_validity,
            uid_next: self.opened.uid_next,
            object_id: self.object_id.as_deref(),
        }
    }
}

/// Converts a listed folder. Returns `None` if it was listed without its [`POSITIONS`].
pub(crate) fn seen(listed: &Listed) -> Option<Seen> {
    let status = listed.status?;
    Some(Seen {
        path: listed.path.clone(),
        object_id: listed.object_id.clone(),
        opened: Opened {
            exists: status.messages,
            uid_validity: status.uid_validity,
            uid_next: status.uid_next,
        },
    })
}

/// Messages that are not at their stored locations, by number. Those that remain at the end are lost.
#[derive(Default)]
struct Gone(BTreeMap<u64, IndexedMessage>);

impl Gone {
    fn add(&mut self, messages: &[IndexedMessage]) {
        let messages = messages.iter().map(|gone| (gone.number(), gone.clone()));
        self.0.extend(messages);
    }
}

impl Mail {
    /// Stores all folders before any message of the account gets a number. Only messages that arrive later can have left a known location.
    pub(crate) async fn acquainted(&self, access: &Access) -> Result<(), Error> {
        let account = &access.account;
        if self.kept.acquainted(account).is_some() {
            return Ok(());
        }
        let (access, _turn) = &self.turn(&self.seeking, access).await?;
        if !message_index::has_folders(&self.db, account).await? {
            self.note(access, &self.standings(access).await?).await?;
        }
        // The number of folders is not known here, so 0 is cached.
        self.kept.acquaint(account, 0);
        Ok(())
    }

    /// Waits until no other request holds the mailbox's permit. The request keeps its connection permit during that time ([`super::pool::Pool::admit`]).
    pub(crate) async fn turn<'a>(
        &self,
        permits: &AccountPermits,
        access: &'a Access,
    ) -> Result<(Cow<'a, Access>, Option<OwnedSemaphorePermit>), Error> {
        let access = self.pool.admit(access).await?;
        let turn = permits.acquire(&access.account).await;
        Ok((access, turn))
    }

    /// Updates the index with the folders as they are listed now. Returns their entries in the same order.
    pub(crate) async fn note(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<Vec<IndexedFolder>, Error> {
        let account = &access.account;
        let noted = message_index::folders(&self.db, account).await?;
        let mut noted: HashMap<String, IndexedFolder> = noted
            .into_iter()
            .map(|noted| (noted.path.clone(), noted))
            .collect();
        let listed: Vec<_> = standings.iter().map(Seen::listed).collect();
        if listed
            .iter()
            .all(|listed| noted.get(listed.path).is_some_and(|noted| noted.is(listed)))
        {
            let same = listed.iter().filter_map(|listed| noted.remove(listed.path));
            return Ok(same.collect());
        }
        Ok(message_index::update_folders(&self.db, account, &listed).await?)
    }

    /// Updates the index with folders that were renamed, created or deleted.
    pub(crate) async fn keep_track(&self, access: &Access) -> Result<(), Error> {
        let (access, _turn) = &self.turn(&self.seeking, access).await?;
        let standings = self.standings(access).await?;
        self.note(access, &standings).await.map(drop)
    }

    /// Returns the UIDVALIDITY of the folder with this id in the mail server's current list, or `None` if there is no such folder.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn uid_validity(&self, access: &Access, id: &str) -> Result<Option<u32>, Error> {
        let (access, _turn) = &self.turn(&self.seeking, access).await?;
        let standings = self.standings(access).await?;
        let noted = self.note(access, &standings).await?;
        let found = noted.iter().find(|noted| noted.public_id() == id);
        Ok(found.map(IndexedFolder::uid_validity))
    }

    /// Reconciles the index with everything that arrived in any folder since the last reconciliation.
    pub(crate) async fn seek(&self, access: &Access) -> Result<(), Error> {
        let (access, _turn) = &self.turn(&self.seeking, access).await?;
        self.reconcile(access, &BTreeSet::new()).await
    }

    /// Returns the service's numbers of messages of a folder, by IMAP UID. Assigns missing ones.
    pub(crate) async fn numbers(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(u32, Identity)],
    ) -> Result<HashMap<u32, u64>, Error> {
        let (db, account) = (&self.db, &access.account);
        let uids: Vec<u32> = messages.iter().map(|(uid, _)| *uid).collect();
        let known = message_index::known(db, account, path, opened.uid_validity, &uids).await?;
        let unknown = without(messages, &known.numbers);
        if known.folder.is_some() && unknown.is_empty() {
            return Ok(known.numbers);
        }
        if known.folder.is_none() || !self.alike(access, &unknown).await?.is_empty() {
            let (access, _turn) = &self.turn(&self.seeking, access).await?;
            self.reconcile(access, &BTreeSet::new()).await?;
            // Messages that existed before the folder was first indexed are not arrivals, so compare them here.
            let known = message_index::known(db, account, path, opened.uid_validity, &uids).await?;
            let alike = self
                .alike(access, &without(messages, &known.numbers))
                .await?;
            self.lose(account, self.gone(access, alike).await?).await?;
        }
        let numbers =
            message_index::assign_numbers(db, account, path, opened.uid_validity, messages, &[])
                .await?;
        numbers.ok_or_else(|| Error::Unavailable("the folders changed while they were read".into()))
    }

    /// Reconciles the index with the mail server. The caller holds the account's `seeking` permit. `expunged` are the numbers of messages that the caller has
    /// just marked as `\Deleted` and expunged while it held the permit.
    pub(crate) async fn reconcile(
        &self,
        access: &Access,
        expunged: &BTreeSet<u64>,
    ) -> Result<(), Error> {
        let account = &access.account;
        let first = self.standings(access).await?;
        let mut noted = self.note(access, &first).await?;
        let mut gone = Gone::default();
        gone.add(&self.copies_gone(access, &first).await?);
        let mut standings = first.clone();
        if !gone.0.is_empty() {
            // Messages that had left their locations at the first listing have arrived by the second one.
            standings = self.standings(access).await?;
            noted = self.note(access, &standings).await?;
        }
        for (Seen { path, opened, .. }, noted) in standings.iter().zip(noted) {
            let from = noted.uid_next();
            let nothing_new = opened.exists == 0 || (1..=from).contains(&opened.uid_next);
            if !nothing_new {
                self.take_in(access, path, from, expunged, &mut gone)
                    .await?;
            }
        }
        self.lose(account, gone.0.into_values().collect()).await?;
        self.keep_counts(account, &first);
        Ok(())
    }

    /// Processes the messages of a folder from the UID `from` on.
    async fn take_in(
        &self,
        access: &Access,
        path: &str,
        from: u32,
        expunged: &BTreeSet<u64>,
        gone: &mut Gone,
    ) -> Result<(), Error> {
        let (db, account) = (&self.db, &access.account);
        let arrivals = {
            let mut lease = self.pool.lease(access, Some(path)).await?;
            reading!(lease, session => session.arrivals(path, from))
        };
        let Some((opened, uids)) = arrivals else {
            return Ok(());
        };
        let validity = opened.uid_validity;
        for uids in uids.chunks(AT_ONCE) {
            let known = message_index::known(db, account, path, validity, uids).await?;
            let spots: Vec<MessageRef<'_>> = uids
                .iter()
                .filter(|uid| !known.numbers.contains_key(uid))
                .map(|uid| MessageRef {
                    path,
                    uid_validity: validity,
                    uid: *uid,
                })
                .collect();
            let arrived = {
                let mut lease = self.pool.lease(access, Some(path)).await?;
                reading!(lease, session => session.identities_at(&spots))
            };
            if !arrived.is_empty() {
                self.settle(access, path, validity, &arrived, expunged, gone)
                    .await?;
            }
            let next = uids.last().map_or(from, |last| last.saturating_add(1));
            message_index::set_uid_next(db, account, path, validity, next).await?;
        }
        Ok(message_index::set_uid_next(db, account, path, validity, opened.uid_next).await?)
    }

    /// Assigns numbers to arrivals in a folder: the number of a moved message, or a new one.
    async fn settle(
        &self,
        access: &Access,
        path: &str,
        uid_validity: u32,
        arrived: &[Fetched],
        expunged: &BTreeSet<u64>,
        gone: &mut Gone,
    ) -> Result<(), Error> {
        let account = &access.account;
        let messages: Vec<_> = arrived.iter().map(|m| (m.uid, identity(m))).collect();
        let alike = self.alike(access, &messages).await?;
        let mut left = self.gone(access, alike.clone()).await?;
        gone.add(&left);
        // Another client may have moved an expunged message just before. The moved message still has the mark in its new location, unlike a copy that was made
        // earlier.
        left.sort_by_key(|message| expunged.contains(&message.number()));
        let marked: BTreeSet<u32> = arrived
            .iter()
            .filter(|m| m.flags.iter().any(|f| f.eq_ignore_ascii_case("\\Deleted")))
            .map(|m| m.uid)
            .collect();
        let may_be = |uid: u32, message: &IndexedMessage| {
            marked.contains(&uid) || !expunged.contains(&message.number())
        };
        let moved = paired(&messages, &alike, left, may_be);
        message_index::assign_numbers(&self.db, account, path, uid_validity, &messages, &moved)
            .await?;
        for (_, message) in &moved {
            self.kept.forget_place(account, message.number());
            gone.0.remove(&message.number());
        }
        Ok(())
    }

    /// Returns the messages with a number that have the identity of one of these messages.
    async fn alike(
        &self,
        access: &Access,
        messages: &[(u32, Identity)],
    ) -> Result<Vec<IndexedMessage>, Error> {
        let identities: BTreeSet<Identity> = messages.iter().map(|(_, i)| *i).collect();
        let identities: Vec<Identity> = identities.into_iter().collect();
        Ok(message_index::with_identities(&self.db, &access.account, &identities).await?)
    }

    /// Returns those messages that are not at their stored locations.
    pub(crate) async fn gone(
        &self,
        access: &Access,
        messages: Vec<IndexedMessage>,
    ) -> Result<Vec<IndexedMessage>, Error> {
        let mut folders: BTreeMap<(String, u32), Vec<u32>> = BTreeMap::new();
        for message in &messages {
            let spot = spot_of(&message.location);
            let folder = (spot.path.to_owned(), spot.uid_validity);
            folders.entry(folder).or_default().push(spot.uid);
        }
        let mut present = BTreeSet::new();
        for ((path, uid_validity), uids) in folders {
            let mut lease = self.pool.lease(access, Some(&path)).await?;
            let there = reading!(lease, session => session.existing(&path, uid_validity, &uids));
            let there = there.unwrap_or_default().into_iter();
            present.extend(there.map(|uid| (path.clone(), uid_validity, uid)));
        }
        let gone = messages.into_iter().filter(|message| {
            let spot = spot_of(&message.location);
            !present.contains(&(spot.path.to_owned(), spot.uid_validity, spot.uid))
        });
        Ok(gone.collect())
    }

    /// Returns the folders that can be opened, with their current state.
    async fn standings(&self, access: &Access) -> Result<Vec<Seen>, Error> {
        let mut lease = self.pool.lease(access, None).await?;
        let folders = reading!(lease, session => session.folders(POSITIONS));
        Ok(folders.iter().filter_map(seen).collect())
    }
}

fn without(messages: &[(u32, Identity)], known: &HashMap<u32, u64>) -> Vec<(u32, Identity)> {
    let unknown = messages.iter().filter(|(uid, _)| !known.contains_key(uid));
    unknown.copied().collect()
}
