//! Accounts and what belongs to them: credentials, aliases, domains, teams, sent keys, modules and keys at rest.
//!
//! The behaviour of these tests depends on the database, so they run on SQLite and once more on PostgreSQL.

mod dkim;
mod dkim_milter;
mod modules_life;
mod modules_store;
mod operator_accounts;
mod operator_domains;
mod s4_1_service;
mod s4_2_authentication;
mod s4_2_two_factor;
mod s4_3_numbers;
mod s4_3_repeats;
mod s4_4_aliases;
mod s4_5_profile;
mod s4_6_credentials;
mod s4_7_domains;
mod s4_8_sharing;
mod s4_8_teams;
mod s5_credentials;
mod s5_oauth;
mod s5_oauth_devices;
mod secrets;
