//! Lists the folders of a mailbox and the messages of a folder.

mod cursor;
mod folders;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use latchmail_imap::SearchKey;

use crate::bounds;
use crate::context::Context;
use crate::folders::Folders;
use crate::folders::path::normalize_path;
use crate::index::SearchIndex;
use crate::memory::SharedMemory;
use crate::numbers::Numbers;

/// A query for a page of the messages of a folder.
#[derive(Clone, Copy, Debug)]
pub struct MessageQuery<'a> {
    /// The folder's path.
    pub folder: &'a str,
    /// Whether only messages without the flag `\Seen` are listed.
    pub unread: bool,
    /// Whether only messages with the flag `\Flagged` are listed.
    pub flagged: bool,
    /// The beginning of the page.
    pub start: PageStart<'a>,
    /// The maximum number of messages.
    pub limit: u32,
}

/// The beginning of a page of messages.
#[derive(Clone, Copy, Debug)]
pub enum PageStart<'a> {
    /// The page skips this number of messages, from the newest.
    Offset(u32),
    /// The page follows the page with this [`Listing::next`](crate::Listing::next).
    Cursor(&'a str),
}

impl<'a> MessageQuery<'a> {
    /// Creates a query for a page of all messages of a folder.
    #[must_use]
    pub const fn page(folder: &'a str, offset: u32, limit: u32) -> Self {
        Self {
            folder,
            unread: false,
            flagged: false,
            start: PageStart::Offset(offset),
            limit,
        }
    }

    /// Returns the folder's path with the inbox's name in upper case.
    fn path(&self) -> &'a str {
        normalize_path(self.folder)
    }

    /// Returns the keys that the messages must match. Empty for all messages.
    fn keys(&self) -> Vec<SearchKey> {
        let unread = self.unread.then_some(SearchKey::Unseen);
        let flagged = self.flagged.then_some(SearchKey::Flagged);
        unread.into_iter().chain(flagged).collect()
    }
}

/// Lists folders and messages.
#[derive(Debug)]
pub struct Lister {
    context: Arc<Context>,
    folders: Arc<Folders>,
    numbers: Arc<Numbers>,
    index: Arc<SearchIndex>,
    /// Memory for longer headers and texts. A request releases this memory before its response is
    /// sent.
    memory: SharedMemory,
}

impl Lister {
    /// Requests wait at most `timeout` for memory.
    pub(crate) fn new(
        context: Arc<Context>,
        folders: Arc<Folders>,
        numbers: Arc<Numbers>,
        index: Arc<SearchIndex>,
        timeout: Duration,
    ) -> Self {
        let busy = "too many large headers are being read";
        Self {
            context,
            folders,
            numbers,
            index,
            memory: SharedMemory::new(bounds::LISTING_MEMORY_MIB, timeout, busy),
        }
    }
}
