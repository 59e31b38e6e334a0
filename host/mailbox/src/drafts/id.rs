//! The ids of drafts, which are computed from the messages.
//!
//! The id is the value of the header field [`FIELD`]. Without a valid field, the id is the hash of
//! the Message-ID. Without a Message-ID, the id is the hash of the message's number. A new draft
//! gets a Message-ID whose hash is the value of the field, so a mail client that keeps one of the
//! two fields keeps the id.

use std::fmt;

use latchmail_core::hexadecimal;
use latchmail_core::message_number::MessageNumber;
use latchmail_mime::Fields;
use sha2::{Digest as _, Sha256};

/// The name of the header field with the id of a draft.
pub(super) const FIELD: &str = "X-Latchmail-Draft-Id";

/// The names of the header fields that determine the id, for FETCH.
pub(super) const ID_FIELDS: &str = "X-Latchmail-Draft-Id MESSAGE-ID";

/// Length of an id, in bytes. The text has two hexadecimal digits for each byte.
const LENGTH: usize = 16;

/// The id of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DraftId([u8; LENGTH]);

impl DraftId {
    /// Parses the text of an id: 32 lower-case hexadecimal digits.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * LENGTH {
            return None;
        }
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut id = [0; LENGTH];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }

    pub(super) fn of_message_id(message_id: &str) -> Self {
        Self::hash(b"message-id\0", message_id.as_bytes())
    }

    pub(super) fn of_number(account: &str, number: MessageNumber) -> Self {
        Self::hash(account.as_bytes(), &number.0.to_be_bytes())
    }

    /// Returns the id of the message with this header. Returns `None` if the id depends on the
    /// number of the message. The header can be limited to [`ID_FIELDS`].
    pub(super) fn of_header(header: &[u8]) -> Option<Self> {
        let names = [FIELD.to_owned(), "Message-ID".to_owned()];
        let fields = Fields::of(header, Some(&names)).fields;
        let value = |name: &str| {
            let mut values = fields.iter();
            values.find(|field| field.name.eq_ignore_ascii_case(name))
        };
        if let Some(id) = value(FIELD).and_then(|field| Self::parse(field.value.trim())) {
            return Some(id);
        }
        let message_id = value("Message-ID").map(|field| field.value.trim());
        message_id
            .filter(|id| !id.is_empty())
            .map(Self::of_message_id)
    }

    fn hash(kind: &[u8], value: &[u8]) -> Self {
        let hash = Sha256::new().chain_update(kind).chain_update(value);
        let mut id = [0; LENGTH];
        id.copy_from_slice(&hash.finalize()[..LENGTH]);
        Self(id)
    }
}

impl fmt::Display for DraftId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hexadecimal::lower(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_the_header_field_or_the_hash_of_the_message_id() {
        let id = DraftId::of_message_id("<1@x.example>");
        let text = id.to_string();
        assert_eq!(DraftId::parse(&text), Some(id));
        let of = |header: String| DraftId::of_header(header.as_bytes());
        let message_id = "Message-ID:\r\n <1@x.example>\r\n";
        assert_eq!(of(format!("{message_id}\r\n")), Some(id));
        let other = "Message-ID: <2@x.example>\r\n";
        assert_eq!(
            of(format!("{other}x-latchmail-draft-id: {text}\r\n")),
            Some(id)
        );
        for invalid in ["", "x", &text[1..], &text.to_uppercase()] {
            let header = format!("{message_id}X-Latchmail-Draft-Id: {invalid}\r\n\r\n");
            assert_eq!(of(header), Some(id), "{invalid}");
        }
        assert_eq!(of("Subject: a\r\n\r\n".into()), None);
        assert_eq!(of("Message-ID: \r\n\r\n".into()), None);
    }
}
