//! Finds the parts of a message (RFC 2046, section 5) while the bytes of the message arrive.
//! Determines the type, the position and the decoded size of each part.
//!
//! The parser stores only the current header and the current line. Therefore its memory use does
//! not depend on the size of the message. The parser does not parse a message inside another
//! message.

use std::mem;

use memchr::{memchr, memmem, memrchr};

use super::header::Part;
use crate::bounds;
use crate::decoded_size::DecodedSize;

mod leaf;

pub(crate) use self::leaf::Leaf;
pub use self::leaf::Structure;
use self::leaf::{Place, is_named};

/// Maximum length of a delimiter line, in bytes. A longer line is not a delimiter. RFC 2046,
/// section 5.1.1, allows 70 characters.
const MAX_DELIMITER: usize = 4096;

/// A parser that finds the parts of a message. The bytes of the message can arrive in pieces.
#[derive(Debug)]
pub struct StructureParser {
    /// The open multiparts that contain the current line, the outermost first.
    open: Vec<Multipart>,
    element: Element,
    /// The beginning of the current line, if the end of the line has not arrived.
    partial_line: Vec<u8>,
    /// `true` if the beginning of the current line was already processed because of its length.
    continues: bool,
    /// The offset of the current line in the input, in bytes.
    at: usize,
    leaves: Vec<Leaf>,
    parts: usize,
    truncated: bool,
}

/// A multipart whose end has not been found.
#[derive(Debug)]
struct Multipart {
    media: String,
    boundary: Vec<u8>,
    /// The offset of the body in the input, in bytes. The offset identifies the multipart.
    start: usize,
    /// The number of parts that have begun.
    parts: usize,
    /// `true` if the next part is an alternative of the text.
    alternative: bool,
    /// `true` if the first delimiter was found. The parser treats a multipart without a delimiter
    /// as text.
    found: bool,
}

/// The element that contains the current line.
#[derive(Debug)]
enum Element {
    /// The header of a part or of the message.
    Header {
        bytes: Vec<u8>,
        in_digest: bool,
        alternative: bool,
    },
    /// The body of a leaf, or the text before the first delimiter of a multipart.
    Body(Box<Body>),
    /// The text after the last delimiter of a multipart.
    Epilogue,
    /// The rest of the message. The parser ignores this rest.
    End,
}

#[derive(Debug)]
struct Body {
    part: Part,
    start: usize,
    /// The line break of the previous line. The line break belongs to the delimiter if a delimiter
    /// follows, otherwise to the body.
    line_break: &'static [u8],
    /// `None` if the content is not encoded. Also `None` for the first part of the plain text and
    /// of the HTML, because their decoded sizes are not needed.
    size: Option<DecodedSize>,
    alternative: bool,
    place: Place,
    /// Whether the header (first value) and the body (second value) contain only white space.
    blank: [bool; 2],
}

impl Body {
    fn push(&mut self, text: &[u8], line_break: &'static [u8]) {
        self.blank[1] &= text.trim_ascii().is_empty();
        let before = mem::replace(&mut self.line_break, line_break);
        if let Some(size) = &mut self.size {
            size.push(before);
            size.push(text);
        }
    }

    fn leaf(self, end: usize, complete: bool) -> Leaf {
        let range = self.start..end.max(self.start);
        let size = self.size.map_or(range.len(), DecodedSize::finish);
        Leaf {
            part: self.part,
            range,
            size,
            complete,
            alternative: self.alternative,
            place: self.place,
        }
    }
}

impl Default for StructureParser {
    /// Creates a parser for a complete message with its header.
    fn default() -> Self {
        Self {
            open: Vec::new(),
            element: Element::Header {
                bytes: Vec::new(),
                in_digest: false,
                alternative: false,
            },
            partial_line: Vec::new(),
            continues: false,
            at: 0,
            leaves: Vec::new(),
            parts: 0,
            truncated: false,
        }
    }
}

impl StructureParser {
    /// Creates a parser for the bytes after `header`, which is the header of a message.
    pub(super) fn after_header(header: &[u8]) -> Self {
        let mut parser = Self::default();
        parser.start_body(header, false, false, 0);
        parser
    }

    /// Processes the next bytes of the message.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            if matches!(self.element, Element::End) {
                return;
            }
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.partial_line.is_empty() {
                self.line(line);
            } else {
                let mut partial_line = mem::take(&mut self.partial_line);
                partial_line.extend_from_slice(line);
                self.line(&partial_line);
                partial_line.clear();
                self.partial_line = partial_line;
            }
            let (lines, rest) = bytes.split_at(self.ordinary_lines(bytes));
            if !lines.is_empty() {
                self.lines(lines);
                bytes = rest;
            }
        }
        if matches!(self.element, Element::End) {
            return;
        }
        self.partial_line.extend_from_slice(bytes);
        if self.partial_line.len() > MAX_DELIMITER + 1 {
            self.flush_long_line();
        }
    }

    /// Returns the structure. `complete` must be `true` if the caller has passed all bytes of the
    /// message.
    #[must_use]
    pub fn finish(mut self, complete: bool) -> Structure {
        let last = mem::take(&mut self.partial_line);
        if !last.is_empty() {
            self.line(&last);
        }
        if let Element::Body(body) = &mut self.element {
            // No delimiter follows, so the last line break belongs to the body.
            body.push(b"", b"");
        }
        self.end_part(self.at, complete, true);
        Structure::new(self.leaves, self.truncated || !complete)
    }

    /// Returns the length of the complete lines at the beginning of `bytes` that are neither
    /// delimiters nor the end of a header.
    fn ordinary_lines(&self, bytes: &[u8]) -> usize {
        match &self.element {
            Element::Header { bytes: header, .. } => {
                let free = bounds::HEADER.saturating_sub(header.len());
                let bytes = bytes.get(..free).unwrap_or(bytes);
                let mut end = 0;
                while let Some(first) = bytes.get(end)
                    && !matches!(first, b'\r' | b'\n' | b'-')
                    && let Some(length) = memchr(b'\n', &bytes[end..])
                {
                    end += length + 1;
                }
                end
            }
            Element::End => 0,
            _ if bytes.starts_with(b"--") => 0,
            _ => {
                let delimiter = (!self.open.is_empty())
                    .then(|| memmem::find(bytes, b"\n--"))
                    .flatten();
                delimiter
                    .or_else(|| memrchr(b'\n', bytes))
                    .map_or(0, |end| end + 1)
            }
        }
    }

    /// Processes complete lines from [`Self::ordinary_lines`] together.
    fn lines(&mut self, lines: &[u8]) {
        let line_break = if lines.ends_with(b"\r\n") {
            &b"\r\n"[..]
        } else {
            &b"\n"[..]
        };
        self.content(&lines[..lines.len() - line_break.len()], line_break, false);
        self.at += lines.len();
    }

    /// Processes the beginning of a line that is too long for a delimiter. Therefore the parser
    /// does not store long lines.
    fn flush_long_line(&mut self) {
        let mut partial_line = mem::take(&mut self.partial_line);
        // The last byte can be the first half of a line break.
        let remaining = usize::from(partial_line.ends_with(b"\r"));
        let text = partial_line.len() - remaining;
        let at_line_start = !mem::replace(&mut self.continues, true);
        self.content(&partial_line[..text], b"", at_line_start);
        self.at += text;
        partial_line.drain(..text);
        self.partial_line = partial_line;
    }

    /// Processes a line including its line break. Only the last line of a message can lack a line
    /// break.
    fn line(&mut self, line: &[u8]) {
        let (text, line_break) = match line {
            [text @ .., b'\r', b'\n'] => (text, &b"\r\n"[..]),
            [text @ .., b'\n'] => (text, &b"\n"[..]),
            text => (text, &b""[..]),
        };
        let at_line_start = !mem::take(&mut self.continues);
        if !(at_line_start && self.process_delimiter(text)) {
            self.content(text, line_break, at_line_start);
        }
        self.at += line.len();
    }

    fn content(&mut self, text: &[u8], line_break: &'static [u8], at_line_start: bool) {
        match &mut self.element {
            Element::Header {
                bytes,
                in_digest,
                alternative,
            } => {
                if at_line_start && text.is_empty() && !line_break.is_empty() {
                    let (header, in_digest, alternative) =
                        (mem::take(bytes), *in_digest, *alternative);
                    self.start_body(&header, in_digest, alternative, self.at + line_break.len());
                } else if bytes.len() <= bounds::HEADER {
                    // Store one more byte than the limit, so that `Part::of` detects an oversized
                    // header.
                    let free = bounds::HEADER + 1 - bytes.len();
                    bytes.extend_from_slice(text.get(..free).unwrap_or(text));
                    bytes.extend_from_slice(line_break);
                }
            }
            Element::Body(body) => body.push(text, line_break),
            Element::Epilogue | Element::End => {}
        }
    }

    /// Parses a header and starts the body after the header. `start` is the offset of the body.
    fn start_body(&mut self, header: &[u8], in_digest: bool, alternative: bool, start: usize) {
        let mut part = Part::of(header, in_digest);
        self.truncated |= part.truncated;
        let place = self.place();
        if let Some(boundary) = part.boundary.take() {
            if self.open.len() >= bounds::DEPTH {
                self.truncated = true;
                part.media = "application/octet-stream".into();
            } else {
                self.open.push(Multipart {
                    media: part.media.clone(),
                    boundary: boundary.into_bytes(),
                    start,
                    parts: 0,
                    alternative: match part.media.as_str() {
                        "multipart/alternative" => true,
                        "multipart/related" => alternative,
                        _ => false,
                    },
                    found: false,
                });
            }
        }
        let is_text = matches!(part.media.as_str(), "text/plain" | "text/html");
        let chosen = is_text
            && !part.is_attachment
            && !is_named(&part, alternative)
            && !self.leaves.iter().any(|leaf| {
                leaf.part.media == part.media && !leaf.part.is_attachment && !leaf.is_named()
            });
        self.element = Element::Body(Box::new(Body {
            size: (!chosen).then(|| DecodedSize::new(part.encoding)).flatten(),
            part,
            start,
            line_break: b"",
            alternative,
            place,
            blank: [header.trim_ascii().is_empty(), true],
        }));
    }

    /// Returns the place of the current part.
    fn place(&self) -> Place {
        let is_alternative = |multipart: &&Multipart| multipart.media == "multipart/alternative";
        let alternative = self.open.iter().find(is_alternative);
        let is_resource =
            |multipart: &Multipart| multipart.media == "multipart/related" && multipart.parts > 1;
        Place {
            branch: alternative.map(|multipart| (multipart.start, multipart.parts)),
            is_resource: self.open.last().is_some_and(is_resource),
        }
    }

    /// Processes a delimiter line (RFC 2046, section 5.1.1): ends the current part and starts the
    /// next part. The delimiter of an outer multipart also ends the inner multiparts. Returns
    /// `false` if the line is not a delimiter.
    fn process_delimiter(&mut self, line: &[u8]) -> bool {
        let Some(name) = line
            .strip_prefix(b"--")
            .filter(|_| line.len() <= MAX_DELIMITER)
        else {
            return false;
        };
        let found = self.open.iter().enumerate().find_map(|(index, multipart)| {
            // If text follows the boundary, the line belongs to a longer boundary with the same
            // beginning.
            match name.strip_prefix(&multipart.boundary[..])?.trim_ascii() {
                b"" => Some((index, false)),
                b"--" => Some((index, true)),
                _ => None,
            }
        });
        let Some((index, closes)) = found else {
            return false;
        };
        if self.open[index].found {
            let before = match &self.element {
                Element::Body(body) => self.at - body.line_break.len(),
                _ => self.at,
            };
            self.end_part(before, true, index + 1 < self.open.len());
        } else if closes {
            // This multipart has a closing delimiter but no other delimiter. The parser treats the
            // body of such a multipart as text. Only the innermost open multipart can be in this
            // state.
            self.open.pop();
            if let Element::Body(body) = &mut self.element {
                body.part.media = "text/plain".into();
            }
            return false;
        } else {
            self.open[index].found = true;
        }
        self.open.truncate(if closes { index } else { index + 1 });
        if closes {
            self.element = if index == 0 {
                Element::End
            } else {
                Element::Epilogue
            };
        } else {
            self.begin_part(index);
        }
        true
    }

    /// Starts the next part of the open multipart with this index.
    fn begin_part(&mut self, index: usize) {
        self.parts += 1;
        if self.parts > bounds::PARTS {
            self.truncated = true;
            self.element = Element::End;
            return;
        }
        let multipart = &mut self.open[index];
        multipart.parts += 1;
        let alternative = multipart.alternative;
        // Only the first part of a multipart/related can be the text. The other parts are images
        // and other resources of the text (RFC 2387).
        multipart.alternative &= multipart.media != "multipart/related";
        self.element = Element::Header {
            bytes: Vec::new(),
            in_digest: multipart.media == "multipart/digest",
            alternative,
        };
    }

    /// Ends the current part at the offset `end`. `ended_by_outer` is `true` if a delimiter of an
    /// outer multipart or the end of the message ends the part.
    fn end_part(&mut self, end: usize, complete: bool, ended_by_outer: bool) {
        if let Element::Header {
            bytes,
            in_digest,
            alternative,
        } = &mut self.element
        {
            let (header, in_digest, alternative) = (mem::take(bytes), *in_digest, *alternative);
            self.start_body(&header, in_digest, alternative, end);
        }
        let Element::Body(mut body) = mem::replace(&mut self.element, Element::End) else {
            return;
        };
        let without_delimiter = self.open.pop_if(|multipart| !multipart.found).is_some();
        if without_delimiter {
            body.part.media = "text/plain".into();
        }
        let [header, is_blank] = body.blank;
        // A line break after the last delimiter is not a part. An empty multipart is not a part
        // either, because it must not be chosen as the text.
        let is_empty = is_blank && (without_delimiter || (header && ended_by_outer));
        if is_empty && !self.open.is_empty() {
            return;
        }
        self.leaves.push(body.leaf(end, complete));
    }
}

/// Splits a message or a part at the first empty line into header and body (RFC 5322, section 2.1).
pub(super) fn split_header(part: &[u8]) -> (&[u8], &[u8]) {
    let mut line = 0;
    while let Some(length) = part.get(line..).and_then(|rest| memchr(b'\n', rest)) {
        let text = &part[line..line + length];
        if text.is_empty() || text == b"\r" {
            return (&part[..line], &part[line + length + 1..]);
        }
        line += length + 1;
    }
    (part, &[])
}
