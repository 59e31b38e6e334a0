//! Ids (RFC 8620, section 1.2). Emails, threads and mailboxes have the ids of the host. An id of a
//! blob describes where the bytes are, so that a download needs no search.
//!
//! | Blob | Id |
//! |---|---|
//! | a message | `M` and its number |
//! | an upload | `U` and its id |
//! | a part of another blob | `P`, offset, `-`, length, `-`, encoding, `-`, the other blob |

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The maximum length of an id (RFC 8620, section 1.2).
const MAX_ID: usize = 255;
/// The maximum depth of parts of parts.
const MAX_DEPTH: usize = 8;

/// The bytes to which the id of a blob refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlobId {
    /// A stored message.
    Message(u64),
    /// An uploaded file.
    Upload(String),
    /// A part of another blob.
    Part(Box<PartId>),
}

/// A part of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartId {
    /// The position of the encoded bytes.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) encoding: Encoding,
    pub(crate) of: BlobId,
}

/// The encoding of a part (RFC 2045, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    #[default]
    Identity,
    Base64,
    QuotedPrintable,
}

impl Encoding {
    /// Returns the name in the contract. Returns `None` if nothing is decoded.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Base64 => Some("base64"),
            Self::QuotedPrintable => Some("quoted-printable"),
        }
    }
}

impl BlobId {
    /// Parses an id. Returns `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::parse_within(text, MAX_DEPTH)
    }

    fn parse_within(text: &str, depth: usize) -> Option<Self> {
        let rest = text.get(1..)?;
        match text.as_bytes().first()? {
            b'M' => number(rest).map(Self::Message),
            b'U' if is_id(rest) => Some(Self::Upload(rest.into())),
            b'P' => {
                let mut fields = rest.splitn(4, '-');
                let mut next = || fields.next();
                let (offset, length) = (number(next()?)?, number(next()?)?);
                let encoding = match next()? {
                    "i" => Encoding::Identity,
                    "b" => Encoding::Base64,
                    "q" => Encoding::QuotedPrintable,
                    _ => return None,
                };
                let of = Self::parse_within(next()?, depth.checked_sub(1)?)?;
                offset.checked_add(length)?;
                Some(Self::Part(Box::new(PartId {
                    offset,
                    length,
                    encoding,
                    of,
                })))
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for BlobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Message(uid) => write!(f, "M{uid}"),
            Self::Upload(id) => write!(f, "U{id}"),
            Self::Part(part) => {
                let encoding = match part.encoding {
                    Encoding::Identity => 'i',
                    Encoding::Base64 => 'b',
                    Encoding::QuotedPrintable => 'q',
                };
                let (offset, length) = (part.offset, part.length);
                write!(f, "P{offset}-{length}-{encoding}-{}", part.of)
            }
        }
    }
}

/// Returns whether a text is a valid id.
pub(crate) fn is_id(text: &str) -> bool {
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(is_safe)
}

/// Parses the number of a message. A number has no sign and no leading zero.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_canonical =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_canonical {
        text.parse().ok()
    } else {
        None
    }
}

/// Returns the id that stands for an address: of the account, or of an identity.
pub(crate) fn of_address(address: &str) -> String {
    let mut id = format!("A{}", URL_SAFE_NO_PAD.encode(address));
    id.truncate(MAX_ID);
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_id_of_a_blob_describes_its_bytes() {
        for text in ["M17", "Uab-c_d", "P10-200-b-M17", "P0-5-i-P3-4-q-Uab-c"] {
            let parsed = BlobId::parse(text).unwrap();
            assert_eq!(parsed.to_string(), text);
        }
        let part = BlobId::parse("P10-200-q-M17").unwrap();
        let expected = BlobId::Part(Box::new(PartId {
            offset: 10,
            length: 200,
            encoding: Encoding::QuotedPrintable,
            of: BlobId::Message(17),
        }));
        assert_eq!(part, expected);
    }

    #[test]
    fn malformed_ids_are_refused() {
        let deep = format!("{}M1", "P0-1-i-".repeat(MAX_DEPTH + 1));
        for text in [
            "",
            "M",
            "M-1",
            "M01",
            "Mx",
            "U",
            "Ua b",
            "X1",
            "P1-2-b",
            "P1-2-z-M1",
            "P-1-2-b-M1",
            "P18446744073709551615-1-b-M1",
            &deep,
            "\u{e9}1",
        ] {
            assert_eq!(BlobId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_has_a_valid_id() {
        let id = of_address("ada@example.test");
        assert!(is_id(&id) && id != of_address("bob@example.test"));
        assert!(is_id(&of_address(&"x".repeat(400))));
        assert!(!is_id("") && !is_id("a.b") && !is_id(&"a".repeat(256)));
    }

    proptest! {
        #[test]
        fn any_text_is_an_id_or_refused(text in any::<String>()) {
            if let Some(id) = BlobId::parse(&text) {
                prop_assert_eq!(BlobId::parse(&id.to_string()), Some(id));
            }
        }
    }
}
