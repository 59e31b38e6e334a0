//! The interface `outbox`, for sending mail on behalf of the caller.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::api::problem;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use latchmail_bindings::latchmail::host::mailbox::Address;
use latchmail_bindings::latchmail::host::outbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_core::caller::Scope;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::outbox;
use wasmtime::component::Resource;

use super::blobs::count_bytes;
use super::call::Call;
use super::host_call::host_call;

/// The maximum total size of the attached files of one message, in bytes. A message with its
/// attachments has the same maximum size.
const MAX_FILES_SIZE: u64 = 25 * 1024 * 1024;

impl Host for Call {
    fn convert_send_error(
        &mut self,
        error: HostError<wit::SendError>,
    ) -> wasmtime::Result<wit::SendError> {
        error.into_guest()
    }

    async fn send(
        &mut self,
        mut draft: wit::Draft,
        options: wit::SendOptions,
    ) -> Result<wit::Sent, HostError<wit::SendError>> {
        let _span = host_call("outbox.send");
        let files = mem::take(&mut draft.files);
        let files = self.take_files(files).map_err(HostError::Trap)?;
        Ok(self.send_draft(draft, files, options).await?)
    }

    async fn list_entries(&mut self, limit: u32) -> Result<Vec<wit::Entry>, HostError<Error>> {
        let _span = host_call("outbox.list-entries");
        let access = self.mailbox_access(Scope::MailRead)?;
        let entries = self.services.outbox.list_entries(&access, limit).await;
        let entries = entries.map_err(outbox_error)?;
        Ok(entries.into_iter().map(wit_entry).collect())
    }

    async fn get_entry(&mut self, id: String) -> Result<wit::Entry, HostError<Error>> {
        let _span = host_call("outbox.get-entry");
        let access = self.mailbox_access(Scope::MailRead)?;
        let entry = self.services.outbox.entry(&access, &id).await;
        let entry = entry.map_err(outbox_error)?.ok_or(Error::NotFound)?;
        Ok(wit_entry(entry))
    }

    async fn reschedule_entry(
        &mut self,
        id: String,
        send_at: i64,
    ) -> Result<wit::Entry, HostError<Error>> {
        let _span = host_call("outbox.reschedule-entry");
        let access = self.mailbox_access(Scope::MailSend)?;
        self.preview.refuse()?;
        let (outbox, send_at) = (&self.services.outbox, Timestamp::from_millis(send_at));
        let entry = outbox.reschedule(&access, &id, send_at).await;
        let entry = entry.map_err(outbox_error)?.ok_or(Error::NotFound)?;
        Ok(wit_entry(entry))
    }

    async fn cancel_entry(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("outbox.cancel-entry");
        let access = self.mailbox_access(Scope::MailSend)?;
        if self
            .preview
            .records(|| format!("cancel the scheduled message {id}"))
        {
            return Ok(());
        }
        let cancelled = self.services.outbox.cancel(&access, &id).await;
        if cancelled.map_err(outbox_error)? {
            return Ok(());
        }
        Err(Error::NotFound.into())
    }

    async fn upload(
        &mut self,
        filename: String,
        content_type: String,
        content: Resource<Blob>,
    ) -> Result<wit::UploadedFile, HostError<Error>> {
        let _span = host_call("outbox.upload");
        let blob = self.table.delete(content).map_err(HostError::trap)?;
        Ok(self.store_upload(filename, content_type, blob).await?)
    }

    async fn get_upload(&mut self, id: String) -> Result<wit::UploadedContent, HostError<Error>> {
        let _span = host_call("outbox.get-upload");
        let access = upload_access(self)?;
        let upload = self.services.outbox.uploads.content(&access, &id).await;
        let upload = upload.map_err(outbox_error)?.ok_or(Error::NotFound)?;
        count_bytes(self, upload.content.len())?;
        let content = self.table.push(Blob::new(upload.content));
        Ok(wit::UploadedContent {
            filename: upload.filename,
            content_type: upload.content_type,
            content: content.map_err(HostError::trap)?,
        })
    }
}

/// A file of a message to send.
pub(super) struct File {
    source: FileSource,
    filename: Option<String>,
    content_type: Option<String>,
    content_id: Option<String>,
    inline: bool,
}

/// The source of a file.
enum FileSource {
    Blob(Blob),
    Other(outbox::Source),
}

impl FileSource {
    /// Returns the size of a blob. Returns 0 for other sources, whose size is not known yet.
    fn blob_size(&self) -> u64 {
        match self {
            Self::Blob(blob) => blob.size(),
            Self::Other(_) => 0,
        }
    }

    fn is_in_mailbox(&self) -> bool {
        use outbox::Source::{Message, Part};
        matches!(self, Self::Other(Part { .. } | Message(_)))
    }
}

impl Call {
    async fn send_draft(
        &mut self,
        draft: wit::Draft,
        sources: Vec<File>,
        options: wit::SendOptions,
    ) -> Result<wit::Sent, wit::SendError> {
        let access = self.mailbox_access(Scope::MailSend)?;
        if self.preview.records(|| send_line(&draft)) {
            return Ok(wit::Sent {
                state: "sent".into(),
                entry: None,
                send_at: None,
                message_id: "<preview@latchmail.invalid>".into(),
                saved_to: None,
                replayed: false,
            });
        }
        let outbox = Arc::clone(&self.services.outbox);
        let from = draft
            .from
            .ok_or_else(|| problem::invalid(codes::INVALID_DRAFT, "Invalid sender"))?;
        let sender = outbox
            .check_sender(access, &from.address)
            .await
            .map_err(send_error)?;
        let files = self.read_sources(sources).await?;
        let original = match self.original(draft.original)? {
            Some(original) => Some(outbox::Original::Known(original)),
            None if self.require_scope(Scope::MailRead).is_ok() => {
                draft.in_reply_to.clone().map(outbox::Original::ReplyTo)
            }
            None => None,
        };
        let draft = outbox::Draft {
            from: sender,
            from_name: from.name,
            to: recipients(draft.to)?,
            cc: recipients(draft.cc)?,
            bcc: recipients(draft.bcc)?,
            reply_to: recipients(draft.reply_to)?,
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
            headers: header_fields(draft.headers),
            files,
            original,
        };
        let sent = outbox
            .send(draft, send_options(options))
            .await
            .map_err(send_error)?;
        Ok(wit_sent(sent))
    }

    /// Returns the message that a message answers or forwards. Returns `None` if the caller may not
    /// read messages: the message is sent without the flag of the original.
    pub(super) fn original(
        &self,
        original: Option<wit::Original>,
    ) -> Result<Option<outbox::OriginalMessage>, Error> {
        let Some(original) = original else {
            return Ok(None);
        };
        let relation = outbox::Relation::named(&original.relation)
            .ok_or_else(|| problem::invalid(codes::INVALID_DRAFT, "Invalid relation"))?;
        let can_read = self.require_scope(Scope::MailRead).is_ok();
        Ok(can_read.then_some(outbox::OriginalMessage {
            number: MessageNumber(original.uid),
            relation,
        }))
    }

    /// Takes the blobs of files out of the table of handles.
    pub(super) fn take_files(&mut self, files: Vec<wit::File>) -> wasmtime::Result<Vec<File>> {
        let take = |file: wit::File| {
            let source = match file.source {
                wit::FileSource::Blob(blob) => FileSource::Blob(self.table.delete(blob)?),
                wit::FileSource::Upload(id) => FileSource::Other(outbox::Source::Upload(id)),
                wit::FileSource::Part(part) => FileSource::Other(outbox::Source::Part {
                    message: MessageNumber(part.uid),
                    index: part.index,
                }),
                wit::FileSource::Message(uid) => {
                    FileSource::Other(outbox::Source::Message(MessageNumber(uid)))
                }
            };
            Ok(File {
                source,
                filename: file.filename,
                content_type: file.content_type,
                content_id: file.content_id,
                inline: file.inline,
            })
        };
        files.into_iter().map(take).collect()
    }

    /// Reads the blobs of files. Checks the scope for files from the mailbox, and the total size of
    /// the blobs.
    pub(super) async fn read_sources(
        &mut self,
        sources: Vec<File>,
    ) -> Result<Vec<outbox::File>, Error> {
        if sources.iter().any(|file| file.source.is_in_mailbox()) {
            // A credential that can only send must not be able to mail the mailbox to its client.
            self.require_scope(Scope::MailRead)?;
        }
        let sizes = sources.iter().map(|file| file.source.blob_size());
        if sizes.sum::<u64>() > MAX_FILES_SIZE {
            return Err(outbox_error(outbox::Error::TooLarge));
        }
        let mut files = Vec::with_capacity(sources.len());
        for file in sources {
            let is_blob = matches!(file.source, FileSource::Blob(_));
            let default_type = is_blob.then(|| "application/octet-stream".to_owned());
            files.push(outbox::File {
                source: match file.source {
                    FileSource::Blob(blob) => outbox::Source::Bytes(read_all(blob).await?),
                    FileSource::Other(source) => source,
                },
                filename: file.filename,
                content_type: file.content_type.or(default_type),
                content_id: file.content_id,
                inline: file.inline,
            });
        }
        Ok(files)
    }

    async fn store_upload(
        &mut self,
        filename: String,
        content_type: String,
        blob: Blob,
    ) -> Result<wit::UploadedFile, Error> {
        let access = upload_access(self)?;
        self.preview.refuse()?;
        let (uploads, size) = (&self.services.outbox.uploads, blob.size());
        let content = blob.into_stream();
        let stored = uploads
            .store(&access, &filename, &content_type, size, content)
            .await
            .map_err(outbox_error)?;
        Ok(wit::UploadedFile {
            id: stored.id,
            filename,
            content_type,
            size,
            expires_at: stored.expires_at.millis(),
        })
    }
}

/// Returns the access with which files are uploaded, for messages that are sent or stored.
fn upload_access(call: &Call) -> Result<latchmail_mailbox::Access, Error> {
    call.mailbox_access(Scope::MailSend)
        .or_else(|denied| call.mailbox_access(Scope::MailWrite).map_err(|_| denied))
}

/// Returns the line of a preview for a message to send.
fn send_line(draft: &wit::Draft) -> String {
    let recipients = [&draft.to, &draft.cc, &draft.bcc].into_iter().flatten();
    let recipients: Vec<&str> = recipients.map(|one| one.address.as_str()).collect();
    format!("send {:?} to {}", draft.subject, recipients.join(", "))
}

fn wit_entry(entry: outbox::OutboxEntry) -> wit::Entry {
    let to = entry.to.into_iter();
    wit::Entry {
        id: entry.id,
        state: entry.state,
        send_at: entry.send_at.millis(),
        message_id: entry.message_id,
        subject: entry.subject,
        to: to
            .map(|(name, address)| Address { name, address })
            .collect(),
        error: entry.error,
        draft: entry.draft,
    }
}

/// Converts the header fields of a message to send or of a draft.
pub(super) fn header_fields(headers: Vec<wit::Header>) -> Vec<outbox::HeaderField> {
    let field = |header: wit::Header| outbox::HeaderField {
        name: header.name,
        value: header.value,
    };
    headers.into_iter().map(field).collect()
}

/// Converts the options of a send.
pub(super) fn send_options(options: wit::SendOptions) -> outbox::SendOptions {
    outbox::SendOptions {
        key: options.key,
        send_at: options.send_at.map(Timestamp::from_millis),
        undo: options
            .undo_seconds
            .map(|seconds| Duration::from_secs(seconds.into())),
    }
}

/// Converts the result of a send.
pub(super) fn wit_sent(sent: outbox::Sent) -> wit::Sent {
    wit::Sent {
        state: if sent.scheduled.is_some() {
            "scheduled"
        } else {
            "sent"
        }
        .into(),
        send_at: sent.scheduled.as_ref().map(|one| one.send_at.millis()),
        entry: sent.scheduled.map(|one| one.id),
        message_id: sent.message_id,
        saved_to: sent.saved_to,
        replayed: sent.replayed,
    }
}

/// Reads all bytes of a blob. The blob can be a stream, for example an attachment of another
/// message.
pub(super) async fn read_all(blob: Blob) -> Result<Bytes, Error> {
    let blob = match blob.into_bytes() {
        Ok(bytes) => return Ok(bytes),
        Err(blob) => blob,
    };
    let mut all = BytesMut::new();
    let mut chunks = blob.into_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            tracing::error!("failed to read a blob: {error}");
            Error::Internal
        })?;
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

fn recipients(addresses: Vec<Address>) -> Result<Vec<outbox::Recipient>, Error> {
    let one = |one: Address| outbox::Recipient::new(one.name, &one.address);
    let recipients: Result<_, _> = addresses.into_iter().map(one).collect();
    recipients.map_err(outbox_error)
}

fn send_error(error: outbox::Error) -> wit::SendError {
    match error {
        outbox::Error::FileNotFound(index) => {
            wit::SendError::FileNotFound(u32::try_from(index).unwrap_or(u32::MAX))
        }
        other => wit::SendError::Failed(outbox_error(other)),
    }
}

/// Converts an error of the outbox to a WIT error. The module receives the text of an error that
/// the request or the mail server's rejection caused. The host logs the details of other failures,
/// and the module receives only their kind.
pub(super) fn outbox_error(error: outbox::Error) -> Error {
    match error {
        outbox::Error::Denied(why) => Error::Denied(problem::of(why)),
        outbox::Error::Invalid(why) => Error::Invalid(problem::of(why)),
        outbox::Error::TooLarge => problem::too_large(codes::MESSAGE_TOO_LARGE, error.to_string()),
        outbox::Error::UploadTooLarge => {
            problem::too_large(codes::UPLOAD_TOO_LARGE, error.to_string())
        }
        outbox::Error::UploadsFull => problem::too_large(codes::UPLOADS_FULL, error.to_string()),
        outbox::Error::OutboxFull => problem::too_large(codes::OUTBOX_FULL, error.to_string()),
        outbox::Error::FileNotFound(_) => Error::NotFound,
        outbox::Error::Rejected(sentence) => problem::rejected(sentence),
        outbox::Error::Conflict(why) => Error::Conflict(problem::of(why)),
        outbox::Error::CredentialRefused => Error::CredentialRefused,
        outbox::Error::Unavailable(detail) | outbox::Error::Lost(detail) => {
            tracing::warn!("mail server or database unavailable for sending: {detail}");
            Error::Unavailable
        }
        outbox::Error::Unknown(detail) => {
            tracing::error!("outcome of sending a message is unknown: {detail}");
            Error::OutcomeUnknown
        }
        outbox::Error::Internal(detail) => {
            tracing::error!("sending failed: {detail}");
            Error::Internal
        }
    }
}
