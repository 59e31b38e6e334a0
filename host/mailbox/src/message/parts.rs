//! The parts of a message for its detail view and for the search index.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use latchmail_imap::{Fetched, Session};
use latchmail_mime::{self as mime, Structure, StructureParser};

use crate::{blocking, bounds};

/// The parts of a message for its detail view: header fields, first bytes, structure and texts.
#[derive(Debug)]
pub(crate) struct MessageParts {
    pub(crate) message: Fetched,
    pub(crate) structure: Arc<Structure>,
    /// The encoded bytes of the parts of the plain text (index 0) and of the HTML (index 1).
    pub(crate) texts: [Vec<Bytes>; 2],
}

impl MessageParts {
    /// Finds the parts of a message that was read completely.
    pub(crate) fn of_complete(message: Fetched) -> Self {
        let mut parser = StructureParser::default();
        parser.push(&message.whole);
        let structure = Arc::new(parser.finish(true));
        let slice = |range: Range<usize>| message.whole.slice(range);
        let texts = mime::texts(&structure).map(|ranges| ranges.into_iter().map(slice).collect());
        Self {
            message,
            structure,
            texts,
        }
    }

    /// Reads the missing parts of `message`. `structure` is the structure of the message if the
    /// structure is already known. The session must have the message's folder open. Returns `None`
    /// if the message no longer exists.
    pub(crate) async fn read(
        session: &mut Session,
        message: Fetched,
        structure: Option<Arc<Structure>>,
    ) -> Result<Option<Self>, latchmail_imap::Error> {
        let structure = match structure {
            Some(structure) => structure,
            None => match read_structure(session, &message).await? {
                Some(structure) => structure,
                None => return Ok(None),
            },
        };
        let mut texts = [Vec::new(), Vec::new()];
        for (parts, ranges) in texts.iter_mut().zip(mime::texts(&structure)) {
            for range in ranges {
                parts.push(if range.is_empty() {
                    // IMAP does not allow an empty range (RFC 3501, section 9).
                    Bytes::new()
                } else if range.end <= message.whole.len() {
                    message.whole.slice(range)
                } else {
                    let Some(bytes) = session
                        .selected_folder()?
                        .read_range(message.uid, &range)
                        .await?
                    else {
                        return Ok(None);
                    };
                    bytes
                });
            }
        }
        Ok(Some(Self {
            message,
            structure,
            texts,
        }))
    }
}

/// Returns the structure of a message. Returns `None` if the message no longer exists. Parses the
/// bytes after the first [`bounds::FIRST`] bytes as they arrive, and does not store these bytes.
pub(crate) async fn read_structure(
    session: &mut Session,
    message: &Fetched,
) -> Result<Option<Arc<Structure>>, latchmail_imap::Error> {
    let mut parser = parse_bytes(StructureParser::default(), message.whole.clone()).await?;
    let mut is_complete = message.whole.len() < bounds::FIRST;
    if !is_complete {
        let rest = bounds::FIRST..bounds::MESSAGE;
        let Some(mut remaining) = session
            .selected_folder()?
            .start_stream(message.uid, &rest)
            .await?
        else {
            return Ok(None);
        };
        is_complete = remaining < rest.len();
        while remaining > 0 {
            let bytes = session.next_bytes().await?;
            remaining -= bytes.len();
            parser = parse_bytes(parser, bytes).await?;
        }
    }
    let structure = blocking::run(move || parser.finish(is_complete)).await;
    let structure = structure.map_err(latchmail_imap::Error::Protocol)?;
    Ok(Some(Arc::new(structure)))
}

async fn parse_bytes(
    mut parser: StructureParser,
    bytes: Bytes,
) -> Result<StructureParser, latchmail_imap::Error> {
    blocking::run_sized(bytes.len(), move || {
        parser.push(&bytes);
        parser
    })
    .await
    .map_err(latchmail_imap::Error::Protocol)
}
