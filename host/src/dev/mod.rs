//! Runs a complete service with its mail servers on one machine. [`Stack`] is Dovecot and Postfix in a private folder on free loopback ports. [`run`] is
//! `latchmail dev`. Tests start several stacks side by side.
//!
//! None of this code runs in production. Production uses the templates of `host/mailserver`, from which a stack is configured.

mod demo;
mod dovecot;
mod folder;
mod milter;
mod ports;
mod postfix;
mod process;
mod requirements;
mod service;
mod settings;
mod source;
mod stack;
mod state;
mod template;
#[cfg(test)]
mod tests;
mod watch;

#[cfg(test)]
pub(crate) use dovecot::Version;
pub use folder::unsuitable;
pub use milter::Milter;
#[cfg(test)]
pub(crate) use ports::free as free_port;
pub use service::{Options, run};
use source::Source;
pub use stack::{Lookup, Stack};
