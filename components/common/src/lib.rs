//! What the routes of mail and aliases and the tools of agents have in common: the shapes that are answered, the checks of what is asked, and the
//! sentences of refusal. So an agent is told what a client of the routes is told, from the same code.
//!
//! It knows neither HTTP's paths and queries nor the agents' protocol: those are the modules'.

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
