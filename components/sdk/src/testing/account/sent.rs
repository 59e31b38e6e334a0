//! The messages that an account sent.

use crate::capability::{Address, Blob, Draft, Error, File, Sent};
use crate::testing::letter::Letter;

/// Maximum size of a complete message in bytes.
const MAX_MESSAGE: usize = 26_214_400;

/// A message that the module sent.
#[derive(Clone, Debug)]
pub struct SentMessage {
    /// Address of the sender, without a display name.
    pub from: String,
    /// Recipients in To.
    pub to: Vec<Address>,
    /// Recipients in Cc.
    pub cc: Vec<Address>,
    /// Recipients in Bcc. No header contains these recipients.
    pub bcc: Vec<Address>,
    /// Subject.
    pub subject: String,
    /// Plain text body.
    pub text: Option<String>,
    /// HTML body.
    pub html: Option<String>,
    /// Message-ID of the message that this message replies to.
    pub in_reply_to: Option<String>,
    /// Message-IDs of the conversation.
    pub references: Vec<String>,
    /// Attached files.
    pub files: Vec<SentFile>,
    /// Idempotency key that the client sent.
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

impl SentMessage {
    /// Converts a draft to a sent message. `key` is the idempotency key.
    pub(crate) fn new(draft: Draft, key: Option<&str>) -> Self {
        let file = |file: File| SentFile {
            filename: file.filename,
            content_type: file.content_type,
            content: match file.content {
                Blob::Bytes(bytes) => bytes,
                Blob::Host(_) => panic!("a blob of a host cannot be read in a test"),
            },
        };
        Self {
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

    /// Checks whether the message has a recipient and does not exceed the maximum size.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.to.is_empty() && self.cc.is_empty() && self.bcc.is_empty() {
            return Err(Error::Invalid("A message needs a recipient".into()));
        }
        if self.size() > MAX_MESSAGE {
            return Err(Error::TooLarge(
                "the message exceeds the 25 MB limit".into(),
            ));
        }
        Ok(())
    }

    fn size(&self) -> usize {
        let texts = [self.text.as_ref(), self.html.as_ref()];
        let texts: usize = texts.into_iter().flatten().map(String::len).sum();
        let files: usize = self.files.iter().map(|file| file.content.len()).sum();
        // Files in a complete message are in base64.
        texts + files / 3 * 4
    }

    /// Converts the message for storage in a folder.
    pub(crate) fn letter(&self) -> Letter {
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

/// The sent messages of an account, oldest first.
#[derive(Debug, Default)]
pub(crate) struct SentMessages {
    sent: Vec<(SentMessage, Sent)>,
    fault: Option<Error>,
}

impl SentMessages {
    /// Makes every following call of `send` fail with this error.
    pub(crate) fn fail(&mut self, error: Error) {
        self.fault = Some(error);
    }

    pub(crate) fn all(&self) -> Vec<SentMessage> {
        let messages = self.sent.iter().map(|(message, _)| message);
        messages.cloned().collect()
    }

    /// Returns the result of an earlier call with the same idempotency key and the same message.
    /// Returns `None` if there was no such call.
    pub(crate) fn earlier(&self, message: &SentMessage) -> Result<Option<Sent>, Error> {
        if let Some(error) = &self.fault {
            return Err(error.clone());
        }
        let mut sent = self.sent.iter();
        let earlier = sent.find(|(earlier, _)| message.key.is_some() && earlier.key == message.key);
        let Some((earlier, sent)) = earlier else {
            return Ok(None);
        };
        // The comparison includes all fields, also the files.
        if format!("{earlier:?}") != format!("{message:?}") {
            return Err(Error::Conflict(
                "This Idempotency-Key was used with another message".into(),
            ));
        }
        Ok(Some(Sent {
            replayed: true,
            ..sent.clone()
        }))
    }

    /// Adds a message with the number `uid` in the folder `Sent`.
    pub(crate) fn add(&mut self, message: SentMessage, uid: u64) -> Sent {
        let sent = Sent {
            message_id: format!("<{uid}@example.test>"),
            saved_to: Some("Sent".into()),
            replayed: false,
        };
        self.sent.push((message, sent.clone()));
        sent
    }
}
