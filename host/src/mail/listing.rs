//! A page of a folder, or of what a search finds in it.
//!
//! Messages are reduced to summaries while they are read, so a listing holds little more than what it returns. The longer headers and texts that some summaries
//! need are read in chunks, each with a permit for its memory. This module gives messages no numbers and checks no rights.

use std::collections::HashMap;
use std::sync::Arc;

use super::identity::{Identity, identity};
use super::imap::{self, Fetched, Opened, Session};
use super::kept;
use super::mime::{self, Header};
use super::preview::Preview;
use super::types::Summary;
use super::{Mail, blocking, bounds};
use crate::clock::Timestamp;

/// A stretch of a folder as the server told of it.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) opened: Opened,
    /// How many messages there are of those wanted, on all pages.
    pub(super) total: u32,
    /// Its name among what is kept.
    pub(super) folder: kept::Folder,
    /// Where each message is and its flags, ascending by position, and what was known of it already.
    pub(super) seen: Vec<(Fetched, Option<Arc<Summary>>)>,
    /// Those of which nothing was known, in no order.
    pub(super) fresh: Vec<Fresh>,
}

/// A message of which nothing was known.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) imap_uid: u32,
    pub(super) identity: Identity,
    /// The number in it is still 0.
    pub(super) summary: Summary,
}

/// Which messages of a folder are listed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The folder's path.
    pub(super) path: &'a str,
    /// What they have in their subject, sender, recipients or body; any, where there is none.
    pub(super) term: Option<&'a str>,
    /// How many of the newest are left out.
    pub(super) offset: u32,
    /// How many are wanted.
    pub(super) limit: u32,
}

/// Reads messages of a folder of `account`. Returns `None` if there is no such folder. Only the flags are read of messages with a cached summary.
pub(super) async fn read(
    session: &mut Session,
    mail: &Mail,
    account: &str,
    wanted: Wanted<'_>,
) -> Result<Option<Read>, imap::Error> {
    let Wanted {
        path,
        term,
        offset,
        limit,
    } = wanted;
    let found = match term {
        None => {
            let window = session.window(path, offset, limit).await?;
            window.map(|(opened, seen)| (opened, opened.exists, seen))
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

/// A page of what a search finds: the folder, how many messages it finds, and those of the page, ascending.
async fn matching(
    session: &mut Session,
    path: &str,
    term: &str,
    offset: u32,
    limit: u32,
) -> Result<Option<(Opened, u32, Vec<Fetched>)>, imap::Error> {
    let Some((opened, uids)) = session.matching(path, term).await? else {
        return Ok(None);
    };
    let place = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let end = uids.len().saturating_sub(place(offset));
    let page = &uids[end.saturating_sub(place(limit))..end];
    let total = u32::try_from(uids.len()).unwrap_or(u32::MAX);
    Ok(Some((opened, total, session.positions(page).await?)))
}

/// What a listing says of the messages with these IMAP UIDs. A message that does not come was expunged a moment ago.
async fn fresh(
    session: &mut Session,
    mail: &Mail,
    uids: &[u32],
) -> Result<Vec<Fresh>, imap::Error> {
    let (mut fresh, mut longer) = (Vec::new(), Vec::new());
    session
        .summaries(uids, &mut |message| {
            // A header that was cut is never shown: a later listing would tell something else of the same message.
            if message.header.len() >= bounds::LISTED_HEADER {
                return longer.push(Longer::of(message, bounds::HEADER));
            }
            let (header, _) = mime::split(&message.header);
            let complete = message.text.len() < bounds::PREFIX;
            let preview = Preview::of(header, &message.text, complete);
            if preview.settled {
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

/// A message whose summary needs more than the first FETCH reads.
struct Longer {
    /// Without its header and its text.
    message: Fetched,
    /// The bytes that reading it takes at most.
    bytes: usize,
}

impl Longer {
    /// `header` is the longest that its header may be.
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

/// The first messages that fit into [`bounds::CHUNK`], and the others. Returns `None` after the last one.
fn chunk(messages: &[Longer]) -> Option<(&[Longer], &[Longer])> {
    let mut total = 0;
    let fits = |one: &&Longer| {
        total += one.bytes;
        total <= bounds::CHUNK
    };
    let many = messages.iter().take_while(fits).count();
    messages.split_at_checked(many.max(1))
}

/// Reads longer headers and texts, all in one FETCH.
async fn read_longer(
    session: &mut Session,
    mail: &Mail,
    messages: &[Longer],
) -> Result<Vec<Fresh>, imap::Error> {
    let bytes: usize = messages.iter().map(|one| one.bytes).sum();
    let _memory = mail.memory_for_listing(bytes).await?;
    let uids: Vec<u32> = messages.iter().map(|one| one.message.uid).collect();
    let read = session.longer(&uids).await?;
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
    .map_err(imap::Error::Protocol)
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

/// A summary of what was fetched of a message.
pub(super) fn summary(uid: u64, message: &Fetched, header: &Header, preview: String) -> Summary {
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
