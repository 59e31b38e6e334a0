//! Parts of an account as its clients see them: credentials, profile, teams, sharing,
//! authorization, stored keys.
//!
//! The host's tests of `directory` test each statement behind these routes on both databases. So
//! these tests run on SQLite only; `./just test-all` runs them on PostgreSQL too.

mod command_line;
mod credentials;
mod export;
mod forms_of_credentials;
mod grants;
mod holds;
mod index_credential;
mod journal;
mod oauth;
mod oauth_devices;
mod oauth_scopes;
mod profile;
mod secrets;
pub(crate) mod sharing;
mod teams;
mod two_factor;
