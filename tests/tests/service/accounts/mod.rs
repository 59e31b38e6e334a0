//! What belongs to an account, as its clients see it: credentials, profile, teams, sharing, authorization, keys at rest.
//!
//! Each statement behind these routes is tested on both databases in the host, by the tests of `directory`. So these run on SQLite alone;
//! `./just test-all` runs them on PostgreSQL too.

mod s4_2_two_factor;
mod s4_5_profile;
mod s4_6_credentials;
mod s4_8_sharing;
mod s4_8_teams;
mod s5_credentials;
mod s5_oauth;
mod s5_oauth_devices;
mod secrets;
