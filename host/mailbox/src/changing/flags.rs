//! Stores flags of messages with STORE. A foreign flag `\Deleted` stays: the API can neither set
//! nor remove it.

use std::collections::BTreeSet;

use latchmail_core::message_number::Uid;
use latchmail_imap::change::{StoreMode, Stored};
use latchmail_imap::flag::Flag;
use latchmail_imap::{Connector, Fetched, SelectedFolder, Writable};

use super::commands::{change_error, select};
use crate::connections::pool::Lease;
use crate::error::Error;

/// The flag that other clients set before an expunge. See [`crate::Flag`].
const DELETED: &str = "\\Deleted";
/// Maximum number of attempts if other clients change the flags concurrently.
const ATTEMPTS: usize = 5;

/// A change of flags that the folder can store.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlagChange<'f> {
    flags: &'f [Flag],
    mode: StoreMode,
}

impl<'f> FlagChange<'f> {
    /// Returns [`Error::Rejected`] if the mail server cannot store a flag permanently.
    pub(super) fn new(
        folder: &Writable,
        flags: &'f [Flag],
        mode: StoreMode,
    ) -> Result<Self, Error> {
        match folder.first_unsupported(flags) {
            Some(flag) if mode != StoreMode::Remove => {
                let flag = flag.as_str();
                let sentence = format!("The mail server does not store the flag {flag}");
                Err(Error::Rejected(sentence))
            }
            _ => Ok(Self { flags, mode }),
        }
    }

    /// Changes the flags of a message if the message still has the state that was read. Returns the
    /// IMAP UID of the message if the message exists. Without CONDSTORE, another client can change
    /// the message between the reading and this change.
    pub(super) async fn store_in_state(
        self,
        folder: &mut SelectedFolder<'_>,
        state: &Fetched,
    ) -> Result<BTreeSet<Uid>, Error> {
        let (uids, deleted) = ([state.uid], is_deleted(state));
        let stored = self.store(folder, &uids, deleted, state.modseq).await?;
        if stored.modified.is_empty() {
            Ok(stored.existing)
        } else {
            Err(Error::MessageChanged)
        }
    }

    /// Replaces the flags of messages. Returns the IMAP UIDs of the messages that exist.
    ///
    /// STORE without a sign also removes `\Deleted`. Therefore this function first reads which
    /// messages have the flag. With CONDSTORE, the change depends on the MODSEQs that were read.
    pub(super) async fn replace(
        self,
        folder: &mut SelectedFolder<'_>,
        uids: &[Uid],
    ) -> Result<BTreeSet<Uid>, Error> {
        let mut existing = BTreeSet::new();
        let mut remaining = uids.to_vec();
        for _ in 0..ATTEMPTS {
            let states = folder.flags_of(&remaining).await?;
            let newest = states.iter().filter_map(|state| state.modseq).max();
            let (deleted, others): (Vec<_>, Vec<_>) = states.iter().partition(|s| is_deleted(s));
            remaining.clear();
            for (states, deleted) in [(others, false), (deleted, true)] {
                let uids: Vec<Uid> = states.iter().map(|state| state.uid).collect();
                if uids.is_empty() {
                    continue;
                }
                let stored = self.store(folder, &uids, deleted, newest).await?;
                let repeated = uids.iter().filter(|uid| {
                    let modified = &stored.modified;
                    // The UID 0 stands for any message.
                    modified.contains(uid) || modified.contains(&Uid(0))
                });
                remaining.extend(repeated);
                existing.extend(stored.existing);
            }
            if remaining.is_empty() {
                return Ok(existing);
            }
        }
        let why = "another client changed the flags of a message during every attempt";
        Err(Error::Unknown(why.into()))
    }

    /// Sends STORE. `deleted` is `true` if the messages have the flag `\Deleted`.
    async fn store(
        self,
        folder: &mut SelectedFolder<'_>,
        uids: &[Uid],
        deleted: bool,
        unchanged_since: Option<u64>,
    ) -> Result<Stored, Error> {
        let mut flags: Vec<&str> = self.flags.iter().map(Flag::as_str).collect();
        if deleted && self.mode == StoreMode::Replace {
            flags.push(DELETED);
        }
        let stored = folder.store(uids, &flags, self.mode, unchanged_since);
        stored.await.map_err(change_error)
    }
}

fn is_deleted(message: &Fetched) -> bool {
    let mut flags = message.flags.iter();
    flags.any(|flag| flag.eq_ignore_ascii_case(DELETED))
}

/// Adds or removes flags of messages in one folder. Returns the IMAP UIDs of the messages that
/// exist.
pub(super) async fn store_flags(
    lease: &mut Lease<Connector>,
    path: &str,
    uid_validity: u32,
    uids: &[Uid],
    (flags, mode): (&[Flag], StoreMode),
) -> Result<BTreeSet<Uid>, Error> {
    let mut connection_lost = false;
    let session = lease.session().await?;
    if session.can_store_without_select(path, uid_validity, uids, flags) {
        let mut selected = session.selected_folder()?;
        match selected.store(uids, flags, mode, None).await {
            Ok(stored) => return Ok(stored.existing),
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
        FlagChange::new(&folder, flags, mode)?;
        let mut selected = session.selected_folder()?;
        let stored = selected.store(uids, flags, mode, None).await;
        Ok(stored.map_err(change_error)?.existing)
    };
    with_select.await.map_err(|error| match error {
        // The server might have executed the first STORE, so the outcome is unknown.
        error if connection_lost && !matches!(error, Error::Unknown(_)) => {
            Error::Unknown(error.to_string())
        }
        error => error,
    })
}
