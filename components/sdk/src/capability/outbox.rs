//! `latchmail:host/outbox`: sending mail as the caller.

use super::{Address, Blob, Error, Host};
use crate::bindings::latchmail::host::outbox;
pub use crate::bindings::latchmail::host::outbox::Sent;

/// A file that is attached to a message.
#[derive(Debug)]
pub struct File {
    /// Name of the file, in Unicode without control characters.
    pub filename: String,
    /// Media type `type/subtype` without parameters.
    pub content_type: String,
    /// Content of the file.
    pub content: Blob,
}

/// A message to send.
#[derive(Debug, Default)]
pub struct Draft {
    /// Address of the sender, without a display name.
    pub from: String,
    /// Recipients in To.
    pub to: Vec<Address>,
    /// Recipients in Cc.
    pub cc: Vec<Address>,
    /// Recipients in Bcc. No header contains these recipients.
    pub bcc: Vec<Address>,
    /// Subject, on one line.
    pub subject: String,
    /// Plain text body.
    pub text: Option<String>,
    /// HTML body.
    pub html: Option<String>,
    /// Message-ID of the message that this message replies to, with angle brackets.
    pub in_reply_to: Option<String>,
    /// Message-IDs of the conversation, with angle brackets.
    pub references: Vec<String>,
    /// Attached files.
    pub files: Vec<File>,
}

/// Sends mail as the caller. Needs the scope `mail:send`.
pub trait Outbox {
    /// Checks whether the caller is allowed to send from an address.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the caller is not allowed to send from the address. Returns
    /// [`Error::Internal`] if the check fails.
    fn check_sender(&self, address: &str) -> Result<(), Error>;

    /// Sends a message to all recipients or to no recipient, and stores a copy in Sent. Within 24
    /// hours, a repeated call with the same `key` sends nothing and returns the result of the first
    /// call.
    ///
    /// # Errors
    /// Returns an error if the message was not sent, or if the outcome is unknown. `wit/outbox.wit`
    /// describes each error.
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error>;
}

impl Outbox for Host {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        outbox::check_sender(address)
    }

    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        let file = |file: File| match file.content {
            Blob::Host(content) => Ok(outbox::File {
                filename: file.filename,
                content_type: file.content_type,
                content,
            }),
            // The host accepts only handles of bytes in the host, for example of a file from a
            // request. The SDK cannot create such a handle for bytes in memory.
            Blob::Bytes(_) => Err(Error::Internal),
        };
        let draft = outbox::Draft {
            files: draft
                .files
                .into_iter()
                .map(file)
                .collect::<Result<_, _>>()?,
            from: draft.from,
            to: draft.to,
            cc: draft.cc,
            bcc: draft.bcc,
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
        };
        outbox::send(draft, key)
    }
}
