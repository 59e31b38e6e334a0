//! The folders and the messages of an account in the fake host.

use std::collections::BTreeMap;

use crate::capability::{
    Change, ChangedMessage, Detail, ImportedMessage, IndexState, Quota, QuotaUsage, Summary,
    Timestamp,
};

pub(super) const SEEN: &str = "\\Seen";
pub(super) const FLAGGED: &str = "\\Flagged";
/// The roles of folders, in the order of the contract.
pub(super) const ROLES: [&str; 8] = [
    "\\Inbox",
    "\\Flagged",
    "\\Sent",
    "\\Drafts",
    "\\All",
    "\\Archive",
    "\\Junk",
    "\\Trash",
];
const SETTABLE_FLAGS: [&str; 4] = [SEEN, "\\Answered", "\\Flagged", "\\Draft"];

/// The folders and the messages of an account.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) folders: Vec<StoredFolder>,
    /// The messages of all folders. The messages of each folder are in the order of their arrival
    /// in the folder.
    pub(super) stored: Vec<Stored>,
    pub(super) last_uid: u64,
    /// The imports with an idempotency key.
    pub(super) imports: Vec<KeptImport>,
    /// The number of the last arrival of a message in a folder.
    pub(super) last_arrival: u64,
    /// All changes, oldest first.
    pub(super) changes: Vec<Change>,
    /// The state of the search index.
    pub(super) index: IndexState,
    pub(super) quota: Quota,
    /// The times at which snoozed messages come back, by `uid`.
    pub(super) snoozed: BTreeMap<u64, Timestamp>,
    /// The messages that were deleted with their folders, by the id of the folder.
    pub(super) deleted_with_folders: BTreeMap<String, Vec<u64>>,
}

/// A message in a folder.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) folder: String,
    pub(super) detail: Detail,
    /// The number of the message's arrival in its folder. Later arrivals have higher numbers.
    pub(super) arrival: u64,
    /// The content of each attachment.
    pub(super) files: Vec<Vec<u8>>,
    /// The bytes of an imported message.
    pub(super) raw: Option<Vec<u8>>,
    /// The path of the folder that contained the message before its last move.
    pub(super) previous: Option<String>,
}

/// An import with an idempotency key.
#[derive(Debug)]
pub(super) struct KeptImport {
    pub(super) key: String,
    /// The values of the import.
    pub(super) values: String,
    pub(super) imported: ImportedMessage,
}

impl Default for Mail {
    fn default() -> Self {
        let folder = |(path, role): (&str, &'static str)| StoredFolder::new(path, Some(role));
        let folders = [
            ("INBOX", "\\Inbox"),
            ("Sent", "\\Sent"),
            ("Drafts", "\\Drafts"),
            ("Archive", "\\Archive"),
            ("Junk", "\\Junk"),
            ("Trash", "\\Trash"),
        ];
        Self {
            folders: folders.map(folder).into(),
            stored: Vec::new(),
            last_uid: 0,
            imports: Vec::new(),
            last_arrival: 0,
            changes: Vec::new(),
            index: IndexState::Ready,
            quota: Quota {
                storage: UNLIMITED,
                messages: UNLIMITED,
            },
            snoozed: BTreeMap::new(),
            deleted_with_folders: BTreeMap::new(),
        }
    }
}

/// A resource without a limit.
const UNLIMITED: QuotaUsage = QuotaUsage {
    used: None,
    limit: None,
};

/// A folder.
#[derive(Debug)]
pub(super) struct StoredFolder {
    pub(super) path: String,
    pub(super) role: Option<&'static str>,
    /// The id, which a renamed folder keeps.
    pub(super) id: String,
}

impl StoredFolder {
    pub(super) fn new(path: &str, role: Option<&'static str>) -> Self {
        Self {
            path: path.into(),
            role,
            id: format!("id of {path}"),
        }
    }
}

/// Returns the canonical name of a flag. Returns `None` if clients cannot set the flag.
pub(super) fn settable(flag: &str) -> Option<String> {
    if flag.starts_with('\\') {
        let mut known = SETTABLE_FLAGS.iter();
        let known = known.find(|known| known.eq_ignore_ascii_case(flag));
        return known.map(|known| (*known).into());
    }
    let atom = |byte: u8| (0x21..0x7f).contains(&byte) && !b"(){%*\"\\]".contains(&byte);
    let valid = !flag.is_empty() && flag.len() <= 100 && flag.bytes().all(atom);
    valid.then(|| flag.into())
}

pub(super) fn has_flag(summary: &Summary, flag: &str) -> bool {
    summary.flags.iter().any(|one| one == flag)
}

pub(super) fn changed_message(folder: &str, detail: &Detail) -> ChangedMessage {
    ChangedMessage {
        uid: detail.summary.uid,
        folder: folder.into(),
        flags: detail.summary.flags.clone(),
    }
}
