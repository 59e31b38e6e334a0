//! Reads a page of a folder or of a search result.
//!
//! A listing converts messages to summaries in groups, as soon as the data of a group have arrived.
//! Therefore a listing uses little more memory than its result. Some summaries need longer headers
//! and texts. The listing reads these data in batches, and each batch needs a memory permit.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use latchmail_core::cpu;
use latchmail_core::message_number::{MessageNumber, Uid};
use latchmail_core::permissions::Right;
use latchmail_imap::{Fetched, Opened, PageTop, SearchKey, Session};
use latchmail_mime::preview::Preview;
use latchmail_mime::{self as mime, Header};
use latchmail_search::threads::ThreadId;

use super::cursor::Cursor;
use super::{Lister, MessageQuery, PageStart};
use crate::access::Access;
use crate::cache::FolderKey;
use crate::connections::retry::retry_read;
use crate::error::Error;
use crate::message::identity::{Identity, identity};
use crate::message::summary::summary;
use crate::message::thread_ids::{own_thread_id, thread_id};
use crate::message::types::{Listing, Summary};
use crate::{blocking, bounds, hiding};

/// The number of messages that one blocking thread converts to summaries.
const GROUP: usize = 16;

/// The query for the messages of a page.
#[derive(Clone, Copy, Debug)]
struct Query<'a> {
    /// The folder's path.
    path: &'a str,
    /// The keys that the messages must match. `None` selects all messages.
    keys: Option<&'a [SearchKey]>,
    start: Start,
    /// Maximum number of messages.
    limit: u32,
}

/// The beginning of a page.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// The number of newest messages to skip.
    Offset(u32),
    /// The end of the previous page.
    After(Cursor),
}

/// A page of messages from the mail server.
#[derive(Debug)]
struct Page {
    opened: Opened,
    /// The number of matching messages on all pages.
    total: u32,
    /// The end of the page, if older messages match.
    end: Option<Cursor>,
    /// The folder's key in the cache.
    folder: FolderKey,
    /// The messages in ascending order of position. Each entry contains position, UID and flags of
    /// a message. If the cache contains the summary, the entry contains the summary too.
    messages: Vec<(Fetched, Option<Arc<Summary>>)>,
    /// The messages without a cached summary, in any order.
    uncached: Vec<Uncached>,
}

/// A message without a cached summary.
#[derive(Debug)]
pub(super) struct Uncached {
    pub(super) uid: Uid,
    identity: Identity,
    /// The own thread id, if it does not depend on the number.
    pub(super) thread: Option<ThreadId>,
    /// The summary. It has no number and no thread id until a number is assigned.
    pub(super) summary: Summary,
}

impl Lister {
    /// Returns a page of the messages of a folder, newest first. Returns `None` if the folder does
    /// not exist.
    ///
    /// # Errors
    /// Returns [`Error::InvalidCursor`] if the cursor is malformed or belongs to another query.
    /// Returns another [`Error`] if the operation fails.
    pub async fn messages(
        &self,
        access: &Access,
        query: MessageQuery<'_>,
    ) -> Result<Option<Listing>, Error> {
        let account = &access.account;
        let start = match query.start {
            PageStart::Offset(offset) => Start::Offset(offset),
            PageStart::Cursor(text) => {
                let cursor = Cursor::parse(text, account, &query);
                Start::After(cursor.ok_or(Error::InvalidCursor)?)
            }
        };
        let keys = query.keys();
        let page = Query {
            path: query.path(),
            keys: (!keys.is_empty()).then_some(&keys),
            start,
            limit: query.limit,
        };
        let Some((mut listing, end)) = self.list(access, page).await? else {
            return Ok(None);
        };
        listing.next = end.map(|end| end.text(account, &query));
        hiding::in_summaries(access, &mut listing.messages);
        Ok(Some(listing))
    }

    /// Returns at most `limit` messages of a folder that match all keys, newest first. Skips the
    /// newest `offset` matching messages. Returns `None` if the folder does not exist.
    pub(crate) async fn search(
        &self,
        access: &Access,
        path: &str,
        keys: &[SearchKey],
        offset: u32,
        limit: u32,
    ) -> Result<Option<Listing>, Error> {
        let query = Query {
            path,
            keys: Some(keys),
            start: Start::Offset(offset),
            limit,
        };
        let listing = self.list(access, query).await?;
        Ok(listing.map(|(listing, _)| listing))
    }

    /// Returns a page and its end.
    async fn list(
        &self,
        access: &Access,
        query: Query<'_>,
    ) -> Result<Option<(Listing, Option<Cursor>)>, Error> {
        self.folders.ensure_indexed(access).await?;
        let path = query.path;
        let folder_access = self.folders.require(access, path, Right::MailRead).await?;
        let Some(folder_access) = folder_access else {
            return Ok(None);
        };
        let mut lease = self.context.connections.lease(access, Some(path)).await?;
        let account = &access.account;
        let page = retry_read!(lease, session => read_page(session, self, account, query));
        // Release the connection before the database query.
        drop(lease);
        let Some(page) = page else {
            return Ok(None);
        };
        let uid_validity = page.opened.uid_validity;
        if !folder_access.can_read(path, uid_validity) {
            return Ok(None);
        }
        // A folder with another UIDVALIDITY has other UIDs.
        if matches!(query.start, Start::After(cursor) if cursor.uid_validity != uid_validity) {
            return Err(Error::InvalidCursor);
        }
        self.numbers
            .reconcile_if_copy_lost(access, path, page.opened)
            .await?;
        let moves = self.context.cache.moves();
        let mut summaries = self
            .assign_numbers(access, path, page.opened, page.uncached)
            .await?;
        self.context
            .cache
            .insert_summaries(page.folder, summaries.iter(), moves);
        let to_summary = |(message, cached): (Fetched, Option<Arc<Summary>>)| {
            let summary = match cached {
                Some(cached) => Summary::clone(&cached),
                // A message without a summary was just expunged.
                None => summaries.remove(&message.uid)?,
            };
            Some(Summary {
                seq: message.seq,
                flags: message.flags,
                ..summary
            })
        };
        let messages = page.messages.into_iter().rev();
        let mut messages: Vec<Summary> = messages.filter_map(to_summary).collect();
        self.index
            .set_merged_threads(account, &mut messages)
            .await?;
        let listing = Listing {
            total: page.total,
            messages,
            next: None,
        };
        Ok(Some((listing, page.end)))
    }

    /// Assigns numbers to messages without a cached summary. Returns the summaries of these
    /// messages by IMAP UID.
    async fn assign_numbers(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        uncached: Vec<Uncached>,
    ) -> Result<HashMap<Uid, Summary>, Error> {
        if uncached.is_empty() {
            return Ok(HashMap::new());
        }
        // The numbers follow the order in which the messages arrived.
        let mut messages: Vec<_> = uncached
            .iter()
            .map(|message| (message.uid, message.identity))
            .collect();
        messages.sort_unstable_by_key(|(uid, _)| *uid);
        let numbers = self
            .numbers
            .of_messages(access, path, opened, &messages)
            .await?;
        let with_number = |message: Uncached| {
            let number = *numbers.get(&message.uid)?;
            let summary = Summary {
                number,
                thread_id: thread_id(message.thread, number),
                ..message.summary
            };
            Some((message.uid, summary))
        };
        Ok(uncached.into_iter().filter_map(with_number).collect())
    }
}

/// Reads messages of a folder. Returns `None` if the folder does not exist. For messages with a
/// cached summary, reads only the flags.
async fn read_page(
    session: &mut Session,
    lister: &Lister,
    account: &str,
    query: Query<'_>,
) -> Result<Option<Page>, latchmail_imap::Error> {
    let found = match query.keys {
        None => folder_page(session, query).await?,
        Some(keys) => search_page(session, query, keys).await?,
    };
    let Some(Found {
        opened,
        total,
        messages,
        end,
    }) = found
    else {
        return Ok(None);
    };
    let end = end.map(|(uid, position)| Cursor {
        uid_validity: opened.uid_validity,
        uid,
        position,
    });
    let folder = FolderKey::new(account, query.path, opened.uid_validity);
    let (messages, uncached) = with_summaries(session, lister, folder, messages).await?;
    Ok(Some(Page {
        opened,
        total,
        end,
        folder,
        messages,
        uncached,
    }))
}

/// The messages of a page, without their summaries.
struct Found {
    opened: Opened,
    /// The number of matching messages on all pages.
    total: u32,
    /// The messages in ascending order.
    messages: Vec<Fetched>,
    /// The UID of the oldest message of the page, and the highest position that an older message
    /// can have. `None` if no older message matches.
    end: Option<(Uid, u32)>,
}

/// Returns a page of all messages of a folder.
async fn folder_page(
    session: &mut Session,
    query: Query<'_>,
) -> Result<Option<Found>, latchmail_imap::Error> {
    let top = match query.start {
        Start::Offset(offset) => PageTop::Offset(offset),
        Start::After(cursor) => PageTop::Position(cursor.position),
    };
    let page = session.page(query.path, top, query.limit).await?;
    let Some((opened, mut messages)) = page else {
        return Ok(None);
    };
    let whole = messages.len();
    if let Start::After(cursor) = query.start {
        messages.retain(|message| message.uid < cursor.uid);
        // Older messages disappeared, so that messages of the previous page have their positions.
        if messages.len() < whole {
            let older = [SearchKey::Before(cursor.uid)];
            let found = search_page(session, query, &older).await?;
            return Ok(found.map(|found| Found {
                total: found.opened.exists,
                ..found
            }));
        }
    }
    let oldest = messages.first().filter(|oldest| oldest.seq > 1);
    Ok(Some(Found {
        opened,
        total: opened.exists,
        end: oldest.map(|oldest| (oldest.uid, oldest.seq - 1)),
        messages,
    }))
}

/// Returns a page of the messages that match `keys`.
async fn search_page(
    session: &mut Session,
    query: Query<'_>,
    keys: &[SearchKey],
) -> Result<Option<Found>, latchmail_imap::Error> {
    let Some((opened, uids)) = session.search(query.path, keys).await? else {
        return Ok(None);
    };
    let end = match query.start {
        Start::Offset(offset) => uids.len().saturating_sub(bounds::to_usize(offset)),
        Start::After(cursor) => uids.partition_point(|uid| *uid < cursor.uid),
    };
    let start = end.saturating_sub(bounds::to_usize(query.limit));
    let page = &uids[start..end];
    let messages = session.selected_folder()?.positions(page).await?;
    let oldest = page.first().filter(|_| start > 0);
    // If the oldest message was just expunged, its position is unknown.
    let position = messages
        .first()
        .map_or(opened.exists, |oldest| oldest.seq.saturating_sub(1));
    Ok(Some(Found {
        opened,
        total: u32::try_from(uids.len()).unwrap_or(u32::MAX),
        end: oldest.map(|oldest| (*oldest, position)),
        messages,
    }))
}

/// Returns the messages of a folder with their cached summaries, and reads the other summaries.
pub(super) async fn with_summaries(
    session: &mut Session,
    lister: &Lister,
    folder: FolderKey,
    messages: Vec<Fetched>,
) -> Result<(Vec<(Fetched, Option<Arc<Summary>>)>, Vec<Uncached>), latchmail_imap::Error> {
    let messages: Vec<_> = messages
        .into_iter()
        .map(|message| {
            let cached = lister.context.cache.summary(folder, message.uid);
            (message, cached)
        })
        .collect();
    let uncached: Vec<Uid> = messages
        .iter()
        .filter(|(_, cached)| cached.is_none())
        .map(|(message, _)| message.uid)
        .collect();
    let uncached = read_summaries(session, lister, &uncached).await?;
    Ok((messages, uncached))
}

/// Reads the summaries of the messages with these IMAP UIDs. Omits messages that were just
/// expunged.
pub(super) async fn read_summaries(
    session: &mut Session,
    lister: &Lister,
    uids: &[Uid],
) -> Result<Vec<Uncached>, latchmail_imap::Error> {
    if uids.is_empty() {
        return Ok(Vec::new());
    }
    // The HTML of one message can take more than a millisecond, so blocking threads convert the
    // messages. The conversion of a group starts when the group has arrived, so no thread waits for
    // the mail server.
    let start = |group: Vec<Fetched>| blocking::run(cpu::charged(move || convert(group)));
    let (mut group, mut conversions) = (Vec::with_capacity(GROUP), Vec::new());
    let mut folder = session.selected_folder()?;
    let mut add = |message| {
        group.push(message);
        if group.len() == GROUP {
            conversions.push(start(mem::replace(&mut group, Vec::with_capacity(GROUP))));
        }
    };
    folder.summaries(uids, &mut add).await?;
    conversions.push(start(group));
    let (mut complete, mut incomplete) = (Vec::new(), Vec::new());
    for conversion in conversions {
        let converted = conversion.await.map_err(latchmail_imap::Error::Protocol)?;
        complete.extend(converted.0);
        incomplete.extend(converted.1);
    }
    let mut remaining = &incomplete[..];
    while let Some((batch, rest)) = split_batch(remaining) {
        complete.extend(read_incomplete(session, lister, batch).await?);
        remaining = rest;
    }
    Ok(complete)
}

/// Converts the messages of the first FETCH to summaries. Returns the complete and the incomplete
/// summaries.
fn convert(messages: Vec<Fetched>) -> (Vec<Uncached>, Vec<Incomplete>) {
    let (mut complete, mut incomplete) = (Vec::new(), Vec::new());
    for message in messages {
        // Do not use a truncated header. Otherwise another listing could return different data for
        // the same message.
        if message.header.len() >= bounds::LISTED_HEADER {
            incomplete.push(Incomplete::new(message, bounds::HEADER));
            continue;
        }
        let (header, _) = mime::split(&message.header);
        let is_whole_text = message.text.len() < bounds::PREFIX;
        let preview = Preview::of(header, &message.text, is_whole_text);
        if preview.is_final {
            complete.push(Uncached::new(&message, preview));
        } else {
            incomplete.push(Incomplete::new(message, bounds::LISTED_HEADER));
        }
    }
    (complete, incomplete)
}

/// A message whose summary needs more data than the first FETCH reads.
struct Incomplete {
    /// The message without its header and text.
    message: Fetched,
    /// Maximum number of bytes that the second FETCH reads of this message.
    bytes: usize,
}

impl Incomplete {
    /// Creates an incomplete summary from the result of the first FETCH. `max_header` is the
    /// maximum length of the header, in bytes.
    fn new(message: Fetched, max_header: usize) -> Self {
        let size = bounds::to_usize(message.size);
        Self {
            bytes: size.min(max_header + bounds::LONG_PREFIX),
            message: Fetched {
                header: bytes::Bytes::new(),
                text: bytes::Bytes::new(),
                ..message
            },
        }
    }
}

/// Splits messages into the next batch and the rest. The batch contains the first messages that
/// together fit into [`bounds::LISTING_BATCH`]. The batch contains at least one message. Returns
/// `None` if `messages` is empty.
fn split_batch(messages: &[Incomplete]) -> Option<(&[Incomplete], &[Incomplete])> {
    let mut total = 0;
    let fits = |message: &&Incomplete| {
        total += message.bytes;
        total <= bounds::LISTING_BATCH
    };
    let count = messages.iter().take_while(fits).count();
    messages.split_at_checked(count.max(1))
}

/// Reads the longer headers and texts of messages with one FETCH.
async fn read_incomplete(
    session: &mut Session,
    lister: &Lister,
    messages: &[Incomplete],
) -> Result<Vec<Uncached>, latchmail_imap::Error> {
    let bytes: usize = messages.iter().map(|message| message.bytes).sum();
    let mib = u32::try_from(bytes.div_ceil(1024 * 1024)).unwrap_or(u32::MAX);
    let memory = lister.memory.acquire(mib).await;
    let _memory = memory.map_err(|error| latchmail_imap::Error::Unavailable(error.to_string()))?;
    let uids: Vec<Uid> = messages.iter().map(|message| message.message.uid).collect();
    let fetched = session.selected_folder()?.longer_headers(&uids).await?;
    let mut first_fetch: HashMap<Uid, Fetched> = messages
        .iter()
        .map(|message| (message.message.uid, message.message.clone()))
        .collect();
    blocking::run(move || {
        fetched
            .into_iter()
            .filter_map(|second_fetch| {
                let message = Fetched {
                    header: second_fetch.header,
                    text: second_fetch.text,
                    ..first_fetch.remove(&second_fetch.uid)?
                };
                let (header, _) = mime::split(&message.header);
                let is_whole_text = message.text.len() < bounds::LONG_PREFIX;
                let preview = Preview::of_body(header, &message.text, is_whole_text);
                Some(Uncached::new(&message, preview))
            })
            .collect()
    })
    .await
    .map_err(latchmail_imap::Error::Protocol)
}

impl Uncached {
    fn new(message: &Fetched, preview: Preview) -> Self {
        let header = Header::of(&message.header, bounds::LISTED_FIELD);
        Self {
            uid: message.uid,
            identity: identity(message),
            thread: own_thread_id(&header),
            summary: summary(MessageNumber::default(), message, &header, preview.text),
        }
    }
}
