//! Seals (encrypts and authenticates) and opens (decrypts) cursors of the change log. Therefore a
//! client can neither choose nor read the versions in a cursor. From the versions, a member
//! of a shared mailbox could learn how many changes the folders have that the member cannot see.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use sha2::{Digest as _, Sha256};

use crate::error::Error;

/// The length of an unsealed cursor, in bytes.
const LENGTH: usize = 33;
/// Maximum length of the text of a sealed cursor, in bytes.
const MAX_TEXT: usize = 200;

/// A position in the change log.
///
/// Consecutive pages have the same `since` and `until` until a page without `more`. Together, these
/// pages contain the differences between the two versions, in several segments (see
/// [`super::page`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Identifies the folder for which the cursor was requested. `None` for all folders.
    pub(super) folder: Option<Tag>,
    /// The version of the mailbox that the client has before the first page.
    pub(super) since: u64,
    /// The version of the mailbox that the client has after the last page. Equals `since` before
    /// the first page.
    pub(super) until: u64,
    /// The current segment.
    pub(super) segment: u8,
    /// The position in the segment: an index in a list of folder changes, or a version for changes
    /// of messages.
    pub(super) position: u64,
}

/// The first 8 bytes of the SHA-256 hash of a folder's id.
pub(super) type Tag = [u8; 8];

/// Returns the hash of the id of a folder.
pub(super) fn tag(folder: &str) -> Tag {
    let mut tag = Tag::default();
    tag.copy_from_slice(&Sha256::digest(folder)[..8]);
    // A cursor contains zeros for "no folder". Therefore the tag of a folder must not be zero.
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

    /// Sets `until` to `version` before the first page is read. Does not change the cursor of a
    /// later page.
    pub(super) fn begin(&mut self, version: u64) {
        if self.since == self.until {
            self.until = version;
        }
    }

    /// Returns the text of the cursor for a client. `row` identifies the mailbox and the grants of
    /// the caller (see `cursor_row`).
    ///
    /// For an owner, equal cursors have equal texts, so an owner can compare the texts. For a
    /// member, each text is different. Otherwise a member would learn of changes in hidden folders,
    /// because these changes increase the version.
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

    /// Decrypts the text of a cursor. Returns `None` if [`Cursor::seal`] did not create the text
    /// with one of the keys and for this `row`.
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
