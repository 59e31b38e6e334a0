//! What a module sends, kept instead of sent.

use super::account::Account;
use super::host::{FakeHost, Need};
use super::letter::Letter;
use crate::capability::{Address, Blob, Draft, Error, File, Outbox, Scope, Sent};

/// The largest finished message, in bytes.
const LARGEST: usize = 26_214_400;

/// A message that was sent.
#[derive(Clone, Debug)]
pub struct SentMessage {
    /// The sender, bare.
    pub from: String,
    /// Who is named in To.
    pub to: Vec<Address>,
    /// Who is named in Cc.
    pub cc: Vec<Address>,
    /// Who got it and is named nowhere.
    pub bcc: Vec<Address>,
    /// The subject.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// The Message-ID replied to.
    pub in_reply_to: Option<String>,
    /// The Message-IDs of the conversation.
    pub references: Vec<String>,
    /// The files.
    pub files: Vec<SentFile>,
    /// The client's name for this very sending.
    pub key: Option<String>,
}

/// A file that went along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// Its name.
    pub filename: String,
    /// Its media type.
    pub content_type: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// What an account sent.
#[derive(Debug, Default)]
pub(super) struct Out {
    sent: Vec<(SentMessage, Sent)>,
}

impl FakeHost {
    /// What the account that is signed in sent, the oldest first.
    ///
    /// # Panics
    /// Where nobody is signed in.
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
            Blob::Host(_) => panic!("there is no host that holds this blob"),
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
        // Files are in base64.
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
        let earlier = self
            .out
            .sent
            .iter()
            .find(|(earlier, _)| message.key.is_some() && earlier.key == message.key);
        if let Some((earlier, sent)) = earlier {
            // Field by field, files and all.
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

/// A message that is sent stands in the folder `Sent` and in [`FakeHost::sent`], and reaches nobody. Addresses and texts are taken as they are.
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
