//! Caches data about messages that does not change under a given number: locations, summaries without flags, attachment positions, and folder ids.
//!
//! The cache makes no access decisions. A request that uses it has also authenticated at the mail server, and checks there that the message still exists.

use std::sync::Arc;

use latchmail_directory::message_index::Location;
use latchmail_imap::Opened;
use latchmail_mime::Section;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use sha2::{Digest as _, Sha256};

use super::types::Summary;

/// Maximum size of each of the two message caches, in bytes (estimated).
const LARGEST: u64 = 32 * 1024 * 1024;
/// Maximum number of accounts in a cache.
const ACCOUNTS: usize = 10_000;
/// Maximum number of folders in a cache.
const FOLDERS: usize = 100_000;
/// Estimated overhead of one entry, in bytes.
const ENTRY: u64 = 128;

/// The caches.
pub(crate) struct Kept {
    messages: Cache<(String, u64), Message, Weight>,
    summaries: Cache<(Folder, u32), Arc<Summary>, Weight>,
    /// The number of listed folders of each account whose folders are in the index, or 0 if the number is not known.
    acquainted: Cache<String, usize>,
    /// The number of messages and UIDNEXT of each folder when it was last checked for lost messages.
    counts: Cache<Folder, (u32, u32)>,
    /// The path of each account's Sent folder.
    sent: Cache<String, Arc<str>>,
    folder_ids: Cache<Folder, Arc<str>>,
}

/// The cached data of a message: its last known location and its attachments.
#[derive(Clone, Default)]
struct Message {
    place: Option<Arc<Location>>,
    sections: Option<Arc<[Section]>>,
}

/// A borrowed key of a message: account and number.
#[derive(Hash)]
struct Named<'n>(&'n str, u64);

impl Equivalent<(String, u64)> for Named<'_> {
    fn equivalent(&self, (account, uid): &(String, u64)) -> bool {
        self.1 == *uid && self.0 == account
    }
}

/// The key of an account's folder with one UIDVALIDITY. In it an IMAP UID always means the same message (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Folder([u8; 16]);

impl Folder {
    /// Returns the first 16 bytes of SHA-256 over the three values. A cryptographic hash prevents that a user creates two folders with the same key.
    pub(crate) fn of(account: &str, path: &str, uid_validity: u32) -> Self {
        let mut digest = Sha256::new();
        digest.update((account.len() as u64).to_be_bytes());
        digest.update(account);
        digest.update(uid_validity.to_be_bytes());
        digest.update(path);
        let mut name = [0; 16];
        name.copy_from_slice(&digest.finalize()[..16]);
        Self(name)
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<(String, u64), Message> for Weight {
    fn weight(&self, (account, _): &(String, u64), message: &Message) -> u64 {
        let place = message
            .place
            .as_ref()
            .map_or(0, |p| size_of::<Location>() + p.path.len());
        let sections = message.sections.iter().flat_map(|sections| sections.iter());
        let sections: usize = sections
            .map(|s| {
                size_of::<Section>() + s.attachment.filename.len() + s.attachment.content_type.len()
            })
            .sum();
        (account.len() + place + sections) as u64 + ENTRY
    }
}

impl Weighter<(Folder, u32), Arc<Summary>> for Weight {
    fn weight(&self, _: &(Folder, u32), summary: &Arc<Summary>) -> u64 {
        let people: usize = summary
            .from
            .iter()
            .chain(&summary.to)
            .map(|one| one.name.len() + one.address.len() + 48)
            .sum();
        (people + summary.subject.len() + summary.preview.len() + size_of::<Summary>()) as u64
            + ENTRY
    }
}

impl Kept {
    pub(crate) fn new() -> Self {
        let entries = usize::try_from(LARGEST / 512).unwrap_or(usize::MAX);
        Self {
            messages: Cache::with_weighter(entries, LARGEST, Weight),
            summaries: Cache::with_weighter(entries, LARGEST, Weight),
            acquainted: Cache::new(ACCOUNTS),
            counts: Cache::new(FOLDERS),
            sent: Cache::new(ACCOUNTS),
            folder_ids: Cache::new(FOLDERS),
        }
    }

    /// Returns the last known location of the message `uid`. The message may have moved since.
    pub(crate) fn place(&self, account: &str, uid: u64) -> Option<Arc<Location>> {
        self.messages.get(&Named(account, uid))?.place
    }

    pub(crate) fn keep_place(&self, account: &str, uid: u64, place: &Arc<Location>) {
        self.change(account, uid, |message| {
            message.place = Some(Arc::clone(place));
        });
    }

    /// Removes the location of a message that is no longer there.
    pub(crate) fn forget_place(&self, account: &str, uid: u64) {
        self.change(account, uid, |message| message.place = None);
    }

    /// Returns the attachments of the message `uid` and their positions.
    pub(crate) fn sections(&self, account: &str, uid: u64) -> Option<Arc<[Section]>> {
        self.messages.get(&Named(account, uid))?.sections
    }

    pub(crate) fn keep_sections(&self, account: &str, uid: u64, sections: &Arc<[Section]>) {
        self.change(account, uid, |message| {
            message.sections = Some(Arc::clone(sections));
        });
    }

    /// Returns a message's summary. Its flags are empty and its position may be outdated.
    pub(crate) fn summary(&self, folder: Folder, imap_uid: u32) -> Option<Arc<Summary>> {
        self.summaries.get(&(folder, imap_uid))
    }

    pub(crate) fn keep_summary(&self, folder: Folder, imap_uid: u32, summary: &Summary) {
        let kept = Summary {
            flags: Vec::new(),
            ..summary.clone()
        };
        self.summaries.insert((folder, imap_uid), Arc::new(kept));
    }

    /// Removes the summary of a message that no longer exists.
    pub(crate) fn forget_summary(&self, folder: Folder, imap_uid: u32) {
        self.summaries.remove(&(folder, imap_uid));
    }

    /// Returns the number of an account's folders, or `None` if it is not known whether they are in the index.
    pub(crate) fn acquainted(&self, account: &str) -> Option<usize> {
        self.acquainted.get(account)
    }

    pub(crate) fn acquaint(&self, account: &str, folders: usize) {
        self.acquainted.insert(account.to_owned(), folders);
    }

    /// Returns `true` if no message can have left the folder since [`Kept::keep_counts`]: the number of messages has grown by as many as UIDNEXT.
    pub(crate) fn lost_nothing(&self, folder: Folder, now: Opened) -> bool {
        let grown = |now: u32, before: u32| i64::from(now) - i64::from(before);
        self.counts.get(&folder).is_some_and(|(exists, uid_next)| {
            grown(now.exists, exists) == grown(now.uid_next, uid_next) && now.uid_next > 0
        })
    }

    pub(crate) fn keep_counts(&self, folder: Folder, now: Opened) {
        self.counts.insert(folder, (now.exists, now.uid_next));
    }

    /// Returns the last known path of an account's Sent folder.
    pub(crate) fn sent(&self, account: &str) -> Option<Arc<str>> {
        self.sent.get(account)
    }

    pub(crate) fn keep_sent(&self, account: &str, path: &str) {
        self.sent.insert(account.to_owned(), path.into());
    }

    /// Removes the path of a Sent folder that no longer exists.
    pub(crate) fn forget_sent(&self, account: &str) {
        self.sent.remove(account);
    }

    /// Returns the cached id of a folder.
    pub(crate) fn folder_id(&self, folder: Folder) -> Option<Arc<str>> {
        self.folder_ids.get(&folder)
    }

    pub(crate) fn keep_folder_id(&self, folder: Folder, id: Arc<str>) {
        self.folder_ids.insert(folder, id);
    }

    fn change(&self, account: &str, uid: u64, change: impl FnOnce(&mut Message)) {
        let key = (account.to_owned(), uid);
        let mut message = self.messages.get(&key).unwrap_or_default();
        change(&mut message);
        self.messages.insert(key, message);
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Folder, Kept};

    #[test]
    fn what_is_kept_of_a_message_is_found_by_its_account_and_number_alone() {
        let kept = Kept::new();
        kept.keep_sections("ada", 7, &Arc::from([]));
        assert!(kept.sections("ada", 7).is_some());
        assert!(kept.sections("ada", 8).is_none());
        assert!(kept.sections("bob", 7).is_none());
    }

    #[test]
    fn folders_of_any_names_are_told_apart() {
        let folder = Folder::of("ada", "INBOX", 7);
        assert!(folder == Folder::of("ada", "INBOX", 7));
        assert!(folder != Folder::of("ada", "INBOX", 8));
        assert!(folder != Folder::of("bob", "INBOX", 7));
        assert!(Folder::of("ab", "c", 7) != Folder::of("a", "bc", 7));
    }
}
