//! The service as its clients see it, with real mail servers and databases. All tests are one
//! binary, because linking the service once per file took longer than running the tests.
//!
//! A file is a subject; `.config/nextest.toml` selects by folder.

mod accounts;
mod agents;
mod attach;
mod attacks;
mod bench;
mod description;
mod directory;
mod http;
mod jmap;
mod mail;
mod mail_server_users;
mod modules;
mod newcomers;
mod operator_page;
mod several_hosts;
mod single_sign_on;
mod traces;
mod webhooks;
