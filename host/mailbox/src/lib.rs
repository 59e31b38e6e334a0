//! Mailboxes over IMAP. This crate lists folders, lists, searches, reads and changes messages,
//! assigns the service's message numbers, and sends messages.
//!
//! This crate depends neither on HTTP nor on WIT. It receives a credential for each log-in and does
//! not authenticate callers.
//!
//! Each module with an `impl Mail` block contains one operation on mailboxes.

mod access;
mod attachment;
pub(crate) mod authentication;
mod blocking;
mod bounds;
mod cache;
mod change;
pub mod changes;
mod doveadm;
mod download;
mod error;
mod folder_access;
mod folder_ids;
mod folder_index;
mod folder_path;
mod folders;
mod identity;
mod imap_connector;
mod index;
mod index_credentials;
mod listing;
mod locations;
mod lost_messages;
mod mail;
mod mark;
mod message;
mod moved_messages;
pub mod outbox;
pub(crate) mod pool;
mod reconcile;
mod retry;
mod revocation;
mod roles;
pub mod search;
mod sent_copy;
pub mod server_checks;
mod server_search;
mod server_text;
mod sync;
mod thread_ids;
pub mod threads;
pub mod types;

pub use latchmail_imap::flag::Flag;
pub use latchmail_imap::list::Role;

pub use access::{Access, Member};
pub use attachment::AttachmentContent;
pub use authentication::{Authentication, TrustedResults, Verdict, parse_addresses};
pub use download::Download;
pub use error::Error;
pub use index_credentials::IndexCredentials;
pub use mail::Mail;
pub use mark::MarkedContent;
pub use revocation::{SessionSelector, end_server_sessions};
pub use types::{Address, Attachment, Detail, Folder, Listing, Summary};

#[cfg(test)]
pub(crate) mod tests;
