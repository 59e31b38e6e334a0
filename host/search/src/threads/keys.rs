//! Computes the keys of a message for threads from its header fields.

use std::fmt;
use std::str::FromStr;

use latchmail_core::message_number::MessageNumber;
use sha2::{Digest as _, Sha256};

use super::subject::BaseSubject;

/// Maximum length of a Message-ID that links messages, in bytes. RFC 5322, section 2.1.1, limits a
/// line to 998 bytes. A longer id is ignored. Therefore a field that was cut at a larger length has
/// the same keys as the complete field.
const MAX_ID: usize = 998;

/// Number of references at the end of the References field that link a message. The first reference
/// links the message too. The references between them are ignored.
const LAST_REFERENCES: usize = 50;

/// The header fields of a message that determine its thread, as hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadKeys {
    /// The hash of the Message-ID, or of another value that is unique in the mailbox if the message
    /// has no Message-ID.
    pub message_id: u64,
    /// The hashes of the Message-IDs in References and In-Reply-To, oldest first.
    pub references: Vec<u64>,
    /// The hash of the subject without reply prefixes. 0 if the subject is empty.
    pub base_subject: u64,
    /// The hash of the subject without reply prefixes and without tags. 0 if the subject has no
    /// reply prefix or no tag.
    pub untagged_subject: u64,
    /// `true` if the subject has a reply prefix.
    pub is_reply: bool,
}

impl ThreadKeys {
    /// Returns the id of the message's thread if no other message of the thread is known.
    #[must_use]
    pub fn own_thread_id(&self) -> ThreadId {
        ThreadId(self.references.first().copied().unwrap_or(self.message_id))
    }
}

/// The decoded header fields of a message that determine its thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadFields<'a> {
    /// The Message-ID, or empty.
    pub message_id: &'a str,
    /// The In-Reply-To field.
    pub in_reply_to: Option<&'a str>,
    /// The ids in the References field, in order.
    pub references: &'a [String],
    /// The decoded subject, or empty.
    pub subject: &'a str,
}

impl ThreadFields<'_> {
    /// Computes the keys. `number` is the service's number of the message. The number replaces the
    /// Message-ID if the message has none.
    #[must_use]
    pub fn keys(&self, number: MessageNumber) -> ThreadKeys {
        let message_id =
            usable(self.message_id).map_or_else(|| ThreadId::of_number(number).0, hash_id);
        let mut ids = Vec::new();
        if let Some(first) = self.first_reference() {
            let others = &self.references[1..];
            let last = &others[others.len().saturating_sub(LAST_REFERENCES)..];
            ids.push(first);
            ids.extend(last.iter().filter_map(|id| self.other(id)));
        }
        ids.extend(self.parent());
        let mut references = Vec::with_capacity(ids.len());
        for id in ids.into_iter().map(hash_id) {
            if !references.contains(&id) {
                references.push(id);
            }
        }
        let subject = BaseSubject::of(self.subject);
        let hash_subject = |text: &str| match text {
            "" => 0,
            text => hash(b"subject", text.as_bytes()),
        };
        ThreadKeys {
            message_id,
            references,
            base_subject: hash_subject(&subject.text),
            untagged_subject: subject.untagged().map_or(0, hash_subject),
            is_reply: subject.is_reply,
        }
    }

    /// Returns the same id as [`ThreadKeys::own_thread_id`], but computes only the necessary
    /// hashes. Returns `None` if the message has neither a Message-ID nor references. In this case,
    /// the id is [`ThreadId::of_number`].
    #[must_use]
    pub fn own_thread_id(&self) -> Option<ThreadId> {
        let (first, parent) = (self.first_reference(), self.parent());
        let id = first.or(parent).or_else(|| usable(self.message_id))?;
        Some(ThreadId(hash_id(id)))
    }

    /// Returns the first reference. If the first reference is too long or is the Message-ID of the
    /// message itself, all references are ignored.
    fn first_reference(&self) -> Option<&str> {
        self.references.first().and_then(|id| self.other(id))
    }

    /// Returns the id in the In-Reply-To field.
    fn parent(&self) -> Option<&str> {
        self.in_reply_to.and_then(|id| self.other(id))
    }

    /// Returns `id` without angle brackets if it is usable and not the id of this message.
    fn other<'a>(&self, id: &'a str) -> Option<&'a str> {
        let message_id = usable(self.message_id);
        usable(id).filter(|id| Some(*id) != message_id)
    }
}

/// Returns the hash of a Message-ID. Returns `None` if the id is empty or too long.
pub(super) fn message_id_key(id: &str) -> Option<u64> {
    usable(id).map(hash_id)
}

/// Returns an id without angle brackets and white space. Returns `None` if the id is empty or too
/// long.
fn usable(id: &str) -> Option<&str> {
    let id = id
        .trim()
        .trim_start_matches('<')
        .trim_end_matches('>')
        .trim();
    (!id.is_empty() && id.len() <= MAX_ID).then_some(id)
}

/// Returns the hash of a Message-ID without angle brackets. The hash is never 0.
fn hash_id(id: &str) -> u64 {
    hash(b"id", id.as_bytes())
}

/// Returns the first 8 bytes of the SHA-256 hash of `kind` and `value`. So equal values of
/// different kinds have different hashes. The hash is never 0.
fn hash(kind: &[u8], value: &[u8]) -> u64 {
    let mut digest = Sha256::new();
    digest.update(kind);
    digest.update([0]);
    digest.update(value);
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finalize()[..8]);
    u64::from_be_bytes(first).max(1)
}

/// The id of a thread. Its text has 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u64);

impl ThreadId {
    /// Returns the own thread id of a message that has neither a Message-ID nor references.
    /// `number` is the service's number of the message.
    #[must_use]
    pub fn of_number(number: MessageNumber) -> Self {
        Self(hash(b"number", &number.0.to_be_bytes()))
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The text is not the id of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the id of a thread")]
pub struct InvalidThreadId;

impl FromStr for ThreadId {
    type Err = InvalidThreadId;

    fn from_str(text: &str) -> Result<Self, InvalidThreadId> {
        let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() != 16 || !text.bytes().all(is_digit) {
            return Err(InvalidThreadId);
        }
        let id = u64::from_str_radix(text, 16).map_err(|_| InvalidThreadId)?;
        Ok(Self(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<'a>(message_id: &'a str, references: &'a [String]) -> ThreadFields<'a> {
        ThreadFields {
            message_id,
            references,
            ..ThreadFields::default()
        }
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_own_thread_is_named_by_the_first_reference() {
        let references = ids(&["<root@x>", "<parent@x>"]);
        let root = fields("<root@x>", &[]).own_thread_id();
        assert_eq!(fields("<reply@x>", &references).own_thread_id(), root);
        let by_parent = ThreadFields {
            in_reply_to: Some("<root@x>"),
            ..fields("<other@x>", &[])
        };
        assert_eq!(by_parent.own_thread_id(), root);
    }

    #[test]
    fn both_functions_return_the_same_id() {
        let long = format!("<{}@x>", "a".repeat(2000));
        let id_lists = [
            ids(&[]),
            ids(&["<a@x>"]),
            ids(&["<b@x>", "<a@x>"]),
            ids(&[&long, "<b@x>"]),
            ids(&["<a@x>", "<c@x>"]),
        ];
        for references in &id_lists {
            for message_id in ["", "<a@x>", "a@x", &long] {
                for in_reply_to in [None, Some("<a@x>"), Some("<d@x>"), Some(long.as_str())] {
                    let fields = ThreadFields {
                        in_reply_to,
                        ..fields(message_id, references)
                    };
                    let own = fields
                        .own_thread_id()
                        .unwrap_or(ThreadId::of_number(MessageNumber(7)));
                    assert_eq!(
                        own,
                        fields.keys(MessageNumber(7)).own_thread_id(),
                        "{fields:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_message_without_an_id_has_a_thread_of_its_own() {
        for message_id in ["", "<>", " < > "] {
            let fields = fields(message_id, &[]);
            assert_eq!(fields.own_thread_id(), None);
            assert_ne!(fields.keys(MessageNumber(1)), fields.keys(MessageNumber(2)));
        }
    }

    #[test]
    fn many_references_are_limited_to_the_first_and_the_last() {
        let many: Vec<_> = (0..10_000).map(|n| format!("<{n}@x>")).collect();
        let keys = fields("<a@x>", &many).keys(MessageNumber(0));
        assert_eq!(keys.references.len(), 1 + LAST_REFERENCES);
        let root = fields("<0@x>", &[]).keys(MessageNumber(0)).message_id;
        let parent = fields("<9999@x>", &[]).keys(MessageNumber(0)).message_id;
        assert_eq!(keys.references.first(), Some(&root));
        assert_eq!(keys.references.last(), Some(&parent));
    }

    #[test]
    fn repeated_references_and_references_to_the_message_itself_are_ignored() {
        let references = ids(&["<b@x>", "<a@x>", "<b@x>", "<c@x>", "<a@x>"]);
        let keys = ThreadFields {
            in_reply_to: Some("<c@x>"),
            ..fields("<a@x>", &references)
        }
        .keys(MessageNumber(0));
        assert_eq!(keys.references.len(), 2);
    }

    #[test]
    fn the_text_of_an_id_has_sixteen_digits() {
        let id = ThreadId(0x2a);
        assert_eq!(id.to_string(), "000000000000002a");
        assert_eq!("000000000000002a".parse(), Ok(id));
        for text in [
            "",
            "2a",
            "000000000000002A",
            "+00000000000002a",
            "00000000000000é",
        ] {
            assert_eq!(text.parse::<ThreadId>(), Err(InvalidThreadId), "{text}");
        }
    }
}
