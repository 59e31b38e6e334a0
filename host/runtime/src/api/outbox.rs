//! The interface `outbox`, for sending mail on behalf of the caller.

use std::mem;

use crate::api::problem;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use latchmail_bindings::latchmail::host::mailbox::Address;
use latchmail_bindings::latchmail::host::outbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_core::message_number::MessageNumber;
use latchmail_mailbox::outbox;
use wasmtime::component::Resource;

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
        key: Option<String>,
    ) -> Result<wit::Sent, HostError<wit::SendError>> {
        let _span = host_call("outbox.send");
        let mut files = Vec::with_capacity(draft.files.len());
        for file in mem::take(&mut draft.files) {
            let source = match file.source {
                wit::FileSource::Blob(blob) => {
                    FileSource::Blob(self.table.delete(blob).map_err(HostError::trap)?)
                }
                wit::FileSource::Upload(id) => FileSource::Other(outbox::Source::Upload(id)),
                wit::FileSource::Part(part) => FileSource::Other(outbox::Source::Part {
                    message: MessageNumber(part.uid),
                    index: part.index,
                }),
                wit::FileSource::Message(uid) => {
                    FileSource::Other(outbox::Source::Message(MessageNumber(uid)))
                }
            };
            files.push(File {
                source,
                filename: file.filename,
                content_type: file.content_type,
                content_id: file.content_id,
                inline: file.inline,
            });
        }
        Ok(self.send_draft(draft, files, key.as_deref()).await?)
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
}

/// A file of a message to send.
struct File {
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
        key: Option<&str>,
    ) -> Result<wit::Sent, wit::SendError> {
        let access = self.mailbox_access(Scope::MailSend)?;
        let outbox = &self.services.outbox;
        let from = draft
            .from
            .ok_or_else(|| problem::invalid(codes::INVALID_DRAFT, "Invalid sender"))?;
        let sender = outbox
            .check_sender(access, &from.address)
            .await
            .map_err(send_error)?;
        if sources.iter().any(|file| file.source.is_in_mailbox()) {
            // A credential that can only send must not be able to mail the mailbox to its client.
            self.require_scope(Scope::MailRead)?;
        }
        let sizes = sources.iter().map(|file| file.source.blob_size());
        if sizes.sum::<u64>() > MAX_FILES_SIZE {
            return Err(send_error(outbox::Error::TooLarge));
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
        let headers = draft.headers.into_iter();
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
            headers: headers
                .map(|header| outbox::HeaderField {
                    name: header.name,
                    value: header.value,
                })
                .collect(),
            files,
        };
        let sent = outbox.send(draft, key).await.map_err(send_error)?;
        Ok(wit::Sent {
            message_id: sent.message_id,
            saved_to: sent.saved_to,
            replayed: sent.replayed,
        })
    }

    async fn store_upload(
        &mut self,
        filename: String,
        content_type: String,
        blob: Blob,
    ) -> Result<wit::UploadedFile, Error> {
        let access = self.mailbox_access(Scope::MailSend)?;
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
