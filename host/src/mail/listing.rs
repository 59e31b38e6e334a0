//! A stretch of a folder as a client is shown it.

use std::collections::HashMap;
use std::sync::Arc;

use super::imap::{self, Fetched, Opened, Session};
use super::kept::{self, Kept};
use super::mime::{self, Header};
use super::preview::Preview;
use super::types::Summary;
use super::{Error, blocking, bounds};
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
    /// What else there is to say of those that were not known, before they have numbers.
    pub(super) fresh: Fresh,
}

/// Messages of which nothing was known.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// Ascending by position.
    pub(super) messages: Vec<Fetched>,
    /// In the same order.
    previews: Vec<String>,
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

/// Reads messages of a folder of `account`; none where there is no such folder. Of those that are `kept` only the flags are asked for.
pub(super) async fn read(
    session: &mut Session,
    kept: &Kept,
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
            let known = kept.summary(folder, message.uid);
            (message, known)
        })
        .collect();
    let unknown: Vec<u32> = seen
        .iter()
        .filter(|(_, known)| known.is_none())
        .map(|(message, _)| message.uid)
        .collect();
    let fresh = fresh(session, &unknown).await?;
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

/// What a listing says of the messages with these IMAP UIDs.
async fn fresh(session: &mut Session, uids: &[u32]) -> Result<Fresh, imap::Error> {
    let messages = session.summaries(uids).await?;
    let (messages, previews) = previewed(messages, |message| {
        let (header, _) = mime::split(&message.header);
        let complete = message.text.len() < bounds::PREFIX;
        Preview::of(header, &message.text, complete)
    })
    .await?;
    let (mut unsettled, mut cut) = (Vec::new(), Vec::new());
    for (message, preview) in messages.iter().zip(&previews) {
        if message.header.len() >= bounds::LISTED_HEADER {
            cut.push(message.uid);
        } else if !preview.settled {
            unsettled.push(message.uid);
        }
    }
    let mut longer = HashMap::new();
    for message in session.longer(&unsettled).await? {
        longer.insert(message.uid, message);
    }
    for message in session.longer_headers(&cut).await? {
        longer.insert(message.uid, message);
    }
    // A header that was cut is never shown: a later listing would tell something else of the same message. One that does not come
    // now was expunged a moment ago.
    let (again, mut settled): (Vec<_>, Vec<_>) = messages
        .into_iter()
        .zip(previews)
        .filter(|(message, _)| !cut.contains(&message.uid) || longer.contains_key(&message.uid))
        .partition(|(message, _)| longer.contains_key(&message.uid));
    let again = again
        .into_iter()
        .filter_map(|(message, _)| {
            let longer = longer.remove(&message.uid)?;
            let header = if cut.contains(&message.uid) {
                longer.header
            } else {
                message.header
            };
            Some(Fetched {
                header,
                text: longer.text,
                ..message
            })
        })
        .collect();
    let (again, better) = previewed(again, |message| {
        let (header, _) = mime::split(&message.header);
        let complete = message.text.len() < bounds::LONG_PREFIX;
        Preview::of_body(header, &message.text, complete)
    })
    .await?;
    settled.extend(again.into_iter().zip(better));
    settled.sort_by_key(|(message, _)| message.seq);
    let (messages, previews) = settled
        .into_iter()
        .map(|(message, preview)| (message, preview.text))
        .unzip();
    Ok(Fresh { messages, previews })
}

impl Fresh {
    /// As a client is shown them, with their IMAP UIDs. `numbers` are the service's, by IMAP UID.
    pub(super) async fn summaries(
        self,
        numbers: HashMap<u32, u64>,
    ) -> Result<Vec<(u32, Summary)>, Error> {
        blocking(move || {
            self.messages
                .into_iter()
                .zip(self.previews)
                .filter_map(|(message, preview)| {
                    let uid = *numbers.get(&message.uid)?;
                    let header = Header::of(&message.header, bounds::LISTED_FIELD);
                    Some((message.uid, summary(uid, &message, &header, preview)))
                })
                .collect()
        })
        .await
        .map_err(Error::Internal)
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

/// The previews of messages, on a thread that may take its time.
async fn previewed(
    messages: Vec<Fetched>,
    preview: fn(&Fetched) -> Preview,
) -> Result<(Vec<Fetched>, Vec<Preview>), imap::Error> {
    if messages.is_empty() {
        return Ok((messages, Vec::new()));
    }
    blocking(move || {
        let previews = messages.iter().map(preview).collect();
        (messages, previews)
    })
    .await
    .map_err(imap::Error::Protocol)
}
