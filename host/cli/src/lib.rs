//! The operator's commands: `latchmail account …`, `latchmail alias …`, `latchmail client …`,
//! `latchmail grant …`, `latchmail domain …`, `latchmail operator-token …`, `latchmail key …`,
//! `latchmail module …`, `latchmail audit`, `latchmail mailbox …`, `latchmail backup`,
//! `latchmail restore`, `latchmail doctor` and `latchmail health`; `latchmail listen` for
//! developers of clients; and `latchmail mail …` for users.
//!
//! Most commands open the database of the service, and need no running service. A running service
//! reads the directory at every request, so a change applies to the next request. The commands for
//! modules send requests to the running service instead (see [`module`]), as [`listen`] and
//! [`mail`] do. On success, a command prints a sentence or a list. A failed command returns an
//! error. The exit status is 1, unless the error contains a [`Status`].

pub mod account;
mod adoption;
pub mod alias;
pub mod attach;
pub mod audit;
pub mod backup;
pub mod client;
mod config_file;
mod context;
pub mod doctor;
pub mod domain;
mod exit;
pub mod grant;
pub mod health;
mod import;
pub mod key;
pub mod listen;
pub mod mail;
mod mail_server_users;
pub mod mailbox;
pub mod module;
pub mod operator_token;
mod postfix_table;
mod project;
pub mod restore;

pub use context::ServiceArgs;
pub use exit::Status;
