//! Reads the message that a new message answers or forwards.

use latchmail_compose::Original;
use latchmail_core::message_number::MessageNumber;
use latchmail_mime as mime;
use tokio::sync::OwnedSemaphorePermit;

use super::Reader;
use crate::access::Access;
use crate::error::Error;
use crate::message::parts::MessageParts;
use crate::{blocking, bounds, hiding};

impl Reader {
    /// Returns the message with this message number, and the permit for the memory of a large
    /// message. Returns `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn original(
        &self,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<(Original, Option<OwnedSemaphorePermit>)>, Error> {
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let Some((message, mut lease)) = self.fetch(access, &location).await? else {
                continue;
            };
            if !hiding::is_visible_header(access, mime::split(&message.whole).0) {
                return Ok(None);
            }
            let (parts, memory) = if message.whole.len() < bounds::FIRST {
                (MessageParts::of_complete(message), None)
            } else {
                let memory = &self.context.message_memory;
                let memory = memory.acquire(bounds::LARGE_MESSAGE_MIB).await?;
                let cached = self.context.cache.structure(&access.account, number);
                let session = lease.session().await?;
                let Some(parts) = MessageParts::read(session, message, cached).await? else {
                    continue;
                };
                (parts, Some(memory))
            };
            drop(lease);
            // The files of the new message are read from this structure.
            let cache = &self.context.cache;
            cache.insert_structure(&access.account, number, &parts.structure);
            let size = parts.texts.iter().flatten().map(bytes::Bytes::len).sum();
            let original = blocking::run_sized(size, move || {
                let (header, _) = mime::split(&parts.message.whole);
                Original::new(header, &parts.structure, &parts.texts)
            });
            let mut original = original.await.map_err(Error::Internal)?;
            if access.hides_attachments() {
                original.attachments.clear();
            }
            if access.hides_codes() {
                let content = &mut original.content;
                let others = std::slice::from_mut(&mut original.header.subject);
                hiding::in_content(&mut content.text, &mut content.html, others);
            }
            return Ok(Some((original, memory)));
        }
        Ok(None)
    }
}
