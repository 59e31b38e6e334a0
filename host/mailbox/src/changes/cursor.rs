//! Encodes and decodes cursors of the change log. A cursor is not secret and not authenticated. It only selects versions of a mailbox that the caller can read.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The version of the encoding.
const FORMAT: u8 = 1;
/// The number of bytes of an encoded cursor.
const LENGTH: usize = 42;

/// A position in the change log.
///
/// Pages with `more` have the same `since` and `until`. They contain the differences between these two versions, in several segments (see [`super::page`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// Identifies the mailbox and the folders that the caller can see.
    pub(super) scope: Tag,
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

/// Returns the hash of some texts.
pub(super) fn tag<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> Tag {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
    }
    let mut tag = Tag::default();
    tag.copy_from_slice(&digest.finalize()[..8]);
    // The encoding uses 0 for "no folder".
    tag[0] |= 1;
    tag
}

impl Cursor {
    /// Returns the cursor of a client that has the state of this version.
    pub(super) fn at(scope: Tag, version: u64) -> Self {
        Self {
            scope,
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

    pub(super) fn encode(&self) -> String {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.push(FORMAT);
        bytes.extend(self.scope);
        bytes.extend(self.folder.unwrap_or_default());
        bytes.extend(self.since.to_be_bytes());
        bytes.extend(self.until.to_be_bytes());
        bytes.push(self.segment);
        bytes.extend(self.position.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns `None` if the text is not an encoded cursor.
    pub(super) fn decode(text: &str) -> Option<Self> {
        if text.len() > 2 * LENGTH {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let bytes: &[u8; LENGTH] = bytes.as_slice().try_into().ok()?;
        let (format, rest) = bytes.split_first()?;
        let (scope, rest) = rest.split_first_chunk()?;
        let (folder, rest) = rest.split_first_chunk()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (until, rest) = rest.split_first_chunk()?;
        let (segment, rest) = rest.split_first()?;
        let position = rest.first_chunk()?;
        let cursor = Self {
            scope: *scope,
            folder: Some(*folder).filter(|folder| *folder != Tag::default()),
            since: u64::from_be_bytes(*since),
            until: u64::from_be_bytes(*until),
            segment: *segment,
            position: u64::from_be_bytes(*position),
        };
        (*format == FORMAT && cursor.since <= cursor.until).then_some(cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_cursor_is_decoded() {
        let cursor = Cursor {
            scope: tag([&b"ada"[..]]),
            folder: None,
            since: 7,
            until: u64::MAX,
            segment: 3,
            position: 9,
        };
        let in_folder = Cursor {
            folder: Some(tag([&b"a"[..]])),
            ..cursor
        };
        for cursor in [cursor, in_folder] {
            assert_eq!(Cursor::decode(&cursor.encode()), Some(cursor));
        }
    }

    #[test]
    fn other_texts_are_not_cursors() {
        let valid = Cursor {
            scope: Tag::default(),
            folder: None,
            since: 8,
            until: 8,
            segment: 0,
            position: 0,
        };
        let backwards = Cursor { until: 7, ..valid };
        let valid = valid.encode();
        for text in [
            "",
            "a",
            "%%",
            &valid[1..],
            &format!("{valid}A"),
            &"A".repeat(56),
            &backwards.encode(),
        ] {
            assert_eq!(Cursor::decode(text), None, "{text}");
        }
    }
}
