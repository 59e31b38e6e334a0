//! Reads a single message and converts it to the form that clients receive. [`super::mime`] parses its parts.

use std::sync::Arc;

use bytes::Bytes;
use latchmail_imap::{Fetched, Session};
use latchmail_mime::preview::Preview;
use latchmail_mime::{self as mime, Header, Section, Structure, StructureParser};
use tokio::sync::OwnedSemaphorePermit;

use super::authentication::Authentication;
use super::listing::summary;
use super::types::Detail;
use super::{Error, blocking, bounds, worked};

/// The data that was read of a message: its header fields, first bytes, structure and texts.
#[derive(Debug)]
pub(crate) struct Read {
    message: Fetched,
    structure: Structure,
    texts: [Option<Bytes>; 2],
}

impl Read {
    /// Creates the data of a message that was read completely.
    pub(crate) fn of(message: Fetched) -> Self {
        let mut walker = StructureParser::default();
        walker.push(&message.whole);
        let structure = walker.finish(true);
        let texts = mime::texts(&structure).map(|range| Some(message.whole.slice(range?)));
        Self {
            message,
            structure,
            texts,
        }
    }

    /// Reads the missing data of `message` on a connection that has its folder open. Returns `None` if the message no longer exists.
    pub(crate) async fn on(
        session: &mut Session,
        message: Fetched,
    ) -> Result<Option<Self>, latchmail_imap::Error> {
        let Some(structure) = walked(session, &message).await? else {
            return Ok(None);
        };
        let mut texts = [None, None];
        for (text, range) in texts.iter_mut().zip(mime::texts(&structure)) {
            let Some(range) = range else { continue };
            *text = if range.end <= message.whole.len() {
                Some(message.whole.slice(range))
            } else {
                let Some(bytes) = session.read_range(message.uid, &range).await? else {
                    return Ok(None);
                };
                Some(bytes)
            };
        }
        Ok(Some(Self {
            message,
            structure,
            texts,
        }))
    }
}

/// Returns the structure of a message, or `None` if it no longer exists. Bytes after the first ones are read, parsed and dropped.
pub(crate) async fn walked(
    session: &mut Session,
    message: &Fetched,
) -> Result<Option<Structure>, latchmail_imap::Error> {
    let mut walker = pushed(StructureParser::default(), message.whole.clone()).await?;
    let mut ended = message.whole.len() < bounds::FIRST;
    if !ended {
        let rest = bounds::FIRST..bounds::MESSAGE;
        let Some(mut left) = session.start_stream(message.uid, &rest).await? else {
            return Ok(None);
        };
        ended = left < rest.len();
        while left > 0 {
            let piece = session.next_bytes().await?;
            left -= piece.len();
            walker = pushed(walker, piece).await?;
        }
    }
    let structure = blocking(move || walker.finish(ended)).await;
    Ok(Some(structure.map_err(latchmail_imap::Error::Protocol)?))
}

async fn pushed(
    mut walker: StructureParser,
    piece: Bytes,
) -> Result<StructureParser, latchmail_imap::Error> {
    worked(piece.len(), move || {
        walker.push(&piece);
        walker
    })
    .await
    .map_err(latchmail_imap::Error::Protocol)
}

/// Converts a message that was read completely. `uid` is the service's number for it.
/// `authserv_id` names the results that are trusted.
pub(crate) async fn whole(
    uid: u64,
    message: Fetched,
    authserv_id: Arc<str>,
) -> Result<(Detail, Arc<[Section]>), Error> {
    let length = message.whole.len();
    worked(length, move || shown(uid, Read::of(message), &authserv_id))
        .await
        .map_err(Error::Internal)
}

/// Converts a larger message. Its memory permit is held until the work ends, even if the caller is dropped.
pub(crate) async fn large(
    uid: u64,
    read: Read,
    room: OwnedSemaphorePermit,
    authserv_id: Arc<str>,
) -> Result<(Detail, Arc<[Section]>), Error> {
    blocking(move || {
        let shown = shown(uid, read, &authserv_id);
        drop(room);
        shown
    })
    .await
    .map_err(Error::Internal)
}

fn shown(uid: u64, read: Read, authserv_id: &str) -> (Detail, Arc<[Section]>) {
    let Read {
        message,
        structure,
        texts,
    } = read;
    let (head, body) = mime::split(&message.whole);
    let header = Header::of(head, bounds::FIELD);
    let preview = Preview::of_body(head, body, message.whole.len() < bounds::FIRST).text;
    let texts = texts.each_ref().map(Option::as_deref);
    let content = mime::content(&structure, texts);
    let sections: Arc<[Section]> = mime::sections(&structure).collect();
    let detail = Detail {
        authentication: Authentication::of(head, authserv_id, &header.from),
        summary: summary(uid, &message, &header, preview),
        cc: header.cc,
        reply_to: header.reply_to,
        message_id: header.message_id,
        in_reply_to: header.in_reply_to,
        references: header.references,
        text: content.text,
        html: content.html,
        attachments: sections.iter().map(|s| s.attachment.clone()).collect(),
        truncated: content.truncated || header.truncated,
    };
    (detail, sections)
}
