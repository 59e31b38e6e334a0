//! Finds the parts of a message (RFC 2046, section 5) while its bytes arrive: their types, positions and decoded sizes.
//!
//! Only the current header and the current line are held in memory, so the size of the message does not matter. Messages inside a message are not parsed.

use std::mem;
use std::ops::Range;

use memchr::memchr;

use super::header::Part;
use super::transfer::{Decoder, Encoding, Length};
use crate::bounds;

/// A part without subparts.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(super) part: Part,
    /// The position of the encoded content in the input, in bytes.
    pub(super) range: Range<usize>,
    /// The decoded size in bytes. It is not computed for the chosen text and HTML.
    pub(super) size: usize,
    /// `true` if the end of the part was found.
    pub(super) complete: bool,
    /// `true` if the part is one of several alternatives (RFC 2046, section 5.1.4).
    alternative: bool,
}

impl Leaf {
    fn is_named(&self) -> bool {
        is_named(&self.part, self.alternative)
    }
}

/// Returns `true` if the part's file name makes it an attachment. An alternative of the text is never an attachment, even with a file name.
fn is_named(part: &Part, alternative: bool) -> bool {
    part.filename.is_some() && !alternative
}

/// The structure of a message.
#[derive(Debug, Default)]
pub struct Structure {
    leaves: Vec<Leaf>,
    text: Option<usize>,
    html: Option<usize>,
    /// `true` if a limit was reached.
    pub(super) truncated: bool,
}

impl Structure {
    fn new(leaves: Vec<Leaf>, truncated: bool) -> Self {
        let first = |media: &str, named: bool| {
            leaves.iter().position(|leaf| {
                leaf.part.media == media && !leaf.part.attached && leaf.is_named() == named
            })
        };
        let (mut text, mut html) = (first("text/plain", false), first("text/html", false));
        if text.is_none() && html.is_none() {
            // A text part with a file name is an attachment if there is another text. Alone it is the text of the message.
            (text, html) = (first("text/plain", true), first("text/html", true));
        }
        Self {
            leaves,
            text,
            html,
            truncated,
        }
    }

    /// Returns the chosen text.
    pub(super) fn text(&self) -> Option<&Leaf> {
        self.leaves.get(self.text?)
    }

    /// Returns the chosen HTML.
    pub(super) fn html(&self) -> Option<&Leaf> {
        self.leaves.get(self.html?)
    }

    /// Returns all other leaves.
    pub(super) fn attachments(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves
            .iter()
            .enumerate()
            .filter(|(place, _)| Some(*place) != self.text && Some(*place) != self.html)
            .map(|(_, leaf)| leaf)
    }
}

/// Maximum length of a delimiter line, in bytes. RFC 2046, section 5.1.1, allows 70 characters.
const LONGEST_DELIMITER: usize = 4096;

/// Finds the parts of a message whose bytes arrive in pieces.
#[derive(Debug)]
pub struct Walker {
    /// The open multiparts that contain the current line, the outermost first.
    open: Vec<Multipart>,
    place: Place,
    /// The beginning of a line whose end has not arrived.
    begun: Vec<u8>,
    /// `true` if the first bytes of the current line have already been processed.
    continues: bool,
    /// The offset of the current line in the input.
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
    /// `true` if the next part is an alternative of the text.
    alternative: bool,
    /// `true` once the first delimiter was found. Without one, the body is treated as text.
    found: bool,
}

/// The element that contains the current line.
#[derive(Debug)]
enum Place {
    /// The header of a part or of the message.
    Header {
        bytes: Vec<u8>,
        in_digest: bool,
        alternative: bool,
    },
    /// The body of a leaf, or of a multipart whose first delimiter was not found yet.
    Body(Box<Body>),
    /// The text after the last delimiter of a multipart.
    Epilogue,
    /// The rest of the message, which is ignored.
    Over,
}

#[derive(Debug)]
struct Body {
    part: Part,
    start: usize,
    /// The line break of the previous line. It belongs to the delimiter if one follows, otherwise to the body.
    line_break: &'static [u8],
    decoder: Decoder,
    size: Length,
    alternative: bool,
    /// `true` for the chosen text and HTML, whose decoded size is not needed.
    chosen: bool,
    /// Whether the header and the body contain only white space.
    blank: [bool; 2],
}

impl Body {
    fn push(&mut self, text: &[u8], line_break: &'static [u8]) {
        self.blank[1] &= text.trim_ascii().is_empty();
        let before = mem::replace(&mut self.line_break, line_break);
        if self.part.encoding != Encoding::Identity && !self.chosen {
            self.decoder.push(before, &mut self.size);
            self.decoder.push(text, &mut self.size);
        }
    }

    fn leaf(mut self, end: usize, complete: bool) -> Leaf {
        let range = self.start..end.max(self.start);
        self.decoder.finish(&mut self.size);
        let size = match self.part.encoding {
            Encoding::Identity => range.len(),
            Encoding::Base64 | Encoding::QuotedPrintable => self.size.0,
        };
        Leaf {
            part: self.part,
            range,
            size,
            complete,
            alternative: self.alternative,
        }
    }
}

impl Default for Walker {
    /// Starts at the beginning of a message.
    fn default() -> Self {
        Self {
            open: Vec::new(),
            place: Place::Header {
                bytes: Vec::new(),
                in_digest: false,
                alternative: false,
            },
            begun: Vec::new(),
            continues: false,
            at: 0,
            leaves: Vec::new(),
            parts: 0,
            truncated: false,
        }
    }
}

impl Walker {
    /// Starts after the header of a message.
    pub(super) fn behind(header: &[u8]) -> Self {
        let mut walker = Self::default();
        walker.enter(header, false, false, 0);
        walker
    }

    /// Processes the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr(b'\n', bytes) {
            if matches!(self.place, Place::Over) {
                return;
            }
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.begun.is_empty() {
                self.line(line);
            } else {
                let mut begun = mem::take(&mut self.begun);
                begun.extend_from_slice(line);
                self.line(&begun);
                begun.clear();
                self.begun = begun;
            }
        }
        if matches!(self.place, Place::Over) {
            return;
        }
        self.begun.extend_from_slice(bytes);
        if self.begun.len() > LONGEST_DELIMITER + 1 {
            self.pass_on();
        }
    }

    /// Returns the structure. `complete` is `true` if the end of the message was reached.
    #[must_use]
    pub fn finish(mut self, complete: bool) -> Structure {
        let last = mem::take(&mut self.begun);
        if !last.is_empty() {
            self.line(&last);
        }
        if let Place::Body(body) = &mut self.place {
            // No delimiter follows, so the last line break belongs to the body.
            body.push(b"", b"");
        }
        self.end_part(self.at, complete, true);
        Structure::new(self.leaves, self.truncated || !complete)
    }

    /// Processes the beginning of a line that is too long for a delimiter.
    fn pass_on(&mut self) {
        let mut begun = mem::take(&mut self.begun);
        // The last byte may be the first half of a line break.
        let kept = usize::from(begun.ends_with(b"\r"));
        let text = begun.len() - kept;
        let fresh = !mem::replace(&mut self.continues, true);
        self.content(&begun[..text], b"", fresh);
        self.at += text;
        begun.drain(..text);
        self.begun = begun;
    }

    /// Processes a line with its line break, or the last line.
    fn line(&mut self, line: &[u8]) {
        let (text, line_break) = match line {
            [text @ .., b'\r', b'\n'] => (text, &b"\r\n"[..]),
            [text @ .., b'\n'] => (text, &b"\n"[..]),
            text => (text, &b""[..]),
        };
        let fresh = !mem::take(&mut self.continues);
        if !(fresh && self.delimits(text)) {
            self.content(text, line_break, fresh);
        }
        self.at += line.len();
    }

    fn content(&mut self, text: &[u8], line_break: &'static [u8], fresh: bool) {
        match &mut self.place {
            Place::Header {
                bytes,
                in_digest,
                alternative,
            } => {
                if fresh && text.is_empty() && !line_break.is_empty() {
                    let (header, in_digest, alternative) =
                        (mem::take(bytes), *in_digest, *alternative);
                    self.enter(&header, in_digest, alternative, self.at + line_break.len());
                } else if bytes.len() <= bounds::HEADER {
                    // Store one byte more than the limit, which shows that the header is too long.
                    let room = bounds::HEADER + 1 - bytes.len();
                    bytes.extend_from_slice(text.get(..room).unwrap_or(text));
                    bytes.extend_from_slice(line_break);
                }
            }
            Place::Body(body) => body.push(text, line_break),
            Place::Epilogue | Place::Over => {}
        }
    }

    /// Enters the body after a header.
    fn enter(&mut self, header: &[u8], in_digest: bool, alternative: bool, start: usize) {
        let mut part = Part::of(header, in_digest);
        self.truncated |= part.truncated;
        if let Some(boundary) = part.boundary.take() {
            if self.open.len() >= bounds::DEPTH {
                self.truncated = true;
                part.media = "application/octet-stream".into();
            } else {
                self.open.push(Multipart {
                    media: part.media.clone(),
                    boundary: boundary.into_bytes(),
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
            && !part.attached
            && !is_named(&part, alternative)
            && !self.leaves.iter().any(|leaf| {
                leaf.part.media == part.media && !leaf.part.attached && !leaf.is_named()
            });
        self.place = Place::Body(Box::new(Body {
            decoder: Decoder::new(part.encoding),
            part,
            start,
            line_break: b"",
            size: Length::default(),
            alternative,
            chosen,
            blank: [header.trim_ascii().is_empty(), true],
        }));
    }

    /// Processes a delimiter line (RFC 2046, section 5.1.1): ends the current part and starts the next one. The delimiter of an outer multipart also ends the
    /// inner multiparts. Returns `false` if the line is not a delimiter.
    fn delimits(&mut self, line: &[u8]) -> bool {
        let Some(name) = line
            .strip_prefix(b"--")
            .filter(|_| line.len() <= LONGEST_DELIMITER)
        else {
            return false;
        };
        let found = self.open.iter().enumerate().find_map(|(place, multipart)| {
            // Other text after the boundary means that this is a longer boundary with the same beginning.
            match name.strip_prefix(&multipart.boundary[..])?.trim_ascii() {
                b"" => Some((place, false)),
                b"--" => Some((place, true)),
                _ => None,
            }
        });
        let Some((place, closes)) = found else {
            return false;
        };
        if self.open[place].found {
            let before = match &self.place {
                Place::Body(body) => self.at - body.line_break.len(),
                _ => self.at,
            };
            self.end_part(before, true, place + 1 < self.open.len());
        } else if closes {
            // A closing delimiter without a first one: the body is treated as text. Only the innermost multipart can still lack a delimiter.
            self.open.pop();
            if let Place::Body(body) = &mut self.place {
                body.part.media = "text/plain".into();
            }
            return false;
        } else {
            self.open[place].found = true;
        }
        self.open.truncate(if closes { place } else { place + 1 });
        if closes {
            self.place = if place == 0 {
                Place::Over
            } else {
                Place::Epilogue
            };
        } else {
            self.begin_part(place);
        }
        true
    }

    /// Starts a part of the multipart at `place`.
    fn begin_part(&mut self, place: usize) {
        self.parts += 1;
        if self.parts > bounds::PARTS {
            self.truncated = true;
            self.place = Place::Over;
            return;
        }
        let multipart = &mut self.open[place];
        let alternative = multipart.alternative;
        // RFC 2387: the parts after the first one of a multipart/related are its images and the like.
        multipart.alternative &= multipart.media != "multipart/related";
        self.place = Place::Header {
            bytes: Vec::new(),
            in_digest: multipart.media == "multipart/digest",
            alternative,
        };
    }

    /// Ends the current part at `end`. `by_another` is `true` if it is not ended by a delimiter of its own multipart.
    fn end_part(&mut self, end: usize, complete: bool, by_another: bool) {
        if let Place::Header {
            bytes,
            in_digest,
            alternative,
        } = &mut self.place
        {
            let (header, in_digest, alternative) = (mem::take(bytes), *in_digest, *alternative);
            self.enter(&header, in_digest, alternative, end);
        }
        let Place::Body(mut body) = mem::replace(&mut self.place, Place::Over) else {
            return;
        };
        let announced = self.open.pop_if(|multipart| !multipart.found).is_some();
        if announced {
            body.part.media = "text/plain".into();
        }
        let [header, body_itself] = body.blank;
        // A line break after the last delimiter is not a part, and an empty multipart must not be chosen instead of a text elsewhere.
        let nothing = body_itself && (announced || (header && by_another));
        if nothing && !self.open.is_empty() {
            return;
        }
        self.leaves.push(body.leaf(end, complete));
    }
}

/// Splits at the first empty line (RFC 5322, section 2.1).
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
