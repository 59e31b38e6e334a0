//! The types of searches, search results and threads.

use latchmail_search::{Snippet, Sort};

use crate::message::types::{Address, Summary};

/// A search.
#[derive(Clone, Copy, Debug)]
pub struct SearchRequest<'a> {
    /// The query.
    pub query: &'a str,
    /// Whether `query` can contain operators. If `false`, the whole query is literal text.
    pub operators: bool,
    /// The folder's path. `None` searches all folders except Junk and Trash. The operator `in:` in
    /// the query can include Junk or Trash.
    pub folder: Option<&'a str>,
    /// The order of the result.
    pub sort: Sort,
    /// The number of messages to skip.
    pub offset: u32,
    /// The maximum number of messages.
    pub limit: u32,
}

/// A page of a search result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    /// The messages on the page, in the requested order.
    pub hits: Vec<Hit>,
    /// The number of messages on all pages.
    pub total: u32,
    /// The state of the account's search index.
    pub index: IndexStatus,
}

/// A message in a search result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The message.
    pub summary: Summary,
    /// The path of the message's folder.
    pub folder: String,
    /// A part of the text that contains matches. `None` if the search ran on the mail server.
    pub snippet: Option<Snippet>,
}

/// The state of the search index of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexStatus {
    /// The index is complete. The search ran in the index.
    Ready,
    /// The index is being built. The search ran on the mail server.
    Building,
    /// The index is disabled, or the mailbox is too large for an index. The search ran on the mail
    /// server.
    Off,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The id of the thread.
    pub id: String,
    /// The subject of the oldest message.
    pub subject: String,
    /// The number of messages.
    pub count: u32,
    /// The number of unread messages.
    pub unread: u32,
    /// The senders, in the order of their first message. At most 50.
    pub participants: Vec<Address>,
    /// The newest message. The snippet is `None`.
    pub newest: Hit,
}

/// A page of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPage {
    /// The threads on the page, newest first.
    pub threads: Vec<Thread>,
    /// The number of threads on all pages.
    pub total: u32,
}

/// A page of the messages of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadMessages {
    /// The current id of the thread.
    pub id: String,
    /// The messages on the page, oldest first. The snippets are `None`.
    pub messages: Vec<Hit>,
    /// The number of messages on all pages.
    pub total: u32,
}
