//! The search index of one mailbox, the query language, and threads.
//!
//! This crate depends neither on IMAP nor on the database, and contains no asynchronous code.
//!
//! The index contains only immutable facts about messages. [`MailboxState`] holds folders, IMAP
//! UIDs and flags in memory, so a change of flags does not change the index. A search finds a
//! message only if the index and the state contain the message. The caller compares the message
//! numbers in the index with the message numbers in the state. The caller then adds missing
//! messages to the index, and removes messages that the state lacks. So no message stays missing if
//! a commit of the index is lost.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use latchmail_core::message_number::{MessageNumber, Uid};
//! use latchmail_search::{Document, Index, MailboxState, Order, Query, Search, Sort};
//!
//! # let folder = tempfile::tempdir()?;
//! let index = Index::open(folder.path())?;
//! let mut writer = index.writer(15_000_000)?;
//! writer.add(&Document {
//!     number: MessageNumber(7),
//!     subject: "Invoice INV-2024-00815",
//!     text: "Grüße aus Łódź",
//!     ..Document::default()
//! })?;
//! writer.commit()?;
//!
//! let mut state = MailboxState::new();
//! state.set_folder(0, "INBOX");
//! state.set(MessageNumber(7), 0, Uid(1), "\\Seen");
//!
//! let found = index.search(&state, &Search {
//!     query: &Query::parse("subject:inv-2024-00815 lodz -is:unread")?,
//!     folders: &[0].into_iter().collect(),
//!     sort: Sort::Newest,
//!     order: Order::Folder,
//!     offset: 0,
//!     limit: 20,
//!     cancelled: &AtomicBool::new(false),
//! })?;
//! assert_eq!((found.total, found.hits[0].number), (1, MessageNumber(7)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod class;
mod docs;
mod error;
mod files;
pub mod filter;
mod folding;
mod index;
mod matching;
mod merging;
pub mod query;
mod ranking;
mod schema;
mod segment;
mod shared;
mod snippet;
mod state;
pub mod threads;
mod uid_set;
mod words;
mod writer;

pub use error::Error;
pub use filter::Filter;
pub use index::{Found, Hit, Index, Order, Search, Size, Sort, StoredThreadKeys};
pub use query::{Query, QueryError};
pub use snippet::Snippet;
pub use state::{FolderSet, Location, MailboxState};
pub use threads::ThreadKeys;
pub use writer::{Document, Participant, Writer};
