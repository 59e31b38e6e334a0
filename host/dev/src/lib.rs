//! Runs a complete service and its mail servers on one machine, for development. [`run`] implements
//! the command `latchmail dev`.
//!
//! None of this code runs in production. The crate `latchmail-mailserver` starts the mail servers.

mod demo;
mod run_file;
mod service;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub use service::{Options, run};
