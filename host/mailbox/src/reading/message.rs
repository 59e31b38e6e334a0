//! Reads a single message and converts the message to the form for API clients. [`latchmail_mime`]
//! parses the parts of the message.

use std::sync::Arc;

use latchmail_core::message_number::MessageNumber;
use latchmail_directory::message_index::Location;
use latchmail_imap::{Connector, Fetched};
use latchmail_mime::preview::Preview;
use latchmail_mime::{self as mime, Header, Structure};
use tokio::sync::OwnedSemaphorePermit;

use super::Reader;
use crate::access::Access;
use crate::connections::pool::Lease;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::authentication::{Beginning, TrustedResults, read_results};
use crate::message::identity::header_identity;
use crate::message::parts::{MessageParts, read_structure};
use crate::message::summary::summary;
use crate::message::thread_ids::{own_thread_id, thread_id};
use crate::message::types::{Detail, Summary};
use crate::message::version::state_version;
use crate::numbers::locations::message_ref;
use crate::{blocking, bounds, hiding};

impl Reader {
    /// Returns the message with this message number, in any folder. Returns `None` if the message
    /// does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operation fails.
    pub async fn message(
        &self,
        access: &Access,
        number: MessageNumber,
    ) -> Result<Option<Detail>, Error> {
        let mut locations = self.numbers.locations(access, number);
        while let Some(location) = locations.next().await? {
            if let Some(mut detail) = self.message_at(access, number, &location).await? {
                self.index
                    .set_merged_threads(&access.account, [&mut detail.summary])
                    .await?;
                detail.version = state_version(
                    &access.account,
                    number,
                    message_ref(&location),
                    &detail.summary.flags,
                    &detail.summary.thread_id,
                );
                return Ok(hiding::in_detail(access, detail));
            }
        }
        Ok(None)
    }

    pub(super) async fn message_at(
        &self,
        access: &Access,
        number: MessageNumber,
        location: &Location,
    ) -> Result<Option<Detail>, Error> {
        let Some((message, mut lease)) = self.fetch(access, location).await? else {
            return Ok(None);
        };
        let (mut detail, structure) = if message.whole.len() < bounds::FIRST {
            drop(lease);
            parse_complete(number, message, Arc::clone(&self.trusted_results)).await?
        } else {
            let memory = self
                .context
                .message_memory
                .acquire(bounds::LARGE_MESSAGE_MIB)
                .await?;
            let cached = self.context.cache.structure(&access.account, number);
            let session = lease.session().await?;
            let Some(parts) = MessageParts::read(session, message, cached).await? else {
                return Ok(None);
            };
            drop(lease);
            parse_large(number, parts, memory, Arc::clone(&self.trusted_results)).await?
        };
        self.context
            .cache
            .insert_structure(&access.account, number, &structure);
        self.set_location(access, location, &mut detail).await?;
        Ok(Some(detail))
    }

    /// Sets the folder of a message, and removes the results of checks if a client imported the
    /// message. If the results depend on the header alone, the database decides, because a cached
    /// location can be older than the import.
    pub(super) async fn set_location(
        &self,
        access: &Access,
        location: &Location,
        detail: &mut Detail,
    ) -> Result<(), Error> {
        detail.set_location(location);
        if let Some(header) = detail.header.filter(|_| detail.has_checks()) {
            let imports = &self.context.directory.imports;
            let number = detail.summary.number;
            if imports.is_marked(&access.account, number, header).await? {
                detail.remove_checks();
            }
        }
        Ok(())
    }

    /// Returns the first bytes of a message, and a connection that has the message's folder open.
    /// Returns `None` if the message is not at this location.
    pub(super) async fn fetch(
        &self,
        access: &Access,
        location: &Location,
    ) -> Result<Option<(Fetched, Lease<Connector>)>, Error> {
        let at = message_ref(location);
        let mut lease = self
            .context
            .connections
            .lease(access, Some(at.path))
            .await?;
        let message = retry_read!(lease, session => session.message(at));
        Ok(message.map(|message| (message, lease)))
    }

    /// Returns `true` if a message is at this location.
    pub(crate) async fn exists_at(
        &self,
        access: &Access,
        location: &Location,
    ) -> Result<bool, Error> {
        let at = message_ref(location);
        let mut lease = self
            .context
            .connections
            .lease(access, Some(at.path))
            .await?;
        let first_byte = retry_read!(lease, session => session.read_range_at(at, &(0..1)));
        Ok(first_byte.is_some())
    }

    /// Reads the structure of a message. Returns `None` if the message is not at this location.
    pub(crate) async fn read_structure(
        &self,
        access: &Access,
        number: MessageNumber,
        location: &Location,
    ) -> Result<Option<Arc<Structure>>, Error> {
        let Some((message, mut lease)) = self.fetch(access, location).await? else {
            return Ok(None);
        };
        let structure = read_structure(lease.session().await?, &message).await?;
        if let Some(structure) = &structure {
            self.context
                .cache
                .insert_structure(&access.account, number, structure);
        }
        Ok(structure)
    }
}

/// Parses a message that was read completely. `number` is the message number. `trusted` selects the
/// trusted `Authentication-Results` field.
pub(crate) async fn parse_complete(
    number: MessageNumber,
    message: Fetched,
    trusted: Arc<TrustedResults>,
) -> Result<(Detail, Arc<Structure>), Error> {
    let length = message.whole.len();
    blocking::run_text(length, move || {
        let parts = MessageParts::of_complete(message);
        let [_, htmls] = &parts.texts;
        // The text of several parts depends on the visible text of each part.
        if htmls.len() > 1 {
            blocking::in_place(|| detail(number, parts, &trusted))
        } else {
            detail(number, parts, &trusted)
        }
    })
    .await
    .map_err(Error::Internal)
}

/// Parses a message of at least [`bounds::FIRST`] bytes. Keeps the permit `memory` until the
/// parsing ends, even if the caller is dropped.
async fn parse_large(
    number: MessageNumber,
    parts: MessageParts,
    memory: OwnedSemaphorePermit,
    trusted: Arc<TrustedResults>,
) -> Result<(Detail, Arc<Structure>), Error> {
    blocking::run(move || {
        let detail = detail(number, parts, &trusted);
        drop(memory);
        detail
    })
    .await
    .map_err(Error::Internal)
}

fn detail(
    number: MessageNumber,
    parts: MessageParts,
    trusted: &TrustedResults,
) -> (Detail, Arc<Structure>) {
    let MessageParts {
        message,
        structure,
        texts,
    } = parts;
    let (head, body) = mime::split(&message.whole);
    let header = Header::of(head, bounds::FIELD);
    let is_complete = message.whole.len() < bounds::FIRST;
    let content = mime::content(&structure, &texts);
    let (text, html) = (content.text.as_deref(), content.html.as_deref());
    let convert = || {
        let preview = Preview::of_message(&structure, &message.whole, is_complete).text;
        (preview, mime::new_text(text, html))
    };
    let is_html = text.is_none_or(mime::is_blank);
    let (preview, new_text) = if is_html && html.is_some_and(latchmail_html::has_style_sheets) {
        blocking::in_place(convert)
    } else {
        convert()
    };
    let beginning = Beginning {
        header: head,
        body,
        is_complete,
    };
    let (authentication, spam) = read_results(beginning, trusted, &header.from);
    let detail = Detail {
        authentication,
        spam,
        folder: String::new(),
        summary: Summary {
            thread_id: thread_id(own_thread_id(&header), number),
            ..summary(number, &message, &header, preview)
        },
        mailing_list: header.mailing_list,
        auto_submitted: header.auto_submitted,
        cc: header.cc,
        reply_to: header.reply_to,
        message_id: header.message_id,
        in_reply_to: header.in_reply_to,
        references: header.references,
        text: content.text,
        html: content.html,
        new_text,
        attachments: mime::sections(&structure)
            .map(|section| section.attachment)
            .collect(),
        truncated: content.truncated || header.truncated,
        version: String::new(),
        header: trusted.header_alone().then(|| header_identity(head)),
    };
    (detail, structure)
}
