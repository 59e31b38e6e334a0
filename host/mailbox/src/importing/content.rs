//! The bytes of an imported message: their validation and their comparison with stored messages.

use bytes::Bytes;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_mime::is_name;
use sha2::{Digest as _, Sha256};

use super::result::Error;

/// Maximum size of a message, in bytes.
pub const MAX_SIZE: usize = 50 * 1024 * 1024;

/// Checks that a message can be stored without a change. A message must begin with a header field
/// (RFC 5322, section 2.2). A literal of IMAP cannot contain NUL (RFC 3501, section 9, CHAR8), and
/// servers convert the parts of a binary literal (RFC 3516). All other bytes are allowed, for
/// example lines that end without a carriage return, and bytes of any character set.
pub(super) fn check(message: &[u8]) -> Result<(), Error> {
    if message.len() > MAX_SIZE {
        return Err(Error::TooLarge);
    }
    let line = memchr::memchr(b'\n', message).map_or(message, |end| &message[..end]);
    let name = memchr::memchr(b':', line).map(|colon| line[..colon].trim_ascii_end());
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    if !name.is_some_and(is_name) {
        return Err(invalid("Invalid message"));
    }
    if memchr::memchr(0, message).is_some() {
        return Err(invalid("Invalid message: it contains a NUL byte"));
    }
    Ok(())
}

fn invalid(text: &'static str) -> Error {
    Error::Invalid(Problem::new(codes::INVALID_MESSAGE, text))
}

/// The content of a message without the differences that mail servers cause when they store a
/// message: Dovecot returns `\r\n` for each line end, also if the stored message has `\n`.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    digest: Sha256,
    /// `true` if the last byte was a carriage return, which is not yet in the digest.
    is_after_return: bool,
}

impl Content {
    pub(super) fn of(message: &[u8]) -> Self {
        let mut content = Self::default();
        content.add(message);
        content
    }

    /// Adds the next bytes of the message.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if self.is_after_return && *first != b'\n' {
                self.digest.update(b"\r");
            }
            self.is_after_return = false;
            let end = memchr::memchr(b'\r', rest).unwrap_or(rest.len());
            self.digest.update(&rest[..end]);
            self.is_after_return = end < rest.len();
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        if self.is_after_return {
            self.digest.update(b"\r");
        }
        self.digest.finalize().into()
    }
}

/// Returns the sizes that a mail server can report for a message: the size, and the size if each
/// line ends with `\r\n`.
pub(super) fn sizes(message: &Bytes) -> [usize; 2] {
    let mut bare = 0;
    for end in memchr::memchr_iter(b'\n', message) {
        bare += usize::from(end == 0 || message[end - 1] != b'\r');
    }
    [message.len(), message.len() + bare]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_begins_with_a_header_field() {
        for message in [
            "A:",
            "Subject : a\r\n\r\nb",
            "X-A: \u{e9}\n\nb",
            "A:b\n c\rd",
        ] {
            assert!(check(message.as_bytes()).is_ok(), "{message}");
        }
        for message in [
            "",
            "\r\nA: b",
            "A",
            "A b: c",
            ": b",
            " A: b",
            "\u{e9}: b",
            "From a@b Thu\nA: b",
        ] {
            let refused = check(message.as_bytes());
            assert!(
                matches!(&refused, Err(Error::Invalid(problem)) if problem.text == "Invalid message"),
                "{message}"
            );
        }
        assert!(matches!(check(b"A: b\r\n\r\n\0"), Err(Error::Invalid(_))));
        let large = [b"A: b\r\n\r\n".to_vec(), vec![b'a'; MAX_SIZE]].concat();
        assert!(matches!(check(&large), Err(Error::TooLarge)));
    }

    #[test]
    fn line_ends_do_not_change_the_content() {
        let content = |pieces: &[&str]| {
            let mut content = Content::default();
            for piece in pieces {
                content.add(piece.as_bytes());
            }
            content.finish()
        };
        let expected = content(&["a\nb\r\r\nc\rd\n"]);
        assert_eq!(
            content(&["a\r", "\nb\r", "\r", "\nc", "\rd\r", "", "\n"]),
            expected
        );
        assert_ne!(content(&["a\nb\r\nc\rd\n"]), expected);
        assert_ne!(content(&["a\r"]), content(&["a"]));
    }

    #[test]
    fn a_server_counts_a_line_end_as_two_bytes() {
        assert_eq!(sizes(&Bytes::from_static(b"\na\r\nb\n")), [6, 8]);
    }
}
