//! Seals and opens cursors of the change log. The service's key authenticates and encrypts a
//! cursor, so a client can neither choose versions nor read them. A member could learn from a
//! version how many changes hidden folders have.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// The number of bytes of a cursor before it is sealed.
const LENGTH: usize = 33;
/// Maximum length of the text of a cursor.
const MAX_TEXT: usize = 200;

/// A position in the change log.
///
/// Pages with `more` have the same `since` and `until`. They contain the differences between these
/// two versions, in several segments (see [`super::page`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Identifies the folder for which the cursor was requested. `None` for all folders.
    pub(super) folder: Option<Tag>,
    /// The version that the client has.
    pub(super) since: u64,
    /// The version that the client has after the last page. Equals `since` before the first page.
    pub(super) until: u64,
    /// The current segment.
    pub(super) segment: u8,
    /// The position in the segment.
    pub(super) position: u64,
}

/// The beginning of a SHA-256 hash.
pub(super) type Tag = [u8; 8];

/// Returns the hash of the id of a folder.
pub(super) fn tag(folder: &str) -> Tag {
    let mut tag = Tag::default();
    tag.copy_from_slice(&Sha256::digest(folder)[..8]);
    // A cursor contains 0 for "no folder".
    tag[0] |= 1;
    tag
}

impl Cursor {
    /// Returns the cursor of a client that has the state of this version.
    pub(super) fn at(version: u64) -> Self {
        Self {
            folder: None,
            since: version,
            until: version,
            segment: 0,
            position: 0,
        }
    }

    /// Sets the version of the last page, before the first page is read.
    pub(super) fn begin(&mut self, version: u64) {
        if self.since == self.until {
            self.until = version;
        }
    }

    /// Returns the text of the cursor for a client. `row` identifies the mailbox and the grants of
    /// the caller (see `cursor_row`).
    ///
    /// The text for an owner is the same for the same cursor, so an owner can compare cursors. The
    /// text for a member is always different. Otherwise a member would learn of changes in hidden
    /// folders, because they increase the version.
    pub(super) fn seal(&self, keys: &Keyring, row: &str, member: bool) -> Result<String, Error> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend(self.folder.unwrap_or_default());
        bytes.extend(self.since.to_be_bytes());
        bytes.extend(self.until.to_be_bytes());
        bytes.push(self.segment);
        bytes.extend(self.position.to_be_bytes());
        let sealed = if member {
            keys.seal_bytes(Purpose::ChangeCursor, row, &bytes)
        } else {
            keys.seal_repeatably(Purpose::ChangeCursor, row, &bytes)
        };
        let sealed = sealed.map_err(|failure| Error::Internal(failure.to_string()))?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Returns `None` if [`Cursor::seal`] did not create this text with one of these keys and for
    /// this row.
    pub(super) fn open(keys: &Keyring, row: &str, text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(text).ok()?;
        let bytes = keys.open_bytes(Purpose::ChangeCursor, row, &sealed)?;
        let bytes: &[u8; LENGTH] = bytes.as_slice().try_into().ok()?;
        let (folder, rest) = bytes.split_first_chunk()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (until, rest) = rest.split_first_chunk()?;
        let (segment, rest) = rest.split_first()?;
        let position = rest.first_chunk()?;
        Some(Self {
            folder: Some(*folder).filter(|folder| *folder != Tag::default()),
            since: u64::from_be_bytes(*since),
            until: u64::from_be_bytes(*until),
            segment: *segment,
            position: u64::from_be_bytes(*position),
        })
    }
}

#[cfg(test)]
mod tests {
    use latchmail_core::keyring::testing::keyring;

    use super::*;

    const CURSOR: Cursor = Cursor {
        folder: None,
        since: 7,
        until: 300,
        segment: 3,
        position: 9,
    };

    #[test]
    fn a_sealed_cursor_is_opened_for_its_row_only() {
        let keys = keyring(&[1]);
        let in_folder = Cursor {
            folder: Some(tag("a")),
            ..CURSOR
        };
        for cursor in [CURSOR, in_folder] {
            for member in [false, true] {
                let text = cursor.seal(&keys, "ada", member).unwrap();
                assert_eq!(Cursor::open(&keys, "ada", &text), Some(cursor));
                assert_eq!(Cursor::open(&keys, "bob", &text), None);
            }
        }
    }

    #[test]
    fn a_cursor_is_valid_until_its_key_is_removed() {
        let text = CURSOR.seal(&keyring(&[1]), "ada", false).unwrap();
        assert_eq!(Cursor::open(&keyring(&[2, 1]), "ada", &text), Some(CURSOR));
        assert_eq!(Cursor::open(&keyring(&[2]), "ada", &text), None);
    }

    #[test]
    fn only_the_text_for_an_owner_shows_that_nothing_has_changed() {
        let keys = keyring(&[1]);
        let seal = |member| CURSOR.seal(&keys, "ada", member).unwrap();
        assert_eq!(seal(false), seal(false));
        assert_ne!(seal(true), seal(true));
    }

    #[test]
    fn forged_and_changed_texts_are_not_cursors() {
        let keys = keyring(&[1]);
        let valid = CURSOR.seal(&keys, "ada", false).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&valid).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            let changed = URL_SAFE_NO_PAD.encode(changed);
            assert_eq!(Cursor::open(&keys, "ada", &changed), None, "byte {index}");
        }
        // The last text is a cursor of a version without seals.
        for text in [
            "",
            "a",
            "%%",
            &valid[1..],
            &format!("{valid}A"),
            &"A".repeat(56),
        ] {
            assert_eq!(Cursor::open(&keys, "ada", text), None, "{text}");
        }
    }
}
