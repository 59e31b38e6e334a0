//! `outbox`: sends mail as the caller.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use latchmail_bindings::Blob;
use latchmail_bindings::latchmail::host::mailbox::Address;
use latchmail_bindings::latchmail::host::outbox::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::caller::Scope;
use latchmail_mailbox::outbox;

use super::Call;

/// The maximum total size of the files of one message, in bytes. A message with larger files would exceed the limit of a message.
const LARGEST: u64 = 25 * 1024 * 1024;

impl Host for Call {
    async fn check_sender(&mut self, address: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(self.sender(&address).await)
    }

    async fn send(
        &mut self,
        draft: wit::Draft,
        key: Option<String>,
    ) -> wasmtime::Result<Result<wit::Sent, Error>> {
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
            to: people(draft.to),
            cc: people(draft.cc),
            bcc: people(draft.bcc),
            subject: draft.subject,
            text: draft.text,
            html: draft.html,
            in_reply_to: draft.in_reply_to,
            references: draft.references,
            files: Vec::new(),
        };
        Ok(self.sent(draft, files, key.as_deref()).await)
    }
}

impl Call {
    async fn sender(&mut self, address: &str) -> Result<(), Error> {
        let access = self.mailbox(Scope::MailSend)?;
        let outbox = &self.services.outbox;
        let sender = outbox
            .check_sender(&access, address)
            .await
            .map_err(outbox_error)?;
        self.sender = Some(sender);
        Ok(())
    }

    async fn sent(
        &mut self,
        mut draft: outbox::Draft,
        files: Vec<(String, String, Blob)>,
        key: Option<&str>,
    ) -> Result<wit::Sent, Error> {
        let access = self.mailbox(Scope::MailSend)?;
        if files.iter().map(|(_, _, blob)| blob.size()).sum::<u64>() > LARGEST {
            return Err(outbox_error(outbox::Error::TooLarge));
        }
        for (filename, content_type, blob) in files {
            draft.files.push(outbox::File {
                filename,
                content_type,
                content: whole(blob).await?,
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

/// Reads all bytes of a blob. A blob may be streamed, for example an attachment of another message.
async fn whole(blob: Blob) -> Result<Bytes, Error> {
    let blob = match blob.into_bytes() {
        Ok(bytes) => return Ok(bytes),
        Err(blob) => blob,
    };
    let mut all = BytesMut::new();
    let mut pieces = blob.into_pieces();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            tracing::error!("failed to read a blob: {error}");
            Error::Internal
        })?;
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

fn people(people: Vec<Address>) -> Vec<latchmail_mailbox::Address> {
    let one = |one: Address| latchmail_mailbox::Address {
        name: one.name,
        address: one.address,
    };
    people.into_iter().map(one).collect()
}

/// The module receives the kind of an error. The details are logged here.
fn outbox_error(error: outbox::Error) -> Error {
    match error {
        outbox::Error::Denied(sentence) => Error::Denied(sentence.into()),
        outbox::Error::Invalid(sentence) => Error::Invalid(sentence),
        outbox::Error::TooLarge => Error::TooLarge(error.to_string()),
        outbox::Error::Rejected(sentence) => Error::Rejected(sentence),
        outbox::Error::Conflict(sentence) => Error::Conflict(sentence.into()),
        outbox::Error::CredentialRefused => Error::CredentialRefused,
        outbox::Error::Unavailable(detail) | outbox::Error::Lost(detail) => {
            tracing::warn!("mail server unavailable for sending: {detail}");
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
