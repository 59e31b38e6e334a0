//! Parses messages (RFC 5322, RFC 2045 to 2049) within limits on memory and time. This crate does
//! not write messages and does no I/O.
//!
//! ```
//! use latchmail_mime::{Header, StructureParser, bounds, content, sections, split, texts};
//!
//! let message = b"From: Ada <ada@example.org>\r\nSubject: Hello\r\n\r\nText\r\n";
//! let (header, _) = split(message);
//! assert_eq!(Header::of(header, bounds::FIELD).from[0].name, "Ada");
//!
//! // The bytes can arrive in any number of pieces.
//! let mut walker = StructureParser::default();
//! walker.push(message);
//! let structure = walker.finish(true);
//! let found = content(&structure, &texts(&structure).map(|ranges| {
//!     ranges.into_iter().map(|range| &message[range]).collect()
//! }));
//! assert_eq!(found.text.as_deref(), Some("Text\r\n"));
//! assert_eq!(sections(&structure).count(), 0);
//! ```
//!
//! This crate finds the structure of a message itself. The parser processes the message line by
//! line and has a nesting limit ([`bounds::DEPTH`]). `mail-parser` would need the complete message
//! and has no limits: a message with a hundred thousand nested parts overflows the stack. This
//! crate also decodes header fields and character sets itself, so that a text is decoded in the
//! same way in all responses. A message inside another message is one attachment. This crate does
//! not parse the parts of such a message.

pub mod bounds;
mod charset;
pub mod codes;
mod date;
mod decoded_size;
mod delivery_status;
mod filename;
mod flowed;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod header;
mod lexical;
mod new_text;
mod parameters;
pub mod preview;
mod structure;
mod transfer;
mod words;

use std::ops::Range;

use latchmail_html::visible_text;
use latchmail_shape::invisible;

pub use delivery_status::{Action, DeliveryStatus, RecipientStatus};
pub use header::{Field, Fields, Header, MailingList, ReplyFields, addresses_of, is_name};
pub use new_text::new_text;
use structure::Leaf;
pub use structure::{Structure, StructureParser};
pub use transfer::{Decoder, Encoding};

/// A decoded mailbox address from a header field (RFC 5322, section 3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The display name, or empty.
    pub name: String,
    /// `local@domain`. Empty if the field has only a name.
    pub address: String,
}

/// An attachment of a message. The parts of the chosen plain text and of the chosen HTML are not
/// attachments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The index among the attachments of the message, from 0. The attachments have the order of
    /// the parts.
    pub index: u32,
    /// The decoded file name, without path separators and control characters.
    pub filename: String,
    /// The media type in lower case, without parameters.
    pub content_type: String,
    /// The size of the decoded content, in bytes.
    pub size: u64,
    /// The Content-ID without angle brackets.
    pub content_id: Option<String>,
    /// `true` if a client shows the attachment as part of the text.
    pub is_inline: bool,
}

/// The plain text and the HTML that were chosen from the parts of a message. Each can consist of
/// several parts, for example the text before and after a picture. Blank parts are omitted unless
/// all parts are blank.
#[derive(Debug, Default)]
pub struct Content {
    /// The chosen plain text.
    pub text: Option<String>,
    /// The chosen HTML.
    pub html: Option<String>,
    /// `true` if the content exceeded a limit and is incomplete.
    pub truncated: bool,
}

/// The beginning of the text or HTML of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Plain text.
    Text(String),
    /// HTML.
    Html(String),
}

/// Splits a message into header and body.
#[must_use]
pub fn split(message: &[u8]) -> (&[u8], &[u8]) {
    structure::split_header(message)
}

/// An attachment and its position in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The position of the encoded content in the message, in bytes.
    pub range: Range<usize>,
    /// The encoding of the content.
    pub encoding: Encoding,
    /// The description of the attachment.
    pub attachment: Attachment,
    /// `true` if the end of the content was found.
    pub complete: bool,
}

/// Returns the positions of the parts of the chosen plain text and of the chosen HTML in the
/// message, in bytes. The ranges of the plain text together have at most `ENCODED_BODY` bytes. The
/// same limit applies to the HTML.
#[must_use]
pub fn texts(structure: &Structure) -> [Vec<Range<usize>>; 2] {
    structure.bodies().map(|leaves| {
        let mut left = ENCODED_BODY;
        let ranges = leaves.map(|leaf| {
            let length = leaf.range.len().min(left);
            left -= length;
            leaf.range.start..leaf.range.start + length
        });
        ranges.collect()
    })
}

/// Decodes the chosen plain text and the chosen HTML. The parameter `texts` contains the bytes at
/// the positions from the function [`texts`].
#[must_use]
pub fn content<B: AsRef<[u8]>>(structure: &Structure, texts: &[Vec<B>; 2]) -> Content {
    content_of(structure, texts, |_, text| text)
}

/// Returns the same as [`content`], but joins the lines of paragraphs in `format=flowed` (RFC
/// 3676). Each line of a quotation in this format begins with one `>` for each level and a space.
#[must_use]
pub fn unflowed_content<B: AsRef<[u8]>>(structure: &Structure, texts: &[Vec<B>; 2]) -> Content {
    content_of(structure, texts, |leaf, text| leaf.part.flow.joined(text))
}

fn content_of<B: AsRef<[u8]>>(
    structure: &Structure,
    texts: &[Vec<B>; 2],
    convert: impl Fn(&Leaf, String) -> String,
) -> Content {
    let mut truncated = structure.truncated;
    let bodies = structure.bodies().into_iter().zip(texts);
    let mut joined = bodies.map(|(leaves, parts)| {
        let (text, cut) = join(leaves.zip(parts.iter().map(AsRef::as_ref)), &convert)?;
        truncated |= cut;
        Some(text)
    });
    let (text, html) = (joined.next().flatten(), joined.next().flatten());
    drop(joined);
    Content {
        text,
        html,
        truncated,
    }
}

/// Decodes the parts of a text and joins them with blank lines. Omits blank parts unless all parts
/// are blank. The second returned value is `true` if the text is incomplete.
fn join<'a>(
    parts: impl Iterator<Item = (&'a Leaf, &'a [u8])>,
    convert: impl Fn(&Leaf, String) -> String,
) -> Option<(String, bool)> {
    let (mut joined, mut cut): (Option<String>, bool) = (None, false);
    for (leaf, bytes) in parts {
        let (text, is_cut) = decode_leaf(leaf, bytes, bounds::BODY);
        let text = convert(leaf, text);
        cut |= is_cut;
        match &mut joined {
            Some(_) if is_blank(&text) => {}
            Some(joined) if !is_blank(joined) => {
                while !joined.ends_with("\n\r\n") && !joined.ends_with("\n\n") {
                    joined.push_str("\r\n");
                }
                joined.push_str(&text);
            }
            _ => joined = Some(text),
        }
        if joined
            .as_ref()
            .is_some_and(|text| text.len() > bounds::BODY)
        {
            break;
        }
    }
    let (text, too_long) = printable(joined?, bounds::BODY);
    Some((text, cut || too_long))
}

/// Returns the attachments in the order of their indexes.
pub fn sections(structure: &Structure) -> impl Iterator<Item = Section> {
    structure
        .attachments()
        .zip(0..)
        .map(|(leaf, index)| Section {
            range: leaf.range.clone(),
            encoding: leaf.part.encoding,
            attachment: Attachment {
                index,
                filename: filename::sanitize(
                    leaf.part.filename.as_deref(),
                    &leaf.part.media,
                    index,
                ),
                content_type: leaf.part.media.clone(),
                size: leaf.size as u64,
                content_id: leaf.part.content_id.clone(),
                is_inline: leaf.is_inline(),
            },
            complete: leaf.complete,
        })
}

/// Returns the first part of the plain text that is not blank, or the first part of the HTML that
/// is not blank. If all parts are blank, returns a blank part. Returns `None` if there are no such
/// parts. `body` is the beginning of the body. `complete` is `true` if `body` is the complete body.
/// The second returned value is `true` if the returned text is complete.
#[must_use]
pub fn beginning(header: &[u8], body: &[u8], complete: bool) -> Option<(Beginning, bool)> {
    let mut walker = StructureParser::after_header(header);
    walker.push(body);
    let structure = walker.finish(complete);
    let read = |leaf: &Leaf| {
        let bytes = &body[leaf.range.start..leaf.range.end.min(leaf.range.start + ENCODED_BODY)];
        let (mut text, cut) = decode_leaf(leaf, bytes, bounds::BODY);
        let whole = leaf.complete && !cut;
        if !whole {
            // The last character can be incomplete, because the text can be cut.
            text.truncate(text.trim_end_matches('\u{fffd}').len());
        }
        (text, whole)
    };
    let [texts, htmls] = structure.bodies();
    let mut blank = None;
    for (text, whole) in texts.map(read) {
        if !whole || !is_blank(&text) {
            return Some((Beginning::Text(text), whole));
        }
        blank.get_or_insert((Beginning::Text(text), whole));
    }
    let mut htmls = htmls.peekable();
    while let Some(leaf) = htmls.next() {
        let (html, whole) = read(leaf);
        // Skip a part without visible text, for example an empty part before a picture.
        if !whole || htmls.peek().is_none() || !is_blank(&visible_text(&html)) {
            return Some((Beginning::Html(html), whole));
        }
    }
    blank
}

/// Returns `true` if the text contains only white space and invisible characters.
#[must_use]
pub fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || invisible(c).is_some())
}

/// Maximum number of encoded bytes that are read for one text. Quoted-printable uses at most three
/// bytes for a decoded byte, and adds line breaks.
const ENCODED_BODY: usize = bounds::BODY * 4;

/// Decodes the text of a part, up to `limit` bytes. `encoded` is the beginning of the part's
/// encoded content. The second returned value is `true` if the returned text is incomplete.
fn decode_leaf(leaf: &Leaf, encoded: &[u8], limit: usize) -> (String, bool) {
    let mut cut = encoded.len() < leaf.range.len();
    let bytes = transfer::decoded(encoded, leaf.part.encoding);
    let mut text = leaf.part.charset.decode(bytes, cut || !leaf.complete);
    cut |= truncate_text(&mut text, limit);
    (text, cut)
}

/// Replaces control characters except tabs and line breaks, and cuts the text to `limit` bytes. A
/// control character takes six bytes in JSON and can control a terminal. The second returned value
/// is `true` if the returned text is incomplete.
fn printable(mut text: String, limit: usize) -> (String, bool) {
    let is_printable = |c: char| !c.is_control() || matches!(c, '\t' | '\r' | '\n');
    if contains_control(&text, |b| matches!(b, b'\t' | b'\r' | b'\n')) {
        text = text
            .chars()
            .map(|c| match c {
                c if is_printable(c) => c,
                // For example, replace a form feed between two pages with a line break.
                c if c.is_whitespace() => '\n',
                _ => char::REPLACEMENT_CHARACTER,
            })
            .collect();
    }
    let cut = truncate_text(&mut text, limit);
    (text, cut)
}

/// Returns `true` if the text contains a control character that is not allowed. The loops have no
/// early exit, so the compiler can vectorize them.
fn contains_control(text: &str, is_allowed: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let ascii = bytes.iter().fold(0, |found, b| {
        found | u8::from(b.is_ascii_control()) & u8::from(!is_allowed(*b))
    });
    // In UTF-8, the control characters from U+0080 to U+009F begin with the byte C2.
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let others = pairs.fold(0, |found, (a, b)| {
        found | u8::from(*a == 0xc2) & u8::from(*b < 0xa0)
    });
    ascii | others != 0
}

/// Cuts a text to `limit` bytes. Returns `true` if the text was longer.
fn truncate_text(text: &mut String, limit: usize) -> bool {
    let longer = text.len() > limit;
    if longer {
        text.truncate(text.floor_char_boundary(limit));
    }
    longer
}

#[cfg(test)]
mod tests;
