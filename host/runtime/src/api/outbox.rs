//! The interface `outbox`, for sending mail on behalf of the caller.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use latchmail_bindings::Blob;
use latchmail_bindings::latchmail::host::mailbox::Address;
use latchmail_bindings::latchmail::host::outbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_mailbox::outbox;

use super::call::Call;
use super::host_call::host_call;

/// The maximum total size of the attached files of one message, in bytes. A message with its
/// attachments has the same maximum size.
const MAX_FILES_SIZE: u64 = 25 * 1024 * 1024;

impl Host for Call {
    async fn check_sender(&mut self, address: String) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("outbox.check-sender");
        Ok(self.check_and_keep_sender(&address).await)
    }

    async fn send(
        &mut self,
        draft: wit::Draft,
        key: Option<String>,
    ) -> wasmtime::Result<Result<wit::Sent, Error>> {
        let _span = host_call("outbox.send");
        let mut files = Vec::with_capacity(draft.files.len());
        for file in draft.files {
            files.push((
                file.filename,
                file.content_type,
                self.table.delete(file.content)?,
            ));
        }
        let draft = outbox::Draft {
            from: draft.from,
            to: addresses(draft.to),
            cc: addresses(draft.cc),
            bcc: addresses(draft.bcc),
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
            files: Vec::new(),
        };
        Ok(self.send_draft(draft, files, key.as_deref()).await)
    }
}

impl Call {
    /// Checks a sender address, and stores the accepted address for
    /// [`send_draft`](Self::send_draft).
    async fn check_and_keep_sender(&mut self, address: &str) -> Result<(), Error> {
        let access = self.mailbox_access(Scope::MailSend)?;
        let outbox = &self.services.outbox;
        let sender = outbox
            .check_sender(&access, address)
            .await
            .map_err(outbox_error)?;
        self.sender = Some(sender);
        Ok(())
    }

    async fn send_draft(
        &mut self,
        mut draft: outbox::Draft,
        files: Vec<(String, String, Blob)>,
        key: Option<&str>,
    ) -> Result<wit::Sent, Error> {
        let access = self.mailbox_access(Scope::MailSend)?;
        if files.iter().map(|(_, _, blob)| blob.size()).sum::<u64>() > MAX_FILES_SIZE {
            return Err(outbox_error(outbox::Error::TooLarge));
        }
        for (filename, content_type, blob) in files {
            draft.files.push(outbox::File {
                filename,
                content_type,
                content: read_all(blob).await?,
            });
        }
        let outbox = &self.services.outbox;
        let sent = outbox
            .send(&access, draft, self.sender.as_ref(), key)
            .await
            .map_err(outbox_error)?;
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

fn addresses(addresses: Vec<Address>) -> Vec<latchmail_mailbox::Address> {
    let one = |one: Address| latchmail_mailbox::Address {
        name: one.name,
        address: one.address,
    };
    addresses.into_iter().map(one).collect()
}

/// Converts an error of the outbox to a WIT error. The details are logged, and the module does not
/// receive them.
fn outbox_error(error: outbox::Error) -> Error {
    match error {
        outbox::Error::Denied(sentence) => Error::Denied(sentence.into()),
        outbox::Error::Invalid(sentence) => Error::Invalid(sentence),
        outbox::Error::TooLarge => Error::TooLarge(error.to_string()),
        outbox::Error::Rejected(sentence) => Error::Rejected(sentence),
        outbox::Error::Conflict(sentence) => Error::Conflict(sentence.into()),
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
