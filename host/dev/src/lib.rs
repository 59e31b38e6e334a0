//! Runs a complete service and its mail servers on one machine, for development. [`run`] implements
//! the command `latchmail dev`, and [`test`](test()) runs the tests of a module against such a
//! service.
//!
//! None of this code runs in production. The crate `latchmail-mailserver` starts the mail servers.

mod demo;
mod run_file;
mod service;
mod settings;
mod state;
mod test;
#[cfg(test)]
mod tests;
mod watch;

pub use service::{Options, run};
pub use test::test;
pub use watch::{Project, Watcher};
