//! A message to be sent: checked, addressed, and written (RFC 5322, RFC 2045). mail-builder writes it. Nothing that a client gave becomes a header
//! of its own; who is in Bcc is in the envelope alone.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lettre::Address as Mailbox;
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address as Named;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use mail_builder::mime::{BodyPart, MimePart};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::Error;
use super::smtp::Envelope;
use crate::clock::Timestamp;
use crate::mail::Address;

/// The largest finished message, in bytes (specification, section 8).
pub(super) const LARGEST: usize = 26_214_400;

/// Recipients, files and ids of one message, at most; a module may draw narrower lines.
const MOST_RECIPIENTS: usize = 500;
const MOST_FILES: usize = 500;
const MOST_REFERENCES: usize = 1000;

/// A file that goes along.
#[derive(Clone, Debug)]
pub struct File {
    /// Its name.
    pub filename: String,
    /// Its media type, without parameters.
    pub content_type: String,
    /// Its bytes.
    pub content: Bytes,
}

/// A message to be sent.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The sender, bare.
    pub from: String,
    /// Who is named in To.
    pub to: Vec<Address>,
    /// Who is named in Cc.
    pub cc: Vec<Address>,
    /// Who is named nowhere.
    pub bcc: Vec<Address>,
    /// On one line.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// With its angle brackets.
    pub in_reply_to: Option<String>,
    /// With their angle brackets.
    pub references: Vec<String>,
    /// The files.
    pub files: Vec<File>,
}

/// An address as it is compared and sent to: the domain in lower case and ASCII (RFC 5891). None where it is not one.
pub(super) fn mailbox(address: &str) -> Option<Mailbox> {
    let (user, domain) = address.rsplit_once('@')?;
    if user.chars().any(char::is_control) {
        return None;
    }
    let domain = idna::domain_to_ascii(domain).ok()?;
    Mailbox::new(user, domain).ok()
}

/// A draft that holds nothing that cannot be in a message.
#[derive(Debug)]
pub(super) struct Checked {
    draft: Draft,
    pub(super) envelope: Envelope,
}

impl Draft {
    /// # Errors
    /// [`Error::Invalid`] with what cannot be in a message.
    pub(super) fn checked(self) -> Result<Checked, Error> {
        let invalid = |what: &str| Error::Invalid(format!("{what} cannot be in a message"));
        let from = mailbox(&self.from).ok_or_else(|| invalid("the sender's address"))?;
        let mut to = Vec::new();
        for one in self.to.iter().chain(&self.cc).chain(&self.bcc) {
            if one.name.chars().any(char::is_control) {
                return Err(invalid("a recipient's name"));
            }
            let one = mailbox(&one.address).ok_or_else(|| invalid("a recipient's address"))?;
            if !to.contains(&one) {
                to.push(one);
            }
        }
        let count = self.to.len() + self.cc.len() + self.bcc.len();
        if count == 0 || count > MOST_RECIPIENTS || self.files.len() > MOST_FILES {
            return Err(invalid("so many recipients or files"));
        }
        if self.subject.chars().any(|c| c.is_control() && c != '\t') {
            return Err(invalid("the subject"));
        }
        let mut ids = self.in_reply_to.iter().chain(&self.references);
        if self.references.len() > MOST_REFERENCES || !ids.all(|id| is_id(id)) {
            return Err(invalid("a Message-ID"));
        }
        for file in &self.files {
            if file.filename.chars().any(char::is_control) {
                return Err(invalid("a file's name"));
            }
            if !is_media_type(&file.content_type) {
                return Err(invalid("a file's media type"));
            }
        }
        Ok(Checked {
            draft: self,
            envelope: Envelope { from, to },
        })
    }
}

impl Checked {
    /// Bytes that the finished message has at least, but for its headers.
    pub(super) fn size(&self) -> usize {
        let draft = &self.draft;
        let files = draft.files.iter().map(|file| file.content.len());
        let body = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        // A message that goes along may go as it stands.
        let encoded = |bytes: usize| bytes / 3 * 4;
        let standing = draft
            .files
            .iter()
            .any(|file| file.content_type.starts_with("message/"));
        let files: usize = if standing {
            files.sum()
        } else {
            files.map(encoded).sum()
        };
        files + body(&draft.text) + body(&draft.html)
    }

    /// The finished message, every line ended with CRLF.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where it is over 25 MB.
    pub(super) fn written(&self, message_id: &str, date: Timestamp) -> Result<Bytes, Error> {
        let draft = &self.draft;
        // Larger than it may be, however it is written: not worth writing.
        if self.size() > LARGEST {
            return Err(Error::TooLarge);
        }
        let mut message = MessageBuilder::new()
            .date(Date::new(date.seconds()))
            .from(Named::from(self.envelope.from.to_string()))
            .to(named(&draft.to));
        if !draft.cc.is_empty() {
            message = message.cc(named(&draft.cc));
        }
        message = message
            .header("Subject", subject(&draft.subject))
            .message_id(inner(message_id));
        if let Some(id) = &draft.in_reply_to {
            message = message.in_reply_to(inner(id));
        }
        if !draft.references.is_empty() {
            let ids = draft.references.iter().map(|id| inner(id));
            message = message.references(MessageId::new_list(ids));
        }
        if let Some(text) = &draft.text {
            message = message.text_body(text.as_str());
        }
        if let Some(html) = &draft.html {
            message = message.html_body(html.as_str());
        }
        if !draft.files.is_empty() {
            message.attachments = Some(draft.files.iter().map(part).collect());
        }
        let mut written = message
            .write_to_vec()
            .map_err(|error| Error::Internal(error.to_string()))?;
        if !written.ends_with(b"\r\n") {
            written.extend_from_slice(b"\r\n");
        }
        if written.len() > LARGEST {
            return Err(Error::TooLarge);
        }
        Ok(written.into())
    }

    /// What tells this message from others under the same key, before anything of the service's own is in it.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let draft = &self.draft;
        let mut digest = Sha256::new();
        let mut add = |bytes: &[u8]| {
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        add(draft.from.as_bytes());
        for list in [&draft.to, &draft.cc, &draft.bcc] {
            add(&list.len().to_be_bytes());
            for one in list {
                add(one.name.as_bytes());
                add(one.address.as_bytes());
            }
        }
        add(draft.subject.as_bytes());
        for text in [&draft.text, &draft.html, &draft.in_reply_to] {
            add(&[u8::from(text.is_some())]);
            add(text.as_deref().unwrap_or_default().as_bytes());
        }
        add(&draft.references.len().to_be_bytes());
        for id in &draft.references {
            add(id.as_bytes());
        }
        for file in &draft.files {
            add(file.filename.as_bytes());
            add(file.content_type.as_bytes());
            add(&file.content);
        }
        digest.finalize().into()
    }
}

fn named(people: &[Address]) -> Named<'_> {
    let one = |one: &Address| {
        let name = Some(one.name.clone()).filter(|name| !name.is_empty());
        // Checked before.
        let address = mailbox(&one.address).map_or_else(String::new, |one| one.to_string());
        Named::new_address(name, address)
    };
    Named::new_list(people.iter().map(one).collect())
}

/// A subject. One that holds what reads as an encoded word (RFC 2047) is encoded whole, so that it arrives as it was given: the library leaves ASCII
/// as it is.
fn subject(text: &str) -> HeaderType<'_> {
    if !text.is_ascii() || !text.contains("=?") {
        return HeaderType::Text(text.into());
    }
    let words: Vec<String> = text
        .as_bytes()
        .chunks(42)
        .map(|piece| format!("=?utf-8?B?{}?=", STANDARD.encode(piece)))
        .collect();
    HeaderType::Raw(Raw::new(words.join(" ")))
}

/// A file's part. Its media type is written as it stands and its bytes in base64: they arrive as they were. A message may not be written in base64
/// (RFC 2046, section 5.2.1): one goes as it stands where that leaves it as it was, else as bytes of no type.
fn part(file: &File) -> MimePart<'_> {
    let is_message = file.content_type.starts_with("message/");
    let as_it_stands = is_message && is_lines(&file.content);
    let declared = if (is_message && !as_it_stands) || file.content_type.starts_with("multipart/") {
        "application/octet-stream"
    } else {
        &file.content_type
    };
    let header = |name, value| (Cow::Borrowed(name), value);
    let raw = |value| HeaderType::Raw(Raw::new(value));
    let mut headers = vec![
        header("Content-Type", raw(declared)),
        header("Content-Disposition", disposition(&file.filename)),
    ];
    if as_it_stands {
        let encoding = if file.content.is_ascii() {
            "7bit"
        } else {
            "8bit"
        };
        headers.push(header("Content-Transfer-Encoding", raw(encoding)));
    }
    MimePart {
        headers,
        contents: BodyPart::Binary(Cow::Borrowed(&file.content)),
    }
}

/// A file's name goes as RFC 2231 has it. One that holds what reads as an encoded word is encoded too, though it may be ASCII: see [`subject`].
fn disposition(filename: &str) -> HeaderType<'_> {
    if filename.is_ascii() && filename.contains("=?") {
        let encoded = utf8_percent_encode(filename, NON_ALPHANUMERIC);
        return HeaderType::Raw(Raw::new(format!("attachment; filename*=utf-8''{encoded}")));
    }
    HeaderType::ContentType(ContentType::new("attachment").attribute("filename", filename))
}

/// Whether bytes are lines that any mail server leaves as they are (RFC 5322, section 2.1.1).
fn is_lines(bytes: &[u8]) -> bool {
    bytes
        .split(|b| *b == b'\n')
        .all(|line| line.len() <= 999 && !line.contains(&0))
        && memchr::memchr_iter(b'\n', bytes).all(|at| at > 0 && bytes[at - 1] == b'\r')
        && memchr::memchr_iter(b'\r', bytes).all(|at| bytes.get(at + 1) == Some(&b'\n'))
}

/// A Message-ID without its angle brackets.
fn inner(id: &str) -> &str {
    id.trim_start_matches('<').trim_end_matches('>')
}

/// Bytes of a Message-ID with its brackets: `In-Reply-To: ` before it, and a line is as long as lines may be (RFC 5322, section 2.1.1). A longer one is broken
/// in the middle on its way.
const LONGEST_ID: usize = 998 - "In-Reply-To: ".len();

/// RFC 5322, section 3.6.4, as far as it keeps a header whole.
fn is_id(id: &str) -> bool {
    let inner = id.strip_prefix('<').and_then(|id| id.strip_suffix('>'));
    inner.is_some_and(|inner| {
        (1..=LONGEST_ID - 2).contains(&inner.len())
            && inner
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>')
    })
}

/// RFC 6838, section 4.2.
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
