//! Finds the parts of a message while its bytes arrive (RFC 2045, RFC 2046). Only the header
//! fields are kept in memory, so the parser needs little memory for any message. A message inside
//! another message is one part.

use std::ops::Range;

use super::parameters::Value;
use super::{text, words};
use crate::ids::Encoding;

/// The maximum depth of multiparts. A deeper multipart is one part.
const MAX_DEPTH: usize = 30;
/// The maximum number of parts.
const MAX_PARTS: usize = 1_000;
/// The maximum size of the headers of all parts together, in bytes.
const MAX_HEADERS: usize = 512 * 1024;
/// The maximum number of bytes of a line that are compared with boundaries.
const MAX_LINE: usize = 1_000;

/// A header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// The bytes after the colon, without the last line break.
    pub(crate) raw: Vec<u8>,
}

/// A part of a message.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) fields: Vec<Field>,
    /// The media type in lower case, without parameters.
    pub(crate) media: String,
    /// The indexes of the parts of a multipart.
    pub(crate) children: Vec<usize>,
    /// The position of the encoded content.
    pub(crate) body: Range<u64>,
    /// The number of bytes of the decoded content.
    pub(crate) size: u64,
    pub(crate) encoding: Encoding,
    pub(super) content_type: Value,
    pub(super) disposition: Value,
}

/// A complete message.
#[derive(Debug)]
pub(crate) struct Message {
    /// The parts in their order. The first one is the message itself.
    pub(crate) parts: Vec<Part>,
    /// Whether the message begins with a header field.
    pub(crate) has_header: bool,
}

impl Part {
    pub(crate) fn is_multipart(&self) -> bool {
        self.media.starts_with("multipart/")
    }

    /// Returns the last field with a name, in any case (RFC 8621, section 4.1.2).
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let mut fields = self.fields.iter().rev();
        fields.find(|field| field.name.eq_ignore_ascii_case(name))
    }

    /// Returns the file name.
    pub(crate) fn name(&self) -> Option<String> {
        let name = self.disposition.decoded("filename");
        name.or_else(|| self.content_type.decoded("name"))
    }

    /// Returns the character set of a text. Without the parameter, it is `us-ascii`.
    pub(crate) fn charset(&self) -> Option<&str> {
        let charset = self.content_type.plain("charset");
        charset.or_else(|| self.media.starts_with("text/").then_some("us-ascii"))
    }

    pub(crate) fn disposition(&self) -> Option<&str> {
        let value = self.disposition.value.as_str();
        (!value.is_empty()).then_some(value)
    }

    /// Returns the Content-ID without angle brackets.
    pub(crate) fn cid(&self) -> Option<String> {
        let value = words::unfold(&self.field("Content-Id")?.raw);
        let value = value.trim();
        let inner = value.strip_prefix('<').and_then(|v| v.strip_suffix('>'));
        let id = inner.unwrap_or(value).to_owned();
        (!id.is_empty()).then_some(id)
    }

    /// Returns the language tags (RFC 3282).
    pub(crate) fn language(&self) -> Option<Vec<String>> {
        let value = words::unfold(&self.field("Content-Language")?.raw);
        let tags = value.split(',').map(|tag| tag.trim().to_owned());
        let tags: Vec<String> = tags.filter(|tag| !tag.is_empty()).collect();
        (!tags.is_empty()).then_some(tags)
    }

    pub(crate) fn location(&self) -> Option<String> {
        let value = words::unfold(&self.field("Content-Location")?.raw);
        Some(value.trim().to_owned())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The header of the current part.
    Header,
    /// The content of the current part.
    Body,
    /// The text before and after the parts of a multipart.
    Between,
}

/// An open multipart.
#[derive(Debug)]
struct Frame {
    part: usize,
    boundary: Vec<u8>,
}

/// A parser that receives the bytes of a message in pieces.
#[derive(Debug)]
pub(crate) struct Parser {
    parts: Vec<Part>,
    frames: Vec<Frame>,
    mode: Mode,
    /// The part whose header or content is read.
    current: usize,
    /// The bytes of the header of the current part.
    head: Vec<u8>,
    header_bytes: usize,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Whether the next bytes begin a line.
    starts_line: bool,
    /// The position of the next line.
    offset: u64,
    /// The length of the last line break, which belongs to a boundary after it.
    line_break: u64,
    /// The number of characters of base64, or of decoded bytes of quoted-printable.
    counted: u64,
    /// The decoded bytes of the last line break.
    pending: u64,
}

impl Default for Parser {
    fn default() -> Self {
        Self {
            parts: vec![Part::default()],
            frames: Vec::new(),
            mode: Mode::Header,
            current: 0,
            head: Vec::new(),
            header_bytes: 0,
            line: Vec::new(),
            starts_line: true,
            offset: 0,
            line_break: 0,
            counted: 0,
            pending: 0,
        }
    }
}

impl Parser {
    /// Processes the next bytes.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.line.is_empty() {
                self.piece(line);
            } else {
                self.line.extend_from_slice(line);
                let line = std::mem::take(&mut self.line);
                self.piece(&line);
            }
        }
        self.line.extend_from_slice(bytes);
        // A long line is processed in pieces.
        if self.line.len() > 2 * MAX_LINE {
            let line = std::mem::take(&mut self.line);
            self.piece(&line);
        }
    }

    /// Returns whether the header of the message is complete.
    pub(crate) fn is_past_header(&self) -> bool {
        self.mode != Mode::Header || self.parts.len() > 1
    }

    /// Returns the message after its last byte.
    pub(crate) fn finish(mut self) -> Message {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.piece(&line);
        }
        if self.mode == Mode::Header {
            self.end_header();
        }
        self.line_break = 0;
        self.end_part(true);
        while let Some(frame) = self.frames.pop() {
            self.parts[frame.part].body.end = self.offset;
        }
        let has_header = !self.parts[0].fields.is_empty();
        Message {
            parts: self.parts,
            has_header,
        }
    }

    /// Processes a line, or a part of a long line.
    fn piece(&mut self, piece: &[u8]) {
        let starts_line = std::mem::replace(&mut self.starts_line, piece.ends_with(b"\n"));
        if !(starts_line && self.boundary(piece)) {
            match self.mode {
                Mode::Header => self.header_line(piece, starts_line),
                Mode::Body => self.count(piece),
                Mode::Between => {}
            }
        }
        self.offset += piece.len() as u64;
        self.line_break = match piece {
            [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            _ => 0,
        };
    }

    /// Returns whether a line is a boundary of an open multipart, and begins the next part.
    fn boundary(&mut self, line: &[u8]) -> bool {
        if !line.starts_with(b"--") || line.len() > MAX_LINE {
            return false;
        }
        let text = line[2..].trim_ascii_end();
        let matching = self.frames.iter().rposition(|frame| {
            let rest = text.strip_prefix(&frame.boundary[..]);
            rest.is_some_and(|rest| rest.is_empty() || rest == b"--")
        });
        let Some(index) = matching else {
            return false;
        };
        let is_last = text.len() > self.frames[index].boundary.len();
        if self.mode == Mode::Header {
            self.end_header();
        }
        self.end_part(false);
        let end = self.offset.saturating_sub(self.line_break);
        for frame in self.frames.drain(index + 1..) {
            let body = &mut self.parts[frame.part].body;
            body.end = end.max(body.start);
        }
        if is_last || self.parts.len() >= MAX_PARTS {
            if let Some(frame) = self.frames.pop() {
                self.parts[frame.part].body.end = self.offset + line.len() as u64;
            }
            self.mode = Mode::Between;
            return true;
        }
        let multipart = self.frames[index].part;
        self.current = self.parts.len();
        self.parts.push(Part::default());
        self.parts[multipart].children.push(self.current);
        self.mode = Mode::Header;
        true
    }

    fn header_line(&mut self, piece: &[u8], starts_line: bool) {
        let is_end = starts_line && matches!(piece, b"\n" | b"\r\n");
        // Another line than a field ends the header.
        let is_field = !starts_line
            || piece.starts_with(b" ")
            || piece.starts_with(b"\t")
            || piece.contains(&b':');
        if is_end || !is_field {
            self.end_header();
            let start = self.offset + if is_end { piece.len() as u64 } else { 0 };
            let body = &mut self.parts[self.current].body;
            *body = start..start;
            if !is_end && self.mode == Mode::Body {
                self.count(piece);
            }
            return;
        }
        if self.header_bytes < MAX_HEADERS {
            self.header_bytes += piece.len();
            self.head.extend_from_slice(piece);
        }
    }

    /// Reads the fields of the current part. A multipart opens a frame.
    fn end_header(&mut self) {
        let head = std::mem::take(&mut self.head);
        let parent = self.frames.last().map(|frame| frame.part);
        let parent_media = parent.map(|parent| self.parts[parent].media.as_str());
        let default = match parent_media {
            Some("multipart/digest") => "message/rfc822",
            _ => "text/plain",
        };
        let mut part = Part {
            fields: fields(&head),
            ..Part::default()
        };
        let value = |name: &str| {
            let field = part.field(name);
            field
                .map(|field| Value::parse(&field.raw))
                .unwrap_or_default()
        };
        let (content_type, disposition) = (value("Content-Type"), value("Content-Disposition"));
        let encoding = value("Content-Transfer-Encoding").value;
        let is_valid = content_type
            .value
            .split('/')
            .filter(|one| !one.is_empty())
            .count()
            == 2;
        part.media = if is_valid {
            content_type.value.clone()
        } else {
            default.into()
        };
        let boundary = content_type.plain("boundary").unwrap_or_default();
        let boundary = boundary.trim_end().as_bytes().to_vec();
        (part.content_type, part.disposition) = (content_type, disposition);
        part.body = self.offset..self.offset;
        self.mode = Mode::Body;
        if part.is_multipart() {
            if boundary.is_empty() || self.frames.len() >= MAX_DEPTH {
                part.media = "application/octet-stream".into();
            } else {
                self.frames.push(Frame {
                    part: self.current,
                    boundary,
                });
                self.mode = Mode::Between;
            }
        }
        // The content of a message or of a multipart is never encoded (RFC 2045, section 6.4).
        if !part.is_multipart() && !part.media.starts_with("message/") {
            part.encoding = match encoding.as_str() {
                "base64" => Encoding::Base64,
                "quoted-printable" => Encoding::QuotedPrintable,
                _ => Encoding::Identity,
            };
        }
        (self.counted, self.pending) = (0, 0);
        self.parts[self.current] = part;
    }

    /// Counts the decoded bytes of the current part.
    fn count(&mut self, piece: &[u8]) {
        match self.parts[self.current].encoding {
            Encoding::Identity => {}
            Encoding::Base64 => {
                let valid = piece.iter().filter(|b| text::base64_value(**b).is_some());
                self.counted += valid.count() as u64;
            }
            Encoding::QuotedPrintable => {
                self.counted += self.pending;
                let line = piece.trim_ascii_end();
                let line_break = if piece.ends_with(b"\r\n") {
                    2
                } else {
                    u64::from(piece.ends_with(b"\n"))
                };
                let has_soft_break = line_break > 0 && line.ends_with(b"=");
                let content = piece.strip_suffix(b"\n").unwrap_or(piece);
                let content = content.strip_suffix(b"\r").unwrap_or(content);
                let content = if has_soft_break { line } else { content };
                self.counted += text::transfer(content, Encoding::QuotedPrintable).len() as u64;
                self.pending = if has_soft_break { 0 } else { line_break };
            }
        }
    }

    /// Ends the content of the current part before the current line, or at the end of the message.
    fn end_part(&mut self, is_end: bool) {
        if self.mode != Mode::Body {
            return;
        }
        let end = self.offset.saturating_sub(self.line_break);
        let part = &mut self.parts[self.current];
        part.body.end = end.max(part.body.start);
        part.size = match part.encoding {
            Encoding::Identity => part.body.end - part.body.start,
            Encoding::Base64 => {
                let rest = match self.counted % 4 {
                    2 => 1,
                    3 => 2,
                    _ => 0,
                };
                self.counted / 4 * 3 + rest
            }
            Encoding::QuotedPrintable if is_end => self.counted + self.pending,
            Encoding::QuotedPrintable => self.counted,
        };
        self.mode = Mode::Between;
    }
}

/// Splits a header into its fields. A line without a colon is dropped.
pub(crate) fn fields(head: &[u8]) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for line in head.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some(field) = fields.last_mut() {
                field.raw.extend_from_slice(line);
            }
            continue;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let name = String::from_utf8_lossy(&line[..colon]);
        let name = name.trim_end();
        if name.is_empty() || name.contains(char::is_whitespace) {
            continue;
        }
        fields.push(Field {
            name: name.into(),
            raw: line[colon + 1..].to_vec(),
        });
    }
    for field in &mut fields {
        let end = field.raw.strip_suffix(b"\n").unwrap_or(&field.raw);
        let end = end.strip_suffix(b"\r").unwrap_or(end).len();
        field.raw.truncate(end);
    }
    fields
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(message: &[u8], size: usize) -> Message {
        let mut parser = Parser::default();
        for piece in message.chunks(size.max(1)) {
            parser.push(piece);
        }
        parser.finish()
    }

    const NESTED: &str = "From: a@b\r\nContent-Type: multipart/mixed; boundary=o\r\n\r\n\
        preamble\r\n--o\r\nContent-Type: multipart/alternative; boundary=\"i\"\r\n\r\n\
        --i\r\n\r\nplain\r\n--i\r\nContent-Type: text/html; charset=utf-8\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>=C3=A9=\r\n!</p>\r\n\r\n--i--\r\n\
        --o\r\nContent-Type: image/png\r\nContent-Disposition: attachment; filename=a.png\r\n\
        Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\nAA==\r\n--o--\r\nepilogue\r\n";

    #[test]
    fn the_parts_of_a_message_are_found() {
        let found = parse(NESTED.as_bytes(), usize::MAX);
        let media: Vec<_> = found.parts.iter().map(|part| part.media.as_str()).collect();
        let expected = [
            "multipart/mixed",
            "multipart/alternative",
            "text/plain",
            "text/html",
            "image/png",
        ];
        assert_eq!(media, expected);
        assert_eq!(found.parts[0].children, [1, 4]);
        assert_eq!(found.parts[1].children, [2, 3]);
        let content = |index: usize| {
            let body = found.parts[index].body.clone();
            let at = |n: u64| usize::try_from(n).unwrap();
            &NESTED[at(body.start)..at(body.end)]
        };
        assert_eq!(content(2), "plain");
        assert_eq!(content(3), "<p>=C3=A9=\r\n!</p>\r\n");
        assert_eq!(content(4), "AAAA\r\nAA==");
        assert_eq!(found.parts[2].size, 5);
        assert_eq!(found.parts[3].size, "<p>\u{e9}!</p>\r\n".len() as u64);
        assert_eq!(found.parts[4].size, 4);
        assert_eq!(found.parts[4].name().as_deref(), Some("a.png"));
        assert_eq!(found.parts[2].charset(), Some("us-ascii"));
        assert!(found.has_header);
    }

    #[test]
    fn a_message_without_boundaries_is_one_part() {
        let found = parse(b"Subject: a\r\n b\r\n\r\nx\r\ny\r\n", usize::MAX);
        assert_eq!(found.parts.len(), 1);
        assert_eq!(found.parts[0].size, 6);
        assert_eq!(found.parts[0].fields[0].raw, b" a\r\n b");
        let unclosed = parse(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\nx", 9);
        assert_eq!(unclosed.parts.len(), 2);
        assert_eq!(unclosed.parts[1].size, 1);
        assert!(!parse(b"no header", usize::MAX).has_header);
        assert!(!parse(b"", usize::MAX).has_header);
    }

    proptest! {
        #[test]
        fn the_result_does_not_depend_on_the_pieces(
            size in 1_usize..40,
            cut in 0_usize..NESTED.len(),
        ) {
            let message = &NESTED.as_bytes()[..cut];
            let whole = parse(message, usize::MAX);
            let pieces = parse(message, size);
            let shape = |message: &Message| -> Vec<_> {
                let parts = message.parts.iter();
                parts.map(|part| (part.media.clone(), part.body.clone(), part.size)).collect()
            };
            prop_assert_eq!(shape(&whole), shape(&pieces));
        }

        #[test]
        fn any_bytes_are_parsed(message in any::<Vec<u8>>()) {
            let found = parse(&message, 7);
            for part in &found.parts {
                prop_assert!(part.body.start <= part.body.end);
                prop_assert!(part.body.end <= message.len() as u64);
            }
        }
    }
}
