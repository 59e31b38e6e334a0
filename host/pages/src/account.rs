//! The owner's page `/account`: HTML pages on which the owner of an account sees and changes agents
//! and tokens with their policies, held messages, journals, app passwords, sessions, aliases,
//! two-factor sign-in and modules.
//!
//! The pages work without scripts, and a request with `GET` changes nothing. They call the same
//! functions as the routes of `/api/v1/profile`, so both have the same rules. Messages are shown as
//! text only: the pages load no images and contain no links from messages. The sign-in is in
//! [`crate::sign_in`].

mod aliases;
mod app_passwords;
mod claims;
mod grants;
mod holds;
mod journal;
mod modules;
mod overview;
mod paths;
mod policy;
mod routes;
mod sessions;
mod tokens;
mod two_factor;
mod visit;

pub(crate) use paths::{GRANTS, SIGN_IN, START, local_path};
pub(crate) use routes::route_group;
pub(crate) use visit::{begin, has_session};
