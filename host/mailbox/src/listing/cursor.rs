//! The cursors of listings. A cursor names the oldest message of a page by its UID, so messages
//! that arrive or disappear do not change the next page.
//!
//! A cursor contains no secret: a caller with another cursor only reads another part of the same
//! folder. The hash in a cursor binds the cursor to its folder and filters.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_core::message_number::Uid;
use sha2::{Digest as _, Sha256};

use super::MessageQuery;

/// The length of the hash and of a decoded cursor, in bytes.
const HASH_LENGTH: usize = 8;
const LENGTH: usize = HASH_LENGTH + 12;

/// The position after a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) uid_validity: u32,
    /// The UID of the oldest message of the page.
    pub(super) uid: Uid,
    /// The highest position that an older message of the folder can have, because the positions of
    /// messages never increase.
    pub(super) position: u32,
}

impl Cursor {
    /// Returns the text of the cursor for a client.
    pub(super) fn text(&self, account: &str, query: &MessageQuery<'_>) -> String {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(hash(account, query));
        for number in [self.uid_validity, self.uid.0, self.position] {
            bytes.extend(number.to_be_bytes());
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Parses the text of a cursor. Returns `None` if the text is malformed, or belongs to another
    /// mailbox, to another folder or to other filters.
    pub(super) fn parse(text: &str, account: &str, query: &MessageQuery<'_>) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let bytes: &[u8; LENGTH] = bytes.as_slice().try_into().ok()?;
        let (expected, numbers) = bytes.split_first_chunk::<HASH_LENGTH>()?;
        if *expected != hash(account, query) {
            return None;
        }
        let (numbers, _) = numbers.as_chunks::<4>();
        let [uid_validity, uid, position] = numbers else {
            return None;
        };
        Some(Self {
            uid_validity: u32::from_be_bytes(*uid_validity),
            uid: Uid(u32::from_be_bytes(*uid)),
            position: u32::from_be_bytes(*position),
        })
    }
}

/// Returns a hash of the mailbox, the folder and the filters.
fn hash(account: &str, query: &MessageQuery<'_>) -> [u8; HASH_LENGTH] {
    let mut hasher = Sha256::new();
    hasher.update([u8::from(query.unread), u8::from(query.flagged)]);
    hasher.update(account);
    hasher.update([0]);
    hasher.update(query.path());
    let mut hash = [0; HASH_LENGTH];
    hash.copy_from_slice(&hasher.finalize()[..HASH_LENGTH]);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::PageStart;

    const CURSOR: Cursor = Cursor {
        uid_validity: 7,
        uid: Uid(300),
        position: 12,
    };

    fn query(folder: &str) -> MessageQuery<'_> {
        MessageQuery {
            folder,
            unread: false,
            flagged: false,
            start: PageStart::Offset(0),
            limit: 1,
        }
    }

    #[test]
    fn a_cursor_is_valid_only_for_its_mailbox_folder_and_filters() {
        let text = CURSOR.text("ada", &query("Inbox"));
        let parse = |text: &str, account: &str, query| Cursor::parse(text, account, &query);
        assert_eq!(parse(&text, "ada", query("INBOX")), Some(CURSOR));
        assert_eq!(parse(&text, "bob", query("INBOX")), None);
        assert_eq!(parse(&text, "ada", query("Sent")), None);
        for (unread, flagged) in [(true, false), (false, true), (true, true)] {
            let filtered = MessageQuery {
                unread,
                flagged,
                ..query("INBOX")
            };
            assert_eq!(parse(&text, "ada", filtered), None);
            let own = CURSOR.text("ada", &filtered);
            assert_eq!(parse(&own, "ada", filtered), Some(CURSOR));
        }
        for text in [
            "",
            "x",
            "%",
            &text[1..],
            &format!("{text}A"),
            &"A".repeat(1000),
        ] {
            assert_eq!(parse(text, "ada", query("INBOX")), None, "{text}");
        }
    }
}
