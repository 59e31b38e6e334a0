//! Vacation responses and rules at the mail server: a ManageSieve client (RFC 5804), and the Sieve
//! script of the service (RFC 5228).
//!
//! This crate decides neither which folders and addresses a script can name, nor who can change a
//! script.

mod client;
mod mime;
pub mod script;
mod wire;

pub use client::{Connector, Listed, MAX_SCRIPT, Probe, Session};

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server rejected the credential.
    #[error("the ManageSieve server rejected the credential")]
    Refused,
    /// The server is unreachable, or the connection failed.
    #[error("the ManageSieve server is not available: {0}")]
    Unavailable(String),
    /// The server refused a script. The text is the server's error message.
    #[error("{0}")]
    Rejected(String),
    /// The server has no space for the script.
    #[error("the mail server has no space for the script")]
    OverQuota,
    /// The reply of the server is invalid or unexpected.
    #[error("the ManageSieve server sent an unexpected reply: {0}")]
    Protocol(String),
}
