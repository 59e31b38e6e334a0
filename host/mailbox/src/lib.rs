//! Mailboxes over IMAP. This crate lists folders, lists, searches, reads and changes messages,
//! assigns the service's message numbers, and sends messages.
//!
//! This crate depends neither on HTTP nor on WIT. The caller passes a credential for each log-in.
//! The crate does not authenticate callers.
//!
//! [`Mail`] has a field for each part of the crate. Each part is a folder with one type, which owns
//! the locks and limits of the part. A part uses only parts above it in this list:
//!
//! - `connections`: the connection pool, and the sessions of revoked credentials
//! - `message`: the data of a message, without state
//! - `folders`: the folders in the message index, and the rights of members
//! - `numbers`: the numbers and locations of messages, and the sync of the message index with the
//!   mail server
//! - `index`: the search indexes and threads
//! - `changelog`, `changing`, `listing` and `reading`: the operations on messages
//! - `search`: searches in a search index or on the mail server
//! - `importing`: stores messages that clients upload
//! - `outbox`: sends messages
//! - `drafts`: stores, lists and sends drafts
//! - `filters`: the vacation response and the rules
//!
//! `idempotency` has the keys of repeated requests. `context` has the state that all parts share.

mod access;
mod blocking;
mod bounds;
mod cache;
pub mod changelog;
mod changing;
mod connections;
mod context;
pub mod drafts;
mod envelope_id;
mod error;
pub mod filters;
mod folders;
mod idempotency;
pub mod importing;
mod index;
mod listing;
mod mail;
mod memory;
mod message;
mod numbers;
pub mod outbox;
mod reading;
pub mod search;
pub mod server_checks;

pub use latchmail_compose::{Composed, File as ComposedFile, Mode, Source as ComposedSource};
pub use latchmail_imap::Watch;
pub use latchmail_imap::change::StoreMode;
pub use latchmail_imap::flag::Flag;
pub use latchmail_imap::list::Role;
pub use latchmail_imap::quota::{Quota, ResourceUsage};
pub use latchmail_mime::{Decoder, Encoding, is_name};

pub use access::{Access, Member};
pub use changing::Changer;
pub use changing::change::Copied;
pub use changing::folders::Disposal;
pub use changing::snooze::Snoozer;
pub use connections::Connections;
pub use connections::revocation::{SessionSelector, end_server_sessions};
pub use envelope_id::EnvelopeId;
pub use error::{Error, FolderConflict};
pub use folders::Folders;
pub use folders::roles::Folder;
pub use index::SearchIndex;
pub use index::credentials::IndexCredentials;
pub use listing::{Lister, MessageQuery, PageStart};
pub use mail::{Mail, MailSettings};
pub use message::authentication::{Authentication, TrustedResults, Verdict, parse_addresses};
pub use message::mark::MarkedContent;
pub use message::spam::{Spam, SpamVerdict};
pub use message::types::{
    Address, Attachment, Detail, Field, Fields, Listing, MailingList, Summary,
};
pub use message::version::{MessageVersion, content_version};
pub use reading::Reader;
pub use reading::attachment::AttachmentContent;
pub use reading::download::Download;
pub use reading::raw::RawMessage;

#[cfg(test)]
pub(crate) mod tests;
