//! The outbox of the fake host. The outbox stores messages and does not send them.

use std::collections::HashSet;
use std::rc::Rc;

use latchmail_shape::{MAX_HEADER_FIELDS, check_header_field, codes, is_repeatable};

use super::{Account, FakeHost, Need, missing};
use crate::capability::{
    Blob, Caller as _, Draft, Error, File, FileSource, Outbox, Scope, SendError, Sent, Timestamp,
    UploadedFile,
};
use crate::testing::letter::Letter;

/// Maximum size of a complete message in bytes.
const MAX_MESSAGE: usize = 26_214_400;

/// Maximum size of an upload in bytes.
const MAX_UPLOAD: usize = 25 * 1024 * 1024;
/// Maximum size of all uploads of an account together in bytes.
const MAX_UPLOADS: usize = 100 * 1024 * 1024;
/// The time after which an upload expires, in milliseconds.
const UPLOAD_LIFETIME: Timestamp = 3_600_000;

/// A message that the module sent.
#[derive(Debug)]
pub struct SentMessage {
    /// The message.
    pub draft: Draft,
    /// The files with the bytes of their sources, in the order of the draft.
    pub files: Vec<SentFile>,
    /// Idempotency key that the client sent.
    pub key: Option<String>,
}

/// A file of a message that the module sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentFile {
    /// The file name.
    pub filename: String,
    /// The media type.
    pub content_type: String,
    /// The bytes.
    pub content: Vec<u8>,
}

/// A file that the module uploaded.
#[derive(Debug)]
pub(super) struct Upload {
    id: String,
    file: SentFile,
    expires_at: Timestamp,
}

impl FakeHost {
    /// Makes [`Outbox::send`] fail with this error for the signed-in account.
    #[track_caller]
    pub fn fail_sending(&self, error: Error) {
        self.with_account(|account| account.sending_fault = Some(error));
    }

    /// Returns the messages that the signed-in account sent, oldest first.
    #[must_use]
    #[track_caller]
    pub fn sent(&self) -> Vec<Rc<SentMessage>> {
        self.with_account(|account| account.sent.iter().map(|(one, _)| Rc::clone(one)).collect())
    }
}

impl Account {
    fn check_sender(&self, address: &str) -> Result<(), Error> {
        let own = address.eq_ignore_ascii_case(&self.address);
        let mut active = self.aliases.iter().filter(|alias| alias.active);
        if own || active.any(|alias| alias.address.eq_ignore_ascii_case(address)) {
            return Ok(());
        }
        let text = "You can only send from your own address or active aliases";
        Err(Error::denied(codes::SENDER_NOT_ALLOWED, text))
    }
}

/// A sent message is stored in the folder `Sent` and in the list of [`FakeHost::sent`]. The message
/// is not delivered.
impl Outbox for FakeHost {
    fn send(&self, draft: Draft, key: Option<&str>) -> Result<Sent, SendError> {
        let now = self.now();
        let can_read = self.current().holds(Scope::MailRead);
        let send = |account: &mut Account| Ok(account.send(draft, key, now, can_read));
        self.allow(Need::Scope(Scope::MailSend), send)?
    }

    fn upload(
        &self,
        filename: &str,
        content_type: &str,
        content: Blob,
    ) -> Result<UploadedFile, Error> {
        let (now, number) = (self.now(), self.next_number("upload"));
        self.allow(Need::Scope(Scope::MailSend), |account| {
            if filename.is_empty() || !is_line(filename) || !is_media_type(content_type) {
                let text = "Invalid file name or media type";
                return Err(Error::invalid(codes::INVALID_DRAFT, text));
            }
            let content = content.in_memory().unwrap_or_default().to_vec();
            if content.len() > MAX_UPLOAD {
                let text = "An upload must be at most 25 MB";
                return Err(Error::too_large(codes::UPLOAD_TOO_LARGE, text));
            }
            account.uploads.retain(|upload| upload.expires_at > now);
            let used = account
                .uploads
                .iter()
                .map(|upload| upload.file.content.len());
            if used.sum::<usize>() + content.len() > MAX_UPLOADS {
                let text = "The uploads of the account exceed 100 MB";
                return Err(Error::too_large(codes::UPLOADS_FULL, text));
            }
            let uploaded = UploadedFile {
                id: format!("upload{number}"),
                filename: filename.into(),
                content_type: content_type.into(),
                size: content.len() as u64,
                expires_at: now + UPLOAD_LIFETIME,
            };
            account.uploads.push(Upload {
                id: uploaded.id.clone(),
                file: SentFile {
                    filename: filename.into(),
                    content_type: content_type.into(),
                    content,
                },
                expires_at: uploaded.expires_at,
            });
            Ok(uploaded)
        })
    }
}

impl Account {
    fn send(
        &mut self,
        draft: Draft,
        key: Option<&str>,
        now: Timestamp,
        can_read: bool,
    ) -> Result<Sent, SendError> {
        let Some(from) = &draft.from else {
            return Err(Error::invalid(codes::INVALID_DRAFT, "Invalid sender").into());
        };
        self.check_sender(&from.address)?;
        let is_in_mailbox =
            |file: &File| matches!(file.source, FileSource::Part(_) | FileSource::Message(_));
        if !can_read && draft.files.iter().any(is_in_mailbox) {
            return Err(Error::denied(codes::MISSING_SCOPE, missing("mail:read")).into());
        }
        if let Some(error) = &self.sending_fault {
            return Err(error.clone().into());
        }
        let mut earlier = self
            .sent
            .iter()
            .filter(|(one, _)| key.is_some() && one.key.as_deref() == key);
        if let Some((earlier, sent)) = earlier.next() {
            // `Draft` does not implement `PartialEq`, so the debug texts are compared. They
            // include all fields and the content of the files.
            if format!("{:?}", earlier.draft) != format!("{draft:?}") {
                let text = "This Idempotency-Key was used for another message";
                return Err(Error::conflict(codes::IDEMPOTENCY_KEY_REUSED, text).into());
            }
            return Ok(Sent {
                replayed: true,
                ..sent.clone()
            });
        }
        check(&draft)?;
        let mut files = Vec::new();
        for (index, file) in (0..).zip(&draft.files) {
            let found = self.find_file(file, now);
            files.push(found.ok_or(SendError::FileNotFound(index))?);
        }
        check_size(&draft, &files)?;
        let letter = Letter::sent(&draft, &files).date(now);
        let uid = self.mail.put("Sent", letter);
        let sent = Sent {
            message_id: format!("<{uid}@example.test>"),
            saved_to: Some("Sent".into()),
            replayed: false,
        };
        self.add_delivery(&draft, &sent, now);
        let message = Rc::new(SentMessage {
            draft,
            files,
            key: key.map(Into::into),
        });
        self.sent.push((message, sent.clone()));
        Ok(sent)
    }

    /// Returns a file with the bytes of its source. Returns `None` if the source does not exist. A
    /// complete message has only its subject and its text.
    fn find_file(&self, file: &File, now: Timestamp) -> Option<SentFile> {
        let found = match &file.source {
            FileSource::Blob(blob) => SentFile {
                filename: String::new(),
                content_type: "application/octet-stream".into(),
                content: blob.in_memory().unwrap_or_default().to_vec(),
            },
            FileSource::Upload(id) => {
                let mut uploads = self.uploads.iter();
                let upload = uploads.find(|one| one.id == *id && one.expires_at > now);
                upload?.file.clone()
            }
            FileSource::Part(part) => {
                let (attachment, content) = self.mail.attachment(part.uid, part.index)?;
                SentFile {
                    filename: attachment.filename.clone(),
                    content_type: attachment.content_type.clone(),
                    content: content.to_vec(),
                }
            }
            FileSource::Message(uid) => {
                let detail = self.mail.detail(*uid)?;
                let (subject, text) = (&detail.summary.subject, detail.text.as_deref());
                let message = format!("Subject: {subject}\r\n\r\n{}", text.unwrap_or_default());
                let name = Some(subject.as_str()).filter(|subject| !subject.is_empty());
                SentFile {
                    filename: format!("{}.eml", name.unwrap_or("message")),
                    content_type: "message/rfc822".into(),
                    content: message.into(),
                }
            }
        };
        Some(SentFile {
            filename: file.filename.clone().unwrap_or(found.filename),
            content_type: file.content_type.clone().unwrap_or(found.content_type),
            content: found.content,
        })
    }
}

fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn is_media_type(text: &str) -> bool {
    text.split('/').count() == 2 && is_line(text)
}

/// Checks whether a draft is valid and has a recipient.
fn check(draft: &Draft) -> Result<(), Error> {
    let invalid = |text: &str| Err(Error::invalid(codes::INVALID_DRAFT, text));
    let line = |text: &str| !text.chars().any(char::is_control);
    let mut recipients = draft
        .to
        .iter()
        .chain(&draft.cc)
        .chain(&draft.bcc)
        .peekable();
    if recipients.peek().is_none() {
        return invalid("A message needs a recipient");
    }
    let is_address = |text: &str| {
        let parts = text.rsplit_once('@');
        parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty())
            && line(text)
            && !text.contains(' ')
    };
    if !recipients.all(|one| line(&one.name) && is_address(&one.address)) {
        return invalid("A recipient is not an address");
    }
    if !line(&draft.subject) {
        return invalid("The subject must be one line");
    }
    let mut reply_to = draft.reply_to.iter();
    let from = draft.from.iter();
    if !reply_to.all(|one| line(&one.name) && is_address(&one.address))
        || !from.map(|from| &from.name).all(|name| line(name))
    {
        return invalid("A sender or an address for replies is invalid");
    }
    let mut headers = draft.headers.iter();
    if draft.headers.len() > MAX_HEADER_FIELDS
        || !headers.all(|header| check_header_field(&header.name, &header.value).is_ok())
    {
        return invalid("A header field is not allowed");
    }
    let mut names = HashSet::new();
    let mut once = draft
        .headers
        .iter()
        .filter(|header| !is_repeatable(&header.name));
    if !once.all(|header| names.insert(header.name.to_ascii_lowercase())) {
        return invalid("A header field occurs twice");
    }
    let is_named = |file: &File| match &file.filename {
        Some(name) => !name.is_empty() && line(name),
        None => !matches!(file.source, FileSource::Blob(_)),
    };
    let is_typed = |file: &File| file.content_type.as_deref().is_none_or(is_media_type);
    if !draft
        .files
        .iter()
        .all(|file| is_named(file) && is_typed(file))
    {
        return invalid("A file's name or media type is invalid");
    }
    let mut ids = HashSet::new();
    let mut given = draft
        .files
        .iter()
        .filter_map(|file| file.content_id.as_ref());
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_graphic() && b != b'<');
    if !given.all(|id| is_id(id) && ids.insert(id)) {
        return invalid("A Content-ID is invalid or occurs twice");
    }
    Ok(())
}

/// Checks whether a message exceeds the maximum size.
fn check_size(draft: &Draft, files: &[SentFile]) -> Result<(), Error> {
    let texts = [draft.text.as_ref(), draft.html.as_ref()]
        .into_iter()
        .flatten();
    let files = files.iter().map(|file| file.content.len());
    // A message contains files in base64, which needs 4 bytes for each 3 bytes of a file.
    if texts.map(String::len).sum::<usize>() + files.sum::<usize>() / 3 * 4 > MAX_MESSAGE {
        return Err(Error::too_large(
            codes::MESSAGE_TOO_LARGE,
            "the message exceeds the 25 MB limit",
        ));
    }
    Ok(())
}
