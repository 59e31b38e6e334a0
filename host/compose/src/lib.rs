//! Composes replies to messages, and forwards of messages: the sender, the recipients, the subject,
//! the references, the quotation and the files. This crate does no I/O and does not send messages.
//!
//! ```
//! use latchmail_compose::{Account, Locale, Mode, Original, OwnAddress, compose};
//!
//! let original = Original::parse(
//!     b"From: Bo <bo@b.example>\r\nTo: ada@a.example\r\nSubject: Plan\r\n\
//!       Message-ID: <1@b.example>\r\nDate: Fri, 20 Nov 2026 09:00:00 +0100\r\n\r\nHello Ada\r\n",
//! );
//! let account = Account::of("ada@a.example");
//! let reply = compose(&original, &account, Mode::Reply, Locale::German);
//! assert_eq!(reply.to[0].address, "bo@b.example");
//! assert_eq!(reply.subject, "Re: Plan");
//! assert_eq!(reply.in_reply_to.as_deref(), Some("<1@b.example>"));
//! let quotation = "Am Fr., 20. Nov. 2026 um 09:00 Uhr schrieb Bo <bo@b.example>:\n> Hello Ada\n";
//! assert_eq!(reply.text.as_deref(), Some(quotation));
//! # let _: &OwnAddress = &account.addresses[0];
//! ```

mod account;
mod files;
mod locale;
mod original;
mod quotation;
mod quote_text;
mod recipients;
mod references;
mod subject;

pub use account::{Account, OwnAddress};
pub use files::{File, Source};
pub use latchmail_mime::Address;
pub use locale::Locale;
pub use original::Original;

use quotation::Quotation;

/// Maximum size of the quoted text and of the quoted HTML, in bytes. The limit applies to each of
/// the two separately.
pub const MAX_QUOTATION: usize = 1024 * 1024;

/// The kind of a message about another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A reply to the author.
    Reply,
    /// A reply to the author and to all recipients.
    ReplyAll,
    /// A message that contains the text and the files of the original.
    Forward,
    /// A message that has the original as an attached file.
    ForwardAsAttachment,
}

impl Mode {
    fn is_reply(self) -> bool {
        matches!(self, Self::Reply | Self::ReplyAll)
    }
}

/// A message about another message. A forward has no recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composed {
    /// The address of the sender: the address that received the original if the account may send
    /// from it, otherwise the account's own address.
    pub from: String,
    /// The recipients in To.
    pub to: Vec<Address>,
    /// The recipients in Cc.
    pub cc: Vec<Address>,
    /// The subject with one prefix, on one line.
    pub subject: String,
    /// The Message-ID of the original. `None` for forwards, and if the original has no valid one.
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation, oldest first.
    pub references: Vec<String>,
    /// The quoted text. Its lines end with a line feed.
    pub text: Option<String>,
    /// The quoted HTML without active content. `None` if the original has no HTML.
    pub html: Option<String>,
    /// The files of the original that the message contains.
    pub files: Vec<File>,
}

/// Composes a reply to a message, or a forward of a message.
#[must_use]
pub fn compose(original: &Original, account: &Account, mode: Mode, locale: Locale) -> Composed {
    let own = account.matcher();
    let recipients = match mode {
        Mode::Reply | Mode::ReplyAll => {
            recipients::of_reply(original, &own, mode == Mode::ReplyAll)
        }
        Mode::Forward | Mode::ForwardAsAttachment => recipients::Recipients::default(),
    };
    let Quotation { text, html, files } = match mode {
        Mode::Reply | Mode::ReplyAll => Quotation::of_reply(original, locale),
        Mode::Forward => Quotation::of_forward(original, locale),
        Mode::ForwardAsAttachment => Quotation {
            files: vec![File::message()],
            ..Quotation::default()
        },
    };
    let in_reply_to = references::message_id(&original.header.message_id);
    Composed {
        from: recipients::sender(original, account, &own),
        to: recipients.to,
        cc: recipients.cc,
        subject: subject::subject(&original.header.subject, mode.is_reply()),
        references: references::references(&original.header),
        in_reply_to: in_reply_to.filter(|_| mode.is_reply()),
        text,
        html,
        files,
    }
}
