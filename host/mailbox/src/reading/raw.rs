//! Reads messages in their stored form. [`crate::reading::download`] streams the bytes of a large
//! message.

use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::message_index::Location;
use latchmail_mime::{self as mime, Attachment, Encoding, Header, Section};

use super::Reader;
use crate::access::Access;
use crate::bounds;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::hiding;
use crate::numbers::locations::message_ref;
use crate::reading::download::Download;

/// A message in its stored form.
#[derive(Debug)]
pub struct RawMessage {
    /// The decoded subject, or empty.
    pub subject: String,
    /// The size in bytes.
    pub size: u64,
    /// The bytes.
    pub content: Download,
}

impl Reader {
    /// Returns the message with this message number in its stored form. Returns `None` if the
    /// message does not exist. If `reads_all` is `true`, the caller will probably read all bytes,
    /// so this function requests them from the mail server.
    ///
    /// # Errors
    /// Returns [`Error::Policy`] if a policy hides a part of messages. Returns another [`Error`] if
    /// the operation fails.
    pub async fn raw(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
        reads_all: bool,
    ) -> Result<Option<RawMessage>, Error> {
        hiding::require_raw(access)?;
        self.raw_to_send(access, number, reads_all).await
    }

    /// Like [`Reader::raw`], for a message that the caller does not read, but sends. The caller of
    /// this function checks that no part is hidden.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub(crate) async fn raw_to_send(
        self: &Arc<Self>,
        access: &Access,
        number: MessageNumber,
        reads_all: bool,
    ) -> Result<Option<RawMessage>, Error> {
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            let found = self.raw_at(access, location, reads_all).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn raw_at(
        self: &Arc<Self>,
        access: &Access,
        location: Arc<Location>,
        reads_all: bool,
    ) -> Result<Option<RawMessage>, Error> {
        let at = message_ref(&location);
        let pool = &self.context.connections;
        let mut lease = pool.lease(access, Some(at.path)).await?;
        let fetched = retry_read!(lease, session =>
            latchmail_imap::beginning(session, at, bounds::DOWNLOAD_CHUNK));
        let Some(message) = fetched else {
            return Ok(None);
        };
        let first = message.whole;
        let size = if first.len() < bounds::DOWNLOAD_CHUNK {
            first.len()
        } else {
            bounds::to_usize(message.size).max(first.len())
        };
        let (header, _) = mime::split(&first);
        if !hiding::is_visible_header(access, header) {
            return Ok(None);
        }
        let subject = Header::of(header, bounds::FIELD).subject;
        let section = Section {
            range: 0..size,
            encoding: Encoding::Identity,
            attachment: Attachment {
                index: 0,
                filename: String::new(),
                content_type: "message/rfc822".into(),
                size: size as u64,
                content_id: None,
                is_inline: false,
            },
            complete: true,
        };
        let content = Download::with_first(
            Arc::clone(self),
            access,
            Arc::clone(&location),
            section,
            first,
            lease,
        );
        let mut content = content.await?;
        if reads_all && !content.request_rest().await? {
            return Ok(None);
        }
        Ok(Some(RawMessage {
            subject,
            size: size as u64,
            content,
        }))
    }
}
