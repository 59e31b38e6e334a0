//! Validates drafts and writes drafts as messages with mail-builder (RFC 5322, RFC 2045). Client
//! input never adds a header field. Only the envelope contains Bcc recipients. This module does not
//! send messages.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address as HeaderAddress;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::{BodyPart, MimePart};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::envelope::{Envelope, EnvelopeAddress, Sender};
use super::result::Error;

/// Maximum size of the finished message, in bytes.
pub(super) const MAX_MESSAGE: usize = 26_214_400;

/// Maximum numbers of recipients, files and references of one message. A sandboxed module can have
/// lower limits.
const MAX_RECIPIENTS: usize = 500;
const MAX_FILES: usize = 500;
const MAX_REFERENCES: usize = 1000;

/// An attached file.
#[derive(Clone, Debug)]
pub struct File {
    /// The file name.
    pub filename: String,
    /// The media type, without parameters.
    pub content_type: String,
    /// The content.
    pub content: Bytes,
}

/// A recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    name: String,
    address: EnvelopeAddress,
}

impl Recipient {
    /// Creates a recipient. The display name can be empty.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name or the address is invalid.
    pub fn new(name: String, address: &str) -> Result<Self, Error> {
        if name.chars().any(char::is_control) {
            return Err(invalid("recipient name"));
        }
        let address =
            EnvelopeAddress::parse(address).ok_or_else(|| invalid("recipient address"))?;
        Ok(Self { name, address })
    }
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The sender.
    pub from: Sender,
    /// The recipients in To.
    pub to: Vec<Recipient>,
    /// The recipients in Cc.
    pub cc: Vec<Recipient>,
    /// The Bcc recipients. The header of the message does not contain them.
    pub bcc: Vec<Recipient>,
    /// The subject, on one line.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// The Message-ID of the message to which this message replies, with angle brackets.
    pub in_reply_to: Option<String>,
    /// The Message-IDs for the References field, with angle brackets.
    pub references: Vec<String>,
    /// The attached files.
    pub files: Vec<File>,
}

impl Draft {
    /// Checks all values, and returns the envelope of the message. Each recipient is in the
    /// envelope once.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if a value is invalid. The error text describes the value.
    pub(super) fn envelope(&self) -> Result<Envelope, Error> {
        let mut to = Vec::new();
        for recipient in self.to.iter().chain(&self.cc).chain(&self.bcc) {
            if !to.contains(&recipient.address) {
                to.push(recipient.address.clone());
            }
        }
        let count = self.to.len() + self.cc.len() + self.bcc.len();
        if count == 0 || count > MAX_RECIPIENTS || self.files.len() > MAX_FILES {
            return Err(invalid("number of recipients or files"));
        }
        if self.subject.chars().any(|c| c.is_control() && c != '\t') {
            return Err(invalid("subject"));
        }
        let mut ids = self.in_reply_to.iter().chain(&self.references);
        if self.references.len() > MAX_REFERENCES || !ids.all(|id| is_message_id(id)) {
            return Err(invalid("Message-ID"));
        }
        for file in &self.files {
            if file.filename.chars().any(char::is_control) {
                return Err(invalid("file name"));
            }
            if !is_media_type(&file.content_type) {
                return Err(invalid("media type of a file"));
            }
        }
        let from = self.from.address.clone();
        Ok(Envelope { from, to })
    }

    /// Returns a lower bound for the size of the finished message without its headers, in bytes.
    pub(super) fn min_size(&self) -> usize {
        let files = self.files.iter().map(|file| file.content.len());
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        // An attached message might not be encoded in base64. Use the unencoded sizes for the lower
        // bound.
        let encoded = |bytes: usize| bytes / 3 * 4;
        let has_message = self.files.iter().any(is_message);
        let files: usize = if has_message {
            files.sum()
        } else {
            files.map(encoded).sum()
        };
        files + length(&self.text) + length(&self.html)
    }

    /// Returns the finished message. Every line ends with CRLF.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the message exceeds 25 MB.
    pub(super) fn write(&self, message_id: &str, date: Timestamp) -> Result<Bytes, Error> {
        if self.min_size() > MAX_MESSAGE {
            return Err(Error::TooLarge);
        }
        let mut message = MessageBuilder::new()
            .date(Date::new(date.seconds()))
            .from(HeaderAddress::from(self.from.address.to_string()))
            .header("To", address_list(&self.to));
        if !self.cc.is_empty() {
            message = message.header("Cc", address_list(&self.cc));
        }
        message = message
            .header("Subject", subject(&self.subject))
            .message_id(without_brackets(message_id));
        if let Some(id) = &self.in_reply_to {
            message = message.in_reply_to(without_brackets(id));
        }
        if !self.references.is_empty() {
            let ids = self.references.iter().map(|id| without_brackets(id));
            message = message.references(MessageId::new_list(ids));
        }
        if let Some(text) = &self.text {
            message.text_body = Some(text_part("text/plain", text));
        }
        if let Some(html) = &self.html {
            message.html_body = Some(text_part("text/html", html));
        }
        if self.files.iter().any(is_8bit) {
            // A multipart has the encoding of its parts (RFC 2045, section 6.4). The files are
            // directly in the outermost multipart.
            message = message.header("Content-Transfer-Encoding", Raw::new("8bit"));
        }
        if !self.files.is_empty() {
            message.attachments = Some(self.files.iter().map(file_part).collect());
        }
        let mut bytes = message
            .write_to_vec()
            .map_err(|error| Error::Internal(error.to_string()))?;
        if !bytes.ends_with(b"\r\n") {
            bytes.extend_from_slice(b"\r\n");
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(Error::TooLarge);
        }
        Ok(bytes.into())
    }

    /// Returns a hash of the client's input. The hash detects that an idempotency key is used for
    /// another message.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        let mut add = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        add(self.from.address.as_str().as_bytes());
        for list in [&self.to, &self.cc, &self.bcc] {
            add(&list.len().to_be_bytes());
            for recipient in list {
                add(recipient.name.as_bytes());
                add(recipient.address.as_str().as_bytes());
            }
        }
        add(self.subject.as_bytes());
        for text in [&self.text, &self.html, &self.in_reply_to] {
            add(&[u8::from(text.is_some())]);
            add(text.as_deref().unwrap_or_default().as_bytes());
        }
        add(&self.references.len().to_be_bytes());
        for id in &self.references {
            add(id.as_bytes());
        }
        for file in &self.files {
            add(file.filename.as_bytes());
            add(file.content_type.as_bytes());
            add(&file.content);
        }
        digest.finalize().into()
    }
}

fn invalid(what: &str) -> Error {
    Error::Invalid(Problem::new(
        codes::INVALID_DRAFT,
        format!("Invalid {what}"),
    ))
}

/// Returns the value of a To or Cc field. Encodes all names of the field if a name contains text
/// like an encoded word (RFC 2047). mail-builder would write an ASCII name unchanged in quotes, and
/// many receivers decode encoded words even in quotes.
fn address_list(recipients: &[Recipient]) -> HeaderType<'_> {
    if recipients.iter().any(|one| one.name.contains("=?")) {
        let field: Vec<String> = recipients
            .iter()
            .map(|Recipient { name, address }| match encoded_words(name) {
                name if name.is_empty() => format!("<{address}>"),
                name => format!("{name} <{address}>"),
            })
            .collect();
        return HeaderType::Raw(Raw::new(field.join(", ")));
    }
    let with_name = |one: &Recipient| {
        let name = Some(one.name.clone()).filter(|name| !name.is_empty());
        HeaderAddress::new_address(name, one.address.to_string())
    };
    let list = recipients.iter().map(with_name).collect();
    HeaderType::Address(HeaderAddress::new_list(list))
}

/// Returns the value of the Subject field. Encodes the complete subject if an ASCII subject
/// contains text like an encoded word (RFC 2047). mail-builder would write the text unchanged, and
/// receivers would decode the text.
fn subject(text: &str) -> HeaderType<'_> {
    if !text.is_ascii() || !text.contains("=?") {
        return HeaderType::Text(text.into());
    }
    HeaderType::Raw(Raw::new(encoded_words(text)))
}

/// Encodes the complete text as encoded words of at most 75 characters (RFC 2047, section 2).
fn encoded_words(text: &str) -> String {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, remaining) = rest.split_at(rest.floor_char_boundary(42));
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(chunk)));
        rest = remaining;
    }
    words.join(" ")
}

/// Returns the plain text or the HTML of a message as a MIME part. Encodes a text with control
/// characters in base64, because mail-builder would write control characters unencoded. RFC 5322,
/// sections 2.3 and 4, forbids NUL and a carriage return without a line feed. Mail servers change
/// other control characters.
fn text_part<'t>(media_type: &'static str, text: &'t str) -> MimePart<'t> {
    let plain = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n');
    if text.split("\r\n").all(|line| line.bytes().all(plain)) {
        return MimePart::new(media_type, text);
    }
    // mail-builder encodes binary contents in base64, except for text types.
    let content_type = Raw::new(format!("{media_type}; charset=\"utf-8\""));
    MimePart {
        headers: vec![(Cow::Borrowed("Content-Type"), HeaderType::Raw(content_type))],
        contents: BodyPart::Binary(Cow::Borrowed(text.as_bytes())),
    }
}

/// Returns a file as a MIME part with its media type. Encodes the content in base64.
///
/// An attached message must not be encoded in base64 (RFC 2046, section 5.2.1). Such a message is
/// written unencoded if mail servers do not change its lines. Otherwise the message is encoded in
/// base64 with the type `application/octet-stream`. A file with a multipart type also gets this
/// type.
fn file_part(file: &File) -> MimePart<'_> {
    let is_unencoded = is_unencoded(file);
    let content_type =
        if (is_message(file) && !is_unencoded) || file.content_type.starts_with("multipart/") {
            "application/octet-stream"
        } else {
            &file.content_type
        };
    let header = |name, value| (Cow::Borrowed(name), value);
    let raw = |value| HeaderType::Raw(Raw::new(value));
    let mut headers = vec![
        header("Content-Type", raw(content_type)),
        header("Content-Disposition", disposition(&file.filename)),
    ];
    if is_unencoded {
        let encoding = if is_8bit(file) { "8bit" } else { "7bit" };
        headers.push(header("Content-Transfer-Encoding", raw(encoding)));
    }
    MimePart {
        headers,
        contents: BodyPart::Binary(Cow::Borrowed(&file.content)),
    }
}

fn is_message(file: &File) -> bool {
    file.content_type.starts_with("message/")
}

/// Returns `true` if the file is written without an encoding. See [`file_part`].
fn is_unencoded(file: &File) -> bool {
    is_message(file) && has_valid_lines(&file.content)
}

/// Returns `true` if the written file contains bytes above 127.
fn is_8bit(file: &File) -> bool {
    is_unencoded(file) && !file.content.is_ascii()
}

/// Returns the value of Content-Disposition for a file. Encodes a non-ASCII name by RFC 2231. Also
/// encodes an ASCII name with text like an encoded word. See [`subject`] for the reason.
fn disposition(filename: &str) -> HeaderType<'_> {
    if filename.is_ascii() && filename.contains("=?") {
        let encoded = utf8_percent_encode(filename, NON_ALPHANUMERIC);
        return HeaderType::Raw(Raw::new(format!("attachment; filename*=utf-8''{encoded}")));
    }
    HeaderType::ContentType(ContentType::new("attachment").attribute("filename", filename))
}

/// Returns `true` if mail servers do not change the bytes. Each line must have at most 998 bytes,
/// end with CRLF and contain no NUL (RFC 5322, section 2.1.1).
fn has_valid_lines(bytes: &[u8]) -> bool {
    bytes
        .split(|b| *b == b'\n')
        .all(|line| line.len() <= 999 && !line.contains(&0))
        && memchr::memchr_iter(b'\n', bytes).all(|at| at > 0 && bytes[at - 1] == b'\r')
        && memchr::memchr_iter(b'\r', bytes).all(|at| bytes.get(at + 1) == Some(&b'\n'))
}

/// Removes the angle brackets from a Message-ID.
fn without_brackets(id: &str) -> &str {
    id.trim_start_matches('<').trim_end_matches('>')
}

/// Maximum length of a Message-ID with brackets, in bytes. A longer Message-ID does not fit on one
/// line after `In-Reply-To: ` (RFC 5322, section 2.1.1).
const MAX_MESSAGE_ID: usize = 998 - "In-Reply-To: ".len();

/// Returns `true` if `id` is a valid Message-ID (RFC 5322, section 3.6.4). A valid Message-ID
/// contains no character that ends the header field.
fn is_message_id(id: &str) -> bool {
    let inner = id.strip_prefix('<').and_then(|id| id.strip_suffix('>'));
    inner.is_some_and(|inner| {
        (1..=MAX_MESSAGE_ID - 2).contains(&inner.len())
            && inner
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>')
    })
}

/// Returns `true` if `text` is a media type without parameters (RFC 6838, section 4.2).
fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        (1..=127).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

#[cfg(test)]
mod tests;
