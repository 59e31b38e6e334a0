//! Checks properties of the results for any message and any header. The fuzz targets and tests use
//! this module.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::charset::Charset;
use crate::preview::Preview;
use crate::{Address, Decoder, Header, StructureParser, bounds};

/// The decoded content of a message.
#[derive(Debug)]
pub struct Found {
    /// The To field.
    pub to: Vec<Address>,
    /// The decoded subject.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// The name, the media type and the bytes of each attachment.
    pub files: Vec<(String, String, Vec<u8>)>,
}

/// Parses a message with every function and checks the limits of the results. `complete` is `true`
/// if `bytes` is the complete message.
///
/// # Panics
/// Panics if a result exceeds a limit, or if the results of two functions contradict each other.
pub fn message(bytes: &[u8], complete: bool) {
    let (head, body) = crate::split(bytes);
    header(head);
    name(&String::from_utf8_lossy(head));
    label(&String::from_utf8_lossy(body), head);
    drop(read(bytes, complete));
    drop(crate::DeliveryStatus::parse(bytes));
    // A listing reads only the beginning of a message. The preview in the listing must be the same
    // as the preview of the complete message.
    let whole = Preview::of_body(head, body, complete);
    assert!(whole.text.chars().count() <= bounds::PREVIEW);
    let begun = body.get(..bounds::PREFIX).unwrap_or(body);
    let first = Preview::of(head, begun, complete && begun.len() == body.len());
    if first.is_final {
        assert_eq!(first, whole);
    }
    let mut parser = StructureParser::default();
    parser.push(bytes);
    let structure = parser.finish(complete);
    assert_eq!(Preview::of_message(&structure, bytes, complete), whole);
}

/// Checks that a display name does not become part of the address.
///
/// # Panics
/// Panics if the address of the mailbox is wrong.
fn name(name: &str) {
    let characters = name
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '"' | '\\'));
    let name: String = characters.take(64).collect();
    let word = BASE64_STANDARD.encode(&name);
    for name in [format!("\"{name}\""), format!("=?utf-8?B?{word}?=")] {
        let field = format!("From: {name} <ada@example.org>\r\n");
        let from = Header::of(field.as_bytes(), bounds::FIELD).from;
        let addresses: Vec<_> = from.iter().map(|one| one.address.as_str()).collect();
        assert_eq!(addresses, ["ada@example.org"], "{name:?}");
    }
}

/// Checks that ASCII text contains no replacement character after decoding, for any label.
///
/// # Panics
/// Panics if the decoded text contains a replacement character.
fn label(label: &str, text: &[u8]) {
    let label: String = label.chars().take(64).collect();
    // In UTF-7, a plus sign can begin an encoded replacement character.
    let is_text =
        |byte: &u8| (byte.is_ascii_graphic() || byte.is_ascii_whitespace()) && *byte != b'+';
    let text: Vec<u8> = text.iter().copied().filter(is_text).take(4096).collect();
    let decoded = Charset::named(Some(&label)).decode(text, false);
    assert!(
        !decoded.contains(char::REPLACEMENT_CHARACTER),
        "{label}: {decoded:?}"
    );
}

/// Decodes a header and checks that each field is on one line and within its limit.
///
/// # Panics
/// Panics if a field has a line break or exceeds its limit.
pub fn header(head: &[u8]) {
    let fields = Header::of(head, bounds::FIELD);
    let ids = [&fields.message_id].into_iter();
    let ids = ids.chain(&fields.in_reply_to).chain(&fields.references);
    let people = [&fields.from, &fields.to, &fields.cc, &fields.reply_to];
    let names = people
        .into_iter()
        .flatten()
        .flat_map(|one| [&one.name, &one.address]);
    for text in ids.chain(names).chain([&fields.subject]) {
        assert!(text.len() <= bounds::FIELD, "{} bytes", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    let entries = people.iter().map(|people| people.len());
    for count in entries.chain([fields.references.len()]) {
        assert!(count <= bounds::FIELD / bounds::ENTRY, "{count} entries");
    }
}

/// Parses a message in one piece and in several pieces, and checks the limits of the results.
///
/// # Panics
/// Panics if a result exceeds a limit, or if the results depend on the sizes of the pieces.
#[must_use]
pub fn read(bytes: &[u8], complete: bool) -> Found {
    let walked = |size: usize| {
        let mut walker = StructureParser::default();
        bytes.chunks(size).for_each(|piece| walker.push(piece));
        walker.finish(complete)
    };
    let structure = walked(bytes.len().max(1));
    let sections: Vec<_> = crate::sections(&structure).collect();
    let ranges = crate::texts(&structure);
    // The size of the pieces is a prime number. Therefore pieces end at different positions in
    // lines.
    let cut = walked(61);
    assert_eq!(sections, crate::sections(&cut).collect::<Vec<_>>());
    assert_eq!(ranges, crate::texts(&cut));

    assert!(sections.len() <= bounds::PARTS);
    let mut files = Vec::new();
    for (section, index) in sections.into_iter().zip(0..) {
        let file = section.attachment;
        assert_eq!(file.index, index);
        let length = file.filename.chars().count();
        assert!((1..=bounds::FILENAME).contains(&length), "{file:?}");
        let unfit = |c: char| matches!(c, '/' | '\\') || c.is_control();
        assert!(!file.filename.contains(unfit), "{file:?}");
        let content = Decoder::new(section.encoding).decode(&bytes[section.range], true);
        assert_eq!(content.len() as u64, file.size, "{file:?}");
        files.push((file.filename, file.content_type, content));
    }
    let texts = ranges.map(|ranges| {
        let texts = ranges.into_iter().map(|range| &bytes[range]);
        texts.collect::<Vec<_>>()
    });
    let content = crate::content(&structure, &texts);
    assert!(complete || content.truncated);
    for text in [&content.text, &content.html].into_iter().flatten() {
        assert!(text.len() <= bounds::BODY);
    }
    for (text, html) in [(&content.text, &None), (&None, &content.html)] {
        let new = crate::new_text(text.as_deref(), html.as_deref());
        assert_eq!(new.is_some(), text.is_some() || html.is_some());
        assert!(new.is_none_or(|new| new.len() <= 2 * bounds::BODY));
    }
    let (head, _) = crate::split(bytes);
    let Header { to, subject, .. } = Header::of(head, bounds::FIELD);
    Found {
        to,
        subject,
        text: content.text,
        html: content.html,
        files,
    }
}
