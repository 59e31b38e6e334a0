//! Accounts: authentication and credentials, aliases, domains, shared mailboxes and plans.
//!
//! This crate decides who a caller is and what an account can do. It knows no HTTP statuses and stores nothing itself: the tables are in the directory.

pub mod aliases;
pub mod auth;
pub mod domains;
pub mod mail_server;
pub mod plans;
pub mod teams;
