//! Runs a complete service with its mail servers on one machine, for development: [`run`] is `latchmail dev`.
//!
//! None of this code runs in production. The mail servers themselves are started by `latchmail-mailserver`.

mod demo;
mod service;
mod settings;
mod state;
#[cfg(test)]
mod tests;
mod watch;

pub use service::{Options, run};
