//! Mailboxes over IMAP. This crate lists folders, lists, searches, reads and changes messages,
//! assigns the service's message numbers, and sends messages.
//!
//! This crate depends neither on HTTP nor on WIT. It receives a credential for each log-in and does
//! not authenticate callers.
//!
//! Each module with an `impl Mail` block contains one operation on mailboxes.

mod access;
mod blocking;
mod bounds;
mod cache;
pub mod changelog;
mod changing;
mod connections;
mod context;
mod error;
mod folders;
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

pub use latchmail_imap::flag::Flag;
pub use latchmail_imap::list::Role;

pub use access::{Access, Member};
pub use connections::Connections;
pub use connections::revocation::{SessionSelector, end_server_sessions};
pub use error::Error;
pub use folders::Folders;
pub use folders::roles::Folder;
pub use index::SearchIndex;
pub use index::credentials::IndexCredentials;
pub use mail::{Mail, MailSettings};
pub use message::authentication::{Authentication, TrustedResults, Verdict, parse_addresses};
pub use message::mark::MarkedContent;
pub use message::types::{Address, Attachment, Detail, Listing, Summary};
pub use reading::attachment::AttachmentContent;
pub use reading::download::Download;

#[cfg(test)]
pub(crate) mod tests;
