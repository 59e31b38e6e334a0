//! The outbox of the fake host. The outbox stores messages and does not send them.

use std::collections::HashSet;
use std::rc::Rc;

use latchmail_shape::{MAX_HEADER_FIELDS, check_header_field, codes, is_repeatable};

use super::{Account, FakeHost, Need, missing};
use crate::capability::{
    Blob, Caller, Draft, Error, File, FileSource, FlagAction, Original, Outbox, OutboxEntry, Scope,
    SendError, SendOptions, Sent, Timestamp, UploadedContent, UploadedFile,
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

/// Maximum number of seconds to undo a send.
const MAX_UNDO: u32 = 120;
/// Maximum time until a message leaves, in milliseconds.
const MAX_DELAY: Timestamp = 366 * 24 * 3_600_000;

/// A message that the module sent.
#[derive(Debug)]
pub struct SentMessage {
    /// The message.
    pub draft: Draft,
    /// The files with the bytes of their sources, in the order of the draft.
    pub files: Vec<SentFile>,
    /// Idempotency key that the client sent.
    pub key: Option<String>,
    /// When the message leaves.
    pub options: SendOptions,
}

/// A message in the outbox.
#[derive(Debug)]
pub(super) struct Later {
    pub(super) entry: OutboxEntry,
    /// The copy for the folder `Sent`.
    pub(super) letter: Option<Letter>,
    /// The time of the outcome.
    pub(super) ended_at: Option<Timestamp>,
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

/// Returns the scope with which the caller uploads files, `mail:send` or `mail:write`.
fn upload_scope(host: &FakeHost) -> Scope {
    let caller = host.current();
    if !caller.holds(Scope::MailSend) && caller.holds(Scope::MailWrite) {
        return Scope::MailWrite;
    }
    Scope::MailSend
}

impl Account {
    pub(super) fn check_sender(&self, address: &str) -> Result<(), Error> {
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
    fn send(&self, draft: Draft, options: &SendOptions) -> Result<Sent, SendError> {
        let (now, options) = (self.now(), options.clone());
        let can_read = self.current().holds(Scope::MailRead);
        let send = |account: &mut Account| Ok(account.send(draft, options, now, can_read));
        self.allow(Need::Scope(Scope::MailSend), send)?
    }

    fn upload(
        &self,
        filename: &str,
        content_type: &str,
        content: Blob,
    ) -> Result<UploadedFile, Error> {
        let (now, number) = (self.now(), self.next_number("upload"));
        let need = Need::Scope(upload_scope(self));
        self.allow(need, |account| {
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

    fn get_upload(&self, id: &str) -> Result<UploadedContent, Error> {
        let now = self.now();
        self.allow(Need::Scope(upload_scope(self)), |account| {
            let mut uploads = account.uploads.iter();
            let upload = uploads.find(|one| one.id == id && one.expires_at > now);
            let file = &upload.ok_or(Error::NotFound)?.file;
            Ok(UploadedContent {
                filename: file.filename.clone(),
                content_type: file.content_type.clone(),
                content: Blob::Bytes(file.content.clone()),
            })
        })
    }

    fn list_entries(&self, limit: u32) -> Result<Vec<OutboxEntry>, Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.depart(now);
            let mut all: Vec<_> = account.later.iter().collect();
            all.sort_by_key(|later| match later.ended_at {
                None => (false, later.entry.send_at),
                Some(ended_at) => (true, -ended_at),
            });
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            Ok(all
                .into_iter()
                .take(limit)
                .map(|later| later.entry.clone())
                .collect())
        })
    }

    fn get_entry(&self, id: &str) -> Result<OutboxEntry, Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailRead), |account| {
            account.depart(now);
            Ok(account.scheduled(id)?.entry.clone())
        })
    }

    fn reschedule_entry(&self, id: &str, send_at: Timestamp) -> Result<OutboxEntry, Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.depart(now);
            check_time(send_at, now)?;
            let later = account.scheduled(id)?;
            if later.entry.state != "scheduled" {
                return Err(ended(&later.entry.state));
            }
            later.entry.send_at = send_at.max(now);
            Ok(later.entry.clone())
        })
    }

    fn cancel_entry(&self, id: &str) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailSend), |account| {
            account.depart(now);
            let later = account.scheduled(id)?;
            match later.entry.state.as_str() {
                "scheduled" => {
                    later.entry.state = "cancelled".into();
                    later.letter = None;
                    later.ended_at = Some(now);
                    Ok(())
                }
                "cancelled" => Ok(()),
                state => Err(ended(state)),
            }
        })
    }
}

impl Account {
    fn send(
        &mut self,
        draft: Draft,
        options: SendOptions,
        now: Timestamp,
        can_read: bool,
    ) -> Result<Sent, SendError> {
        let key = options.key.as_deref();
        let Some(from) = &draft.from else {
            return Err(Error::invalid(codes::INVALID_DRAFT, "Invalid sender").into());
        };
        self.check_sender(&from.address)?;
        check_reading(&draft, can_read)?;
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
            if format!("{:?}", (&earlier.draft, &earlier.options))
                != format!("{:?}", (&draft, &options))
            {
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
        let sent = if options.send_at.is_some() || options.undo_seconds.is_some() {
            self.schedule(&draft, &files, &options, now)?
        } else {
            let original = draft.original.clone().or_else(|| self.answered(&draft));
            if let Some(original) = original.filter(|_| can_read) {
                self.mark_original(&original);
            }
            let uid = self.mail.put("Sent", letter(&draft, &files, now));
            Sent {
                state: "sent".into(),
                entry: None,
                send_at: None,
                message_id: format!("<{uid}@example.test>"),
                saved_to: Some("Sent".into()),
                replayed: false,
            }
        };
        let key = options.key.clone();
        self.add_delivery(&draft, &sent, now);
        let message = Rc::new(SentMessage {
            draft,
            files,
            key,
            options,
        });
        self.sent.push((message, sent.clone()));
        Ok(sent)
    }

    fn schedule(
        &mut self,
        draft: &Draft,
        files: &[SentFile],
        options: &SendOptions,
        now: Timestamp,
    ) -> Result<Sent, Error> {
        let undo = options.undo_seconds.unwrap_or(0);
        if undo > MAX_UNDO {
            return Err(invalid_time("undoSeconds must be 0 to 120"));
        }
        let send_at = options.send_at.unwrap_or(now);
        let send_at = send_at.max(now + i64::from(undo) * 1000);
        check_time(send_at, now)?;
        let number = self.later.len() + 1;
        let entry = OutboxEntry {
            id: format!("later{number}"),
            state: "scheduled".into(),
            send_at,
            message_id: format!("<later{number}@example.test>"),
            subject: draft.subject.clone(),
            to: draft.to.clone(),
            error: None,
            draft: None,
        };
        let sent = Sent {
            state: "scheduled".into(),
            entry: Some(entry.id.clone()),
            send_at: Some(send_at),
            message_id: entry.message_id.clone(),
            saved_to: None,
            replayed: false,
        };
        self.later.push(Later {
            entry,
            letter: Some(letter(draft, files, send_at)),
            ended_at: None,
        });
        Ok(sent)
    }

    /// Sends the messages whose time has come.
    fn depart(&mut self, now: Timestamp) {
        for later in &mut self.later {
            if later.entry.send_at <= now && later.entry.state == "scheduled" {
                if let Some(letter) = later.letter.take() {
                    self.mail.put("Sent", letter);
                }
                later.entry.state = "sent".into();
                later.ended_at = Some(later.entry.send_at);
            }
        }
    }

    fn scheduled(&mut self, id: &str) -> Result<&mut Later, Error> {
        let later = self.later.iter_mut().find(|later| later.entry.id == id);
        later.ok_or(Error::NotFound)
    }

    /// Returns the message with the Message-ID that a draft answers.
    fn answered(&self, draft: &Draft) -> Option<Original> {
        let message_id = draft.in_reply_to.as_deref()?;
        Some(Original {
            uid: self.mail.with_message_id(message_id)?,
            relation: "reply".into(),
        })
    }

    /// Sets the flag of the message that a sent message answers or forwards, if it exists.
    fn mark_original(&mut self, original: &Original) {
        let flag = match original.relation.as_str() {
            "reply" => "\\Answered",
            _ => "$Forwarded",
        };
        if self.mail.detail(original.uid).is_some() {
            let flags = [flag.to_owned()];
            let set = self
                .mail
                .set_flags(&[original.uid], &flags, FlagAction::Add);
            // The message is sent, even if the flag is not set.
            set.unwrap_or_default();
        }
    }

    /// Returns the files of a draft that is stored, with the bytes of their sources.
    pub(super) fn files_of(
        &self,
        draft: &Draft,
        now: Timestamp,
        can_read: bool,
    ) -> Result<Vec<SentFile>, SendError> {
        check_reading(draft, can_read)?;
        let files = (0..).zip(&draft.files).map(|(index, file)| {
            let found = self.find_file(file, now);
            found.ok_or(SendError::FileNotFound(index))
        });
        let files: Vec<SentFile> = files.collect::<Result<_, _>>()?;
        check_size(draft, &files)?;
        Ok(files)
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

fn check_time(send_at: Timestamp, now: Timestamp) -> Result<(), Error> {
    if send_at - now > MAX_DELAY {
        return Err(invalid_time("sendAt must be at most a year ahead"));
    }
    Ok(())
}

fn invalid_time(text: &str) -> Error {
    Error::invalid(codes::INVALID_SEND_TIME, text)
}

fn ended(state: &str) -> Error {
    if state == "sent" {
        return Error::conflict(codes::ALREADY_SENT, "Already sent");
    }
    let text = "The message is not scheduled any longer";
    Error::conflict(codes::NOT_SCHEDULED, text)
}

/// Checks the scope for files from the mailbox.
fn check_reading(draft: &Draft, can_read: bool) -> Result<(), Error> {
    let is_in_mailbox =
        |file: &File| matches!(file.source, FileSource::Part(_) | FileSource::Message(_));
    if !can_read && draft.files.iter().any(is_in_mailbox) {
        return Err(Error::denied(codes::MISSING_SCOPE, missing("mail:read")));
    }
    Ok(())
}

fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn is_media_type(text: &str) -> bool {
    text.split('/').count() == 2 && is_line(text)
}

/// Returns `true` if the fake host accepts the text as an address. The real host checks more.
pub(super) fn is_address(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    let has_parts = parts.is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    has_parts && !text.contains(|c: char| c.is_control() || c == ' ')
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
    if !recipients.all(|one| line(&one.name) && is_address(&one.address)) {
        return invalid("A recipient is not an address");
    }
    let relation = draft.original.as_ref().map(|one| one.relation.as_str());
    if !matches!(relation, None | Some("reply" | "forward")) {
        return invalid("Invalid relation");
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

/// Returns the message that was written from a draft.
fn letter(draft: &Draft, files: &[SentFile], date: Timestamp) -> Letter {
    let letter = Letter::sent(draft).date(date);
    files.iter().fold(letter, |letter, file| {
        letter.file(&file.filename, &file.content_type, &file.content)
    })
}
