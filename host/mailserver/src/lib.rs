//! Configures and runs Dovecot and Postfix on one machine, for development and tests. [`LocalServers`] runs both servers in a private folder on free loopback
//! ports.
//!
//! None of this code runs in production. The mail servers in production use the configuration templates in this crate's folder, and this crate fills the same
//! templates.

mod daemon;
mod dovecot;
mod layout;
mod local_servers;
mod lookup;
mod milter;
mod ports;
mod postfix;
mod private_file;
mod requirements;
mod template;

pub use dovecot::DovecotVersion;
pub use layout::check_folder;
pub use local_servers::LocalServers;
pub use lookup::Lookup;
pub use milter::MilterOptions;
pub use ports::free_port;
pub use private_file::write_private;
