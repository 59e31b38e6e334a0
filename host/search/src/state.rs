//! The mutable facts about the messages of a mailbox: folder, IMAP UID and flags.

mod entries;

use std::collections::HashMap;
use std::mem::size_of;
use std::sync::Arc;

use latchmail_core::message_number::{MessageNumber, Uid};

use crate::uid_set::UidSet;
use entries::Entries;

/// The location of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The index of the folder, as passed to [`MailboxState::set_folder`].
    pub folder: u16,
    /// The IMAP UID.
    pub imap_uid: Uid,
}

/// A set of folder indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderSet {
    bits: Vec<u64>,
}

impl FolderSet {
    /// Adds a folder.
    pub fn insert(&mut self, folder: u16) {
        let word = usize::from(folder / 64);
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (folder % 64);
    }

    /// Removes a folder.
    pub fn remove(&mut self, folder: u16) {
        if let Some(word) = self.bits.get_mut(usize::from(folder / 64)) {
            *word &= !(1 << (folder % 64));
        }
    }

    /// Returns whether the set contains the folder.
    #[must_use]
    pub fn contains(&self, folder: u16) -> bool {
        let word = self.bits.get(usize::from(folder / 64)).copied();
        word.unwrap_or(0) & (1 << (folder % 64)) != 0
    }
}

impl FromIterator<u16> for FolderSet {
    fn from_iter<I: IntoIterator<Item = u16>>(folders: I) -> Self {
        let mut set = Self::default();
        for folder in folders {
            set.insert(folder);
        }
        set
    }
}

/// The value of [`Entry::folder`] if no message has the number of the entry.
const NO_FOLDER: u16 = u16::MAX;

/// The state of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) folder: u16,
    pub(crate) imap_uid: Uid,
    /// The index of the message's flags in [`MailboxState::flag_sets`].
    pub(crate) flags: u32,
}

impl Entry {
    /// The entry of a message number that no message has.
    const UNUSED: Self = Self {
        folder: NO_FOLDER,
        imap_uid: Uid(0),
        flags: 0,
    };

    const fn is_used(&self) -> bool {
        self.folder != NO_FOLDER
    }
}

#[derive(Debug)]
struct Folder {
    path: String,
    uids: UidSet,
}

/// A combination of flags.
#[derive(Debug)]
pub(crate) struct FlagSet {
    pub(crate) text: Arc<str>,
    /// The number of messages with these flags.
    uses: u32,
}

/// The mutable facts about the messages of a mailbox. The index contains only immutable facts.
///
/// Message numbers (`uid` in the API) should be dense, because each unused number in a small gap
/// uses as much memory as the entry of a message.
#[derive(Debug, Default)]
pub struct MailboxState {
    entries: Entries,
    len: usize,
    folders: Vec<Option<Folder>>,
    flag_sets: Vec<FlagSet>,
    flag_set_by_text: HashMap<Arc<str>, u32>,
    free_flag_sets: Vec<u32>,
}

impl MailboxState {
    /// Creates a state without folders and messages.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder, or changes the path of the folder with this index.
    pub fn set_folder(&mut self, folder: u16, path: &str) {
        let index = usize::from(folder);
        if self.folders.len() <= index {
            self.folders.resize_with(index + 1, || None);
        }
        match &mut self.folders[index] {
            Some(folder) => path.clone_into(&mut folder.path),
            empty => {
                *empty = Some(Folder {
                    path: path.to_owned(),
                    uids: UidSet::default(),
                });
            }
        }
    }

    /// Removes a folder and the messages in it.
    pub fn remove_folder(&mut self, folder: u16) {
        let is_empty = |folder: &Folder| folder.uids.len() == 0;
        let known = self
            .folders
            .get(usize::from(folder))
            .and_then(Option::as_ref);
        // To find the messages of a folder, the loop reads the whole state. Empty folders skip the
        // loop, because many folders can be removed at once.
        if !known.is_none_or(is_empty) {
            let entries = self.entries.iter();
            let numbers: Vec<MessageNumber> = entries
                .filter(|(_, entry)| entry.folder == folder)
                .map(|(number, _)| MessageNumber(number))
                .collect();
            for number in numbers {
                self.remove(number);
            }
        }
        if let Some(folder) = self.folders.get_mut(usize::from(folder)) {
            *folder = None;
        }
    }

    /// Returns the index of the folder with this path.
    #[must_use]
    pub fn folder(&self, path: &str) -> Option<u16> {
        self.folders_with(|folder| folder == path).next()
    }

    /// Returns the folders with this path, ignoring case.
    pub(crate) fn folders_ignoring_case(&self, path: &str) -> FolderSet {
        let path = path.to_lowercase();
        self.folders_with(|folder| folder.to_lowercase() == path)
            .collect()
    }

    fn folders_with(&self, matches: impl Fn(&str) -> bool) -> impl Iterator<Item = u16> {
        let folders = (0..).zip(&self.folders);
        folders.filter_map(move |(index, folder)| {
            folder
                .as_ref()
                .is_some_and(|folder| matches(&folder.path))
                .then_some(index)
        })
    }

    /// Returns the path of a folder.
    #[must_use]
    pub fn path(&self, folder: u16) -> Option<&str> {
        Some(&self.folders.get(usize::from(folder))?.as_ref()?.path)
    }

    /// Adds a message, or changes its location and flags. `flags` is the canonical text: flags and
    /// keywords, separated by spaces.
    ///
    /// A message in a folder without a path is ignored: call [`set_folder`](Self::set_folder)
    /// first.
    pub fn set(&mut self, number: MessageNumber, folder: u16, imap_uid: Uid, flags: &str) {
        self.remove(number);
        let Some(Some(_)) = self.folders.get(usize::from(folder)) else {
            return;
        };
        let mut entry = Entry {
            folder,
            imap_uid,
            flags: 0,
        };
        if !self.entries.set(number.0, entry) {
            return;
        }
        entry.flags = self.use_flags(flags);
        self.entries.set(number.0, entry);
        if let Some(Some(folder)) = self.folders.get_mut(usize::from(folder)) {
            folder.uids.insert(imap_uid);
        }
        self.len += 1;
    }

    /// Removes a message.
    pub fn remove(&mut self, number: MessageNumber) {
        let Some(entry) = self.entries.remove(number.0) else {
            return;
        };
        self.len -= 1;
        if let Some(Some(folder)) = self.folders.get_mut(usize::from(entry.folder)) {
            folder.uids.remove(entry.imap_uid);
        }
        let flags = &mut self.flag_sets[entry.flags as usize];
        flags.uses -= 1;
        if flags.uses == 0 {
            self.flag_set_by_text.remove(&flags.text);
            self.free_flag_sets.push(entry.flags);
        }
    }

    /// Returns the index of a combination of flags in `flag_sets`, and increments the number of its
    /// uses.
    fn use_flags(&mut self, text: &str) -> u32 {
        if let Some(&index) = self.flag_set_by_text.get(text) {
            self.flag_sets[index as usize].uses += 1;
            return index;
        }
        let text: Arc<str> = text.into();
        let flags = FlagSet {
            text: Arc::clone(&text),
            uses: 1,
        };
        let index = if let Some(index) = self.free_flag_sets.pop() {
            self.flag_sets[index as usize] = flags;
            index
        } else {
            self.flag_sets.push(flags);
            // Each combination has at least one message, so the number of combinations is far below
            // `u32::MAX`.
            u32::try_from(self.flag_sets.len() - 1).unwrap_or(u32::MAX)
        };
        self.flag_set_by_text.insert(text, index);
        index
    }

    #[inline]
    pub(crate) fn entry(&self, number: MessageNumber) -> Option<Entry> {
        self.entries.get(number.0)
    }

    pub(crate) fn flag_sets(&self) -> &[FlagSet] {
        &self.flag_sets
    }

    /// Returns the location of a message.
    #[must_use]
    pub fn get(&self, number: MessageNumber) -> Option<Location> {
        self.entry(number).map(|entry| Location {
            folder: entry.folder,
            imap_uid: entry.imap_uid,
        })
    }

    /// Returns the flags of a message, as they were passed to [`set`](Self::set).
    #[must_use]
    pub fn flags(&self, number: MessageNumber) -> Option<&str> {
        Some(&self.flag_sets.get(self.entry(number)?.flags as usize)?.text)
    }

    /// Returns the position of a message in its folder, beginning with 1. Returns 0 if the folder
    /// has no message with this UID.
    #[must_use]
    pub fn seq(&self, folder: u16, imap_uid: Uid) -> u32 {
        match self.folders.get(usize::from(folder)) {
            Some(Some(folder)) => folder
                .uids
                .position(imap_uid)
                .map_or(0, |position| position + 1),
            _ => 0,
        }
    }

    /// Returns the number of messages in a folder.
    #[must_use]
    pub fn folder_len(&self, folder: u16) -> u32 {
        match self.folders.get(usize::from(folder)) {
            Some(Some(folder)) => folder.uids.len(),
            _ => 0,
        }
    }

    /// Returns all message numbers, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = MessageNumber> {
        self.entries.iter().map(|(number, _)| MessageNumber(number))
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory that the state uses, in bytes. The number is approximate.
    #[must_use]
    pub fn memory(&self) -> usize {
        let folders = self.folders.iter().flatten();
        let flags = self.flag_sets.iter();
        self.entries.memory()
            + folders
                .map(|folder| size_of::<Folder>() + folder.path.len() + folder.uids.memory())
                .sum::<usize>()
            + flags
                .map(|flags| 4 * size_of::<FlagSet>() + flags.text.len())
                .sum::<usize>()
    }
}

impl FlagSet {
    /// Returns whether the flags contain `flag`, ignoring case.
    pub(crate) fn contains(&self, flag: &str) -> bool {
        self.text
            .split(' ')
            .any(|other| other.eq_ignore_ascii_case(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> MailboxState {
        let mut state = MailboxState::new();
        state.set_folder(0, "INBOX");
        state.set_folder(3, "Archive");
        state.set(MessageNumber(5), 0, Uid(10), "\\Seen work");
        state.set(MessageNumber(2), 0, Uid(7), "");
        state.set(MessageNumber(9), 3, Uid(7), "");
        state
    }

    #[test]
    fn messages_have_a_location_and_flags() {
        let state = state();
        assert_eq!(
            state.get(MessageNumber(5)),
            Some(Location {
                folder: 0,
                imap_uid: Uid(10)
            })
        );
        assert_eq!(state.flags(MessageNumber(5)), Some("\\Seen work"));
        assert_eq!(state.get(MessageNumber(4)), None);
        assert_eq!(state.get(MessageNumber(u64::MAX)), None);
        assert_eq!(
            state.numbers().collect::<Vec<_>>(),
            [2, 5, 9].map(MessageNumber)
        );
        assert_eq!(state.len(), 3);
        assert_eq!(
            (
                state.folder_len(0),
                state.folder_len(3),
                state.folder_len(1)
            ),
            (2, 1, 0)
        );
        assert_eq!(
            (
                state.folder("Archive"),
                state.folder("archive"),
                state.path(3)
            ),
            (Some(3), None, Some("Archive"))
        );
        assert!(state.folders_ignoring_case("aRCHIVE").contains(3));
    }

    #[test]
    fn positions_follow_the_imap_uids() {
        let mut state = state();
        assert_eq!(
            (
                state.seq(0, Uid(7)),
                state.seq(0, Uid(10)),
                state.seq(0, Uid(8)),
                state.seq(1, Uid(7))
            ),
            (1, 2, 0, 0)
        );
        state.remove(MessageNumber(2));
        assert_eq!(state.seq(0, Uid(10)), 1);
    }

    #[test]
    fn a_moved_message_leaves_its_folder() {
        let mut state = state();
        state.set(MessageNumber(5), 3, Uid(8), "\\Seen");
        assert_eq!(
            (state.folder_len(0), state.folder_len(3), state.len()),
            (1, 2, 3)
        );
        assert_eq!(state.flags(MessageNumber(5)), Some("\\Seen"));
        state.set(MessageNumber(5), 1, Uid(8), "");
        assert_eq!(state.get(MessageNumber(5)), None, "folder 1 does not exist");
    }

    #[test]
    fn a_removed_folder_takes_its_messages_along() {
        let mut state = state();
        state.remove_folder(0);
        assert_eq!(
            (
                state.len(),
                state.path(0),
                state.get(MessageNumber(9)).is_some()
            ),
            (1, None, true)
        );
    }

    #[test]
    fn combinations_of_flags_without_messages_are_reused() {
        let mut state = state();
        for keyword in 0..1000 {
            state.set(MessageNumber(2), 0, Uid(7), &format!("keyword{keyword}"));
        }
        assert_eq!(state.flags(MessageNumber(2)), Some("keyword999"));
        assert!(state.flag_sets().len() <= 4, "{}", state.flag_sets().len());
    }
}
