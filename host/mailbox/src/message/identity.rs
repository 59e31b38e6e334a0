//! Computes the identity of a message. The identity does not change when the message is moved.

pub(crate) use latchmail_directory::message_index::Identity;
use latchmail_imap::Fetched;
use sha2::{Digest as _, Sha256};

/// Returns the identity of a message. The identity is the first 16 bytes of SHA-256 over the mail
/// server's message id (X-GUID, or EMAILID of RFC 8474). If the server has no message ids, the hash
/// covers values that do not change when a message is moved:
///
/// - the arrival time (INTERNALDATE) in seconds since the epoch, 8 bytes, big-endian, independent
///   of its time zone;
/// - the size (RFC822.SIZE), 4 bytes, big-endian;
/// - the header fields Date, From, To, Cc, Subject, Message-ID and three MIME fields, at most 256
///   KiB. The hash covers the fields as the server returns them, but without carriage returns and
///   trailing empty lines. The other fetched fields are not covered.
///
/// The lowest bit of the first byte is 0 if the identity is based on the server's id, and 1
/// otherwise.
pub(crate) fn identity(message: &Fetched) -> Identity {
    let mut digest = Sha256::new();
    if let Some(id) = &message.id {
        digest.update(id);
    } else {
        let arrived = message
            .internal_date
            .map_or(0, latchmail_core::clock::Timestamp::seconds);
        digest.update(arrived.to_be_bytes());
        digest.update(message.size.to_be_bytes());
        let header = without_thread_fields(&message.header);
        for line in header.trim_ascii_end().split(|b| *b == b'\n') {
            digest.update(line.strip_suffix(b"\r").unwrap_or(line));
            digest.update(b"\n");
        }
    }
    let mut identity = Identity::default();
    identity.copy_from_slice(&digest.finalize()[..16]);
    identity[0] = (identity[0] & !1) | u8::from(message.id.is_none());
    identity
}

/// The number of bytes of a header that [`header_identity`] covers.
const HEADER: usize = 32 * 1024;

/// Returns a hash of a header, for a message that the mail server has not stored yet. The hash does
/// not cover carriage returns, because servers convert line ends, and only the beginning of a long
/// header.
pub(crate) fn header_identity(header: &[u8]) -> Identity {
    let mut digest = Sha256::new();
    digest.update(b"header ");
    let mut rest = HEADER;
    for piece in header.split(|byte| *byte == b'\r') {
        let covered = &piece[..piece.len().min(rest)];
        digest.update(covered);
        rest -= covered.len();
    }
    let mut identity = Identity::default();
    identity.copy_from_slice(&digest.finalize()[..16]);
    identity
}

/// Returns a header without the fields References and In-Reply-To and their continuation lines.
fn without_thread_fields(header: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(header.len());
    let mut is_kept = true;
    for line in header.split_inclusive(|b| *b == b'\n') {
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|b| *b == b':').next().unwrap_or_default();
            let name = name.trim_ascii_end();
            is_kept = ![&b"References"[..], b"In-Reply-To"]
                .iter()
                .any(|field| field.eq_ignore_ascii_case(name));
        }
        if is_kept {
            kept.extend_from_slice(line);
        }
    }
    kept
}

/// Returns `true` if the identity is not based on the server's id. Such an identity is not always
/// unique.
pub(crate) fn is_inferred(identity: Identity) -> bool {
    identity[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use latchmail_core::clock::Timestamp;
    use latchmail_core::message_number::Uid;

    use super::*;

    #[test]
    fn an_identity_depends_only_on_values_that_a_move_preserves() {
        let message = Fetched {
            seq: 1,
            uid: Uid(5),
            internal_date: Some(Timestamp::from_millis(1000)),
            size: 9,
            header: Bytes::from_static(b"Subject: a\r\n\r\n"),
            ..Fetched::default()
        };
        let moved = Fetched {
            seq: 7,
            uid: Uid(1),
            flags: vec!["\\Seen".into()],
            header: Bytes::from_static(b"Subject: a\n"),
            ..message.clone()
        };
        assert_eq!(identity(&message), identity(&moved));
        assert!(is_inferred(identity(&message)));
        let another = Fetched {
            size: 10,
            ..message.clone()
        };
        assert_ne!(identity(&message), identity(&another));
        let with_id = |message: &Fetched, id: &str| {
            identity(&Fetched {
                id: Some(id.into()),
                ..message.clone()
            })
        };
        assert_eq!(with_id(&message, "a"), with_id(&another, "a"));
        assert_ne!(with_id(&message, "a"), with_id(&message, "b"));
        assert!(!is_inferred(with_id(&message, "a")));
    }

    #[test]
    fn line_ends_do_not_change_the_hash_of_a_header() {
        let long = [b"A: b\r\n".repeat(20_000), b"C: d\r\n".to_vec()].concat();
        for (stored, sent) in [
            (&b"A: b\r\nC: d\r\n"[..], &b"A: b\nC: d\n"[..]),
            (&long, &b"A: b\n".repeat(20_000)),
        ] {
            assert_eq!(header_identity(stored), header_identity(sent));
        }
        assert_ne!(header_identity(b"A: b\n"), header_identity(b"A: c\n"));
    }

    #[test]
    fn fields_for_threads_do_not_change_an_identity() {
        let of = |header: &'static str| {
            identity(&Fetched {
                header: Bytes::from_static(header.as_bytes()),
                ..Fetched::default()
            })
        };
        for (with, without) in [
            (
                "References: <a>\r\n <b>\r\nSubject: a\r\n\r\n",
                "Subject: a\r\n\r\n",
            ),
            (
                "Subject: a  \r\nIN-REPLY-TO : <a>\r\n\r\n",
                "Subject: a  \r\n\r\n",
            ),
            (
                "Subject: a\r\n b\r\nreferences:\r\n\t<a>\r\n",
                "Subject: a\r\n b",
            ),
            ("In-Reply-To: <a>\r\n\r\n", "\r\n"),
            ("References: <a>", ""),
        ] {
            assert_eq!(of(with), of(without), "{with:?}");
        }
        assert_ne!(
            of("Subject: a\r\nX-References: <a>\r\n"),
            of("Subject: a\r\n")
        );
        assert_ne!(
            of("Subject: a\r\n References: <a>\r\n"),
            of("Subject: a\r\n")
        );
    }
}
