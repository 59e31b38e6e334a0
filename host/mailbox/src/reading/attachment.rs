//! Finds attachments of messages. [`crate::reading::download`] reads the bytes of an attachment.

use std::sync::Arc;

use latchmail_core::codes;
use latchmail_core::error::Problem;
use latchmail_core::message_number::MessageNumber;
use latchmail_directory::message_index::Location;
use latchmail_mime::{self as mime, Attachment};

use super::Reader;
use crate::access::Access;
use crate::error::Error;
use crate::reading::download::Download;

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
    /// Returns an [`Error`] if the operation fails.
    pub async fn attachment(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
        index: u32,
    ) -> Result<Option<Option<AttachmentContent>>, Error> {
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let found = self.attachment_at(access, number, index, location).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
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
