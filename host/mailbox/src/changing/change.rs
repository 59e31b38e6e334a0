//! Changes flags of messages, and moves, copies and deletes messages. Callers specify messages by
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
use latchmail_imap::change::StoreMode;
use latchmail_imap::flag::Flag;
use latchmail_imap::list::POSITIONS;

use super::Changer;
use crate::access::Access;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::folders::path::normalize_path;
use crate::folders::rights::Decision;
use crate::numbers::locations::{group_by_folder, message_ref};

/// A change of messages.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) action: Action,
    /// The version that the message must have. Only a change of one message can have a version.
    pub(super) if_version: Option<String>,
    /// If set, only messages in the folder with this path are changed.
    pub(super) only_from: Option<String>,
}

/// The action of a change.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Flag {
        flags: Vec<Flag>,
        mode: StoreMode,
    },
    /// Adds the flag of an answered or forwarded message. Only the right to read is needed, because
    /// the flag records that the caller sent a message about this message.
    MarkOriginal {
        flag: Flag,
    },
    Move {
        to: String,
    },
    Copy {
        to: String,
    },
    Delete,
}

impl Action {
    /// Returns the path of the folder to which messages are moved or copied.
    pub(super) fn destination(&self) -> Option<&str> {
        match self {
            Self::Move { to } | Self::Copy { to } => Some(to),
            Self::Flag { .. } | Self::MarkOriginal { .. } | Self::Delete => None,
        }
    }
}

/// A copied message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The number of the original.
    pub original: MessageNumber,
    /// The number of the copy.
    pub copy: MessageNumber,
}

/// The messages that were changed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The sorted numbers of the changed messages, or of the originals of copies.
    pub(super) numbers: Vec<MessageNumber>,
    pub(super) copies: Vec<Copied>,
}

/// The source of message locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
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
    /// The rights of a member, and of a grant whose policy opens some folders, depend on the
    /// locations of the messages. Therefore the message index is
    /// reconciled with the mail server before any message is changed.
    const FOR_MEMBER: &[Self] = &[
        Self::ReconciledIndex,
        Self::ReconciledIndex,
        Self::ReconciledIndex,
    ];

    /// Returns the sources in the order in which a change uses them. A member's change uses other
    /// sources than the owner's change.
    fn sequence(access: &Access) -> &'static [Self] {
        if access.is_limited() {
            Self::FOR_MEMBER
        } else {
            Self::FOR_OWNER
        }
    }
}

/// The result of a change in one folder.
pub(super) enum FolderResult {
    /// The IMAP UIDs of the changed messages.
    Changed(BTreeSet<Uid>),
    /// The IMAP UIDs of the originals, and the message numbers of the copies.
    Copied(Vec<(Uid, MessageNumber)>),
    /// Another client moved some of the messages before the expunge. The value contains the IMAP
    /// UIDs of the messages that were deleted.
    MovedAway(BTreeSet<Uid>),
    NoDestination,
}

impl Changer {
    /// Changes flags of messages. Returns the message numbers of the messages that exist. A foreign
    /// flag `\Deleted` is not removed. With `if_version`, `numbers` must contain one number.
    ///
    /// # Errors
    /// Returns [`Error::MessageChanged`] if the message has another version than `if_version`.
    /// Returns [`Error::Rejected`] if the mail server cannot store a flag permanently. Returns
    /// another [`Error`] if the operation fails.
    pub async fn flag(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        (flags, mode): (Vec<Flag>, StoreMode),
        if_version: Option<String>,
    ) -> Result<Vec<MessageNumber>, Error> {
        let action = Action::Flag { flags, mode };
        let changed = self.start_change(access, numbers, action, if_version);
        Ok(changed.await?.unwrap_or_default().numbers)
    }

    /// Moves messages to a folder. The message numbers do not change. Returns the message numbers
    /// of the messages that exist. Returns `None` if the destination folder does not exist. With
    /// `if_version`, `numbers` must contain one number.
    ///
    /// # Errors
    /// Returns [`Error::MessageChanged`] if the message has another version than `if_version`.
    /// Returns another [`Error`] if the operation fails.
    pub async fn move_to(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        destination: &str,
        if_version: Option<String>,
    ) -> Result<Option<Vec<MessageNumber>>, Error> {
        let to = normalize_path(destination).to_owned();
        let action = Action::Move { to };
        let changed = self.start_change(access, numbers, action, if_version);
        Ok(changed.await?.map(|changes| changes.numbers))
    }

    /// Copies messages to a folder. Returns the numbers of the originals that exist and of their
    /// copies. Returns `None` if the destination folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn copy_to(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        destination: &str,
    ) -> Result<Option<Vec<Copied>>, Error> {
        let to = normalize_path(destination).to_owned();
        let action = Action::Copy { to };
        let copied = self.start_change(access, numbers, action, None).await?;
        Ok(copied.map(|changes| changes.copies))
    }

    /// Deletes messages permanently. Returns the message numbers of the messages that existed. With
    /// `if_version`, `numbers` must contain one number.
    ///
    /// # Errors
    /// Returns [`Error::MessageChanged`] if the message has another version than `if_version`.
    /// Returns another [`Error`] if the operation fails.
    pub async fn delete(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        if_version: Option<String>,
    ) -> Result<Vec<MessageNumber>, Error> {
        let deleted = self.start_change(access, numbers, Action::Delete, if_version);
        Ok(deleted.await?.unwrap_or_default().numbers)
    }

    /// Runs a change on its own task. The change completes even if the caller is dropped.
    pub(super) async fn start_change(
        self: &Arc<Self>,
        access: &Access,
        numbers: &[MessageNumber],
        action: Action,
        if_version: Option<String>,
    ) -> Result<Option<Changes>, Error> {
        let (changer, access, numbers) = (Arc::clone(self), access.clone(), numbers.to_vec());
        let change = Change {
            action,
            if_version,
            only_from: None,
        };
        self.run(async move {
            let (access, _lock) = &changer.lock(&access).await?;
            changer.change(access, numbers, &change).await
        })
        .await
    }

    /// Runs `change` on its own task. The change completes even if the caller is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let ended = |error| Err(Error::Unknown(format!("a change ended early: {error}")));
        self.tasks.spawn(change).await.unwrap_or_else(ended)
    }

    /// Changes messages. Returns `None` if the destination folder does not exist.
    ///
    /// The caller must hold the account's lock. Two moves of one message must not overlap.
    /// Otherwise a server could copy the message twice and remove the original only once.
    pub(super) async fn change(
        &self,
        access: &Access,
        mut remaining: Vec<MessageNumber>,
        change: &Change,
    ) -> Result<Option<Changes>, Error> {
        let allowed = self.within_policy(access, change).await?;
        let change = &*allowed;
        remaining.sort_unstable();
        remaining.dedup();
        let Some(rights) = self.required_rights(access, &change.action).await? else {
            return Ok(None);
        };
        // The numbers of the changed messages. The list is sorted after each lookup.
        let mut changed: Vec<MessageNumber> = Vec::new();
        let mut copies: Vec<Copied> = Vec::new();
        let mut tried: Vec<(MessageNumber, Arc<Location>)> = Vec::new();
        let mut moved_away = false;
        for source in Source::sequence(access) {
            let mut locations = self
                .authorized_locations(access, &remaining, *source, &rights)
                .await
                .map_err(|error| after_changes(&changed, error))?;
            locations.retain(|location| !tried.contains(location));
            if let Some(from) = &change.only_from {
                locations.retain(|(_, location)| location.path == *from);
            }
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
                let number_of = |uid: &Uid| {
                    let found = messages.iter().find(|(_, of)| of == uid);
                    found.map(|(number, _)| *number)
                };
                match result {
                    FolderResult::Copied(numbers) => {
                        copies.extend(numbers.iter().filter_map(|(uid, copy)| {
                            Some(Copied {
                                original: number_of(uid)?,
                                copy: *copy,
                            })
                        }));
                        changed.extend(numbers.iter().filter_map(|(uid, _)| number_of(uid)));
                    }
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
        // If there was no message to move or copy, no command has checked whether the destination
        // folder exists. Therefore check the folder with STATUS.
        if let Some(to) = change.action.destination()
            && changed.is_empty()
        {
            let mut lease = self.context.connections.lease(access, None).await?;
            let destination = retry_read!(lease, session => session.status(to, POSITIONS));
            return Ok(destination.map(|_| Changes::default()));
        }
        Ok(Some(Changes {
            numbers: changed,
            copies,
        }))
    }

    /// Returns the rights that a change needs on the old location of a message. Returns `None` if
    /// the destination folder does not exist, or if the member must not learn that it exists.
    async fn required_rights(
        &self,
        access: &Access,
        action: &Action,
    ) -> Result<Option<Vec<Right>>, Error> {
        let mut rights = match action {
            Action::Copy { .. } | Action::MarkOriginal { .. } => vec![Right::MailRead],
            _ => vec![Right::MailWrite],
        };
        if let Some(to) = action.destination() {
            // The command contains the name of the destination folder. The server does not
            // report the id of the folder with this name. Therefore the folders in the message
            // index are updated before the member's rights are checked.
            if access.is_limited() {
                self.folders.refresh(access).await?;
            }
            if self.is_policy_trash(access, to).await? {
                return Ok(Some(rights));
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
            if access.is_limited()
                && matches!(action, Action::Move { .. })
                && folder_access.authorize_path(to, Right::MailRead) == Decision::Allowed
            {
                rights.push(Right::MailRead);
            }
        }
        Ok(Some(rights))
    }

    /// Returns the locations of these messages in `source`. Omits messages that the caller is not
    /// allowed to see. Returns [`Error::Denied`] if the caller can see a message, but lacks one of
    /// `rights` on the message's folder.
    pub(super) async fn authorized_locations(
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
            // For a member, the steps do not depend on the existence of the messages.
            let sought = (!access.is_limited()).then_some(numbers);
            self.numbers
                .reconcile(access, sought.unwrap_or_default())
                .await?;
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
}

/// Returns `error` if no message was changed. Otherwise returns [`Error::Unknown`] with the count
/// of changed messages.
pub(super) fn after_changes(changed: &[MessageNumber], error: Error) -> Error {
    if changed.is_empty() {
        return error;
    }
    Error::Unknown(format!(
        "{} messages were changed before this error: {error}",
        changed.len()
    ))
}
