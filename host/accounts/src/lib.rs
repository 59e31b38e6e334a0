//! Accounts: authentication, credentials, aliases, domains, shared mailboxes and plans.
//!
//! This crate identifies callers and decides what an account can do. It does not handle HTTP. The
//! directory stores all data.

pub mod account_rules;
pub mod aliases;
pub mod auth;
pub mod domains;
pub mod mail_server;
pub mod mail_server_users;
pub mod plans;
pub mod routing;
pub mod service_credentials;
pub mod service_keys;
pub mod teams;
