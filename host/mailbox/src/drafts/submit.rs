//! Sends a message of the mailbox as it is stored, with an envelope of its own. The message stays
//! in the mailbox, and no copy is filed.

use std::sync::Arc;

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;

use super::Drafts;
use super::outgoing::{addressed, rewrite};
use super::result::Error;
use crate::access::Access;
use crate::blocking;
use crate::outbox::draft::MAX_MESSAGE;
use crate::outbox::envelope::{Envelope, EnvelopeAddress, Recipient, Reports};
use crate::outbox::files::read_all;
use crate::outbox::{Error as OutboxError, LaterMessage, SendOptions, Sent};

/// Maximum number of recipients of an envelope, as in the route that sends a message.
const MAX_RECIPIENTS: usize = 50;

/// A stored message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// The number of the message.
    pub number: MessageNumber,
    /// The sender of the envelope. `None` for the address in From.
    pub from: Option<String>,
    /// The recipients of the envelope.
    pub recipients: Vec<String>,
    /// The time at which the message leaves. `None` for the current time.
    pub send_at: Option<Timestamp>,
}

impl Drafts {
    /// Sends a stored message. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Unfinished`] if the message cannot be sent. Returns another [`Error`] if
    /// the operation fails.
    pub async fn submit(
        self: &Arc<Self>,
        access: &Access,
        submission: Submission,
    ) -> Result<Option<Sent>, Error> {
        let (drafts, access) = (Arc::clone(self), access.clone());
        self.run(async move { Box::pin(submit(&drafts, &access, submission)).await })
            .await
    }
}

async fn submit(
    drafts: &Drafts,
    access: &Access,
    submission: Submission,
) -> Result<Option<Sent>, Error> {
    let reading = &drafts.mail.reading;
    let Some(raw) = reading.raw(access, submission.number, true).await? else {
        return Ok(None);
    };
    let size = usize::try_from(raw.size).unwrap_or(usize::MAX);
    if size > MAX_MESSAGE {
        return Err(OutboxError::TooLarge.into());
    }
    let memory = drafts.outbox.acquire_memory(access, size).await?;
    let message = read_all(&raw.content, size).await?;
    let finished = addressed(&message)?;
    let author = drafts
        .outbox
        .check_sender(access.clone(), &finished.from)
        .await?;
    let from = match &submission.from {
        Some(from) => {
            drafts
                .outbox
                .check_sender(access.clone(), from)
                .await?
                .address
        }
        None => author.address,
    };
    let envelope = Envelope {
        from,
        to: recipients(&submission.recipients)?,
        reports: Reports::Default,
    };
    let message_id = match finished.message_id {
        Some(message_id) => message_id,
        None => drafts.outbox.new_message_id(envelope.from.domain())?,
    };
    let (id, now) = (message_id.clone(), drafts.clock.now());
    let written = async {
        let written = blocking::run_text(size, move || rewrite(&message, &id, now)).await;
        written.map_err(OutboxError::Internal)
    };
    let options = SendOptions {
        send_at: submission.send_at,
        ..SendOptions::default()
    };
    let scheduled = if options.is_later() {
        let send_at = drafts.outbox.departure(&options).await?;
        let to = finished.to.into_iter();
        let later = LaterMessage {
            message: written.await?,
            envelope,
            message_id: message_id.clone(),
            subject: finished.subject,
            to: to.map(|one| (one.name, one.address)).collect(),
            original: None,
            draft: None,
            has_copy: false,
        };
        let scheduled = drafts.outbox.schedule(access, later, send_at).await?;
        drop(memory);
        Some(scheduled)
    } else {
        let written = async { Ok((written.await?, memory)) };
        // Without a copy, the result of its upload is always empty.
        let _no_copy = drafts
            .outbox
            .deliver(access, &envelope, &message_id, written, false)
            .await?;
        None
    };
    Ok(Some(Sent {
        message_id,
        saved_to: None,
        replayed: false,
        scheduled,
    }))
}

/// Returns the recipients of an envelope, each once.
fn recipients(addresses: &[String]) -> Result<Vec<EnvelopeAddress>, Error> {
    if addresses.is_empty() || addresses.len() > MAX_RECIPIENTS {
        return Err(Error::Unfinished("recipients"));
    }
    let mut recipients = Vec::with_capacity(addresses.len());
    for address in addresses {
        let recipient = Recipient::new(String::new(), address)?;
        if !recipients.contains(&recipient.address) {
            recipients.push(recipient.address);
        }
    }
    Ok(recipients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_has_each_recipient_once() {
        let given = ["bo@x.example", "al@x.example", "bo@x.example"].map(String::from);
        let found = recipients(&given).unwrap();
        let found: Vec<_> = found.iter().map(EnvelopeAddress::as_str).collect();
        assert_eq!(found, ["bo@x.example", "al@x.example"]);
        let many = vec!["bo@x.example".to_owned(); MAX_RECIPIENTS + 1];
        for invalid in [&[][..], &many[..], &["bo".to_owned()][..]] {
            assert!(recipients(invalid).is_err(), "{invalid:?}");
        }
    }
}
