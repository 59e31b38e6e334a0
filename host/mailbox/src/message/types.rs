//! The types of messages in the service. These types are independent of IMAP and JSON.

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;
use latchmail_directory::message_index::Location;
pub use latchmail_mime::{Address, Attachment, Field, Fields, MailingList};

use crate::message::authentication::Authentication;
use crate::message::identity::Identity;
use crate::message::spam::Spam;
#[cfg(doc)]
use crate::message::version::MessageVersion;

/// A message in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The service's number for the message. This number is not the IMAP UID.
    pub number: MessageNumber,
    /// The position of the message in its folder. 1 is the oldest message.
    pub seq: u32,
    /// The addresses in the From field.
    pub from: Vec<Address>,
    /// The addresses in the To field.
    pub to: Vec<Address>,
    /// The decoded subject, or empty.
    pub subject: String,
    /// The time in the Date field. If the field is missing or invalid, the arrival time.
    pub date: Timestamp,
    /// The IMAP flags and keywords, without `\Recent`.
    pub flags: Vec<String>,
    /// The size of the stored message, in bytes.
    pub size: u64,
    /// The beginning of the text, at most 256 characters. Each sequence of white space is a single
    /// space.
    pub preview: String,
    /// The id of the message's thread.
    pub thread_id: String,
}

/// A page of a folder or of a search result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The messages, newest first.
    pub messages: Vec<Summary>,
    /// The number of messages on all pages of the folder or of the search result.
    pub total: u32,
    /// The cursor of the next page of the folder. `None` if no message follows, and in search
    /// results.
    pub next: Option<String>,
}

/// A single message with its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    /// The data that a listing also contains.
    pub summary: Summary,
    /// The addresses in the Cc field.
    pub cc: Vec<Address>,
    /// The addresses in the Reply-To field.
    pub reply_to: Vec<Address>,
    /// The Message-ID field with angle brackets, or empty.
    pub message_id: String,
    /// The In-Reply-To field with angle brackets.
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the References field in order, with angle brackets.
    pub references: Vec<String>,
    /// The plain text part, if there is one. The lines of `format=flowed` (RFC 3676) are not
    /// joined.
    pub text: Option<String>,
    /// The HTML part, if there is one.
    pub html: Option<String>,
    /// The text without quotes, signature and disclaimer. `None` if the message has no text.
    pub new_text: Option<String>,
    /// The attachments.
    pub attachments: Vec<Attachment>,
    /// `true` if content is missing because the message exceeds a limit.
    pub truncated: bool,
    /// The mail server's result of the sender's authentication.
    pub authentication: Authentication,
    /// The path of the folder.
    pub folder: String,
    /// The mailing list that sent the message.
    pub mailing_list: Option<MailingList>,
    /// The keyword of the Auto-Submitted field.
    pub auto_submitted: Option<String>,
    /// The result of the mail server's spam filter.
    pub spam: Spam,
    /// The version of the message's state. See [`MessageVersion::state`].
    pub version: String,
    /// The hash of the header, with which [`crate::importing`] marks messages that are being
    /// stored. `None` if the results of checks do not depend on the header alone.
    pub(crate) header: Option<Identity>,
}

impl Detail {
    /// Sets the folder. Removes the results of checks if a client imported the message, because the
    /// client wrote the header.
    pub(crate) fn set_location(&mut self, location: &Location) {
        self.folder.clone_from(&location.path);
        if location.imported {
            self.remove_checks();
        }
    }

    /// Removes the results of checks.
    pub(crate) fn remove_checks(&mut self) {
        self.authentication = Authentication::default();
        self.spam = Spam::default();
    }

    /// Returns `true` if the message has the result of a check.
    pub(crate) fn has_checks(&self) -> bool {
        self.authentication != Authentication::default() || self.spam != Spam::default()
    }
}
