//! Writes a message from its parts. The parts are checked before.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The length at which the lines of a header field are folded.
const FOLD: usize = 76;
/// The maximum length of a line without an encoding (RFC 5322, section 2.1.1).
const MAX_LINE: usize = 998;

/// A part to write.
#[derive(Debug, Default)]
pub(crate) struct NewPart {
    /// The names and values of the fields. A value that begins with white space is written as it
    /// is.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Content,
}

/// The content of a part.
#[derive(Debug)]
pub(crate) enum Content {
    /// The parts of a multipart, which has a field `Content-Type` without a boundary.
    Multipart(Vec<NewPart>),
    /// A text, with any line breaks.
    Text(String),
    /// Bytes that are encoded as base64.
    Bytes(Vec<u8>),
    /// A complete message, which is not encoded.
    Message(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl NewPart {
    /// Returns the part as a message. `base` is a text that no part contains.
    pub(crate) fn write(&self, base: &str) -> Vec<u8> {
        let mut message = Vec::new();
        self.write_to(&mut message, base, &mut 0);
        message
    }

    fn write_to(&self, out: &mut Vec<u8>, base: &str, count: &mut u32) {
        *count += 1;
        // No boundary is the beginning of another one.
        let boundary = format!("{base}_{count}_", count = *count);
        for (name, value) in &self.fields {
            let is_type = name.eq_ignore_ascii_case("content-type");
            if is_type && matches!(self.content, Content::Multipart(_)) {
                field(out, name, &format!("{value}; boundary=\"{boundary}\""));
            } else {
                field(out, name, value);
            }
        }
        match &self.content {
            Content::Multipart(parts) => {
                out.extend_from_slice(b"\r\n");
                for part in parts {
                    out.extend_from_slice(format!("--{boundary}\r\n").as_bytes());
                    part.write_to(out, base, count);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
            }
            Content::Text(text) => {
                let text = with_line_breaks(text);
                if is_plain(&text) {
                    encoding(out, "7bit");
                    out.extend_from_slice(text.as_bytes());
                } else {
                    encoding(out, "quoted-printable");
                    quoted_printable(out, &text);
                }
            }
            Content::Bytes(bytes) => {
                encoding(out, "base64");
                let encoded = STANDARD.encode(bytes);
                for line in encoded.as_bytes().chunks(FOLD) {
                    out.extend_from_slice(line);
                    out.extend_from_slice(b"\r\n");
                }
            }
            Content::Message(bytes) => {
                encoding(out, if bytes.is_ascii() { "7bit" } else { "8bit" });
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn encoding(out: &mut Vec<u8>, name: &str) {
    field(out, "Content-Transfer-Encoding", name);
    out.extend_from_slice(b"\r\n");
}

/// Writes a header field. Long values are folded at spaces.
fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.push(b':');
    if value.starts_with([' ', '\t', '\r']) {
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
        return;
    }
    let mut length = name.len() + 1;
    for (index, word) in value.split(' ').enumerate() {
        if index > 0 && length + word.len() >= FOLD && !word.is_empty() {
            out.extend_from_slice(b"\r\n ");
            length = 1;
        } else {
            out.push(b' ');
            length += 1;
        }
        out.extend_from_slice(word.as_bytes());
        length += word.len();
    }
    out.extend_from_slice(b"\r\n");
}

/// Replaces all line breaks by CRLF.
fn with_line_breaks(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.replace('\n', "\r\n")
}

fn is_plain(text: &str) -> bool {
    let is_short = |line: &str| line.len() <= MAX_LINE;
    let is_plain = |b: u8| b != 0 && b.is_ascii();
    text.bytes().all(is_plain) && text.split("\r\n").all(is_short)
}

fn quoted_printable(out: &mut Vec<u8>, text: &str) {
    let lines = text.split("\r\n");
    for (index, line) in lines.enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\r\n");
        }
        let (bytes, mut length) = (line.as_bytes(), 0);
        for (at, byte) in bytes.iter().enumerate() {
            let is_last = at + 1 == bytes.len();
            let is_literal = matches!(byte, b'!'..=b'<' | b'>'..=b'~')
                || (matches!(byte, b' ' | b'\t') && !is_last);
            let size = if is_literal { 1 } else { 3 };
            if length + size > FOLD - 1 {
                out.extend_from_slice(b"=\r\n");
                length = 0;
            }
            if is_literal {
                out.push(*byte);
            } else {
                out.extend_from_slice(format!("={byte:02X}").as_bytes());
            }
            length += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mime::structure::{Message, Parser};
    use crate::mime::text::{charset, transfer};

    fn parse(message: &[u8]) -> Message {
        let mut parser = Parser::default();
        parser.push(message);
        parser.finish()
    }

    fn leaf(media: &str, content: Content) -> NewPart {
        NewPart {
            fields: vec![("Content-Type".into(), media.into())],
            content,
        }
    }

    fn decoded(message: &[u8], found: &Message, index: usize) -> Vec<u8> {
        let part = &found.parts[index];
        let at = |n: u64| usize::try_from(n).unwrap();
        transfer(
            &message[at(part.body.start)..at(part.body.end)],
            part.encoding,
        )
    }

    #[test]
    fn a_written_message_has_its_parts() {
        let inner = vec![
            leaf(
                "text/plain; charset=utf-8",
                Content::Text("caf\u{e9}\n".into()),
            ),
            leaf("image/png", Content::Bytes(vec![0, 255, 10])),
            leaf(
                "message/rfc822",
                Content::Message(b"Subject: a\r\n\r\nb\r\n".to_vec()),
            ),
        ];
        let mut message = leaf("multipart/mixed", Content::Multipart(inner));
        let long = ["word"; 40].join(" ");
        message.fields.push(("Subject".into(), long.clone()));
        let written = message.write("b");
        let found = parse(&written);
        assert_eq!(found.parts[0].children, [1, 2, 3]);
        assert_eq!(decoded(&written, &found, 1), "caf\u{e9}\r\n".as_bytes());
        assert_eq!(decoded(&written, &found, 2), [0, 255, 10]);
        assert_eq!(found.parts[3].media, "message/rfc822");
        let subject = found.parts[0].field("Subject").unwrap();
        assert_eq!(crate::mime::forms::text(&subject.raw), long);
        let lines = written.split(|byte| *byte == b'\n');
        assert!(lines.clone().all(|line| line.len() <= FOLD + 2));
    }

    proptest! {
        #[test]
        fn a_text_is_read_again(text in "[ -~\n\t\u{a0}-\u{2ff}=]{0,200}") {
            let part = leaf("text/plain; charset=utf-8", Content::Text(text.clone()));
            let written = part.write("b");
            let found = parse(&written);
            let read = charset(&decoded(&written, &found, 0), Some("utf-8")).0;
            prop_assert_eq!(read.replace("\r\n", "\n"), text);
        }
    }
}
