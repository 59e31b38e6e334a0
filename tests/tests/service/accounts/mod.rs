//! Parts of an account as its clients see them: credentials, profile, teams, sharing,
//! authorization, stored keys.
//!
//! The host's tests of `directory` test each statement behind these routes on both databases. So
//! these tests run on SQLite only; `./just test-all` runs them on PostgreSQL too.

mod index_credential;
mod s4_2_two_factor;
mod s4_5_profile;
mod s4_6_credentials;
mod s4_8_sharing;
mod s4_8_teams;
mod s5_credentials;
mod s5_oauth;
mod s5_oauth_devices;
mod s5_oauth_scopes;
mod secrets;
