//! Reads a page of a folder or of a search result.
//!
//! Messages are reduced to summaries while they are read, so a listing uses little more memory than its result. The longer headers and texts that some
//! summaries need are read in chunks, each with a permit for its memory. This module assigns no numbers and checks no rights.

use std::collections::HashMap;
use std::sync::Arc;

use latchmail_core::clock::Timestamp;
use latchmail_imap::{Fetched, Opened, Session};
use latchmail_mime::preview::Preview;
use latchmail_mime::{self as mime, Header};

use super::identity::{Identity, identity};
use super::kept;
use super::types::Summary;
use super::{Mail, blocking, bounds};

/// A page of messages as the server returned it.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) opened: Opened,
    /// The number of matching messages on all pages.
    pub(crate) total: u32,
    /// The folder's key in the cache.
    pub(crate) folder: kept::Folder,
    /// The position, UID and flags of each message, in ascending order of position, and its cached summary.
    pub(crate) seen: Vec<(Fetched, Option<Arc<Summary>>)>,
    /// The messages without a cached summary, in any order.
    pub(crate) fresh: Vec<Fresh>,
}

/// A message that had no cached summary.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) imap_uid: u32,
    pub(crate) identity: Identity,
    /// The summary, with `uid` 0 until the number is assigned.
    pub(crate) summary: Summary,
}

/// The messages to list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The folder's path.
    pub(crate) path: &'a str,
    /// Text in the subject, sender, recipients or body. `None` lists all messages.
    pub(crate) term: Option<&'a str>,
    /// How many of the newest messages are skipped.
    pub(crate) offset: u32,
    /// Maximum number of messages.
    pub(crate) limit: u32,
}

/// Reads messages of a folder of `account`. Returns `None` if the folder does not exist. For messages with a cached summary, only the flags are read.
pub(crate) async fn read(
    session: &mut Session,
    mail: &Mail,
    account: &str,
    wanted: Wanted<'_>,
) -> Result<Option<Read>, latchmail_imap::Error> {
    let Wanted {
        path,
        term,
        offset,
        limit,
    } = wanted;
    let found = match term {
        None => {
            let page = session.page(path, offset, limit).await?;
            page.map(|(opened, seen)| (opened, opened.exists, seen))
        }
        Some(term) => matching(session, path, term, offset, limit).await?,
    };
    let Some((opened, total, seen)) = found else {
        return Ok(None);
    };
    let folder = kept::Folder::of(account, path, opened.uid_validity);
    let seen: Vec<_> = seen
        .into_iter()
        .map(|message| {
            let known = mail.kept.summary(folder, message.uid);
            (message, known)
        })
        .collect();
    let unknown: Vec<u32> = seen
        .iter()
        .filter(|(_, known)| known.is_none())
        .map(|(message, _)| message.uid)
        .collect();
    let fresh = fresh(session, mail, &unknown).await?;
    Ok(Some(Read {
        opened,
        total,
        folder,
        seen,
        fresh,
    }))
}

/// Returns a page of a search result: the folder, the number of all matches, and the messages of the page in ascending order.
async fn matching(
    session: &mut Session,
    path: &str,
    term: &str,
    offset: u32,
    limit: u32,
) -> Result<Option<(Opened, u32, Vec<Fetched>)>, latchmail_imap::Error> {
    let Some((opened, uids)) = session.search(path, term).await? else {
        return Ok(None);
    };
    let place = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let end = uids.len().saturating_sub(place(offset));
    let page = &uids[end.saturating_sub(place(limit))..end];
    let total = u32::try_from(uids.len()).unwrap_or(u32::MAX);
    Ok(Some((opened, total, session.positions(page).await?)))
}

/// Reads the summaries of the messages with these IMAP UIDs. A message that was just expunged is left out.
async fn fresh(
    session: &mut Session,
    mail: &Mail,
    uids: &[u32],
) -> Result<Vec<Fresh>, latchmail_imap::Error> {
    let (mut fresh, mut longer) = (Vec::new(), Vec::new());
    session
        .summaries(uids, &mut |message| {
            // Never use a truncated header: a later listing could then show other data for the same message.
            if message.header.len() >= bounds::LISTED_HEADER {
                return longer.push(Longer::of(message, bounds::HEADER));
            }
            let (header, _) = mime::split(&message.header);
            let complete = message.text.len() < bounds::PREFIX;
            let preview = Preview::of(header, &message.text, complete);
            if preview.is_final {
                fresh.push(Fresh::of(&message, preview));
            } else {
                longer.push(Longer::of(message, bounds::LISTED_HEADER));
            }
        })
        .await?;
    let mut left = &longer[..];
    while let Some((chunk, others)) = chunk(left) {
        fresh.extend(read_longer(session, mail, chunk).await?);
        left = others;
    }
    Ok(fresh)
}

/// A message whose summary needs more data than the first FETCH reads.
struct Longer {
    /// The message without its header and text.
    message: Fetched,
    /// Maximum number of bytes that the second FETCH reads.
    bytes: usize,
}

impl Longer {
    /// Creates the entry. `header` is the maximum length of the header, in bytes.
    fn of(message: Fetched, header: usize) -> Self {
        let size = usize::try_from(message.size).unwrap_or(usize::MAX);
        Self {
            bytes: size.min(header + bounds::LONG_PREFIX),
            message: Fetched {
                header: bytes::Bytes::new(),
                text: bytes::Bytes::new(),
                ..message
            },
        }
    }
}

/// Splits off the first messages that fit into [`bounds::CHUNK`], at least one. Returns `None` if there are no messages.
fn chunk(messages: &[Longer]) -> Option<(&[Longer], &[Longer])> {
    let mut total = 0;
    let fits = |one: &&Longer| {
        total += one.bytes;
        total <= bounds::CHUNK
    };
    let many = messages.iter().take_while(fits).count();
    messages.split_at_checked(many.max(1))
}

/// Reads longer headers and texts with one FETCH.
async fn read_longer(
    session: &mut Session,
    mail: &Mail,
    messages: &[Longer],
) -> Result<Vec<Fresh>, latchmail_imap::Error> {
    let bytes: usize = messages.iter().map(|one| one.bytes).sum();
    let _memory = mail.memory_for_listing(bytes).await?;
    let uids: Vec<u32> = messages.iter().map(|one| one.message.uid).collect();
    let read = session.longer_headers(&uids).await?;
    let mut first: HashMap<u32, Fetched> = messages
        .iter()
        .map(|one| (one.message.uid, one.message.clone()))
        .collect();
    blocking(move || {
        read.into_iter()
            .filter_map(|longer| {
                let message = Fetched {
                    header: longer.header,
                    text: longer.text,
                    ..first.remove(&longer.uid)?
                };
                let (header, _) = mime::split(&message.header);
                let complete = message.text.len() < bounds::LONG_PREFIX;
                let preview = Preview::of_body(header, &message.text, complete);
                Some(Fresh::of(&message, preview))
            })
            .collect()
    })
    .await
    .map_err(latchmail_imap::Error::Protocol)
}

impl Fresh {
    fn of(message: &Fetched, preview: Preview) -> Self {
        let header = Header::of(&message.header, bounds::LISTED_FIELD);
        Self {
            imap_uid: message.uid,
            identity: identity(message),
            summary: summary(0, message, &header, preview.text),
        }
    }
}

/// Creates the summary of a fetched message.
pub(crate) fn summary(uid: u64, message: &Fetched, header: &Header, preview: String) -> Summary {
    Summary {
        uid,
        seq: message.seq,
        from: header.from.clone(),
        to: header.to.clone(),
        subject: header.subject.clone(),
        date: header
            .date
            .or(message.internal_date)
            .unwrap_or(Timestamp::from_millis(0)),
        flags: message.flags.clone(),
        size: u64::from(message.size),
        preview,
    }
}
