//! Code that the mail routes, the alias routes and the tools for agents share: response types, request validation and error messages. The tools therefore
//! return the same error messages as the routes.
//!
//! The crate does not parse HTTP paths and queries, and it does not contain the protocol for agents. The modules do both.

pub mod aliases;
mod message_ids;
mod model;
pub mod reading;
mod recipients;
pub mod sending;
mod strings;

pub use message_ids::MessageIds;
pub use model::{
    Address, Attachment, Authentication, AuthenticationResult, Detail, Folder, Headline, Summary,
};
pub use recipients::Recipients;
