//! The content of a draft: its validation, and the message that stores it. A draft can be
//! unfinished. Text that is not valid for its header field is written in a form from which the same
//! text is read.

use bytes::Bytes;
use latchmail_core::clock::Timestamp;
use latchmail_mime::Address;
use latchmail_shape::{MAX_HEADER_FIELDS, check_header_field, is_repeatable};
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;

use super::id::{DraftId, FIELD};
use super::original;
use super::outgoing::is_private;
use crate::outbox::Error;
use crate::outbox::attached_file::AttachedFile;
use crate::outbox::draft::{MAX_MESSAGE, is_message_id};
use crate::outbox::result::invalid;
use crate::outbox::words::{encoded_words, field_value, subject};
use crate::outbox::{File, HeaderField, OriginalMessage, Recipient, parts};

/// Maximum number of addresses in one field, and of files.
const MAX_ENTRIES: usize = 500;
/// Maximum number of words in References.
const MAX_REFERENCES: usize = 1000;
/// Maximum total size of the values for the header, in bytes. A reader decodes up to 64 KiB of each
/// field.
const MAX_HEADER: usize = 48 * 1024;

/// The content of a draft. An address can be any text without control characters.
#[derive(Clone, Debug, Default)]
pub struct DraftContent {
    /// The sender.
    pub from: Option<Address>,
    /// The recipients in To.
    pub to: Vec<Address>,
    /// The recipients in Cc.
    pub cc: Vec<Address>,
    /// The recipients in Bcc, which the header of a draft contains.
    pub bcc: Vec<Address>,
    /// The addresses in Reply-To.
    pub reply_to: Vec<Address>,
    /// The subject, on one line.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// The text for In-Reply-To.
    pub in_reply_to: Option<String>,
    /// The words for References.
    pub references: Vec<String>,
    /// Additional header fields.
    pub headers: Vec<HeaderField>,
    /// The attached files.
    pub files: Vec<File>,
    /// The message that the draft answers or forwards. A replacement without this value keeps the
    /// value of the replaced draft.
    pub original: Option<OriginalMessage>,
}

/// The values that a draft keeps if it is replaced.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) id: DraftId,
    /// The Message-ID with angle brackets.
    pub(super) message_id: String,
    pub(super) original: Option<OriginalMessage>,
}

impl DraftContent {
    /// Checks that a message can contain all values.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] with a text that describes the invalid value.
    pub(super) fn check(&self) -> Result<(), Error> {
        let lists = [&self.to, &self.cc, &self.bcc, &self.reply_to];
        if lists.iter().any(|list| list.len() > MAX_ENTRIES)
            || self.files.len() > MAX_ENTRIES
            || self.references.len() > MAX_REFERENCES
        {
            return Err(invalid("number of addresses, files or references"));
        }
        let addresses = lists.into_iter().flatten().chain(&self.from);
        let texts = addresses.flat_map(|one| [&one.name, &one.address]);
        let texts = texts
            .chain(&self.in_reply_to)
            .chain(&self.references)
            .chain([&self.subject]);
        let mut size = 0;
        for text in texts {
            size += text.len();
            if text.chars().any(|c| c.is_control() && c != '\t') {
                return Err(invalid(
                    "character in an address, a Message-ID or the subject",
                ));
            }
        }
        self.check_headers()?;
        let fields = self.headers.iter();
        size += fields
            .map(|one| one.name.len() + one.value.len())
            .sum::<usize>();
        if size > MAX_HEADER {
            return Err(invalid("size of the header"));
        }
        let mut ids = Vec::new();
        for file in &self.files {
            file.check()?;
            if file.content_id.as_ref().is_some_and(|id| ids.contains(&id)) {
                return Err(invalid("Content-ID: two files have the same one"));
            }
            ids.extend(&file.content_id);
        }
        Ok(())
    }

    fn check_headers(&self) -> Result<(), Error> {
        if self.headers.len() > MAX_HEADER_FIELDS {
            return Err(invalid("number of header fields"));
        }
        for (index, HeaderField { name, value }) in self.headers.iter().enumerate() {
            let mut earlier = self.headers[..index].iter();
            let is_repeated = earlier.any(|one| one.name.eq_ignore_ascii_case(name));
            if check_header_field(name, value).is_err()
                || is_private(name)
                || (is_repeated && !is_repeatable(name))
            {
                return Err(invalid("header field"));
            }
        }
        Ok(())
    }

    /// Returns the domain of the sender, if the sender is a valid address.
    pub(super) fn domain(&self) -> Option<String> {
        let from = Recipient::new(String::new(), &self.from.as_ref()?.address).ok()?;
        Some(from.address.domain().to_owned())
    }

    /// Returns the size of the texts, in bytes.
    pub(super) fn text_size(&self) -> usize {
        let texts = [&self.text, &self.html];
        texts.into_iter().flatten().map(String::len).sum()
    }

    /// Returns the message that stores the draft. Every line ends with CRLF.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the message exceeds 25 MB.
    pub(super) fn write(
        &self,
        files: &[AttachedFile],
        Identity {
            id,
            message_id,
            original,
        }: &Identity,
        date: Timestamp,
    ) -> Result<Bytes, Error> {
        let mut message = MessageBuilder::new().date(Date::new(date.seconds()));
        let from: Vec<Address> = self.from.iter().cloned().collect();
        for (name, list) in [
            ("From", &from),
            ("To", &self.to),
            ("Cc", &self.cc),
            ("Bcc", &self.bcc),
            ("Reply-To", &self.reply_to),
        ] {
            if !list.is_empty() {
                message = message.header(name, mailboxes(list));
            }
        }
        if !self.subject.is_empty() {
            message = message.header("Subject", subject(&self.subject));
        }
        let bare = |id: &str| id.trim_start_matches('<').trim_end_matches('>').to_owned();
        message = message
            .message_id(bare(message_id))
            .header(FIELD, Raw::new(id.to_string()));
        if let Some(original) = self.original.or(*original) {
            message = message.header(original::FIELD, Raw::new(original::value(original)));
        }
        if let Some(text) = &self.in_reply_to {
            message = message.header("In-Reply-To", unstructured(text));
        }
        if self.references.iter().all(|id| is_message_id(id)) {
            if !self.references.is_empty() {
                let ids = self.references.iter().map(|id| bare(id));
                message = message.references(MessageId::new_list(ids));
            }
        } else {
            message = message.header("References", unstructured(&self.references.join(" ")));
        }
        for HeaderField { name, value } in &self.headers {
            message = message.header(name.as_str(), field_value(name, value));
        }
        let (text, html) = (self.text.as_deref(), self.html.as_deref());
        let mut bytes = message
            .body(parts::body(text, html, files))
            .write_to_vec()
            .map_err(|error| Error::Internal(error.to_string()))?;
        // The last line of a message ends with CRLF. In a message with one text, the reader removes
        // this line end, so a text with and a text without a last line end stay different.
        let is_one_text = files.is_empty() && text.is_some() != html.is_some();
        if is_one_text || !bytes.ends_with(b"\r\n") {
            bytes.extend_from_slice(b"\r\n");
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(Error::TooLarge);
        }
        Ok(bytes.into())
    }
}

/// Returns the value of a field without a structure.
fn unstructured(text: &str) -> HeaderType<'static> {
    // Only additional header fields whose names begin with X- have no structure.
    field_value("X-Text", text)
}

/// Returns the value of a field with addresses, which can be unfinished.
fn mailboxes(list: &[Address]) -> HeaderType<'static> {
    let written: Vec<String> = list.iter().map(mailbox).collect();
    HeaderType::Raw(Raw::new(written.join(", ")))
}

/// Writes an address. An unfinished address is written as encoded words (RFC 2047), which readers
/// show as the same text and which no reader takes for another address.
fn mailbox(one: &Address) -> String {
    if let Ok(valid) = Recipient::new(one.name.clone(), &one.address) {
        return match one.name.as_str() {
            "" => valid.address.to_string(),
            name if is_phrase(name) => format!("{name} <{}>", valid.address),
            name => format!("{} <{}>", encoded_words(name), valid.address),
        };
    }
    let text = match (one.name.as_str(), one.address.as_str()) {
        (text, "") | ("", text) => text.to_owned(),
        (name, address) => format!("{name} <{address}>"),
    };
    let is_atom = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
    if text.bytes().all(is_atom) {
        return text;
    }
    encoded_words(&text)
}

/// Returns `true` if a name needs neither quotes nor encoding.
fn is_phrase(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/_".contains(&b))
    };
    name.split(' ').all(is_word)
}
