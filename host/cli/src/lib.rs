//! The operator's commands: `latchmail account …`, `latchmail alias …`, `latchmail client …`,
//! `latchmail grant …`, `latchmail domain …`, `latchmail operator-token …`, `latchmail key …`,
//! `latchmail module …`, `latchmail audit`, `latchmail backup`, `latchmail restore`, `latchmail
//! doctor` and `latchmail health`; and `latchmail listen` for developers of clients.
//!
//! Most commands open the database of the service, and need no running service. A running service
//! reads the directory at every request, so a change applies to the next request. The commands for
//! modules send requests to the running service instead (see [`module`]), as [`listen`] does. On
//! success, a command prints a sentence or a list. A failed command returns an error.

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
pub mod grant;
pub mod health;
mod import;
pub mod key;
pub mod listen;
mod mail_server_users;
pub mod module;
pub mod operator_token;
mod postfix_table;
mod project;
pub mod restore;

pub use context::ServiceArgs;
