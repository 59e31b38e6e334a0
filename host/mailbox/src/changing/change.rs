//! Changes flags of messages, moves messages and deletes messages. Callers specify messages by
//! message number. The messages can be in different folders. One command changes all messages of
//! one folder.
//!
//! Each change runs on its own task. The change continues even if the caller no longer waits. If
//! the outcome is unknown, the change returns [`Error::Unknown`]. [`crate::numbers::reconcile`]
//! finds messages that other clients have moved.

use std::collections::BTreeSet;
use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_directory::message_index::Location;
use latchmail_imap::flag::Flag;
use latchmail_imap::list::POSITIONS;
use latchmail_imap::{Connector, Session, Writable};

use super::Changer;
use crate::access::Access;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::connections::server_text::sanitize;
use crate::error::Error;
use crate::folders::path::normalize_path;
use crate::folders::rights::Decision;
use crate::numbers::locations::{group_by_folder, message_ref};

/// A change of messages.
#[derive(Clone, Debug)]
enum Change {
    Flag { flags: Vec<Flag>, add: bool },
    Move { to: String },
    Delete,
}

/// The source of message locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Cache,
    Index,
    /// The message index after a reconciliation with the mail server.
    ReconciledIndex,
}

impl Source {
    const FOR_OWNER: &[Self] = &[
        Self::Cache,
        Self::Index,
        Self::ReconciledIndex,
        Self::ReconciledIndex,
    ];
    /// A member's rights depend on the locations of the messages. Therefore the message index is
    /// reconciled with the mail server before any message is changed.
    const FOR_MEMBER: &[Self] = &[
        Self::ReconciledIndex,
        Self::ReconciledIndex,
        Self::ReconciledIndex,
    ];

    /// Returns the sources in the order in which a change uses them. A member's change uses other
    /// sources than the owner's change.
    fn sequence(access: &Access) -> &'static [Self] {
        match access.member {
            None => Self::FOR_OWNER,
            Some(_) => Self::FOR_MEMBER,
        }
    }
}

/// The result of a change in one folder.
enum FolderResult {
    /// The IMAP UIDs of the changed messages.
    Changed(BTreeSet<Uid>),
    /// Another client moved some of the messages before the expunge. The value contains the IMAP
    /// UIDs of the messages that were deleted.
    MovedAway(BTreeSet<Uid>),
    NoDestination,
}

impl Changer {
    /// Adds or removes flags of messages. Returns the message numbers of the messages that exist.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if the mail server cannot store a flag permanently. Returns
    /// another [`Error`] if the operation fails.
    pub async fn flag(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        flags: Vec<Flag>,
        add: bool,
    ) -> Result<Vec<MessageNumber>, Error> {
        let changed = self
            .start_change(access, numbers, Change::Flag { flags, add })
            .await?;
        Ok(changed.unwrap_or_default())
    }

    /// Moves messages to a folder. The message numbers do not change. Returns the message numbers
    /// of the messages that exist. Returns `None` if the destination folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn move_to(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        destination: &str,
    ) -> Result<Option<Vec<MessageNumber>>, Error> {
        let to = normalize_path(destination).to_owned();
        self.start_change(access, numbers, Change::Move { to })
            .await
    }

    /// Deletes messages permanently. Returns the message numbers of the messages that existed.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn delete(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
    ) -> Result<Vec<MessageNumber>, Error> {
        let deleted = self.start_change(access, numbers, Change::Delete).await?;
        Ok(deleted.unwrap_or_default())
    }

    /// Runs a change on its own task. The change completes even if the caller is dropped.
    async fn start_change(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        change: Change,
    ) -> Result<Option<Vec<MessageNumber>>, Error> {
        let (changer, access) = (Arc::clone(self), access.clone());
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        self.tasks
            .spawn(async move { changer.change(&access, numbers, &change).await })
            .await
            .unwrap_or_else(|error| Err(Error::Unknown(format!("a change ended early: {error}"))))
    }

    async fn change(
        &self,
        access: &Access,
        mut remaining: Vec<MessageNumber>,
        change: &Change,
    ) -> Result<Option<Vec<MessageNumber>>, Error> {
        // Two moves of one message must not overlap. Otherwise a server could copy the message
        // twice and remove the original only once.
        let (access, _lock) = &self.context.connections.lock(&self.locks, access).await?;
        let mut rights = vec![Right::MailWrite];
        if let Change::Move { to } = change {
            // A MOVE command contains the name of the destination folder. The server does not
            // report the id of the folder with this name. Therefore the folders in the message
            // index are updated before the member's rights are checked.
            if access.member.is_some() {
                self.folders.refresh(access).await?;
            }
            let folder_access = self
                .folders
                .usable_by(access)
                .await?
                .require_path(to, Right::MailWrite)?;
            let Some(folder_access) = folder_access else {
                return Ok(None);
            };
            // Moving a message must not reveal the message to the member. Therefore a move to a
            // readable folder also requires the right to read the message at its old location.
            if access.member.is_some()
                && folder_access.authorize_path(to, Right::MailRead) == Decision::Allowed
            {
                rights.push(Right::MailRead);
            }
        }
        // The numbers of the changed messages. The list is sorted after each lookup.
        let mut changed: Vec<MessageNumber> = Vec::new();
        let mut tried: Vec<(MessageNumber, Arc<Location>)> = Vec::new();
        let mut moved_away = false;
        for source in Source::sequence(access) {
            let mut locations = self
                .authorized_locations(access, &remaining, *source, &rights)
                .await
                .map_err(|error| after_changes(&changed, error))?;
            locations.retain(|location| !tried.contains(location));
            moved_away = false;
            if *source == Source::ReconciledIndex && locations.is_empty() {
                break;
            }
            for ((path, uid_validity), messages) in group_by_folder(&locations) {
                let result = self
                    .change_in_folder(access, path, uid_validity, &messages, change)
                    .await
                    .map_err(|error| after_changes(&changed, error))?;
                moved_away |= matches!(result, FolderResult::MovedAway(_));
                match result {
                    FolderResult::Changed(uids) | FolderResult::MovedAway(uids) => changed.extend(
                        messages
                            .iter()
                            .filter(|(_, uid)| uids.contains(uid))
                            .map(|(number, _)| *number),
                    ),
                    FolderResult::NoDestination if changed.is_empty() => return Ok(None),
                    FolderResult::NoDestination => {
                        let deleted = Error::Internal(
                            "the destination folder was deleted during the move".into(),
                        );
                        return Err(after_changes(&changed, deleted));
                    }
                }
            }
            changed.sort_unstable();
            remaining.retain(|number| changed.binary_search(number).is_err());
            // Ignore a message number that is neither in the cache nor in the message index,
            // because such a message number was never assigned.
            if *source == Source::Index {
                remaining.retain(|number| {
                    let mut known = tried.iter().chain(&locations);
                    known.any(|(known, _)| known == number)
                });
            }
            if remaining.is_empty() {
                break;
            }
            tried.extend(locations);
        }
        if moved_away {
            let why = "another client moved a message during every attempt to delete it";
            return Err(after_changes(&changed, Error::Unknown(why.into())));
        }
        // If there was no message to move, no command has checked whether the destination folder
        // exists. Therefore check the folder with STATUS.
        if let Change::Move { to } = change
            && changed.is_empty()
        {
            let mut lease = self.context.connections.lease(access, None).await?;
            let destination = retry_read!(lease, session => session.status(to, POSITIONS));
            return Ok(destination.map(|_| changed));
        }
        Ok(Some(changed))
    }

    /// Returns the locations of these messages in `source`. Omits messages that the caller is not
    /// allowed to see. Returns [`Error::Denied`] if the caller can see a message, but lacks one of
    /// `rights` on the message's folder.
    async fn authorized_locations(
        &self,
        access: &Access,
        numbers: &[MessageNumber],
        source: Source,
        rights: &[Right],
    ) -> Result<Vec<(MessageNumber, Arc<Location>)>, Error> {
        let mut locations = self.look_up(access, numbers, source).await?;
        let folder_access = self.folders.usable_by(access).await?;
        for &right in rights {
            let decide =
                |location: &Location| folder_access.authorize_message(message_ref(location), right);
            if locations
                .iter()
                .any(|(_, location)| decide(location) == Decision::Denied)
            {
                return Err(Error::Denied(right));
            }
            locations.retain(|(_, location)| decide(location) == Decision::Allowed);
        }
        Ok(locations)
    }

    /// Returns the locations of these messages in `source`.
    async fn look_up(
        &self,
        access: &Access,
        numbers: &[MessageNumber],
        source: Source,
    ) -> Result<Vec<(MessageNumber, Arc<Location>)>, Error> {
        let account = &access.account;
        if source == Source::Cache {
            let cached = |number: &MessageNumber| {
                Some((*number, self.context.cache.location(account, *number)?))
            };
            return Ok(numbers.iter().filter_map(cached).collect());
        }
        if source == Source::ReconciledIndex {
            self.numbers.reconcile(access).await?;
        }
        let locations = self
            .context
            .message_index()
            .locations(account, numbers)
            .await?;
        let locations = locations.into_iter().map(|(number, location)| {
            let location = Arc::new(location);
            self.context
                .cache
                .insert_location(account, number, &location);
            (number, location)
        });
        Ok(locations.collect())
    }

    /// Changes messages of one folder. `messages` contains the message number and the IMAP UID of
    /// each message.
    async fn change_in_folder(
        &self,
        access: &Access,
        path: &str,
        uid_validity: u32,
        messages: &[(MessageNumber, Uid)],
        change: &Change,
    ) -> Result<FolderResult, Error> {
        let uids: Vec<Uid> = messages.iter().map(|(_, uid)| *uid).collect();
        // Prevent other reconciliations until the result of an expunge has been checked. Another
        // client might have moved a message just before the expunge. The lock is acquired before
        // the connection, because the holder of the lock may need the last connection.
        let _lock = match change {
            Change::Delete => self.folders.locks.acquire(&access.account).await,
            Change::Flag { .. } | Change::Move { .. } => None,
        };
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        if matches!(change, Change::Move { to } if to == path) {
            let existing =
                retry_read!(lease, session => session.existing(path, uid_validity, &uids));
            return Ok(FolderResult::Changed(existing.unwrap_or_default()));
        }
        match change {
            Change::Flag { flags, add } => {
                let existing =
                    store_flags(&mut lease, path, uid_validity, &uids, flags, *add).await?;
                Ok(FolderResult::Changed(existing))
            }
            Change::Move { to } => {
                let Some((session, _)) = select(&mut lease, path, uid_validity).await? else {
                    return Ok(FolderResult::Changed(BTreeSet::new()));
                };
                let moved = session
                    .selected_folder()?
                    .move_to(&uids, to)
                    .await
                    .map_err(change_error)?;
                drop(lease);
                let Some(moved) = moved else {
                    return Ok(FolderResult::NoDestination);
                };
                let uids = self.numbers.store_moved(access, messages, to, &moved).await;
                Ok(FolderResult::Changed(uids))
            }
            Change::Delete => {
                let Some((session, _)) = select(&mut lease, path, uid_validity).await? else {
                    return Ok(FolderResult::Changed(BTreeSet::new()));
                };
                let expunged = session
                    .selected_folder()?
                    .expunge(&uids)
                    .await
                    .map_err(change_error)?;
                drop(lease);
                let deleted = self
                    .numbers
                    .remove_expunged(access, messages, &expunged)
                    .await?;
                if deleted.len() < expunged.len() {
                    return Ok(FolderResult::MovedAway(deleted));
                }
                Ok(FolderResult::Changed(deleted))
            }
        }
    }
}

/// Opens a folder with SELECT. Returns `None` if no folder with this path and UIDVALIDITY exists.
pub(super) async fn select<'l>(
    lease: &'l mut Lease<Connector>,
    path: &str,
    uid_validity: u32,
) -> Result<Option<(&'l mut Session, Writable)>, Error> {
    let folder = retry_read!(lease, session => session.select(path));
    match folder.filter(|folder| folder.opened.uid_validity == uid_validity) {
        Some(folder) => Ok(Some((lease.session().await?, folder))),
        None => Ok(None),
    }
}

/// Adds or removes flags of messages in one folder. Returns the IMAP UIDs of the messages that
/// exist.
async fn store_flags(
    lease: &mut Lease<Connector>,
    path: &str,
    uid_validity: u32,
    uids: &[Uid],
    flags: &[Flag],
    add: bool,
) -> Result<BTreeSet<Uid>, Error> {
    let mut connection_lost = false;
    let session = lease.session().await?;
    if session.can_store_without_select(path, uid_validity, uids, flags) {
        match session.selected_folder()?.store(uids, flags, add).await {
            Ok(existing) => return Ok(existing),
            // The command is idempotent, so the loop can repeat the command.
            Err(latchmail_imap::Error::Lost(_)) => connection_lost = true,
            Err(latchmail_imap::Error::No(_)) => {}
            Err(error) => return Err(change_error(error)),
        }
    }
    let with_select = async {
        let Some((session, folder)) = select(lease, path, uid_validity).await? else {
            return Ok(BTreeSet::new());
        };
        if let Some(flag) = folder.first_unsupported(flags).filter(|_| add) {
            let sentence = format!("The mail server does not store the flag {}", flag.as_str());
            return Err(Error::Rejected(sentence));
        }
        session
            .selected_folder()?
            .store(uids, flags, add)
            .await
            .map_err(change_error)
    };
    with_select.await.map_err(|error| match error {
        // The server might have executed the first STORE, so the outcome is unknown.
        error if connection_lost && !matches!(error, Error::Unknown(_)) => {
            Error::Unknown(error.to_string())
        }
        error => error,
    })
}

/// Converts the error of a command that changes messages. If the connection was lost, the server
/// might have executed the command.
pub(crate) fn change_error(error: latchmail_imap::Error) -> Error {
    match error {
        latchmail_imap::Error::No(text) => Error::Rejected(sanitize(&text)),
        latchmail_imap::Error::Lost(why)
        | latchmail_imap::Error::Unavailable(why)
        | latchmail_imap::Error::Protocol(why) => Error::Unknown(why),
        other => other.into(),
    }
}

/// Returns `error` if no message was changed. Otherwise returns [`Error::Unknown`] with the count
/// of changed messages.
fn after_changes(changed: &[MessageNumber], error: Error) -> Error {
    if changed.is_empty() {
        return error;
    }
    Error::Unknown(format!(
        "{} messages were changed before this error: {error}",
        changed.len()
    ))
}
