//! The parts of a message (RFC 2046, section 5), as slices of it, in order.

use memchr::{memchr, memmem};

use super::header::Part;
use crate::mail::bounds;

/// A part that holds no parts.
#[derive(Debug)]
pub(super) struct Leaf<'a> {
    pub(super) part: Part,
    /// As it is encoded.
    pub(super) body: &'a [u8],
    /// Whether its end is there.
    pub(super) complete: bool,
    /// Whether it is one of several forms of the same content (RFC 2046, section 5.1.4).
    alternative: bool,
}

impl Leaf<'_> {
    /// Whether it is a file beside the text. What is one form of the text is none, whatever it is called.
    fn is_named(&self) -> bool {
        self.part.filename.is_some() && !self.alternative
    }
}

/// What a message is made of.
#[derive(Debug, Default)]
pub(super) struct Structure<'a> {
    pub(super) leaves: Vec<Leaf<'a>>,
    /// Which of them is the text.
    pub(super) text: Option<usize>,
    /// Which of them is the HTML.
    pub(super) html: Option<usize>,
    /// Whether a bound was reached.
    pub(super) truncated: bool,
    /// How many parts were looked at.
    parts: usize,
}

impl<'a> Structure<'a> {
    pub(super) fn of_message(message: &'a [u8], complete: bool) -> Self {
        let (header, body) = split_header(message);
        Self::of_parts(header, body, complete)
    }

    pub(super) fn of_parts(header: &[u8], body: &'a [u8], complete: bool) -> Self {
        let mut structure = Self::default();
        structure.walk(Part::of(header, false), body, complete, 0, false);
        structure.text = structure.first("text/plain", false);
        structure.html = structure.first("text/html", false);
        if structure.text.is_none() && structure.html.is_none() {
            // A text that has a name is a file beside another text, but alone it is what the message says.
            structure.text = structure.first("text/plain", true);
            structure.html = structure.first("text/html", true);
        }
        structure
    }

    /// Every leaf that is neither the text nor the HTML.
    pub(super) fn attachments(&self) -> impl Iterator<Item = &Leaf<'a>> {
        self.leaves
            .iter()
            .enumerate()
            .filter(|(place, _)| Some(*place) != self.text && Some(*place) != self.html)
            .map(|(_, leaf)| leaf)
    }

    fn first(&self, media: &str, named: bool) -> Option<usize> {
        self.leaves.iter().position(|leaf| {
            leaf.part.media == media && !leaf.part.attached && leaf.is_named() == named
        })
    }

    /// Recursion is bounded by [`bounds::DEPTH`], and so is the work: each level reads the bytes below it once.
    /// `alternative` says whether the part stands for the whole of an alternative.
    fn walk(
        &mut self,
        mut part: Part,
        body: &'a [u8],
        complete: bool,
        depth: usize,
        alternative: bool,
    ) {
        self.truncated |= part.truncated;
        if let Some(boundary) = part.boundary.take() {
            let mut pieces = Pieces::new(body, boundary.as_bytes());
            if depth >= bounds::DEPTH {
                self.truncated = true;
                part.media = "application/octet-stream".into();
            } else if pieces.found() {
                let mut alternative = match part.media.as_str() {
                    "multipart/alternative" => true,
                    "multipart/related" => alternative,
                    _ => false,
                };
                while let Some((piece, ended)) = pieces.next() {
                    self.parts += 1;
                    if self.parts > bounds::PARTS {
                        self.truncated = true;
                        return;
                    }
                    let (header, body) = split_header(piece);
                    self.walk(
                        Part::of(header, part.digest),
                        body,
                        ended || complete,
                        depth + 1,
                        alternative,
                    );
                    // What follows the first part of a related one are its pictures (RFC 2387).
                    alternative &= part.media != "multipart/related";
                }
                return;
            } else {
                // Announced as a multipart, but nothing of one: what is there is read as text.
                part.media = "text/plain".into();
            }
        }
        self.leaves.push(Leaf {
            part,
            body,
            complete,
            alternative,
        });
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

/// What stands between the delimiters of a multipart (RFC 2046, section 5.1.1).
struct Pieces<'a, 'b> {
    body: &'a [u8],
    boundary: &'b [u8],
    /// Behind the last delimiter; none when there is no more.
    next: Option<usize>,
}

/// A delimiter line.
struct Delimiter {
    /// Where what it ends ends: before the line break that belongs to it.
    before: usize,
    /// Where the line after it begins.
    after: usize,
    /// Whether it is the last.
    closes: bool,
}

impl<'a, 'b> Pieces<'a, 'b> {
    fn new(body: &'a [u8], boundary: &'b [u8]) -> Self {
        let mut pieces = Self {
            body,
            boundary,
            next: Some(0),
        };
        pieces.next = pieces
            .delimiter(0)
            .filter(|first| !first.closes)
            .map(|first| first.after);
        pieces
    }

    fn found(&self) -> bool {
        self.next.is_some()
    }

    /// The next piece, and whether its end was found.
    fn next(&mut self) -> Option<(&'a [u8], bool)> {
        let start = self.next?;
        if let Some(end) = self.delimiter(start) {
            self.next = (!end.closes).then_some(end.after);
            return Some((&self.body[start..end.before.max(start)], true));
        }
        self.next = None;
        let rest = &self.body[start..];
        // What is only the break behind a last delimiter is no part.
        (!rest.trim_ascii().is_empty()).then_some((rest, false))
    }

    fn delimiter(&self, from: usize) -> Option<Delimiter> {
        let finder = memmem::Finder::new(self.boundary);
        let mut at = from;
        loop {
            let found = at + finder.find(self.body.get(at..)?)?;
            let end = found + self.boundary.len();
            at = end.max(found + 1);
            let Some(start) = found.checked_sub(2).filter(|start| {
                *start >= from
                    && self.body[*start..found] == *b"--"
                    && (*start == from || self.body[*start - 1] == b'\n')
            }) else {
                continue;
            };
            let rest = &self.body[end..];
            let line = memchr(b'\n', rest).unwrap_or(rest.len());
            let closes = match rest[..line].trim_ascii() {
                b"" => false,
                b"--" => true,
                // A longer boundary that begins with this one.
                _ => continue,
            };
            let before = self.body[..start]
                .strip_suffix(b"\n")
                .map_or(start, |text| text.strip_suffix(b"\r").unwrap_or(text).len());
            return Some(Delimiter {
                before,
                after: (end + line + 1).min(self.body.len()),
                closes,
            });
        }
    }
}
