//! The parts of an email (RFC 8621, section 4.1.4).

use latchmail_sdk::capability::Blob;
use serde_json::{Value, json};

use crate::args::{Object, select};
use crate::blob::{self, MAX_ENCODED};
use crate::error::MethodError;
use crate::ids::{BlobId, PartId};
use crate::mime::forms::{HeaderProperty, raw};
use crate::mime::structure::{Message, Part};
use crate::mime::text;

/// The maximum number of parts in one list.
const MAX_PARTS: usize = 1_000;

/// The indexes of the parts that are shown as text or HTML, and of the attachments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bodies {
    pub(super) text: Vec<usize>,
    pub(super) html: Vec<usize>,
    pub(super) attachments: Vec<usize>,
}

impl Bodies {
    /// Decides which parts are shown, as the algorithm of the standard does.
    pub(super) fn of(message: &Message) -> Self {
        let mut bodies = Self::default();
        bodies.add(message, &[0], ("mixed", false), (true, true));
        bodies
    }

    /// Adds the parts of a multipart. `is_in_alternative` states whether the multipart is in a
    /// `multipart/alternative`. The last values state whether the parts can be text and HTML.
    fn add(
        &mut self,
        message: &Message,
        parts: &[usize],
        (multipart, is_in_alternative): (&str, bool),
        (mut is_text, mut is_html): (bool, bool),
    ) {
        let (texts, htmls) = (self.text.len(), self.html.len());
        for (position, index) in parts.iter().enumerate() {
            let part = &message.parts[*index];
            if part.is_multipart() {
                let subtype = part.media.split('/').nth(1).unwrap_or_default();
                let is_alternative = is_in_alternative || subtype == "alternative";
                self.add(
                    message,
                    &part.children,
                    (subtype, is_alternative),
                    (is_text, is_html),
                );
                continue;
            }
            if !is_shown(part, position == 0, multipart) {
                self.attachments.push(*index);
                continue;
            }
            if multipart == "alternative" {
                match part.media.as_str() {
                    "text/plain" if is_text => self.text.push(*index),
                    "text/html" if is_html => self.html.push(*index),
                    "text/plain" | "text/html" => {}
                    _ => self.attachments.push(*index),
                }
                continue;
            }
            if is_in_alternative {
                is_html &= part.media != "text/plain";
                is_text &= part.media != "text/html";
            }
            if is_text {
                self.text.push(*index);
            }
            if is_html {
                self.html.push(*index);
            }
            if !(is_text && is_html) && is_medium(&part.media) {
                self.attachments.push(*index);
            }
        }
        if multipart == "alternative" && is_text && is_html {
            let has_text = self.text.len() > texts;
            let has_html = self.html.len() > htmls;
            if has_html && !has_text {
                self.text.extend_from_slice(&self.html[htmls..]);
            }
            if has_text && !has_html {
                self.html.extend_from_slice(&self.text[texts..]);
            }
        }
        for list in [&mut self.text, &mut self.html, &mut self.attachments] {
            list.truncate(MAX_PARTS);
        }
    }
}

fn is_medium(media: &str) -> bool {
    ["image/", "audio/", "video/"]
        .iter()
        .any(|kind| media.starts_with(kind))
}

/// Returns whether a part is shown with the text.
fn is_shown(part: &Part, is_first: bool, multipart: &str) -> bool {
    let is_text = matches!(part.media.as_str(), "text/plain" | "text/html");
    part.disposition() != Some("attachment")
        && (is_text || is_medium(&part.media))
        && (is_first
            || (multipart != "related" && (is_medium(&part.media) || part.name().is_none())))
}

/// Returns the id of a part: its number among the parts that are no multiparts. Returns `None` for
/// a multipart.
pub(super) fn part_id(message: &Message, index: usize) -> Option<String> {
    let is_leaf = |part: &&Part| !part.is_multipart();
    message.parts.get(index).filter(is_leaf)?;
    let before = message.parts[..=index].iter().filter(is_leaf);
    Some(before.count().to_string())
}

/// Returns the properties of a part.
pub(super) fn part(
    message: &Message,
    index: usize,
    of: &BlobId,
    headers: &[(&str, HeaderProperty)],
) -> Object {
    let part = &message.parts[index];
    let id = part_id(message, index);
    let blob = id.is_some().then(|| {
        let body = &part.body;
        let id = BlobId::Part(Box::new(PartId {
            offset: body.start,
            length: body.end - body.start,
            encoding: part.encoding,
            of: of.clone(),
        }));
        id.to_string()
    });
    let fields = part.fields.iter();
    let fields = fields.map(|field| json!({ "name": field.name, "value": raw(field) }));
    let values = [
        ("partId", json!(id)),
        ("blobId", json!(blob)),
        ("size", part.size.into()),
        ("headers", fields.collect()),
        ("name", json!(part.name())),
        ("type", part.media.as_str().into()),
        ("charset", json!(part.charset())),
        ("disposition", json!(part.disposition())),
        ("cid", json!(part.cid())),
        ("language", json!(part.language())),
        ("location", json!(part.location())),
    ];
    let values = values
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let headers = headers.iter();
    let headers = headers.map(|(name, header)| ((*name).to_owned(), header.of(part)));
    values.chain(headers).collect()
}

/// Returns a part with its subparts.
pub(super) fn structure(
    message: &Message,
    index: usize,
    of: &BlobId,
    headers: &[(&str, HeaderProperty)],
    properties: &[&str],
) -> Value {
    let mut object = part(message, index, of, headers);
    if message.parts[index].is_multipart() {
        let children = message.parts[index].children.iter();
        let children = children.map(|child| structure(message, *child, of, headers, properties));
        object.insert("subParts".into(), children.collect());
    }
    select(object, properties)
}

/// Returns the value of a text, cut to `max` bytes.
pub(super) fn value(part: &Part, blob: &Blob, max: usize) -> Result<Value, MethodError> {
    let encoded = blob.slice(part.body.start, part.body.end - part.body.start);
    let is_long = encoded.size() > MAX_ENCODED as u64;
    let bytes = blob::beginning(&encoded, MAX_ENCODED)?;
    let bytes = text::transfer(&bytes, part.encoding);
    let (text, has_problem) = text::charset(&bytes, part.charset());
    let mut text = text.replace("\r\n", "\n").replace('\0', "");
    let is_cut = text.len() > max;
    if is_cut {
        text.truncate(text.floor_char_boundary(max));
        // A tag is not cut.
        if part.media == "text/html"
            && let Some(open) = text.rfind('<')
            && !text[open..].contains('>')
        {
            text.truncate(open);
        }
    }
    Ok(json!({
        "value": text,
        "isEncodingProblem": has_problem,
        "isTruncated": is_cut || is_long,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mime::structure::Parser;

    /// Returns a multipart with these parts.
    fn multipart(kind: &str, parts: &[String]) -> String {
        let mut text = format!("Content-Type: multipart/{kind}; boundary={kind}\r\n\r\n");
        for part in parts {
            text.push_str(&format!("--{kind}\r\n{part}\r\n"));
        }
        text + &format!("--{kind}--\r\n")
    }

    fn leaf(media: &str) -> String {
        format!("Content-Type: {media}\r\n\r\nx")
    }

    fn bodies(message: &str) -> (Vec<String>, Vec<String>, Vec<String>) {
        let mut parser = Parser::default();
        parser.push(message.as_bytes());
        let message = parser.finish();
        let bodies = Bodies::of(&message);
        let ids = |list: &[usize]| -> Vec<String> {
            list.iter()
                .filter_map(|index| part_id(&message, *index))
                .collect()
        };
        (
            ids(&bodies.text),
            ids(&bodies.html),
            ids(&bodies.attachments),
        )
    }

    #[test]
    fn the_example_of_the_standard_has_its_bodies() {
        let attached = "Content-Type: text/html; charset=us-ascii\r\n\
            Content-Disposition: attachment\r\n\r\nx";
        let related = multipart("related", &[leaf("text/html"), leaf("image/jpeg")]);
        let inner = multipart(
            "mixed",
            &[
                leaf("text/plain"),
                leaf("image/jpeg"),
                leaf("text/plain"),
                leaf("image/jpeg"),
                leaf("text/plain"),
            ],
        )
        .replace("=mixed", "=inner")
        .replace("--mixed", "--inner");
        let alternative = multipart("alternative", &[inner, related]);
        let parts = [
            leaf("text/plain"),
            alternative,
            leaf("image/jpeg"),
            leaf("application/x-excel"),
            leaf("message/rfc822"),
            attached.to_owned(),
            leaf("text/plain"),
        ];
        let (text, html, attachments) = bodies(&multipart("mixed", &parts));
        assert_eq!(text, ["1", "2", "3", "4", "5", "6", "9", "13"]);
        assert_eq!(html, ["1", "7", "9", "13"]);
        assert_eq!(attachments, ["3", "5", "8", "10", "11", "12"]);
    }

    #[test]
    fn an_alternative_without_one_of_the_texts_is_shown_in_both() {
        let only_html = multipart("alternative", &[leaf("text/html")]);
        assert_eq!(bodies(&only_html).0, ["1"]);
        let single = leaf("text/plain");
        let one = || vec!["1".to_owned()];
        assert_eq!(bodies(&single), (one(), one(), Vec::new()));
        let pdf = leaf("application/pdf");
        assert_eq!(bodies(&pdf), (Vec::new(), Vec::new(), one()));
    }
}
