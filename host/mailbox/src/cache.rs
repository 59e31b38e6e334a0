//! Caches data of messages: locations, structures, threads, and summaries without flags.
//!
//! The cache does not check rights. Each request with cached data also logs in at the mail server
//! and checks that the message exists.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::metrics::{CACHE_LOOKUPS, CounterSeries};
use latchmail_directory::message_index::Location;
use latchmail_mime::Structure;
use latchmail_search::threads::ThreadId;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Weighter};
use sha2::{Digest as _, Sha256};

use crate::message::types::Summary;

/// Maximum estimated size of each of the two message caches, in bytes.
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Maximum number of accounts in a cache.
pub(crate) const MAX_ACCOUNTS: usize = 10_000;
/// Maximum number of folders in a cache.
pub(crate) const MAX_FOLDERS: usize = 100_000;
/// Estimated overhead of one entry, in bytes.
const ENTRY_OVERHEAD: u64 = 128;

/// The caches of all mailboxes.
pub(crate) struct MailboxCache {
    messages: Cache<(String, MessageNumber), Message, EstimatedSize>,
    summaries: Cache<(FolderKey, Uid), Arc<Summary>, EstimatedSize>,
    /// The number of calls of [`MailboxCache::remove_moved_summaries`].
    moves: AtomicU64,
    lookups: Lookups,
}

/// The metrics of the lookups in each cache.
struct Lookups {
    locations: LookupCounter,
    structures: LookupCounter,
    summaries: LookupCounter,
}

/// The metrics of the lookups in one cache.
#[derive(Debug)]
pub(crate) struct LookupCounter {
    hits: CounterSeries,
    misses: CounterSeries,
}

impl LookupCounter {
    pub(crate) fn new(cache: &str) -> Self {
        Self {
            hits: CACHE_LOOKUPS.with([cache, "hit"]),
            misses: CACHE_LOOKUPS.with([cache, "miss"]),
        }
    }

    /// Counts a lookup with this result, and returns the result.
    pub(crate) fn count<T>(&self, found: Option<T>) -> Option<T> {
        match found {
            Some(_) => self.hits.inc(),
            None => self.misses.inc(),
        }
        found
    }
}

/// The cached data of a message: its last known location, its structure, and its thread unless the
/// thread was merged with another thread. The structure and this thread never change.
#[derive(Clone, Default)]
struct Message {
    location: Option<Arc<Location>>,
    structure: Option<Arc<Structure>>,
    unmerged_thread: Option<ThreadId>,
}

/// A borrowed key of a message, which contains the account and the message number.
#[derive(Hash)]
struct MessageKey<'k>(&'k str, MessageNumber);

impl Equivalent<(String, MessageNumber)> for MessageKey<'_> {
    fn equivalent(&self, (account, number): &(String, MessageNumber)) -> bool {
        self.1 == *number && self.0 == account
    }
}

/// A key for the folder with a path and a UIDVALIDITY in an account. For one key, an IMAP UID
/// always refers to the same message (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FolderKey([u8; 16]);

impl FolderKey {
    /// Creates the key from the first 16 bytes of SHA-256 over the account, the UIDVALIDITY and the
    /// path. A cryptographic hash prevents that a user creates two folders with the same key.
    pub(crate) fn new(account: &str, path: &str, uid_validity: u32) -> Self {
        let mut digest = Sha256::new();
        digest.update((account.len() as u64).to_be_bytes());
        digest.update(account);
        digest.update(uid_validity.to_be_bytes());
        digest.update(path);
        let mut key = [0; 16];
        key.copy_from_slice(&digest.finalize()[..16]);
        Self(key)
    }
}

/// An estimator for the sizes of cache entries, in bytes.
#[derive(Clone)]
struct EstimatedSize;

impl Weighter<(String, MessageNumber), Message> for EstimatedSize {
    fn weight(&self, (account, _): &(String, MessageNumber), message: &Message) -> u64 {
        let location = message
            .location
            .as_ref()
            .map_or(0, |location| size_of::<Location>() + location.path.len());
        let structure = message
            .structure
            .as_ref()
            .map_or(0, |structure| structure.memory());
        (account.len() + location + structure) as u64 + ENTRY_OVERHEAD
    }
}

impl Weighter<(FolderKey, Uid), Arc<Summary>> for EstimatedSize {
    fn weight(&self, _: &(FolderKey, Uid), summary: &Arc<Summary>) -> u64 {
        let addresses: usize = summary
            .from
            .iter()
            .chain(&summary.to)
            .map(|address| address.name.len() + address.address.len() + 48)
            .sum();
        (addresses + summary.subject.len() + summary.preview.len() + size_of::<Summary>()) as u64
            + ENTRY_OVERHEAD
    }
}

impl MailboxCache {
    pub(crate) fn new() -> Self {
        let entries = usize::try_from(MAX_BYTES / 512).unwrap_or(usize::MAX);
        Self {
            messages: Cache::with_weighter(entries, MAX_BYTES, EstimatedSize),
            summaries: Cache::with_weighter(entries, MAX_BYTES, EstimatedSize),
            moves: AtomicU64::new(0),
            lookups: Lookups {
                locations: LookupCounter::new("locations"),
                structures: LookupCounter::new("structures"),
                summaries: LookupCounter::new("summaries"),
            },
        }
    }

    /// Returns the last known location of the message with this number. The location might be
    /// outdated.
    pub(crate) fn location(&self, account: &str, number: MessageNumber) -> Option<Arc<Location>> {
        let message = self.messages.get(&MessageKey(account, number));
        let location = message.and_then(|message| message.location);
        self.lookups.locations.count(location)
    }

    pub(crate) fn insert_location(
        &self,
        account: &str,
        number: MessageNumber,
        location: &Arc<Location>,
    ) {
        self.update(account, number, |message| {
            message.location = Some(Arc::clone(location));
        });
    }

    /// Removes the location of a message. Callers use this function if the location might be
    /// outdated.
    pub(crate) fn remove_location(&self, account: &str, number: MessageNumber) {
        match self.messages.get(&MessageKey(account, number)) {
            Some(message) if message.structure.is_some() => {
                self.update(account, number, |message| message.location = None);
            }
            Some(_) => self.remove(account, number),
            None => {}
        }
    }

    /// Removes the data of a message that no longer exists.
    pub(crate) fn remove_message(&self, account: &str, number: MessageNumber, last: &Location) {
        self.remove(account, number);
        let folder = FolderKey::new(account, &last.path, last.uid_validity());
        self.summaries.remove(&(folder, last.imap_uid()));
    }

    /// Returns the structure of the message with this number.
    pub(crate) fn structure(&self, account: &str, number: MessageNumber) -> Option<Arc<Structure>> {
        let message = self.messages.get(&MessageKey(account, number));
        let structure = message.and_then(|message| message.structure);
        self.lookups.structures.count(structure)
    }

    pub(crate) fn insert_structure(
        &self,
        account: &str,
        number: MessageNumber,
        structure: &Arc<Structure>,
    ) {
        self.update(account, number, |message| {
            message.structure = Some(Arc::clone(structure));
        });
    }

    /// Returns the thread of the message with this number, if the thread was not merged.
    pub(crate) fn unmerged_thread(&self, account: &str, number: MessageNumber) -> Option<ThreadId> {
        self.messages
            .get(&MessageKey(account, number))?
            .unmerged_thread
    }

    pub(crate) fn insert_unmerged_thread(
        &self,
        account: &str,
        number: MessageNumber,
        thread: ThreadId,
    ) {
        self.update(account, number, |message| {
            message.unmerged_thread = Some(thread);
        });
    }

    /// Returns the summary of the message with this IMAP UID. The summary contains no flags, and
    /// its position might be outdated.
    pub(crate) fn summary(&self, folder: FolderKey, uid: Uid) -> Option<Arc<Summary>> {
        let summary = self.summaries.get(&(folder, uid));
        self.lookups.summaries.count(summary)
    }

    /// Adds the summaries of messages of a folder, with their IMAP UIDs. `moves` is the value of
    /// [`MailboxCache::moves`] before the message numbers were read.
    pub(crate) fn insert_summaries<'s>(
        &self,
        folder: FolderKey,
        summaries: impl Iterator<Item = (&'s Uid, &'s Summary)> + Clone,
        moves: u64,
    ) {
        for (uid, summary) in summaries.clone() {
            let without_flags = Summary {
                flags: Vec::new(),
                ..summary.clone()
            };
            self.summaries
                .insert((folder, *uid), Arc::new(without_flags));
        }
        // A concurrent move may have removed an entry before this function added the entry.
        // Therefore remove the added entries.
        if self.moves() != moves {
            for (uid, _) in summaries {
                self.summaries.remove(&(folder, *uid));
            }
        }
    }

    /// Returns a value that changes with each move of messages.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// Removes the summaries of messages that were moved to a folder. While a message was being
    /// moved, a listing may have found the message in this folder and cached the summary with
    /// another message number.
    pub(crate) fn remove_moved_summaries(
        &self,
        folder: FolderKey,
        uids: impl Iterator<Item = Uid>,
    ) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        for uid in uids {
            self.summaries.remove(&(folder, uid));
        }
    }

    fn remove(&self, account: &str, number: MessageNumber) {
        self.messages.remove(&MessageKey(account, number));
    }

    fn update(&self, account: &str, number: MessageNumber, update: impl FnOnce(&mut Message)) {
        let key = (account.to_owned(), number);
        let mut message = self.messages.get(&key).unwrap_or_default();
        update(&mut message);
        self.messages.insert(key, message);
    }
}

impl std::fmt::Debug for MailboxCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MailboxCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use latchmail_core::clock::Timestamp;
    use latchmail_core::message_number::{MessageNumber, Uid};
    use latchmail_directory::message_index::Location;
    use latchmail_mime::StructureParser;

    use super::{FolderKey, MailboxCache};
    use crate::message::types::Summary;

    #[test]
    fn a_cached_structure_is_found_only_by_account_and_number() {
        let cache = MailboxCache::new();
        let structure = Arc::new(StructureParser::default().finish(true));
        cache.insert_structure("ada", MessageNumber(7), &structure);
        assert!(cache.structure("ada", MessageNumber(7)).is_some());
        assert!(cache.structure("ada", MessageNumber(8)).is_none());
        assert!(cache.structure("bob", MessageNumber(7)).is_none());
    }

    #[test]
    fn an_unknown_location_leaves_no_entry() {
        let cache = MailboxCache::new();
        cache.remove_location("ada", MessageNumber(7));
        assert_eq!(cache.messages.len(), 0);
        let structure = Arc::new(StructureParser::default().finish(true));
        cache.insert_structure("ada", MessageNumber(7), &structure);
        cache.remove_location("ada", MessageNumber(7));
        assert!(cache.structure("ada", MessageNumber(7)).is_some());
    }

    fn summary() -> Summary {
        Summary {
            number: MessageNumber(1),
            seq: 1,
            from: Vec::new(),
            to: Vec::new(),
            subject: String::new(),
            date: Timestamp::from_millis(0),
            flags: Vec::new(),
            size: 1,
            preview: String::new(),
            thread_id: String::new(),
        }
    }

    fn location(path: &str) -> Location {
        Location::for_tests(path, 7, Uid(5))
    }

    #[test]
    fn nothing_remains_of_a_removed_message() {
        let cache = MailboxCache::new();
        let folder = FolderKey::new("ada", "INBOX", 7);
        let structure = Arc::new(StructureParser::default().finish(true));
        let summary = summary();
        for number in [1, 2].map(MessageNumber) {
            cache.insert_location("ada", number, &Arc::new(location("INBOX")));
            cache.insert_structure("ada", number, &structure);
        }
        cache.insert_summaries(
            folder,
            [(&Uid(5), &summary), (&Uid(6), &summary)].into_iter(),
            0,
        );
        cache.remove_message("ada", MessageNumber(1), &location("INBOX"));
        assert!(
            cache.location("ada", MessageNumber(1)).is_none()
                && cache.structure("ada", MessageNumber(1)).is_none()
        );
        assert!(
            cache.location("ada", MessageNumber(2)).is_some()
                && cache.structure("ada", MessageNumber(2)).is_some()
        );
        assert!(cache.summary(folder, Uid(5)).is_none() && cache.summary(folder, Uid(6)).is_some());
    }

    #[test]
    fn a_listing_during_a_move_leaves_no_summary() {
        let cache = MailboxCache::new();
        let folder = FolderKey::new("ada", "INBOX", 7);
        let summary = summary();
        let moves = cache.moves();
        cache.insert_summaries(folder, [(&Uid(5), &summary)].into_iter(), moves);
        cache.remove_moved_summaries(folder, [Uid(5)].into_iter());
        assert!(cache.summary(folder, Uid(5)).is_none());
        cache.insert_summaries(folder, [(&Uid(5), &summary)].into_iter(), moves);
        assert!(cache.summary(folder, Uid(5)).is_none());
        cache.insert_summaries(folder, [(&Uid(5), &summary)].into_iter(), cache.moves());
        assert!(cache.summary(folder, Uid(5)).is_some());
    }

    #[test]
    fn different_folders_have_different_keys() {
        let folder = FolderKey::new("ada", "INBOX", 7);
        assert!(folder == FolderKey::new("ada", "INBOX", 7));
        assert!(folder != FolderKey::new("ada", "INBOX", 8));
        assert!(folder != FolderKey::new("bob", "INBOX", 7));
        assert!(FolderKey::new("ab", "c", 7) != FolderKey::new("a", "bc", 7));
    }
}
