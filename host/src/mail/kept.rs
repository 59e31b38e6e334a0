//! What is known of messages and never changes under their numbers, kept so that it is not asked for again.
//!
//! It saves work and decides nothing: whoever is answered from here has shown the mail server its credential in the same request, and
//! whether the message is still there is asked every time.

use std::sync::Arc;

use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use sha2::{Digest as _, Sha256};

use super::imap::Opened;
use super::index::Place;
use super::mime::Section;
use super::types::Summary;

/// Bytes that may be kept of either kind, about.
const LARGEST: u64 = 32 * 1024 * 1024;
/// Accounts of which something is known.
const ACCOUNTS: usize = 10_000;
/// Folders whose ids are known.
const FOLDERS: usize = 100_000;
/// What an entry costs beside its own bytes.
const ENTRY: u64 = 128;

/// What is kept.
pub(super) struct Kept {
    messages: Cache<(String, u64), Message, Weight>,
    summaries: Cache<(Folder, u32), Arc<Summary>, Weight>,
    /// How many folders accounts have whose folders are noted.
    acquainted: Cache<String, usize>,
    /// What folders held when the loss of their messages was looked for last: how many, and UIDNEXT.
    counts: Cache<Folder, (u32, u32)>,
    /// Where accounts have copies of what they sent.
    sent: Cache<String, Arc<str>>,
    folder_ids: Cache<Folder, Arc<str>>,
}

/// Of a message, by account and number: where it was seen last, and where its attachments are in it.
#[derive(Clone, Default)]
struct Message {
    place: Option<Arc<Place>>,
    sections: Option<Arc<[Section]>>,
}

/// A message by account and number, to look it up by.
#[derive(Hash)]
struct Named<'n>(&'n str, u64);

impl Equivalent<(String, u64)> for Named<'_> {
    fn equivalent(&self, (account, uid): &(String, u64)) -> bool {
        self.1 == *uid && self.0 == account
    }
}

/// A folder of an account under one UIDVALIDITY: in it an IMAP UID is one message for ever (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Folder([u8; 16]);

impl Folder {
    /// The beginning of SHA-256 over all three, so that nobody can find two of one name.
    pub(super) fn of(account: &str, path: &str, uid_validity: u32) -> Self {
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
            .map_or(0, |p| size_of::<Place>() + p.spot().path.len());
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
    pub(super) fn new() -> Self {
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

    /// Where the message `uid` was seen last, if that is known. It may have moved since.
    pub(super) fn place(&self, account: &str, uid: u64) -> Option<Arc<Place>> {
        self.messages.get(&Named(account, uid))?.place
    }

    pub(super) fn keep_place(&self, account: &str, uid: u64, place: &Arc<Place>) {
        self.change(account, uid, |message| {
            message.place = Some(Arc::clone(place));
        });
    }

    /// The message is not where it was.
    pub(super) fn forget_place(&self, account: &str, uid: u64) {
        self.change(account, uid, |message| message.place = None);
    }

    /// Where the attachments of the message `uid` are, if that is known.
    pub(super) fn sections(&self, account: &str, uid: u64) -> Option<Arc<[Section]>> {
        self.messages.get(&Named(account, uid))?.sections
    }

    pub(super) fn keep_sections(&self, account: &str, uid: u64, sections: &Arc<[Section]>) {
        self.change(account, uid, |message| {
            message.sections = Some(Arc::clone(sections));
        });
    }

    /// What a listing says of a message, but for its flags and its position, if that is known.
    pub(super) fn summary(&self, folder: Folder, imap_uid: u32) -> Option<Arc<Summary>> {
        self.summaries.get(&(folder, imap_uid))
    }

    pub(super) fn keep_summary(&self, folder: Folder, imap_uid: u32, summary: &Summary) {
        let kept = Summary {
            flags: Vec::new(),
            ..summary.clone()
        };
        self.summaries.insert((folder, imap_uid), Arc::new(kept));
    }

    /// The message is not there any more.
    pub(super) fn forget_summary(&self, folder: Folder, imap_uid: u32) {
        self.summaries.remove(&(folder, imap_uid));
    }

    /// How many folders an account has, if they are known to be noted.
    pub(super) fn acquainted(&self, account: &str) -> Option<usize> {
        self.acquainted.get(account)
    }

    pub(super) fn acquaint(&self, account: &str, folders: usize) {
        self.acquainted.insert(account.to_owned(), folders);
    }

    /// Whether no message can have left a folder since [`Kept::keep_counts`]: as many have come as UIDs were given.
    pub(super) fn lost_nothing(&self, folder: Folder, now: Opened) -> bool {
        let grown = |now: u32, before: u32| i64::from(now) - i64::from(before);
        self.counts.get(&folder).is_some_and(|(exists, uid_next)| {
            grown(now.exists, exists) == grown(now.uid_next, uid_next) && now.uid_next > 0
        })
    }

    pub(super) fn keep_counts(&self, folder: Folder, now: Opened) {
        self.counts.insert(folder, (now.exists, now.uid_next));
    }

    /// The folder for what an account sent, where it was last.
    pub(super) fn sent(&self, account: &str) -> Option<Arc<str>> {
        self.sent.get(account)
    }

    pub(super) fn keep_sent(&self, account: &str, path: &str) {
        self.sent.insert(account.to_owned(), path.into());
    }

    /// It is not there any more.
    pub(super) fn forget_sent(&self, account: &str) {
        self.sent.remove(account);
    }

    /// The id of a folder, if that is known.
    pub(super) fn folder_id(&self, folder: Folder) -> Option<Arc<str>> {
        self.folder_ids.get(&folder)
    }

    pub(super) fn keep_folder_id(&self, folder: Folder, id: Arc<str>) {
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
