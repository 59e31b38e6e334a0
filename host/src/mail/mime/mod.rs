//! Messages as bytes (RFC 5322, RFC 2045 to 2049), read within bounds.
//!
//! The structure is walked here, iteratively over slices and never deeper than [`bounds::DEPTH`]: `mail-parser` has no bounds of
//! its own, and dropping a message that it nested a hundred thousand times overflows the stack. Header fields and character sets
//! are `mail-parser`'s. A message inside a message is one attachment and is not looked into.

mod date;
mod filename;
mod header;
mod html;
mod structure;
mod transfer;
mod words;

use bytes::Bytes;

use super::bounds;
use super::types::{Attachment, AttachmentContent};
pub(super) use header::Header;
pub(super) use html::to_text as html_to_text;
use structure::{Leaf, Structure};

/// A message's content.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The chosen plain text.
    pub(super) text: Option<String>,
    /// The chosen HTML.
    pub(super) html: Option<String>,
    /// Every other part.
    pub(super) attachments: Vec<Attachment>,
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

/// Reads a whole message; `complete` says whether its end is there.
pub(super) fn content(message: &[u8], complete: bool) -> Content {
    let structure = Structure::of_message(message, complete);
    let mut content = Content {
        truncated: structure.truncated || !complete,
        ..Content::default()
    };
    let body = |place: Option<usize>, truncated: &mut bool| {
        place.map(|place| {
            let (text, cut) = text(&structure.leaves[place], bounds::BODY);
            let (text, too_long) = printable(text, bounds::BODY);
            *truncated |= cut || too_long;
            text
        })
    };
    content.text = body(structure.text, &mut content.truncated);
    content.html = body(structure.html, &mut content.truncated);
    content.attachments = structure
        .attachments()
        .zip(0..)
        .map(|(leaf, index)| {
            described(
                leaf,
                index,
                transfer::decoded_length(leaf.body, leaf.part.encoding),
            )
        })
        .collect();
    content
}

/// One attachment of a message, with its bytes.
pub(super) fn attachment(message: &[u8], complete: bool, index: u32) -> Option<AttachmentContent> {
    let structure = Structure::of_message(message, complete);
    let leaf = structure.attachments().nth(usize::try_from(index).ok()?)?;
    let content = Bytes::from(transfer::decoded(leaf.body, leaf.part.encoding));
    Some(AttachmentContent {
        attachment: described(leaf, index, content.len()),
        content,
    })
}

/// The chosen text of a message of which only the beginning of what follows its header is there: the plain text where there is
/// one, else the HTML. The second value says whether it reaches to its end.
pub(super) fn beginning(header: &[u8], body: &[u8], complete: bool) -> Option<(Beginning, bool)> {
    let structure = Structure::of_parts(header, body, complete);
    let place = structure.text.or(structure.html)?;
    let leaf = &structure.leaves[place];
    let (mut text, cut) = text(leaf, bounds::BODY);
    let whole = leaf.complete && !cut;
    if !whole {
        // The last character may have been cut in two.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
    }
    let text = if structure.text.is_some() {
        Beginning::Text(text)
    } else {
        Beginning::Html(text)
    };
    Some((text, whole))
}

fn described(leaf: &Leaf<'_>, index: u32, size: usize) -> Attachment {
    Attachment {
        index,
        filename: filename::of(leaf.part.filename.as_deref(), &leaf.part.media, index),
        content_type: leaf.part.media.clone(),
        size: size as u64,
    }
}

/// A part's text, decoded, at most `limit` bytes of it; whether anything was cut.
fn text(leaf: &Leaf<'_>, limit: usize) -> (String, bool) {
    // No encoding takes more than three bytes for one, line breaks aside.
    let encoded = leaf.body.get(..limit * 4).unwrap_or(leaf.body);
    let mut cut = encoded.len() < leaf.body.len();
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
