//! The operator's commands: `latchmail account …`, `latchmail client …`, `latchmail domain …`, `latchmail module …` and `latchmail audit`.
//!
//! Most commands open the service's database with the service's configuration. They need no running service. A running service applies their
//! changes at its next request, because it reads the directory at every request. The commands for modules send requests to the running
//! service instead (see [`module`]). A command prints a sentence or a list. It returns a failure as an error.

pub mod account;
pub mod audit;
pub mod client;
mod config_file;
mod context;
pub mod domain;
pub mod module;
mod output;
mod project;

pub use context::ServiceArgs;
