//! The mark with which the milter proves that the milter wrote an `Authentication-Results` field
//! for this message. The mark is the last result of the field: `x-latchmail=HMAC`.
//!
//! A client can store any message over IMAP, with any header. The client cannot create a mark,
//! because only the service and the milter know the key. The mark covers the results, the fields of
//! [`FIELDS`] and the beginning of the body, so the mark is not valid in another message. Copies of
//! a message have the same mark.
//!
//! Mail servers fold long lines and change line breaks on the way to the mailbox. Therefore the
//! mark does not cover white space.

use hmac::{Hmac, KeyInit as _, Mac as _};
use latchmail_core::hexadecimal;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The name of the result that contains the mark.
const METHOD: &str = "x-latchmail";

/// The fields that the mark covers, in lower case.
const FIELDS: [&str; 11] = [
    "from",
    "sender",
    "reply-to",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
];

/// The number of bytes of the body that the mark covers, without white space. The service reads at
/// least this number of bytes for the view of a message.
const BODY: usize = 256 * 1024;

/// The content of a message that a mark covers. The caller passes the message in pieces, from the
/// first header field to the end of the body.
#[derive(Clone, Debug, Default)]
pub struct MarkedContent {
    header: Sha256,
    body: Sha256,
    body_length: usize,
}

impl MarkedContent {
    /// Adds a header field. `value` is everything after the colon.
    pub fn add_field(&mut self, name: &[u8], value: &[u8]) {
        let name = name.trim_ascii();
        let known = FIELDS
            .into_iter()
            .find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        if let Some(known) = known {
            self.header.update(known);
            self.header.update(b":");
            hash_words(&mut self.header, value);
            self.header.update(b"\n");
        }
    }

    /// Adds a piece of the body.
    pub fn add_body(&mut self, piece: &[u8]) {
        for word in words(piece) {
            let missing = BODY - self.body_length;
            let word = word.get(..missing).unwrap_or(word);
            self.body.update(word);
            self.body_length += word.len();
            if self.body_length == BODY {
                break;
            }
        }
    }

    /// Returns `true` if further pieces of the body do not change the mark.
    pub(crate) fn is_complete(&self) -> bool {
        self.body_length == BODY
    }

    /// Appends the mark to the value of an `Authentication-Results` field.
    #[must_use]
    pub fn mark(&self, key: &[u8], results: &str) -> String {
        format!("{results};\n\t{METHOD}={}", self.code(key, results))
    }

    /// Returns `true` if the value of an `Authentication-Results` field ends with the mark for this
    /// content.
    pub(crate) fn is_marked(&self, key: &[u8], value: &str) -> bool {
        let Some((results, mark)) = value.rsplit_once(';') else {
            return false;
        };
        let mark = mark.trim().strip_prefix(METHOD);
        let mark = mark.and_then(|mark| mark.strip_prefix('='));
        mark.is_some_and(|mark| {
            let code = self.code(key, results);
            bool::from(code.as_bytes().ct_eq(mark.as_bytes()))
        })
    }

    /// Returns the authentication code of the results and the content, in hexadecimal digits.
    fn code(&self, key: &[u8], results: &str) -> String {
        let mut text = Sha256::new();
        for word in results.split_ascii_whitespace() {
            text.update(word);
            text.update(b" ");
        }
        let mut code = Hmac::<Sha256>::new_from_slice(key)
            .unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length"));
        code.update(b"latchmail results 1");
        for digest in [text, self.header.clone(), self.body.clone()] {
            code.update(&digest.finalize());
        }
        hexadecimal::lower(&code.finalize().into_bytes())
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

fn hash_words(digest: &mut Sha256, bytes: &[u8]) {
    words(bytes).for_each(|word| digest.update(word));
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"key";
    const RESULTS: &str = " mail.first.test;\n\tdmarc=pass header.from=a.test";

    fn content(fields: &[(&str, &str)], body: &[u8]) -> MarkedContent {
        let mut content = MarkedContent::default();
        for (name, value) in fields {
            content.add_field(name.as_bytes(), value.as_bytes());
        }
        content.add_body(body);
        content
    }

    #[test]
    fn a_mark_is_valid_for_the_same_message_after_its_transport() {
        let sent = content(
            &[("From", " x@a.test"), ("Subject", " a\n b")],
            b"one\r\ntwo",
        );
        let marked = sent.mark(KEY, RESULTS);
        assert!(marked.starts_with(RESULTS));
        let folded = marked.replace('\n', "\r\n ") + "\r\n";
        let stored = [
            ("Return-Path", "<y@b.test>"),
            ("from", "x@a.test\r\n"),
            ("Received", "by c"),
            ("SUBJECT ", " a\r\n\tb\r\n"),
        ];
        let mut stored = content(&stored, b"one\n");
        stored.add_body(b" t");
        stored.add_body(b"wo\n");
        assert!(stored.is_marked(KEY, &marked));
        assert!(stored.is_marked(KEY, &folded));
    }

    #[test]
    fn a_mark_is_not_valid_elsewhere() {
        let fields = [("From", " x@a.test"), ("Subject", " a")];
        let sent = content(&fields, b"body");
        let marked = sent.mark(KEY, RESULTS);
        assert!(sent.is_marked(KEY, &marked));
        assert!(!sent.is_marked(b"another", &marked));
        for changed in [
            marked.replace("a.test", "b.test"),
            marked.replace("pass", "fail"),
            marked.replace("header.from", "header. from"),
            format!("{marked}; dmarc=pass"),
            marked[..marked.len() - 1].to_owned(),
            format!("{RESULTS};\n\t{METHOD}="),
            RESULTS.to_owned(),
            String::new(),
        ] {
            assert!(!sent.is_marked(KEY, &changed), "{changed}");
        }
        for other in [
            content(&[("From", " y@a.test"), ("Subject", " a")], b"body"),
            content(&[("Subject", " a")], b"body"),
            content(&[fields[0], fields[1], ("From", " y@a.test")], b"body"),
            content(&[fields[0], fields[1], ("Reply-To", " y@a.test")], b"body"),
            content(&fields, b"another body"),
            content(&fields, b""),
        ] {
            assert!(!other.is_marked(KEY, &marked));
        }
    }

    #[test]
    fn only_the_beginning_of_a_long_body_is_covered() {
        let mut body = b"x ".repeat(BODY);
        let long = content(&[], &body);
        body.extend_from_slice(b"end");
        let longer = content(&[], &body);
        assert!(long.is_complete() && longer.is_complete());
        assert!(longer.is_marked(KEY, &long.mark(KEY, RESULTS)));
        assert!(!content(&[], &body[..BODY]).is_complete());
    }
}
