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
use latchmail_mailbox::outbox;

use super::call::Call;
use super::host_call::host_call;

/// The maximum total size of the attached files of one message, in bytes. A message with its
/// attachments has the same maximum size.
const MAX_FILES_SIZE: u64 = 25 * 1024 * 1024;

impl Host for Call {
    async fn send(
        &mut self,
        mut draft: wit::Draft,
        key: Option<String>,
    ) -> Result<wit::Sent, HostError<Error>> {
        let _span = host_call("outbox.send");
        let mut files = Vec::with_capacity(draft.files.len());
        for file in mem::take(&mut draft.files) {
            let content = self.table.delete(file.content).map_err(HostError::trap)?;
            files.push((file.filename, file.content_type, content));
        }
        Ok(self.send_draft(draft, files, key.as_deref()).await?)
    }
}

impl Call {
    async fn send_draft(
        &mut self,
        draft: wit::Draft,
        blobs: Vec<(String, String, Blob)>,
        key: Option<&str>,
    ) -> Result<wit::Sent, Error> {
        let access = self.mailbox_access(Scope::MailSend)?;
        let outbox = &self.services.outbox;
        let from = outbox
            .check_sender(access, &draft.from)
            .await
            .map_err(outbox_error)?;
        if blobs.iter().map(|(_, _, blob)| blob.size()).sum::<u64>() > MAX_FILES_SIZE {
            return Err(outbox_error(outbox::Error::TooLarge));
        }
        let mut files = Vec::with_capacity(blobs.len());
        for (filename, content_type, blob) in blobs {
            files.push(outbox::File {
                filename,
                content_type,
                content: read_all(blob).await?,
            });
        }
        let draft = outbox::Draft {
            from,
            to: recipients(draft.to)?,
            cc: recipients(draft.cc)?,
            bcc: recipients(draft.bcc)?,
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
            files,
        };
        let sent = outbox.send(draft, key).await.map_err(outbox_error)?;
        Ok(wit::Sent {
            message_id: sent.message_id,
            saved_to: sent.saved_to,
            replayed: sent.replayed,
        })
    }
}

/// Reads all bytes of a blob. The blob can be a stream, for example an attachment of another
/// message.
async fn read_all(blob: Blob) -> Result<Bytes, Error> {
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

/// Converts an error of the outbox to a WIT error. The module receives the text of an error that
/// the request or the mail server's rejection caused. The host logs the details of other failures,
/// and the module receives only their kind.
fn outbox_error(error: outbox::Error) -> Error {
    match error {
        outbox::Error::Denied(why) => Error::Denied(problem::of(why)),
        outbox::Error::Invalid(why) => Error::Invalid(problem::of(why)),
        outbox::Error::TooLarge => problem::too_large(codes::MESSAGE_TOO_LARGE, error.to_string()),
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
