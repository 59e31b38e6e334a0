//! Code shared by the mail and alias routes and the tools of agents: the types of responses, the validation of requests, and the error messages. Agents and
//! clients of the routes therefore get the same messages.
//!
//! The crate knows neither the paths and queries of HTTP nor the protocol of agents. The modules handle these.

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
