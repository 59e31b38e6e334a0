//! The properties of an email that come from the bytes of its message, or of another blob.

use latchmail_sdk::capability::{Blob, Error};
use serde_json::{Value, json};

use super::body::{self, Bodies};
use crate::args::{Args, Object, check_properties, select};
use crate::blob;
use crate::error::MethodError;
use crate::ids::BlobId;
use crate::limits::MAX_BODY_VALUE;
use crate::mime::forms::{HeaderProperty, raw};
use crate::mime::structure::{Message, Parser};

/// The properties that need the complete message.
const BODIES: [&str; 5] = [
    "bodyStructure",
    "bodyValues",
    "textBody",
    "htmlBody",
    "attachments",
];
/// The properties of a part that a response has by default (RFC 8621, section 4.2).
const DEFAULT_PART: [&str; 10] = [
    "partId",
    "blobId",
    "size",
    "name",
    "type",
    "charset",
    "disposition",
    "cid",
    "language",
    "location",
];
/// The maximum length of a preview, in characters.
const PREVIEW: usize = 256;

/// The arguments of `Email/get` and `Email/parse`.
pub(crate) struct Options<'a> {
    properties: &'a [&'a str],
    headers: Vec<(&'a str, HeaderProperty)>,
    part_properties: Vec<&'a str>,
    part_headers: Vec<(&'a str, HeaderProperty)>,
    fetch_text: bool,
    fetch_html: bool,
    fetch_all: bool,
    max_value: usize,
}

impl<'a> Options<'a> {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Returns `invalidArguments` for an unknown property.
    pub(crate) fn read(args: &Args<'a>, properties: &'a [&'a str]) -> Result<Self, MethodError> {
        let part_properties = args.texts("bodyProperties")?;
        let part_properties = part_properties.unwrap_or_else(|| DEFAULT_PART.to_vec());
        let (headers, others) = headers(properties);
        let mut known: Vec<&str> = super::DEFAULT.to_vec();
        known.extend(["bodyStructure", "headers"]);
        check_properties(&others, &known)?;
        let part_headers = part_properties.iter().filter_map(|name| {
            let header = HeaderProperty::parse(name)?;
            Some((*name, header))
        });
        let part_headers: Vec<_> = part_headers.collect();
        let is_header = |name: &&str| part_headers.iter().any(|(known, _)| known == name);
        let others: Vec<&str> = part_properties
            .iter()
            .copied()
            .filter(|name| !is_header(name))
            .collect();
        let mut known = DEFAULT_PART.to_vec();
        known.extend(["headers", "subParts"]);
        check_properties(&others, &known)?;
        let max_value = args.unsigned("maxBodyValueBytes")?.unwrap_or_default();
        let max_value = usize::try_from(max_value).unwrap_or(usize::MAX);
        Ok(Self {
            properties,
            headers,
            part_properties,
            part_headers,
            fetch_text: args.flag("fetchTextBodyValues")?,
            fetch_html: args.flag("fetchHTMLBodyValues")?,
            fetch_all: args.flag("fetchAllBodyValues")?,
            max_value: match max_value {
                0 => MAX_BODY_VALUE,
                max => max.min(MAX_BODY_VALUE),
            },
        })
    }

    /// Returns whether a property needs the message, besides those in `facts` and `summary`.
    pub(crate) fn needs_raw(&self, facts: &[&str], summary: &[&str]) -> bool {
        let mut names = self.properties.iter();
        !names.all(|name| facts.contains(name) || summary.contains(name))
    }

    /// Returns whether a property needs more than the header of the message.
    pub(crate) fn needs_body(&self) -> bool {
        self.properties.iter().any(|name| BODIES.contains(name))
    }

    /// Adds the requested properties of a message. `of` is the id of its blob.
    pub(crate) fn add(
        &self,
        object: &mut Object,
        message: &Message,
        blob: &Blob,
        of: &BlobId,
    ) -> Result<(), MethodError> {
        let Some(root) = message.parts.first() else {
            return Err(Error::Internal.into());
        };
        for (name, header) in &self.headers {
            object.insert((*name).to_owned(), header.of(root));
        }
        if self.properties.contains(&"headers") {
            let field = |field| json!({ "name": field_name(field), "value": raw(field) });
            object.insert("headers".into(), root.fields.iter().map(field).collect());
        }
        if !self.needs_body() {
            return Ok(());
        }
        let bodies = Bodies::of(message);
        let part = |index: &usize| -> Value {
            let part = body::part(message, *index, of, &self.part_headers);
            select(part, &self.part_properties)
        };
        let list = |indexes: &[usize]| -> Value { indexes.iter().map(part).collect() };
        object.insert("textBody".into(), list(&bodies.text));
        object.insert("htmlBody".into(), list(&bodies.html));
        object.insert("attachments".into(), list(&bodies.attachments));
        if self.properties.contains(&"bodyStructure") {
            let mut properties = self.part_properties.clone();
            properties.push("subParts");
            let structure = body::structure(message, 0, of, &self.part_headers, &properties);
            object.insert("bodyStructure".into(), structure);
        }
        if self.properties.contains(&"bodyValues") {
            let values = self.values(message, &bodies, blob)?;
            object.insert("bodyValues".into(), values.into());
        }
        Ok(())
    }

    fn values(
        &self,
        message: &Message,
        bodies: &Bodies,
        blob: &Blob,
    ) -> Result<Object, MethodError> {
        let mut wanted: Vec<usize> = Vec::new();
        if self.fetch_all {
            wanted.extend(0..message.parts.len());
        }
        if self.fetch_text {
            wanted.extend(&bodies.text);
        }
        if self.fetch_html {
            wanted.extend(&bodies.html);
        }
        wanted.sort_unstable();
        wanted.dedup();
        let mut values = Object::new();
        for index in wanted {
            if message.parts[index].media.starts_with("text/")
                && let Some(id) = body::part_id(message, index)
            {
                let value = body::value(&message.parts[index], blob, self.max_value)?;
                values.insert(id, value);
            }
        }
        Ok(values)
    }
}

fn field_name(field: &crate::mime::structure::Field) -> &str {
    &field.name
}

/// Splits properties into those of header fields and the others.
fn headers<'a>(properties: &[&'a str]) -> (Vec<(&'a str, HeaderProperty)>, Vec<&'a str>) {
    let (mut headers, mut others) = (Vec::new(), Vec::new());
    for name in properties {
        let convenience = HeaderProperty::of_convenience(name);
        match convenience.or_else(|| HeaderProperty::parse(name)) {
            Some(header) => headers.push((*name, header)),
            None => others.push(*name),
        }
    }
    (headers, others)
}

/// Parses the message in a blob. Without `all`, parses only its header.
pub(crate) fn load(blob: &Blob, all: bool) -> Result<Message, MethodError> {
    let mut parser = Parser::default();
    if all {
        blob::for_each(blob, |bytes| parser.push(bytes))?;
        return Ok(parser.finish());
    }
    let mut at = 0;
    while at < blob.size() && !parser.is_past_header() {
        // Most headers are shorter than this.
        let bytes = blob.read(at, 16 * 1024)?;
        if bytes.is_empty() {
            return Err(Error::Internal.into());
        }
        at += bytes.len() as u64;
        parser.push(&bytes);
    }
    Ok(parser.finish())
}

/// Returns whether a message that is not in the mailbox has an attachment, as the host decides for
/// stored messages: every part that is not shown as text or HTML.
pub(super) fn has_attachment(message: &Message) -> bool {
    let bodies = Bodies::of(message);
    let mut leaves = message.parts.iter().enumerate();
    leaves.any(|(index, part)| {
        let is_body = bodies.text.contains(&index) || bodies.html.contains(&index);
        !part.is_multipart() && !(is_body && part.media.starts_with("text/"))
    })
}

/// Returns the preview of a message that is not in the mailbox.
pub(super) fn preview(message: &Message, blob: &Blob) -> Result<String, MethodError> {
    let bodies = Bodies::of(message);
    let mut texts = bodies.text.iter().map(|index| &message.parts[*index]);
    let Some(part) = texts.find(|part| part.media == "text/plain") else {
        return Ok(String::new());
    };
    let value = body::value(part, blob, 4 * PREVIEW)?;
    let text = value["value"].as_str().unwrap_or_default();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(words.chars().take(PREVIEW).collect())
}

/// Returns the addresses in To, Cc and Bcc, and the address in From, in lower case.
pub(crate) fn recipients(message: &Message) -> (Option<String>, Vec<String>) {
    use crate::mime::address::{flat, parse};
    let Some(root) = message.parts.first() else {
        return (None, Vec::new());
    };
    let addresses = |name: &str| {
        let field = root.field(name);
        let addresses = field
            .map(|field| flat(parse(&field.raw)))
            .unwrap_or_default();
        addresses.into_iter().map(|one| one.email)
    };
    let from = addresses("From").next().map(|from| from.to_lowercase());
    let mut all = Vec::new();
    for address in ["To", "Cc", "Bcc"].into_iter().flat_map(addresses) {
        if !address.is_empty() && !all.contains(&address) {
            all.push(address);
        }
    }
    (from, all)
}
