//! The parts of a new email (RFC 8621, section 4.6).

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields;
use crate::Capabilities;
use crate::args::Object;
use crate::blob::{self, is_media_type};
use crate::error::SetError;
use crate::ids::BlobId;
use crate::limits::MAX_ATTACHMENTS;
use crate::mime::words;
use crate::mime::write::{Content, NewPart};

/// The properties of a part that set no header field by their names.
const OTHERS: [&str; 11] = [
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
    "subParts",
];
/// The maximum depth and number of parts.
const MAX_DEPTH: usize = 20;
const MAX_PARTS: usize = 500;

/// The texts of the parts, by id.
pub(super) type Values<'a> = BTreeMap<&'a str, &'a str>;

/// Builds parts, and limits their number and the bytes of their blobs.
pub(super) struct Builder<'a, H> {
    host: &'a H,
    values: Values<'a>,
    parts: usize,
    bytes: usize,
    /// The ids of blobs that do not exist.
    not_found: Vec<String>,
}

impl<'a, H: Capabilities> Builder<'a, H> {
    pub(super) fn new(host: &'a H, values: Values<'a>) -> Self {
        Self {
            host,
            values,
            parts: 0,
            bytes: 0,
            not_found: Vec::new(),
        }
    }

    /// Returns the ids of blobs that do not exist, as an error.
    pub(super) fn check_blobs(self) -> Result<(), SetError> {
        if self.not_found.is_empty() {
            return Ok(());
        }
        Err(SetError::new("blobNotFound").and("notFound", self.not_found.into()))
    }

    /// Builds a part. `property` is the property of the email that contains the part.
    pub(super) fn part(
        &mut self,
        property: &str,
        object: &Object,
        depth: usize,
    ) -> Result<NewPart, SetError> {
        self.parts += 1;
        if depth > MAX_DEPTH || self.parts > MAX_PARTS {
            return Err(SetError::invalid(
                &[property],
                "The email has too many parts",
            ));
        }
        let source = Source { property, object };
        let sub_parts = match object.get("subParts") {
            None | Some(Value::Null) => None,
            Some(Value::Array(parts)) => Some(parts),
            Some(_) => return Err(source.invalid("subParts must be an array")),
        };
        let (part_id, blob_id) = (source.text("partId")?, source.text("blobId")?);
        let default = match (sub_parts, part_id) {
            (Some(_), _) => "multipart/mixed",
            (None, Some(_)) => "text/plain",
            (None, None) => "application/octet-stream",
        };
        let media = source.text("type")?.unwrap_or(default).to_ascii_lowercase();
        if !is_media_type(&media) {
            return Err(source.invalid("type must be a media type"));
        }
        let content = match (sub_parts, part_id, blob_id) {
            (Some(parts), None, None) if media.starts_with("multipart/") => {
                let mut built = Vec::with_capacity(parts.len());
                for part in parts {
                    let part = part.as_object();
                    let part = part.ok_or_else(|| source.invalid("A part is no object"))?;
                    built.push(self.part(property, part, depth + 1)?);
                }
                Content::Multipart(built)
            }
            (None, Some(id), None) if media.starts_with("text/") => {
                let value = self.values.get(id);
                let missing = || SetError::invalid(&["bodyValues"], format!("{id} is missing"));
                Content::Text((*value.ok_or_else(missing)?).to_owned())
            }
            (None, None, Some(id)) if !media.starts_with("multipart/") => {
                self.blob(property, id, &media)?
            }
            _ => {
                let text = "A part must have subParts, or a partId, or a blobId, as its type needs";
                return Err(source.invalid(text));
            }
        };
        let mut content_type = media;
        match (&content, source.text("charset")?) {
            (Content::Text(_), Some(_)) => {
                return Err(source.invalid("charset cannot be set for a part with a partId"));
            }
            (Content::Text(_), None) => content_type.push_str("; charset=utf-8"),
            (_, Some(charset)) => content_type.push_str(&parameter("charset", charset)),
            (_, None) => {}
        }
        let mut described = vec![("Content-Type".to_owned(), content_type)];
        source.describe(&mut described)?;
        Ok(NewPart {
            fields: header(property, object, described)?,
            content,
        })
    }

    fn blob(&mut self, property: &str, id: &str, media: &str) -> Result<Content, SetError> {
        let opened = match BlobId::parse(id) {
            Some(id) => blob::open(self.host, &id),
            None => Err(latchmail_sdk::capability::Error::NotFound),
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(latchmail_sdk::capability::Error::NotFound) => {
                self.not_found.push(id.into());
                return Ok(Content::default());
            }
            Err(error) => return Err(error.into()),
        };
        let bytes = blob::whole(&opened, MAX_ATTACHMENTS - self.bytes)?;
        let bytes = bytes.ok_or_else(|| {
            let text = "The attachments exceed maxSizeAttachmentsPerEmail";
            SetError::with("tooLarge", text).and("properties", property.into())
        })?;
        self.bytes += bytes.len();
        Ok(if media == "message/rfc822" {
            Content::Message(bytes)
        } else {
            Content::Bytes(bytes)
        })
    }
}

/// The properties of a part.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// The property of the email that contains the part.
    property: &'a str,
    object: &'a Object,
}

impl<'a> Source<'a> {
    fn invalid(self, text: &str) -> SetError {
        SetError::invalid(&[self.property], text)
    }

    fn text(self, name: &str) -> Result<Option<&'a str>, SetError> {
        match self.object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.chars().any(char::is_control) => Ok(Some(text)),
            Some(_) => Err(self.invalid(&format!("{name} must be a text"))),
        }
    }

    /// Adds the fields that describe the content, besides its type.
    fn describe(self, fields: &mut Vec<(String, String)>) -> Result<(), SetError> {
        let name = self.text("name")?;
        let disposition = self.text("disposition")?.map(str::to_ascii_lowercase);
        if disposition.is_some() || name.is_some() {
            let mut value = disposition.unwrap_or_else(|| "attachment".into());
            let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            if value.is_empty() || !value.bytes().all(is_word) {
                return Err(self.invalid("disposition must be a word"));
            }
            if let Some(name) = name {
                value.push_str(&parameter("filename", name));
            }
            fields.push(("Content-Disposition".into(), value));
        }
        if let Some(cid) = self.text("cid")? {
            let is_part = |b: u8| b.is_ascii_graphic() && !matches!(b, b'<' | b'>');
            if cid.is_empty() || !cid.bytes().all(is_part) {
                return Err(self.invalid("cid must be the id of a part"));
            }
            fields.push(("Content-ID".into(), format!("<{cid}>")));
        }
        if let Some(location) = self.text("location")? {
            fields.push(("Content-Location".into(), words::encode(location)));
        }
        if let Some(language) = self.object.get("language").filter(|one| !one.is_null()) {
            let wrong = || self.invalid("language must be an array of tags");
            let tags = language.as_array().ok_or_else(wrong)?.iter();
            let tags: Option<Vec<&str>> = tags.map(Value::as_str).collect();
            let tags = tags.ok_or_else(wrong)?;
            let is_tag = |tag: &&str| tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !tags.iter().all(is_tag) {
                return Err(wrong());
            }
            fields.push(("Content-Language".into(), tags.join(", ")));
        }
        Ok(())
    }
}

/// Returns the header of a part: the fields that its properties describe, and those of its
/// properties `header:…`.
fn header(
    property: &str,
    object: &Object,
    described: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, SetError> {
    let mut all = described;
    for (name, value) in object {
        if OTHERS.contains(&name.as_str()) {
            continue;
        }
        let invalid = |text: &str| SetError::invalid(&[property], format!("{name}: {text}"));
        let Some((field, values)) = fields::read(name, value)
            .map_err(|_| invalid("the value is invalid"))?
            .filter(|_| name.starts_with("header:"))
        else {
            return Err(invalid("a part has no such property"));
        };
        let is_same = |(known, _): &(String, String)| known.eq_ignore_ascii_case(&field);
        if all.iter().any(is_same) || field.eq_ignore_ascii_case("Content-Transfer-Encoding") {
            return Err(invalid("the field cannot be set"));
        }
        all.extend(values.into_iter().map(|value| (field.clone(), value)));
    }
    Ok(all)
}

/// Returns a parameter of a field (RFC 2231).
fn parameter(name: &str, value: &str) -> String {
    let is_plain = value.bytes().all(|b| matches!(b, b' '..=b'~')) && !value.contains("=?");
    if is_plain {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        return format!("; {name}=\"{quoted}\"");
    }
    let encode = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    let encoded: String = value.bytes().map(encode).collect();
    format!("; {name}*=utf-8''{encoded}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mime::parameters;

    #[test]
    fn a_file_name_is_read_again() {
        for name in [
            "a.txt",
            "a \"b\"\\.txt",
            "caf\u{e9}; x.txt",
            "=?utf-8?Q?a?=",
        ] {
            let field = format!("attachment{}", parameter("filename", name));
            let parsed = parameters::Value::parse(field.as_bytes());
            assert_eq!(parsed.decoded("filename").as_deref(), Some(name));
        }
    }
}
