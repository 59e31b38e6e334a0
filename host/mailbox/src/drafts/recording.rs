//! Records the changes of drafts by grants, with the bytes of the drafts before.

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::grant_changes::{Completion, NewChange};
use latchmail_imap::Appended;
use serde_json::json;

use super::Drafts;
use super::id::DraftId;
use super::result::Error;
use super::survey::Found;
use crate::access::Access;
use crate::error::Error as MailboxError;
use crate::outbox::change_bytes::seal_bytes;
use crate::recording::{Outcome, Recording, begin, change_of, draft_subject, kind, place};

/// A recorded change of a draft that is not completed.
pub(super) struct DraftRecording {
    recording: Recording,
    change: NewChange,
    old: Option<MessageNumber>,
}

/// Records that a grant is about to create a draft.
pub(super) async fn record_creation(
    drafts: &Drafts,
    access: &Access,
    id: DraftId,
) -> Result<Option<DraftRecording>, MailboxError> {
    let subject = draft_subject(&id.to_string());
    let change = change_of(kind::DRAFT_CREATE, subject, &json!({}));
    begin_recording(drafts, access, change, None).await
}

/// Records that a grant is about to replace or delete a draft. Reads its bytes.
pub(super) async fn record_change(
    drafts: &Drafts,
    access: &Access,
    kind: &'static str,
    found: &Found,
) -> Result<Option<DraftRecording>, Error> {
    if access.grant.is_none() {
        return Ok(None);
    }
    let (message, _memory) = drafts.read_message(access, found, None).await?;
    let bytes = seal_bytes(&drafts.outbox, message).await?;
    let details = json!({ "old": found.number.0 });
    let change = NewChange {
        number: Some(found.number),
        bytes: Some(bytes),
        ..change_of(kind, draft_subject(&found.id.to_string()), &details)
    };
    let old = Some(found.number);
    Ok(begin_recording(drafts, access, change, old).await?)
}

async fn begin_recording(
    drafts: &Drafts,
    access: &Access,
    change: NewChange,
    old: Option<MessageNumber>,
) -> Result<Option<DraftRecording>, MailboxError> {
    let context = &drafts.mail.context;
    let begun = begin(context, access, std::slice::from_ref(&change)).await?;
    Ok(begun.map(|recording| DraftRecording {
        recording,
        change,
        old,
    }))
}

/// Records that a draft is stored as the message with this number.
pub(super) async fn record_stored(
    drafts: &Drafts,
    access: &Access,
    recording: Option<DraftRecording>,
    number: MessageNumber,
    (path, appended): (&str, Appended),
) {
    let Some(DraftRecording {
        recording,
        change,
        old,
    }) = recording
    else {
        return;
    };
    let at = (path, appended.uid_validity, appended.uid.0);
    let after = place(&drafts.mail.context, &access.account, at).await;
    let details = json!({ "old": old.map(|old| old.0), "new": number.0 });
    let completion = Completion {
        id: recording.ids().first().copied().unwrap_or_default(),
        subject: change.subject,
        number: Some(number),
        after: after.ok().flatten(),
        details: details.to_string(),
    };
    recording.complete(&[completion]).await;
}

impl DraftRecording {
    /// Records the outcome of a change without a new message.
    pub(super) async fn end(self, made: Result<bool, &MailboxError>) {
        self.recording.end(self.change, Outcome::of(made)).await;
    }
}

/// Records the failure of a change.
pub(super) async fn failed(recording: Option<DraftRecording>, error: &Error) {
    let Some(recording) = recording else {
        return;
    };
    match error {
        Error::Mailbox(error) => recording.end(Err(error)).await,
        _ => recording.end(Ok(false)).await,
    }
}
