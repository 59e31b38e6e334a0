//! An open search index with the current state of the mailbox.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::message_index::{Replica, ReplicaDelta, ReplicaFolder, ReplicaMessage};
use latchmail_search::{Index, MailboxState};

use super::mailbox_threads::MailboxThreads;
use crate::folders::states::FolderState;

/// An open search index with the state of the mailbox at one version of the change log.
pub(super) struct Content {
    pub(super) index: Arc<Index>,
    pub(super) mailbox: Mailbox,
    pub(super) threads: MailboxThreads,
    /// The messages that are not in the index, because an update did not find them at their
    /// locations or because the mail server failed to return them.
    pub(super) unindexed: BTreeSet<MessageNumber>,
    pub(super) verified: Instant,
}

/// The state of the mailbox at one version of the change log.
pub(super) struct Mailbox {
    /// The version of the change log.
    pub(super) version: u64,
    pub(super) state: MailboxState,
    /// The folders of the mailbox, by their positions in `state`.
    folders: HashMap<u16, ReplicaFolder>,
    /// The positions of `folders` in `state`, by path.
    paths: HashMap<String, u16>,
    /// The positions of `folders` in `state`, by the internal id of the folder.
    positions: HashMap<String, u16>,
    next_position: u16,
}

impl Mailbox {
    pub(super) fn new(replica: &Replica) -> Self {
        let mut mailbox = Self {
            version: replica.version,
            state: MailboxState::new(),
            folders: HashMap::new(),
            paths: HashMap::new(),
            positions: HashMap::new(),
            next_position: 0,
        };
        mailbox.set_folders(&replica.folders);
        mailbox.set_messages(&replica.folders, &replica.messages);
        mailbox
    }

    /// Applies `delta`, which contains the changes after [`Mailbox::version`].
    pub(super) fn apply(&mut self, delta: &ReplicaDelta) {
        for number in &delta.removed {
            self.state.remove(*number);
        }
        self.set_folders(&delta.folders);
        self.set_messages(&delta.folders, &delta.changed);
        self.version = delta.version;
    }

    fn set_messages(&mut self, folders: &[ReplicaFolder], messages: &[ReplicaMessage]) {
        for message in messages {
            let folder = folders.get(message.folder);
            let position = folder.and_then(|folder| self.positions.get(&folder.id));
            if let Some(position) = position {
                self.state
                    .set(message.number, *position, message.imap_uid, &message.flags);
            }
        }
    }

    fn set_folders(&mut self, folders: &[ReplicaFolder]) {
        let ids: HashSet<&str> = folders.iter().map(|folder| folder.id.as_str()).collect();
        for (position, folder) in self.folders.drain() {
            if !ids.contains(folder.id.as_str()) {
                self.state.remove_folder(position);
                self.positions.remove(&folder.id);
            }
        }
        self.paths.clear();
        for folder in folders {
            let known = self.positions.get(&folder.id).copied();
            let position = known.unwrap_or(self.next_position);
            if known.is_none() {
                // If no position is free, omit the new folder. Then [`Mailbox::is_current`] returns
                // `false` until the index is opened again.
                let Some(next) = self.next_position.checked_add(1) else {
                    continue;
                };
                self.next_position = next;
                self.positions.insert(folder.id.clone(), position);
            }
            self.paths.insert(folder.path.clone(), position);
            self.folders.insert(position, folder.clone());
        }
        // Folders can swap their paths. Therefore the state is updated after all positions are
        // known.
        for (position, folder) in &self.folders {
            self.state.set_folder(*position, &folder.path);
        }
    }

    /// Returns the folders with their positions in `state`, in any order.
    pub(super) fn folders(&self) -> impl Iterator<Item = (u16, &ReplicaFolder)> {
        let folders = self.folders.iter();
        folders.map(|(position, folder)| (*position, folder))
    }

    /// Returns the folder with this position in `state`.
    pub(super) fn folder_at(&self, position: u16) -> Option<&ReplicaFolder> {
        self.folders.get(&position)
    }

    /// Returns the folder with this path.
    fn folder(&self, path: &str) -> Option<&ReplicaFolder> {
        self.folder_at(*self.paths.get(path)?)
    }

    /// Returns `true` if the state of one folder is as current as `now`, the state on the mail
    /// server. New, changed and expunged messages increase HIGHESTMODSEQ (RFC 7162). Returns
    /// `false` if the server has no HIGHESTMODSEQ.
    pub(super) fn is_current_in(&self, now: &FolderState) -> bool {
        now.highest_modseq.is_some()
            && self.folder(&now.path).is_some_and(|folder| {
                folder.highest_modseq == now.highest_modseq
                    && folder.uid_validity == now.opened.uid_validity
            })
    }

    /// Returns `true` if the state of all folders is as current as `now`, the state on the mail
    /// server.
    pub(super) fn is_current(&self, now: &[FolderState]) -> bool {
        self.folders.len() == now.len() && now.iter().all(|folder| self.is_current_in(folder))
    }
}
