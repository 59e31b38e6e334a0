//! What the tools for drafts have in common: the attached files, and the result.

use latchmail_common::sending::drafts::{DraftContent, DraftHead, parts};
use latchmail_common::sending::{FileReference, SendAttachment};
use latchmail_sdk::capability::StoredDraft;
use latchmail_sdk::{Failure, Object, codes};
use serde::Serialize;
use utoipa::ToSchema;

use super::bounds::Bounds;
use crate::hidden::InvisibleCharacters;
use crate::outcome::Outcome;

/// A stored draft without its texts.
#[derive(Serialize, ToSchema)]
pub(super) struct Draft {
    #[serde(flatten)]
    head: DraftHead,
    /// The content without `text` and `html`. Read them with `get_message` and `uid`.
    draft: DraftContent,
}

/// Returns the result for a stored draft. A draft can contain text of others, for example the
/// subject of the message that it answers.
pub(super) fn outcome(stored: StoredDraft) -> Result<Outcome, Failure> {
    let (head, (mut draft, _)) = parts(stored);
    let mut bounds = Bounds::default();
    bounds.draft(&mut draft);
    let mut invisible_characters = InvisibleCharacters::default();
    invisible_characters.scan("subject", &draft.subject);
    for (part, addresses) in [("to", &draft.to), ("cc", &draft.cc), ("bcc", &draft.bcc)] {
        for address in addresses {
            invisible_characters.scan(part, address);
        }
    }
    for attachment in &draft.attachments {
        invisible_characters.scan("file names", &attachment.filename);
    }
    let mut warnings = Vec::from_iter(bounds.warning("The draft"));
    warnings.extend(invisible_characters.warnings("The draft"));
    Outcome::mail(&Draft { head, draft }, &warnings)
}

/// Converts the attached files of a call.
///
/// # Errors
/// Returns 400 if a file has no source.
pub(super) fn attachments(
    files: Option<Vec<FileReference>>,
) -> Result<Option<Vec<Object<SendAttachment>>>, Failure> {
    let Some(files) = files else {
        return Ok(None);
    };
    let mut attachments = Vec::with_capacity(files.len());
    for (index, file) in files.into_iter().enumerate() {
        if file.upload_id.is_none() && file.uid.is_none() {
            return Err(Failure::bad_request(
                codes::INVALID_ATTACHMENT,
                format!("attachments[{index}] must have uploadId or uid"),
            ));
        }
        attachments.push(Object(SendAttachment::from(file)));
    }
    Ok(Some(attachments))
}
