//! Records the messages that grants send or schedule. A sent message cannot be undone, so the
//! record only lists it.

use latchmail_directory::grant_changes::NewChange;
use serde_json::json;

use super::envelope::{Envelope, EnvelopeAddress};
use super::result::Error;
use super::send::Outbox;
use crate::access::Access;
use crate::recording::{Outcome, Recording, begin, change_of, kind};

/// A message that a grant is about to send.
pub(super) struct SendRecording {
    recording: Recording,
    change: NewChange,
}

/// Records that a grant is about to send a message. Returns `None` if the access belongs to no
/// grant.
pub(super) async fn record(
    outbox: &Outbox,
    access: &Access,
    kind: &'static str,
    (envelope, message_id): (&Envelope, &str),
) -> Result<Option<SendRecording>, Error> {
    if access.grant.is_none() {
        return Ok(None);
    }
    let recipients: Vec<&str> = envelope.to.iter().map(EnvelopeAddress::as_str).collect();
    let details = json!({
        "messageId": message_id,
        "from": envelope.from.as_str(),
        "recipients": recipients,
    });
    let change = change_of(kind, format!("mail {message_id}"), &details);
    let context = &outbox.mail.context;
    let recording = begin(context, access, std::slice::from_ref(&change)).await?;
    Ok(recording.map(|recording| SendRecording { recording, change }))
}

/// Records that a message left that the policy had held. A failure is logged, because the message
/// was sent.
pub(super) async fn record_approved(
    outbox: &Outbox,
    access: &Access,
    (envelope, message_id): (&Envelope, &str),
) {
    match record(outbox, access, kind::SEND, (envelope, message_id)).await {
        Ok(recording) => end(recording, &Ok::<_, Error>(())).await,
        Err(error) => tracing::warn!(%error, message_id, "failed to record an approved message"),
    }
}

/// Records the outcome of a message.
pub(super) async fn end<T>(recording: Option<SendRecording>, result: &Result<T, Error>) {
    let Some(SendRecording { recording, change }) = recording else {
        return;
    };
    let outcome = match result {
        Ok(_) => Outcome::Made,
        Err(Error::Unknown(_)) => Outcome::Unknown,
        Err(_) => Outcome::NotMade,
    };
    recording.end(change, outcome).await;
}
