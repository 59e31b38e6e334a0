//! Accounts: authentication, credentials, aliases, domains, shared mailboxes and plans.
//!
//! This crate decides who a caller is and what an account can do. It does not handle HTTP and stores nothing itself. The directory stores all data.

pub mod aliases;
pub mod auth;
pub mod domains;
pub mod mail_server;
pub mod plans;
pub mod teams;
