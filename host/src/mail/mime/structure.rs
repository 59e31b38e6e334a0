//! The parts of a message (RFC 2046, section 5), found as its bytes come: what each is, where it begins and ends, and how long it is when decoded.
//!
//! Of the message itself only the header and the line at hand are kept, so one of any size costs the same memory. A message
//! inside a message is not looked into.

use std::mem;
use std::ops::Range;

use memchr::memchr;

use super::header::Part;
use super::transfer::{Decoder, Encoding, Length};
use crate::mail::bounds;

/// A part that holds no parts.
#[derive(Debug)]
pub(in crate::mail) struct Leaf {
    pub(super) part: Part,
    /// Where it is in what was walked through, as it is encoded.
    pub(super) range: Range<usize>,
    /// How long it is when decoded; nothing is said of the message's text and HTML.
    pub(super) size: usize,
    /// Whether its end is there.
    pub(super) complete: bool,
    /// Whether it is one of several forms of the same content (RFC 2046, section 5.1.4).
    alternative: bool,
}

impl Leaf {
    fn is_named(&self) -> bool {
        is_named(&self.part, self.alternative)
    }
}

/// Whether a part is a file beside the text. What is one form of the text is none, whatever it is called.
fn is_named(part: &Part, alternative: bool) -> bool {
    part.filename.is_some() && !alternative
}

/// What a message is made of.
#[derive(Debug, Default)]
pub(in crate::mail) struct Structure {
    leaves: Vec<Leaf>,
    text: Option<usize>,
    html: Option<usize>,
    /// Whether a bound was reached.
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
            // A text that has a name is a file beside another text, but alone it is what the message says.
            (text, html) = (first("text/plain", true), first("text/html", true));
        }
        Self {
            leaves,
            text,
            html,
            truncated,
        }
    }

    /// The message's text.
    pub(super) fn text(&self) -> Option<&Leaf> {
        self.leaves.get(self.text?)
    }

    /// The message's HTML.
    pub(super) fn html(&self) -> Option<&Leaf> {
        self.leaves.get(self.html?)
    }

    /// Every leaf that is neither.
    pub(super) fn attachments(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves
            .iter()
            .enumerate()
            .filter(|(place, _)| Some(*place) != self.text && Some(*place) != self.html)
            .map(|(_, leaf)| leaf)
    }
}

/// A line that is longer is no delimiter (RFC 2046, section 5.1.1 allows 70 characters).
const LONGEST_DELIMITER: usize = 4096;

/// Finds the parts of a message whose bytes come one after the other.
#[derive(Debug)]
pub(in crate::mail) struct Walker {
    /// The multiparts that the line at hand is in, the outermost first.
    open: Vec<Multipart>,
    place: Place,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    /// That line's first bytes were passed on already.
    continues: bool,
    /// Where the line at hand begins.
    at: usize,
    leaves: Vec<Leaf>,
    parts: usize,
    truncated: bool,
}

/// A multipart that is not over.
#[derive(Debug)]
struct Multipart {
    media: String,
    boundary: Vec<u8>,
    /// Whether the part that comes next is one of several forms of the same content.
    alternative: bool,
    /// Whether its first delimiter was found. Until then it may turn out to be none.
    found: bool,
}

/// What the line at hand belongs to.
#[derive(Debug)]
enum Place {
    /// The header of a part, or of the message.
    Header {
        bytes: Vec<u8>,
        in_digest: bool,
        alternative: bool,
    },
    /// What follows a header: a leaf, or a multipart whose first delimiter was not found yet.
    Body(Box<Body>),
    /// What stands behind the last delimiter of a multipart.
    Epilogue,
    /// What is not looked at any more.
    Over,
}

#[derive(Debug)]
struct Body {
    part: Part,
    start: usize,
    /// The end of the line before: part of the body unless a delimiter follows, to which it belongs then.
    line_break: &'static [u8],
    decoder: Decoder,
    size: Length,
    alternative: bool,
    /// Whether it is the message's text or its HTML, of which nobody asks how long it is when decoded.
    chosen: bool,
    /// Whether its header has nothing but white space, and whether it has itself.
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

impl Walker {
    /// At the beginning of a message.
    pub(in crate::mail) fn new() -> Self {
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

    /// Behind the header of a message.
    pub(super) fn behind(header: &[u8]) -> Self {
        let mut walker = Self::new();
        walker.enter(header, false, false, 0);
        walker
    }

    /// Goes on through `bytes`.
    pub(in crate::mail) fn push(&mut self, mut bytes: &[u8]) {
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

    /// What was found; `complete` says whether the message's end was reached.
    pub(in crate::mail) fn finish(mut self, complete: bool) -> Structure {
        let last = mem::take(&mut self.begun);
        if !last.is_empty() {
            self.line(&last);
        }
        if let Place::Body(body) = &mut self.place {
            // No delimiter follows that it could belong to.
            body.push(b"", b"");
        }
        self.end_part(self.at, complete, true);
        Structure::new(self.leaves, self.truncated || !complete)
    }

    /// A line that is too long for a delimiter, as far as it is there.
    fn pass_on(&mut self) {
        let mut begun = mem::take(&mut self.begun);
        // It may be half of a line break.
        let kept = usize::from(begun.ends_with(b"\r"));
        let text = begun.len() - kept;
        let fresh = !mem::replace(&mut self.continues, true);
        self.content(&begun[..text], b"", fresh);
        self.at += text;
        begun.drain(..text);
        self.begun = begun;
    }

    /// A line with its end, or the last one.
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
                    // One byte more than is read tells that there is more.
                    let room = bounds::HEADER + 1 - bytes.len();
                    bytes.extend_from_slice(text.get(..room).unwrap_or(text));
                    bytes.extend_from_slice(line_break);
                }
            }
            Place::Body(body) => body.push(text, line_break),
            Place::Epilogue | Place::Over => {}
        }
    }

    /// Behind a header.
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

    /// Whether a line is a delimiter (RFC 2046, section 5.1.1); if so, what it ends is ended and what it begins begun. That of an outer
    /// multipart ends those within.
    fn delimits(&mut self, line: &[u8]) -> bool {
        let Some(name) = line
            .strip_prefix(b"--")
            .filter(|_| line.len() <= LONGEST_DELIMITER)
        else {
            return false;
        };
        let found = self.open.iter().enumerate().find_map(|(place, multipart)| {
            // Anything else behind the boundary: a longer one that begins with this one.
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
            // Announced as a multipart, but nothing of one: what is there is read as text. Only the innermost may be without a
            // delimiter so far.
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

    /// A part of the multipart at `place` begins.
    fn begin_part(&mut self, place: usize) {
        self.parts += 1;
        if self.parts > bounds::PARTS {
            self.truncated = true;
            self.place = Place::Over;
            return;
        }
        let multipart = &mut self.open[place];
        let alternative = multipart.alternative;
        // What follows the first part of a related one are its pictures (RFC 2387).
        multipart.alternative &= multipart.media != "multipart/related";
        self.place = Place::Header {
            bytes: Vec::new(),
            in_digest: multipart.media == "multipart/digest",
            alternative,
        };
    }

    /// The part at hand ends at `end`; `by_another` where that is not by a delimiter of its own multipart.
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
        // What is only the break behind a last delimiter is no part; and a multipart that holds nothing must not stand for a text that there is
        // elsewhere.
        let nothing = body_itself && (announced || (header && by_another));
        if nothing && !self.open.is_empty() {
            return;
        }
        self.leaves.push(body.leaf(end, complete));
    }
}

/// Splits at the first blank line (RFC 5322, section 2.1).
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
