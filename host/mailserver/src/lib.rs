//! Configures and runs Dovecot and Postfix on one machine, for development and tests: a [`Stack`] is both in a private folder on free loopback ports.
//!
//! None of this code runs in production. Production uses the templates in this crate's folder, from which a stack is configured.

mod dovecot;
mod folder;
mod milter;
mod ports;
mod postfix;
mod private;
mod process;
mod requirements;
mod source;
mod stack;
mod template;

pub use dovecot::Version;
pub use folder::unsuitable;
pub use milter::Milter;
pub use ports::free as free_port;
pub use private::write_private;
use source::Source;
pub use stack::{Lookup, Stack};
