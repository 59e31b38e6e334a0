//! Validates drafts and writes drafts as messages with mail-builder (RFC 5322, RFC 2045). Client
//! input never adds a header field. Only the envelope contains Bcc recipients. This module does not
//! send messages.

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_shape::{MAX_HEADER_FIELDS, check_header_field, is_repeatable};
use mail_builder::MessageBuilder;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use sha2::{Digest as _, Sha256};

use super::attached_file::{AttachedFile, File, FoundFile};
use super::envelope::{Envelope, Recipient, Reports, Sender};
use super::original::Original;
use super::parts;
use super::result::{Error, invalid};
use super::words::{address_list, field_value, subject};

/// Maximum size of the finished message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 26_214_400;

/// Maximum numbers of recipients, files and references of one message. A sandboxed module can have
/// lower limits.
const MAX_RECIPIENTS: usize = 500;
const MAX_FILES: usize = 500;
const MAX_REFERENCES: usize = 1000;

/// An additional header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderField {
    /// The name.
    pub name: String,
    /// The value, on one line.
    pub value: String,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The sender.
    pub from: Sender,
    /// The display name of the sender, or empty.
    pub from_name: String,
    /// The recipients in To.
    pub to: Vec<Recipient>,
    /// The recipients in Cc.
    pub cc: Vec<Recipient>,
    /// The Bcc recipients. The header of the message does not contain them.
    pub bcc: Vec<Recipient>,
    /// The addresses in Reply-To. If empty, the message has no such field.
    pub reply_to: Vec<Recipient>,
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
    /// Additional header fields.
    pub headers: Vec<HeaderField>,
    /// The attached files.
    pub files: Vec<File>,
    /// The message that this message answers or forwards. The finished message does not contain
    /// this value.
    pub original: Option<Original>,
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
        if self.reply_to.len() > MAX_RECIPIENTS {
            return Err(invalid("number of addresses in Reply-To"));
        }
        if self.from_name.chars().any(char::is_control) {
            return Err(invalid("sender name"));
        }
        if self.subject.chars().any(|c| c.is_control() && c != '\t') {
            return Err(invalid("subject"));
        }
        let mut ids = self.in_reply_to.iter().chain(&self.references);
        if self.references.len() > MAX_REFERENCES || !ids.all(|id| is_message_id(id)) {
            return Err(invalid("Message-ID"));
        }
        self.check_headers()?;
        let mut ids = Vec::new();
        for file in &self.files {
            file.check()?;
            let id = file.content_id.as_ref();
            if id.is_some_and(|id| ids.contains(&id)) {
                return Err(invalid("Content-ID: two files have the same one"));
            }
            ids.extend(id);
        }
        let from = self.from.address.clone();
        Ok(Envelope {
            from,
            to,
            reports: Reports::Default,
        })
    }

    fn check_headers(&self) -> Result<(), Error> {
        if self.headers.len() > MAX_HEADER_FIELDS {
            return Err(invalid("number of header fields"));
        }
        for (index, HeaderField { name, value }) in self.headers.iter().enumerate() {
            let mut earlier = self.headers[..index].iter();
            let is_repeated = earlier.any(|one| one.name.eq_ignore_ascii_case(name));
            if check_header_field(name, value).is_err() || (is_repeated && !is_repeatable(name)) {
                return Err(invalid("header field"));
            }
        }
        Ok(())
    }

    /// Returns a lower bound for the size of the finished message without its headers, in bytes.
    pub(super) fn min_size(&self, files: &[FoundFile]) -> usize {
        let sizes = files.iter().map(FoundFile::size);
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        // An attached message might not be encoded in base64. Use the unencoded sizes for the lower
        // bound.
        let encoded = |bytes: usize| bytes / 3 * 4;
        let has_message = files.iter().any(FoundFile::is_message);
        let sizes: usize = if has_message {
            sizes.sum()
        } else {
            sizes.map(encoded).sum()
        };
        sizes + length(&self.text) + length(&self.html)
    }

    /// Returns the finished message. Every line ends with CRLF.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the message exceeds 25 MB.
    pub(super) fn write(
        &self,
        files: &[AttachedFile],
        message_id: &str,
        date: Timestamp,
    ) -> Result<Bytes, Error> {
        let from = Recipient {
            name: self.from_name.clone(),
            address: self.from.address.clone(),
        };
        let from = [from];
        let mut message = MessageBuilder::new()
            .date(Date::new(date.seconds()))
            .header("From", address_list(&from))
            .header("To", address_list(&self.to));
        if !self.cc.is_empty() {
            message = message.header("Cc", address_list(&self.cc));
        }
        if !self.reply_to.is_empty() {
            message = message.header("Reply-To", address_list(&self.reply_to));
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
        for HeaderField { name, value } in &self.headers {
            message = message.header(name, field_value(name, value));
        }
        let (text, html) = (self.text.as_deref(), self.html.as_deref());
        let mut bytes = message
            .body(parts::body(text, html, files))
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

    /// Returns the size of the client's input, in bytes.
    pub(super) fn input_size(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let files = self.files.iter().map(|file| file.bytes().len());
        files.sum::<usize>() + length(&self.text) + length(&self.html)
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
            add(file.filename.as_deref().unwrap_or_default().as_bytes());
            add(file.content_type.as_deref().unwrap_or_default().as_bytes());
            add(file.bytes());
        }
        let fingerprint = digest.finalize().into();
        self.add_to_fingerprint(fingerprint)
    }

    /// Adds the fields to a fingerprint that messages did not have initially. Returns the
    /// fingerprint unchanged if the message has no such field. Therefore a request can be repeated
    /// at a host with another version.
    fn add_to_fingerprint(&self, fingerprint: [u8; 32]) -> [u8; 32] {
        if self.from_name.is_empty()
            && self.reply_to.is_empty()
            && self.headers.is_empty()
            && self.files.iter().all(File::is_plain)
        {
            return fingerprint;
        }
        let mut digest = Sha256::new();
        digest.update(fingerprint);
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        };
        add(&self.from_name);
        add(&format!("{} {}", self.reply_to.len(), self.headers.len()));
        for recipient in &self.reply_to {
            add(&recipient.name);
            add(recipient.address.as_str());
        }
        for HeaderField { name, value } in &self.headers {
            add(name);
            add(value);
        }
        for file in &self.files {
            file.add_to(&mut digest);
        }
        digest.finalize().into()
    }
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
pub(crate) fn is_message_id(id: &str) -> bool {
    let inner = id.strip_prefix('<').and_then(|id| id.strip_suffix('>'));
    inner.is_some_and(|inner| {
        (1..=MAX_MESSAGE_ID - 2).contains(&inner.len())
            && inner
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>')
    })
}

#[cfg(test)]
mod tests;
