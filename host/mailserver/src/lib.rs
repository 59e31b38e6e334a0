//! Configures and runs Dovecot and Postfix on one machine, for development and tests.
//! [`LocalServers`] runs both servers in a private folder on free loopback ports. The local servers
//! are not for production. Production mail servers use the same configuration templates, which are
//! in the folder of this crate.

mod daemon;
mod dovecot;
mod layout;
mod local_servers;
mod lookup;
mod milter;
mod pinned;
mod ports;
mod postfix;
mod private_file;
mod requirements;
mod template;

pub use dovecot::DovecotVersion;
pub use layout::check_folder;
pub use local_servers::LocalServers;
pub use lookup::{Lookup, LookupSettings, parameters as libpq_parameters};
pub use milter::MilterOptions;
pub use pinned::Pinned;
pub use ports::{free_port, own_loopback};
pub use private_file::write_private;
pub use template::fill;
