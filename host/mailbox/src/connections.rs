//! The connections to the mail server: a pool of authenticated connections, their revocation, and
//! the commands of doveadm.

pub(crate) mod doveadm;
mod imap_connector;
pub(crate) mod pool;
pub(crate) mod retry;
pub(crate) mod revocation;
pub(crate) mod server_text;
