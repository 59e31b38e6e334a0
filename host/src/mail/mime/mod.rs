//! Messages as bytes (RFC 5322, RFC 2045 to 2049), read within bounds.
//!
//! The structure is found here, line by line as the bytes come and never deeper than [`bounds::DEPTH`]: `mail-parser` needs the whole
//! message, has no bounds of its own, and dropping a message that it nested a hundred thousand times overflows the stack. Header
//! fields and character sets are `mail-parser`'s. A message inside a message is one attachment and is not looked into.

mod date;
mod filename;
mod header;
mod html;
mod structure;
mod transfer;
mod words;

use std::ops::Range;

use super::bounds;
use super::types::Attachment;
pub(super) use header::Header;
pub(super) use html::to_text as html_to_text;
use structure::Leaf;
pub(super) use structure::{Structure, Walker};
pub(super) use transfer::{Decoder, Encoding};

/// A message's content.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The chosen plain text.
    pub(super) text: Option<String>,
    /// The chosen HTML.
    pub(super) html: Option<String>,
    /// Whether anything was left out.
    pub(super) truncated: bool,
}

/// The beginning of a message's text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Plain text.
    Text(String),
    /// HTML.
    Html(String),
}

/// Splits a message into its header and what follows it.
pub(super) fn split(message: &[u8]) -> (&[u8], &[u8]) {
    structure::split_header(message)
}

/// Where in a message an attachment is, and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// As it is encoded.
    pub(super) range: Range<usize>,
    pub(super) encoding: Encoding,
    pub(super) attachment: Attachment,
    /// Whether its end is there.
    pub(super) complete: bool,
}

/// Where the chosen text and the chosen HTML of a message are: as much of them as is read.
pub(super) fn texts(structure: &Structure) -> [Option<Range<usize>>; 2] {
    [structure.text(), structure.html()].map(|leaf| {
        let range = &leaf?.range;
        Some(range.start..range.end.min(range.start + ENCODED_BODY))
    })
}

/// A message's content; `texts` are the bytes that [`texts`] asked for.
pub(super) fn content(structure: &Structure, texts: [Option<&[u8]>; 2]) -> Content {
    let mut truncated = structure.truncated;
    let leaves = [structure.text(), structure.html()];
    let mut texts = leaves.into_iter().zip(texts).map(|(leaf, bytes)| {
        let (text, cut) = text(leaf?, bytes?, bounds::BODY);
        let (text, too_long) = printable(text, bounds::BODY);
        truncated |= cut || too_long;
        Some(text)
    });
    let (text, html) = (texts.next().flatten(), texts.next().flatten());
    drop(texts);
    Content {
        text,
        html,
        truncated,
    }
}

/// The attachments of a message, in the order of their indexes.
pub(super) fn sections(structure: &Structure) -> impl Iterator<Item = Section> {
    structure
        .attachments()
        .zip(0..)
        .map(|(leaf, index)| Section {
            range: leaf.range.clone(),
            encoding: leaf.part.encoding,
            attachment: Attachment {
                index,
                filename: filename::of(leaf.part.filename.as_deref(), &leaf.part.media, index),
                content_type: leaf.part.media.clone(),
                size: leaf.size as u64,
            },
            complete: leaf.complete,
        })
}

/// The chosen text of a message of which only the beginning of what follows its header is there: the plain text where there is
/// one that says something, else the HTML. The second value says whether it reaches to its end.
pub(super) fn beginning(header: &[u8], body: &[u8], complete: bool) -> Option<(Beginning, bool)> {
    let mut walker = Walker::behind(header);
    walker.push(body);
    let structure = walker.finish(complete);
    let read = |leaf: &Leaf| {
        let bytes = &body[leaf.range.start..leaf.range.end.min(leaf.range.start + ENCODED_BODY)];
        let (mut text, cut) = text(leaf, bytes, bounds::BODY);
        let whole = leaf.complete && !cut;
        if !whole {
            // The last character may have been cut in two.
            text.truncate(text.trim_end_matches('\u{fffd}').len());
        }
        (text, whole)
    };
    let html = || {
        let (html, whole) = structure.html().map(read)?;
        Some((Beginning::Html(html), whole))
    };
    let Some((text, whole)) = structure.text().map(read) else {
        return html();
    };
    let blank = whole && text.chars().all(|c| c.is_whitespace() || c == '\u{feff}');
    blank
        .then(html)
        .flatten()
        .or(Some((Beginning::Text(text), whole)))
}

/// How much of a text is read as it is encoded: no encoding takes more than three bytes for one, line breaks aside.
const ENCODED_BODY: usize = bounds::BODY * 4;

/// A part's text, decoded, at most `limit` bytes of it; whether anything was cut. `encoded` is its beginning.
fn text(leaf: &Leaf, encoded: &[u8], limit: usize) -> (String, bool) {
    let mut cut = encoded.len() < leaf.range.len();
    let bytes = transfer::decoded(encoded, leaf.part.encoding);
    let mut text = words::text(bytes, leaf.part.charset.as_deref(), cut || !leaf.complete);
    cut |= shortened(&mut text, limit);
    (text, cut)
}

/// A text without what is no text: of the control characters only tabs and line breaks are, and the others cost six bytes each in JSON and
/// may command a terminal. At most `limit` bytes of it; whether anything was cut.
fn printable(mut text: String, limit: usize) -> (String, bool) {
    let fit = |c: char| !c.is_control() || matches!(c, '\t' | '\r' | '\n');
    if !text.chars().all(fit) {
        text = text
            .chars()
            .map(|c| match c {
                c if fit(c) => c,
                // The form feed, for one, between the pages of a text.
                c if c.is_whitespace() => '\n',
                _ => char::REPLACEMENT_CHARACTER,
            })
            .collect();
    }
    let cut = shortened(&mut text, limit);
    (text, cut)
}

/// Cuts a text to `limit` bytes; whether it was longer.
fn shortened(text: &mut String, limit: usize) -> bool {
    let longer = text.len() > limit;
    if longer {
        text.truncate(text.floor_char_boundary(limit));
    }
    longer
}

#[cfg(test)]
mod tests;
