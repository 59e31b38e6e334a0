//! Changes messages of one folder, with one command.

use std::collections::BTreeSet;

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_imap::change::{Moved, StoreMode};
use latchmail_imap::flag::Flag;
use latchmail_imap::{Connector, Fetched, MessageRef, Writable};

use super::Changer;
use super::change::{Action, Change, FolderResult};
use super::commands::{change_error, select};
use super::flags::{FlagChange, store_flags};
use super::recording::{FolderRecording, record};
use crate::access::Access;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::error::Error;

/// A folder that is open for a change.
struct OpenFolder<'f> {
    lease: Lease<Connector>,
    path: &'f str,
    folder: Writable,
    /// The state of the message, if the change depends on it.
    state: Option<Fetched>,
}

impl Changer {
    /// Changes messages of one folder. `messages` contains the message number and the IMAP UID of
    /// each message.
    pub(super) async fn change_in_folder(
        &self,
        access: &Access,
        path: &str,
        uid_validity: u32,
        messages: &[(MessageNumber, Uid)],
        change: &Change,
    ) -> Result<FolderResult, Error> {
        // Prevent other reconciliations until the result of an expunge has been checked. Another
        // client might have moved a message just before the expunge. The lock is acquired before
        // the connection, because the holder of the lock may need the last connection.
        let _lock = match change.action {
            Action::Delete => self.folders.locks.acquire(&access.account).await,
            _ => None,
        };
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        // A change of a grant needs the open folder, because the state before is recorded.
        if change.if_version.is_none() && access.grant.is_none() {
            let at = (path, uid_validity);
            let changed = change_without_select(&mut lease, at, messages, &change.action);
            if let Some(changed) = changed.await? {
                return Ok(FolderResult::Changed(changed));
            }
        }
        let none = || Ok(FolderResult::Changed(BTreeSet::new()));
        let Some((session, folder)) = select(&mut lease, path, uid_validity).await? else {
            return none();
        };
        let state = match (&change.if_version, messages) {
            (Some(expected), [(number, uid)]) => {
                let at = MessageRef {
                    path,
                    uid_validity,
                    uid: *uid,
                };
                let state = self.require_version(access, session, *number, at, expected);
                match state.await? {
                    Some(state) => Some(state),
                    None => return none(),
                }
            }
            _ => None,
        };
        let recording = if access.grant.is_some() {
            let mut selected = session.selected_folder()?;
            let at = (path, uid_validity);
            let (context, action) = (&self.context, &change.action);
            let recorded = record(context, access, &mut selected, at, (messages, action));
            Some(recorded.await?)
        } else {
            None
        };
        let kept = recording
            .as_ref()
            .map(|recording| recording.messages.clone());
        let messages = kept.as_deref().unwrap_or(messages);
        if messages.is_empty() {
            return none();
        }
        let open = OpenFolder {
            lease,
            path,
            folder,
            state,
        };
        apply(self, access, open, (messages, &change.action), recording).await
    }
}

/// Makes a change in an open folder, and completes its record.
async fn apply(
    changer: &Changer,
    access: &Access,
    open: OpenFolder<'_>,
    (messages, action): (&[(MessageNumber, Uid)], &Action),
    mut recording: Option<FolderRecording>,
) -> Result<FolderResult, Error> {
    let record = &mut recording;
    match action {
        Action::Flag { flags, mode } => {
            let changed = store(open, messages, (flags, *mode)).await;
            let changed = unless_failed(record, changed).await?;
            recorded(recording, &changed).await;
            Ok(FolderResult::Changed(changed))
        }
        Action::MarkOriginal { flag } => {
            let add = (std::slice::from_ref(flag), StoreMode::Add);
            let changed = store(open, messages, add).await;
            let changed = unless_failed(record, changed).await?;
            recorded(recording, &changed).await;
            Ok(FolderResult::Changed(changed))
        }
        Action::Move { to } if to == open.path => Ok(FolderResult::Changed(uids_of(messages))),
        Action::Move { to } => {
            let moved = transfer(open, messages, action).await;
            let Some(moved) = unless_failed(record, moved).await? else {
                recorded(recording, &BTreeSet::new()).await;
                return Ok(FolderResult::NoDestination);
            };
            let changed = changer
                .numbers
                .store_moved(access, messages, to, &moved)
                .await;
            if let Some(recording) = recording {
                recording.moved(&changer.context, access, to, &moved).await;
            }
            Ok(FolderResult::Changed(changed))
        }
        Action::Copy { to } => {
            let copied = transfer(open, messages, action).await;
            let Some(copied) = unless_failed(record, copied).await? else {
                recorded(recording, &BTreeSet::new()).await;
                return Ok(FolderResult::NoDestination);
            };
            let numbers = changer
                .numbers
                .number_copies(access, messages, to, &copied)
                .await;
            let unknown = |error| {
                let text = format!("messages were copied before this error: {error}");
                Error::Unknown(text)
            };
            let numbers = numbers.map_err(unknown)?;
            if let Some(recording) = recording {
                let copies = (to.as_str(), &copied);
                recording
                    .copied(&changer.context, access, copies, &numbers)
                    .await;
            }
            Ok(FolderResult::Copied(numbers))
        }
        Action::Delete => {
            let expunged = expunge(open, messages).await;
            let expunged = unless_failed(record, expunged).await?;
            let deleted = changer
                .numbers
                .remove_expunged(access, messages, &expunged)
                .await?;
            recorded(recording, &deleted).await;
            if deleted.len() < expunged.len() {
                return Ok(FolderResult::MovedAway(deleted));
            }
            Ok(FolderResult::Changed(deleted))
        }
    }
}

/// Ends the record of a change that failed.
async fn unless_failed<T>(
    recording: &mut Option<FolderRecording>,
    result: Result<T, Error>,
) -> Result<T, Error> {
    if let Err(error) = &result
        && let Some(recording) = recording.take()
    {
        recording.failed(error).await;
    }
    result
}

/// Completes the record of the messages that were changed.
async fn recorded(recording: Option<FolderRecording>, changed: &BTreeSet<Uid>) {
    if let Some(recording) = recording {
        recording.changed(changed).await;
    }
}

fn uids_of<C: FromIterator<Uid>>(messages: &[(MessageNumber, Uid)]) -> C {
    messages.iter().map(|(_, uid)| *uid).collect()
}

/// Makes a change that needs no SELECT, or whose SELECT may be left out. Returns `None` if the
/// change needs the open folder.
async fn change_without_select(
    lease: &mut Lease<Connector>,
    (path, uid_validity): (&str, u32),
    messages: &[(MessageNumber, Uid)],
    action: &Action,
) -> Result<Option<BTreeSet<Uid>>, Error> {
    let uids: Vec<Uid> = uids_of(messages);
    Ok(match action {
        Action::Move { to } if to == path => {
            let existing =
                retry_read!(lease, session => session.existing(path, uid_validity, &uids));
            Some(existing.unwrap_or_default())
        }
        Action::Flag { flags, mode } if *mode != StoreMode::Replace => {
            Some(store_flags(lease, path, uid_validity, &uids, (flags, *mode)).await?)
        }
        Action::MarkOriginal { flag } => {
            let add = (std::slice::from_ref(flag), StoreMode::Add);
            Some(store_flags(lease, path, uid_validity, &uids, add).await?)
        }
        _ => None,
    })
}

/// Changes flags. Returns the UIDs of the messages that exist.
async fn store(
    mut open: OpenFolder<'_>,
    messages: &[(MessageNumber, Uid)],
    (flags, mode): (&[Flag], StoreMode),
) -> Result<BTreeSet<Uid>, Error> {
    let change = FlagChange::new(&open.folder, flags, mode)?;
    let mut selected = open.lease.current_session()?.selected_folder()?;
    if let Some(state) = &open.state {
        return change.store_in_state(&mut selected, state).await;
    }
    let uids: Vec<Uid> = uids_of(messages);
    change.replace(&mut selected, &uids).await
}

/// Moves or copies messages. Returns `None` if the destination folder does not exist.
async fn transfer(
    mut open: OpenFolder<'_>,
    messages: &[(MessageNumber, Uid)],
    action: &Action,
) -> Result<Option<Moved>, Error> {
    let uids: Vec<Uid> = uids_of(messages);
    let mut selected = open.lease.current_session()?.selected_folder()?;
    let transferred = match action {
        Action::Copy { to } => selected.copy_to(&uids, to).await,
        _ => {
            selected
                .move_to(&uids, action.destination().unwrap_or_default())
                .await
        }
    };
    transferred.map_err(change_error)
}

/// Deletes messages permanently. Returns the UIDs of the messages that existed.
async fn expunge(
    mut open: OpenFolder<'_>,
    messages: &[(MessageNumber, Uid)],
) -> Result<BTreeSet<Uid>, Error> {
    let mut selected = open.lease.current_session()?.selected_folder()?;
    let state = open.state.as_ref();
    if let Some((modseq, uid)) = state.and_then(|state| state.modseq.zip(Some(state.uid))) {
        let expunged = selected.expunge_unchanged(uid, modseq).await;
        let expunged = expunged.map_err(change_error)?;
        return expunged.ok_or(Error::MessageChanged);
    }
    let uids: Vec<Uid> = uids_of(messages);
    selected.expunge(&uids).await.map_err(change_error)
}
