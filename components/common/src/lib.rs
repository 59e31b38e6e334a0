//! Response types, request validation and error messages for the mail routes, the alias routes and
//! the tools for agents. The tools therefore return the same error messages as the routes.
//!
//! The modules that use this crate parse HTTP paths and queries, and implement the protocol for
//! agents.

pub mod aliases;
pub mod changes;
pub mod changing;
pub mod composing;
pub mod folders;
pub mod importing;
mod message;
mod message_ids;
mod model;
pub mod quotation;
pub mod reading;
mod recipients;
pub mod sending;
mod strings;
pub mod threads;
pub mod versions;

pub use message::{HeaderField, MailingList, Message, MessageAttachment, Spam, Text};
pub use message_ids::MessageIds;
pub use model::{
    Address, Attachment, Authentication, AuthenticationResult, Detail, Folder, FoundMessage,
    Headline, Match, NewText, Snippet, Summary, addresses,
};
pub use recipients::Recipients;
