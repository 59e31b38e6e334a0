//! Describes messages and attachments that a message to send contains, without reading their bytes.

use latchmail_core::message_number::MessageNumber;
use latchmail_mime::{self as mime, Attachment, Header};

use super::Reader;
use crate::access::Access;
use crate::bounds;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::hiding;
use crate::numbers::locations::message_ref;

/// A complete message that is attached to another message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageSource {
    /// The decoded subject, or empty.
    pub(crate) subject: String,
    /// The size in bytes.
    pub(crate) size: u64,
}

impl Reader {
    /// Describes an attachment of a message. Returns `None` if the message or the attachment does
    /// not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn attachment_source(
        &self,
        access: &Access,
        number: MessageNumber,
        index: u32,
    ) -> Result<Option<Attachment>, Error> {
        hiding::require_attachments(access)?;
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let cached = self.context.cache.structure(&access.account, number);
            let structure = match cached {
                Some(structure) => Some(structure),
                None => self.read_structure(access, number, &location).await?,
            };
            if let Some(structure) = structure {
                let section = usize::try_from(index)
                    .ok()
                    .and_then(|index| mime::sections(&structure).nth(index));
                return Ok(section.map(|section| section.attachment));
            }
        }
        Ok(None)
    }

    /// Describes a complete message. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn message_source(
        &self,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<MessageSource>, Error> {
        hiding::require_raw(access)?;
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let at = message_ref(&location);
            let pool = &self.context.connections;
            let mut lease = pool.lease(access, Some(at.path)).await?;
            let fetched = retry_read!(lease, session =>
                session.beginnings_at(&[at], bounds::DOWNLOAD_CHUNK));
            drop(lease);
            let mut fetched = fetched.into_iter();
            if let Some(message) = fetched.find(|message| message.uid == at.uid) {
                let first = message.whole;
                // The size that a mail server returns can be wrong. A message that is shorter than
                // the request is complete.
                let size = if first.len() < bounds::DOWNLOAD_CHUNK {
                    first.len()
                } else {
                    bounds::to_usize(message.size).max(first.len())
                };
                let (header, _) = mime::split(&first);
                if !hiding::is_visible_header(access, header) {
                    return Ok(None);
                }
                return Ok(Some(MessageSource {
                    subject: Header::of(header, bounds::FIELD).subject,
                    size: size as u64,
                }));
            }
        }
        Ok(None)
    }
}
