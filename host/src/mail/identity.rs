//! What tells a message from every other, wherever it is moved.

use sha2::{Digest as _, Sha256};

use super::imap::Fetched;

/// A message's identity. A copy has the same.
pub(super) type Identity = [u8; 16];

/// The identity of a message: the beginning of SHA-256 over the mail server's id of it (X-GUID, or EMAILID of RFC 8474). If the server has no such ids,
/// over what every server keeps through a move:
///
/// - the time of arrival (INTERNALDATE) in seconds since the epoch, 8 bytes, big-endian; the zone it is told in does not count;
/// - the size (RFC822.SIZE), 4 bytes, big-endian;
/// - the header fields that a listing asks for (Date, From, To, Cc, Subject, Message-ID and the three of MIME, at most 256 KiB of
///   them) as the server answers them, without carriage returns and without blank lines at the end.
///
/// The lowest bit of the first byte is 1 for those and 0 for the server's ids.
pub(super) fn identity(message: &Fetched) -> Identity {
    let mut digest = Sha256::new();
    if let Some(id) = &message.id {
        digest.update(id);
    } else {
        let arrived = message
            .internal_date
            .map_or(0, crate::clock::Timestamp::seconds);
        digest.update(arrived.to_be_bytes());
        digest.update(message.size.to_be_bytes());
        for line in message.header.trim_ascii_end().split(|b| *b == b'\n') {
            digest.update(line.strip_suffix(b"\r").unwrap_or(line));
            digest.update(b"\n");
        }
    }
    let mut identity = Identity::default();
    identity.copy_from_slice(&digest.finalize()[..16]);
    identity[0] = (identity[0] & !1) | u8::from(message.id.is_none());
    identity
}

/// Whether two messages of this identity may be different ones that only look the same.
pub(super) fn is_inferred(identity: Identity) -> bool {
    identity[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn an_identity_heeds_what_moves_with_a_message_and_nothing_else() {
        let message = Fetched {
            seq: 1,
            uid: 5,
            internal_date: Some(Timestamp::from_millis(1000)),
            size: 9,
            header: Bytes::from_static(b"Subject: a\r\n\r\n"),
            ..Fetched::default()
        };
        let moved = Fetched {
            seq: 7,
            uid: 1,
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
}
