//! Keeps the messages that a module sends, instead of sending them.

use super::account::Account;
use super::host::{FakeHost, Need};
use super::letter::Letter;
use crate::capability::{Address, Blob, Draft, Error, File, Outbox, Scope, Sent};

/// Maximum size of a complete message in bytes.
const LARGEST: usize = 26_214_400;

/// A message that the module sent.
#[derive(Clone, Debug)]
pub struct SentMessage {
    /// Address of the sender, without a display name.
    pub from: String,
    /// Recipients in To.
    pub to: Vec<Address>,
    /// Recipients in Cc.
    pub cc: Vec<Address>,
    /// Recipients that no header names.
    pub bcc: Vec<Address>,
    /// Subject.
    pub subject: String,
    /// Plain text body.
    pub text: Option<String>,
    /// HTML body.
    pub html: Option<String>,
    /// Message-ID of the message that is replied to.
    pub in_reply_to: Option<String>,
    /// Message-IDs of the conversation.
    pub references: Vec<String>,
    /// Attached files.
    pub files: Vec<SentFile>,
    /// Idempotency key of the client.
    pub key: Option<String>,
}

/// A file that is attached to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// File name.
    pub filename: String,
    /// Media type.
    pub content_type: String,
    /// Content.
    pub content: Vec<u8>,
}

/// The messages that an account sent.
#[derive(Debug, Default)]
pub(super) struct SentMessages {
    sent: Vec<(SentMessage, Sent)>,
    fault: Option<Error>,
}

impl FakeHost {
    /// Makes sending fail with this error for the signed-in account. Checking a sender still works.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn fail_sending(&self, error: Error) {
        self.with_account(|account| account.out.fault = Some(error));
    }

    /// Returns the messages that the signed-in account sent, oldest first.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[must_use]
    #[track_caller]
    pub fn sent(&self) -> Vec<SentMessage> {
        self.with_account(|account| {
            let sent = account.out.sent.iter();
            sent.map(|(message, _)| message.clone()).collect()
        })
    }
}

fn message(draft: Draft, key: Option<&str>) -> SentMessage {
    let file = |file: File| SentFile {
        filename: file.filename,
        content_type: file.content_type,
        content: match file.content {
            Blob::Bytes(bytes) => bytes,
            Blob::Host(_) => panic!("a blob of a host cannot be read in a test"),
        },
    };
    SentMessage {
        from: draft.from,
        to: draft.to,
        cc: draft.cc,
        bcc: draft.bcc,
        subject: draft.subject,
        text: draft.text,
        html: draft.html,
        in_reply_to: draft.in_reply_to,
        references: draft.references,
        files: draft.files.into_iter().map(file).collect(),
        key: key.map(Into::into),
    }
}

impl SentMessage {
    fn size(&self) -> usize {
        let texts = [self.text.as_ref(), self.html.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let files: usize = self.files.iter().map(|file| file.content.len()).sum();
        // Files are encoded in base64.
        texts + files / 3 * 4
    }

    fn letter(&self) -> Letter {
        let mut letter = Letter::from(&self.from)
            .subject(&self.subject)
            .flag("\\Seen");
        for recipient in &self.to {
            letter = letter.to(&recipient.address);
        }
        for recipient in &self.cc {
            letter = letter.cc(&recipient.address);
        }
        if let Some(text) = &self.text {
            letter = letter.text(text);
        }
        if let Some(html) = &self.html {
            letter = letter.html(html);
        }
        for file in &self.files {
            letter = letter.file(&file.filename, &file.content_type, &file.content);
        }
        letter
    }
}

impl Account {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        if address.eq_ignore_ascii_case(&self.address) || self.addresses.sends_from(address) {
            return Ok(());
        }
        Err(Error::Denied(
            "You can only send from your own address or active aliases".into(),
        ))
    }

    fn send(&mut self, message: SentMessage) -> Result<Sent, Error> {
        if let Some(error) = &self.out.fault {
            return Err(error.clone());
        }
        let earlier = self
            .out
            .sent
            .iter()
            .find(|(earlier, _)| message.key.is_some() && earlier.key == message.key);
        if let Some((earlier, sent)) = earlier {
            // Compares all fields, including the files.
            if format!("{earlier:?}") != format!("{message:?}") {
                return Err(Error::Conflict(
                    "This Idempotency-Key was used with another message".into(),
                ));
            }
            return Ok(Sent {
                replayed: true,
                ..sent.clone()
            });
        }
        self.check_sender(&message.from)?;
        if message.to.is_empty() && message.cc.is_empty() && message.bcc.is_empty() {
            return Err(Error::Invalid("A message needs a recipient".into()));
        }
        if message.size() > LARGEST {
            return Err(Error::TooLarge(
                "the message exceeds the 25 MB limit".into(),
            ));
        }
        let uid = self.mail.put("Sent", message.letter());
        let sent = Sent {
            message_id: format!("<{uid}@example.test>"),
            saved_to: Some("Sent".into()),
            replayed: false,
        };
        self.out.sent.push((message, sent.clone()));
        Ok(sent)
    }
}

/// A sent message is stored in the folder `Sent` and in [`FakeHost::sent`], and is not delivered. Addresses and texts are not validated.
impl Outbox for FakeHost {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.check_sender(address)
        })
    }

    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, Error> {
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.send(message(draft, key))
        })
    }
}
