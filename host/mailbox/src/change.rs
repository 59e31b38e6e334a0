//! Flags, moves and deletes messages by their numbers, in any folder, with one command per folder.
//!
//! A change that has started runs to completion on its own task, even if the caller no longer waits. If the outcome is unknown, the error says so. This module
//! does not decide which messages are the same: [`super::reconcile`] does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchmail_core::permissions::Right;
use latchmail_directory::message_index::{self, Location};
use latchmail_imap::change::Moved;
use latchmail_imap::flag::Flag;
use latchmail_imap::{Connector, Session, Writable};

use super::places::spot_of;
use super::pool::Lease;
use super::reach::Judged;
use super::{Access, Error, Mail, canonical, reading};

/// A change of messages.
#[derive(Clone, Debug)]
enum Change {
    Flag { flags: Vec<Flag>, add: bool },
    Move { to: String },
    Delete,
}

/// The source of message locations: the cache, the database, or the database after a reconciliation with the mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Kept,
    Indexed,
    Anew,
}

impl Look {
    const OWNER: &[Self] = &[Self::Kept, Self::Indexed, Self::Anew, Self::Anew];
    /// A member's rights depend on where the messages are, so the index is reconciled before any message is changed.
    const GUEST: &[Self] = &[Self::Anew, Self::Anew, Self::Anew];

    fn turns(access: &Access) -> &'static [Self] {
        match access.guest {
            None => Self::OWNER,
            Some(_) => Self::GUEST,
        }
    }
}

/// The result in one folder: the IMAP UIDs of the changed messages, the IMAP UIDs of the deleted messages if others had moved first, or that the destination
/// does not exist.
enum Done {
    To(BTreeSet<u32>),
    Escaped(BTreeSet<u32>),
    NoDestination,
}

impl Mail {
    /// Adds or removes flags of messages. Returns the numbers of the messages that exist.
    ///
    /// # Errors
    /// Returns any [`Error`], and [`Error::Rejected`] if the mail server cannot store a flag permanently.
    pub async fn flag(
        self: &Arc<Self>,
        access: &Access,
        uids: &[u64],
        flags: Vec<Flag>,
        add: bool,
    ) -> Result<Vec<u64>, Error> {
        let done = self
            .change(access, uids, Change::Flag { flags, add })
            .await?;
        Ok(done.unwrap_or_default())
    }

    /// Moves messages to a folder. They keep their numbers. Returns the numbers of the messages that exist, or `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn move_to(
        self: &Arc<Self>,
        access: &Access,
        uids: &[u64],
        destination: &str,
    ) -> Result<Option<Vec<u64>>, Error> {
        let to = canonical(destination).to_owned();
        self.change(access, uids, Change::Move { to }).await
    }

    /// Deletes messages permanently. Returns the numbers of the messages that existed.
    ///
    /// # Errors
    /// Returns any [`Error`].
    pub async fn delete(
        self: &Arc<Self>,
        access: &Access,
        uids: &[u64],
    ) -> Result<Vec<u64>, Error> {
        let done = self.change(access, uids, Change::Delete).await?;
        Ok(done.unwrap_or_default())
    }

    async fn change(
        self: &Arc<Self>,
        access: &Access,
        uids: &[u64],
        change: Change,
    ) -> Result<Option<Vec<u64>>, Error> {
        let (mail, access) = (Arc::clone(self), access.clone());
        let mut uids = uids.to_vec();
        uids.sort_unstable();
        uids.dedup();
        self.to_its_end(async move { mail.changed(&access, uids, &change).await })
            .await
    }

    /// Runs a change on its own task, so that it completes even if the caller is dropped.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.changes
            .run(change)
            .await
            .unwrap_or_else(|error| Err(Error::Unknown(format!("a change ended early: {error}"))))
    }

    async fn changed(
        &self,
        access: &Access,
        mut left: Vec<u64>,
        change: &Change,
    ) -> Result<Option<Vec<u64>>, Error> {
        // Two moves of one message must not overlap: a server may copy the message twice before it removes it once.
        let (access, _turn) = &self.turn(&self.changing, access).await?;
        let mut rights = vec![Right::MailWrite];
        if let Change::Move { to } = change {
            // A move command contains a folder name, and the server does not report in advance which folder has that name. So a member's names are updated
            // first.
            if access.guest.is_some() {
                self.keep_track(access).await?;
            }
            let reach = self.reach(access).await?.admit(to, Right::MailWrite)?;
            let Some(reach) = reach else {
                return Ok(None);
            };
            // Otherwise a member without the right to read a folder could read its messages in another one.
            if access.guest.is_some() && reach.judge_path(to, Right::MailRead) == Judged::Allowed {
                rights.push(Right::MailRead);
            }
        }
        // Sorted after each lookup.
        let mut done: Vec<u64> = Vec::new();
        let mut tried: Vec<(u64, Arc<Location>)> = Vec::new();
        let mut escaped = false;
        for look in Look::turns(access) {
            let mut places = self
                .reached(access, &left, *look, &rights)
                .await
                .map_err(|error| halfway(&done, error))?;
            places.retain(|place| !tried.contains(place));
            escaped = false;
            if *look == Look::Anew && places.is_empty() {
                break;
            }
            for ((path, uid_validity), messages) in by_folder(&places) {
                let there = self
                    .changed_in(access, path, uid_validity, &messages, change)
                    .await
                    .map_err(|error| halfway(&done, error))?;
                escaped |= matches!(there, Done::Escaped(_));
                match there {
                    Done::To(there) | Done::Escaped(there) => done.extend(
                        messages
                            .iter()
                            .filter(|(_, imap_uid)| there.contains(imap_uid))
                            .map(|(uid, _)| *uid),
                    ),
                    Done::NoDestination if done.is_empty() => return Ok(None),
                    Done::NoDestination => {
                        let gone = Error::Internal(
                            "the destination folder was deleted during the move".into(),
                        );
                        return Err(halfway(&done, gone));
                    }
                }
            }
            done.sort_unstable();
            left.retain(|uid| done.binary_search(uid).is_err());
            // Do not search for a number that was never assigned.
            if *look == Look::Indexed {
                left.retain(|uid| tried.iter().chain(&places).any(|(known, _)| known == uid));
            }
            if left.is_empty() {
                break;
            }
            tried.extend(places);
        }
        if escaped {
            let moves = "another client moved a message during every attempt to delete it";
            return Err(halfway(&done, Error::Unknown(moves.into())));
        }
        Ok(Some(done))
    }

    /// Returns the known locations of messages for which the caller holds `rights`.
    async fn reached(
        &self,
        access: &Access,
        uids: &[u64],
        look: Look,
        rights: &[Right],
    ) -> Result<Vec<(u64, Arc<Location>)>, Error> {
        let mut places = self.looked_up(access, uids, look).await?;
        let reach = self.reach(access).await?;
        for &right in rights {
            let judged = |place: &Location| reach.judge_spot(spot_of(place), right);
            if places
                .iter()
                .any(|(_, place)| judged(place) == Judged::Denied)
            {
                return Err(Error::Denied(right));
            }
            places.retain(|(_, place)| judged(place) == Judged::Allowed);
        }
        Ok(places)
    }

    /// Returns the known locations of messages.
    async fn looked_up(
        &self,
        access: &Access,
        uids: &[u64],
        look: Look,
    ) -> Result<Vec<(u64, Arc<Location>)>, Error> {
        let account = &access.account;
        if look == Look::Kept {
            let kept = |uid: &u64| Some((*uid, self.kept.place(account, *uid)?));
            return Ok(uids.iter().filter_map(kept).collect());
        }
        if look == Look::Anew {
            self.seek(access).await?;
        }
        let places = message_index::locations(&self.db, account, uids).await?;
        let places = places.into_iter().map(|(uid, place)| {
            let place = Arc::new(place);
            self.kept.keep_place(account, uid, &place);
            (uid, place)
        });
        Ok(places.collect())
    }

    /// Changes messages (number and IMAP UID) in one folder.
    async fn changed_in(
        &self,
        access: &Access,
        path: &str,
        uid_validity: u32,
        messages: &[(u64, u32)],
        change: &Change,
    ) -> Result<Done, Error> {
        let uids: Vec<u32> = messages.iter().map(|(_, imap_uid)| *imap_uid).collect();
        let mut lease = self.pool.lease(access, Some(path)).await?;
        if matches!(change, Change::Move { to } if to == path) {
            let there = reading!(lease, session => session.existing(path, uid_validity, &uids));
            return Ok(Done::To(there.unwrap_or_default()));
        }
        match change {
            Change::Flag { flags, add } => {
                let there = flagged(&mut lease, path, uid_validity, &uids, flags, *add).await?;
                Ok(Done::To(there))
            }
            Change::Move { to } => {
                let Some((session, _)) = opened(&mut lease, path, uid_validity).await? else {
                    return Ok(Done::To(BTreeSet::new()));
                };
                let moved = session.move_to(&uids, to).await.map_err(begun)?;
                drop(lease);
                match moved {
                    Some(moved) => Ok(Done::To(self.moved(access, messages, to, &moved).await)),
                    None => Ok(Done::NoDestination),
                }
            }
            Change::Delete => {
                // No other reconciliation may run until it is known whether another client moved a message just before it was expunged.
                let _turn = self.seeking.acquire(&access.account).await;
                let Some((session, _)) = opened(&mut lease, path, uid_validity).await? else {
                    return Ok(Done::To(BTreeSet::new()));
                };
                let there = session.expunge(&uids).await.map_err(begun)?;
                drop(lease);
                let gone = self.deleted(access, messages, &there).await?;
                if gone.len() < there.len() {
                    return Ok(Done::Escaped(gone));
                }
                Ok(Done::To(gone))
            }
        }
    }

    /// Stores the new locations of moved messages. If this fails, a later reconciliation finds the messages by their identity.
    async fn moved(
        &self,
        access: &Access,
        messages: &[(u64, u32)],
        to: &str,
        moved: &Moved,
    ) -> BTreeSet<u32> {
        let numbers: BTreeMap<u32, u64> =
            messages.iter().map(|(uid, imap)| (*imap, *uid)).collect();
        let places: Vec<(u64, u32)> = moved
            .uids
            .iter()
            .filter_map(|(was, is)| Some((*numbers.get(was)?, *is)))
            .collect();
        if !places.is_empty() {
            let validity = moved.uid_validity;
            let written = async {
                let moved =
                    message_index::moved(&self.db, &access.account, to, validity, &places).await?;
                if !moved {
                    // Another client created the folder after the last listing.
                    self.keep_track(access).await?;
                    message_index::moved(&self.db, &access.account, to, validity, &places).await?;
                }
                Ok::<_, Error>(())
            };
            if let Err(error) = written.await {
                tracing::error!(%error, "failed to store the new locations of moved messages");
            }
        }
        for (uid, _) in places {
            self.kept.forget_place(&access.account, uid);
        }
        moved.uids.iter().map(|(was, _)| *was).collect()
    }

    /// Removes expunged messages from the index. Returns the IMAP UIDs of those that no folder has any more. A message that another client moved just before it
    /// was expunged still exists in its new folder.
    async fn deleted(
        &self,
        access: &Access,
        messages: &[(u64, u32)],
        expunged: &BTreeSet<u32>,
    ) -> Result<BTreeSet<u32>, Error> {
        let account = &access.account;
        let numbers: BTreeMap<u64, u32> = messages
            .iter()
            .filter(|(_, imap_uid)| expunged.contains(imap_uid))
            .copied()
            .collect();
        if numbers.is_empty() {
            return Ok(BTreeSet::new());
        }
        let before = self.places_of(account, &numbers).await?;
        let looked = async {
            let expunged: BTreeSet<u64> = numbers.keys().copied().collect();
            self.reconcile(access, &expunged).await?;
            self.places_of(account, &numbers).await
        };
        let after = looked.await.map_err(|error| {
            Error::Unknown(format!(
                "messages may have moved before they were expunged: {error}"
            ))
        })?;
        let moved = |uid: &u64| after.get(uid).is_some_and(|at| before.get(uid) != Some(at));
        let gone: Vec<u64> = numbers.keys().filter(|uid| !moved(uid)).copied().collect();
        if let Err(error) = message_index::remove(&self.db, account, &gone).await {
            tracing::error!(%error, "failed to remove deleted messages from the index");
        }
        for uid in numbers.keys() {
            self.kept.forget_place(account, *uid);
        }
        Ok(gone.iter().map(|uid| numbers[uid]).collect())
    }

    async fn places_of(
        &self,
        account: &str,
        numbers: &BTreeMap<u64, u32>,
    ) -> Result<BTreeMap<u64, Location>, Error> {
        let numbers: Vec<u64> = numbers.keys().copied().collect();
        let places = message_index::locations(&self.db, account, &numbers).await?;
        Ok(places.into_iter().collect())
    }
}

/// Opens a folder for writing. Returns `None` if no folder with this path and UIDVALIDITY exists.
async fn opened<'l>(
    lease: &'l mut Lease<Connector>,
    path: &str,
    uid_validity: u32,
) -> Result<Option<(&'l mut Session, Writable)>, Error> {
    let folder = reading!(lease, session => session.select(path));
    match folder.filter(|folder| folder.opened.uid_validity == uid_validity) {
        Some(folder) => Ok(Some((lease.session().await?, folder))),
        None => Ok(None),
    }
}

/// Changes flags of messages in one folder. Returns the IMAP UIDs of the messages that exist.
async fn flagged(
    lease: &mut Lease<Connector>,
    path: &str,
    uid_validity: u32,
    uids: &[u32],
    flags: &[Flag],
    add: bool,
) -> Result<BTreeSet<u32>, Error> {
    let mut lost = false;
    let session = lease.session().await?;
    if session.can_store_without_select(path, uid_validity, uids, flags) {
        match session.store(uids, flags, add).await {
            Ok(there) => return Ok(there),
            // The command is idempotent, so it can be repeated.
            Err(latchmail_imap::Error::Lost(_)) => lost = true,
            Err(latchmail_imap::Error::No(_)) => {}
            Err(error) => return Err(begun(error)),
        }
    }
    let anew = async {
        let Some((session, folder)) = opened(lease, path, uid_validity).await? else {
            return Ok(BTreeSet::new());
        };
        if let Some(flag) = folder.first_unsupported(flags).filter(|_| add) {
            let sentence = format!("The mail server does not store the flag {}", flag.as_str());
            return Err(Error::Rejected(sentence));
        }
        session.store(uids, flags, add).await.map_err(begun)
    };
    anew.await.map_err(|error| match error {
        // The first attempt may have succeeded.
        error if lost && !matches!(error, Error::Unknown(_)) => Error::Unknown(error.to_string()),
        error => error,
    })
}

/// Groups messages (number and IMAP UID) by path and UIDVALIDITY.
fn by_folder(places: &[(u64, Arc<Location>)]) -> BTreeMap<(&str, u32), Vec<(u64, u32)>> {
    let mut folders: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (uid, place) in places {
        let spot = spot_of(place);
        let messages = folders.entry((spot.path, spot.uid_validity));
        messages.or_default().push((*uid, spot.uid));
    }
    folders
}

/// Converts an error of a command that changes messages. If the connection failed, the command may have been executed.
fn begun(error: latchmail_imap::Error) -> Error {
    match error {
        latchmail_imap::Error::No(text) => Error::Rejected(said(&text)),
        latchmail_imap::Error::Lost(why)
        | latchmail_imap::Error::Unavailable(why)
        | latchmail_imap::Error::Protocol(why) => Error::Unknown(why),
        other => other.into(),
    }
}

/// Adds to an error that some messages were changed before it.
fn halfway(done: &[u64], error: Error) -> Error {
    if done.is_empty() {
        return error;
    }
    Error::Unknown(format!(
        "{} messages were changed before this error: {error}",
        done.len()
    ))
}

/// Makes a server's text safe to show: without its response code, on one line, at most 200 characters.
#[must_use]
pub fn said(text: &str) -> String {
    let sentence = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(_, sentence)| sentence),
        None => text,
    };
    let words: Vec<&str> = sentence
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ").chars().take(200).collect()
}
