//! What is known of messages and never changes under their numbers, kept so that it is not asked for again.
//!
//! It saves work and decides nothing: whoever is answered from here has shown the mail server its credential in the same request, and
//! whether the message is still there is asked every time.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::mime::Section;

/// Bytes that may be kept, about.
const LARGEST: u64 = 32 * 1024 * 1024;
/// What an entry costs beside its own bytes.
const ENTRY: u64 = 128;

/// The attachments of messages, by account and number.
pub(super) struct Kept {
    sections: Cache<(String, u64), Arc<[Section]>, Weight>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<(String, u64), Arc<[Section]>> for Weight {
    fn weight(&self, (account, _): &(String, u64), sections: &Arc<[Section]>) -> u64 {
        let sections: usize = sections
            .iter()
            .map(|s| {
                size_of::<Section>() + s.attachment.filename.len() + s.attachment.content_type.len()
            })
            .sum();
        (account.len() + sections) as u64 + ENTRY
    }
}

impl Kept {
    pub(super) fn new() -> Self {
        let entries = usize::try_from(LARGEST / 512).unwrap_or(usize::MAX);
        Self {
            sections: Cache::with_weighter(entries, LARGEST, Weight),
        }
    }

    /// Where the attachments of the message `uid` are, if that is known.
    pub(super) fn sections(&self, account: &str, uid: u64) -> Option<Arc<[Section]>> {
        self.sections.get(&(account.to_owned(), uid))
    }

    pub(super) fn keep_sections(&self, account: &str, uid: u64, sections: &Arc<[Section]>) {
        self.sections
            .insert((account.to_owned(), uid), Arc::clone(sections));
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}
