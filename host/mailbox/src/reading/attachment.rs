//! Finds attachments of messages. [`crate::reading::download`] reads the bytes of an attachment.

use std::sync::Arc;

use futures_util::StreamExt as _;
use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::MessageNumber;
use latchmail_core::policy;
use latchmail_directory::message_index::Location;
use latchmail_mime::{self as mime, Attachment};

use super::Reader;
use crate::access::Access;
use crate::error::Error;
use crate::reading::download::Download;
use crate::{blocking, bounds, hiding};

/// Maximum size of an attachment that is searched for codes, in bytes.
const MAX_SEARCHED: u64 = 4 * 1024 * 1024;

/// An attachment with its content.
#[derive(Debug)]
pub struct AttachmentContent {
    /// The description of the attachment.
    pub attachment: Attachment,
    /// The decoded bytes.
    pub content: Download,
}

impl Reader {
    /// Returns the attachment with this index of the message with this message number. Returns
    /// `None` if the message does not exist. Returns `Some(None)` if the message has no such
    /// attachment.
    ///
    /// # Errors
    /// Returns [`Error::Policy`] if a policy hides the attachment. Returns another [`Error`] if the
    /// operation fails.
    pub async fn attachment(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
        index: u32,
    ) -> Result<Option<Option<AttachmentContent>>, Error> {
        hiding::require_attachments(access)?;
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let found = self.attachment_at(access, number, index, location).await?;
            if let Some(Some(attachment)) = &found {
                self.require_no_codes(access, attachment).await?;
            }
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Checks that an attachment with text has no codes, if the policy hides codes.
    async fn require_no_codes(
        &self,
        access: &Access,
        found: &AttachmentContent,
    ) -> Result<(), Error> {
        let attachment = &found.attachment;
        if !hiding::must_search(access, attachment) {
            return Ok(());
        }
        if attachment.size > MAX_SEARCHED {
            let what = "reading a large attachment with text";
            return Err(Error::Policy(policy::denied(what)));
        }
        let memory = &self.context.message_memory;
        let memory = memory.acquire(bounds::LARGE_MESSAGE_MIB).await?;
        let mut content = Vec::new();
        if let Some(whole) = found.content.whole() {
            content.extend_from_slice(&whole);
        } else {
            let mut chunks = found.content.open();
            while let Some(chunk) = chunks.next().await {
                content.extend_from_slice(&chunk?);
            }
        }
        let attachment = attachment.clone();
        let searched = blocking::run(move || {
            let result = hiding::require_no_codes(&attachment, &content);
            drop(memory);
            result
        });
        searched.await.map_err(Error::Internal)?
    }

    async fn attachment_at(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
        index: u32,
        location: Arc<Location>,
    ) -> Result<Option<Option<AttachmentContent>>, Error> {
        let structure = match self.context.cache.structure(&access.account, number) {
            Some(structure) => structure,
            None => match self.read_structure(access, number, &location).await? {
                Some(structure) => structure,
                None => return Ok(None),
            },
        };
        let section = usize::try_from(index)
            .ok()
            .and_then(|index| mime::sections(&structure).nth(index));
        let Some(section) = section else {
            return Ok(self.exists_at(access, &location).await?.then_some(None));
        };
        if !section.complete {
            if !self.exists_at(access, &location).await? {
                return Ok(None);
            }
            return Err(Error::TooLarge(Problem::new(
                codes::MESSAGE_TOO_LARGE,
                "The message is too large to read this attachment",
            )));
        }
        let attachment = section.attachment.clone();
        let content = Download::start(Arc::clone(self), access, location, section).await?;
        Ok(content.map(|content| {
            Some(AttachmentContent {
                attachment,
                content,
            })
        }))
    }
}
