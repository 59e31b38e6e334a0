//! The error type of this crate.

/// An error of creating a DKIM key or a signature. The message is written to the log only.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key could not be generated.
    #[error("failed to generate a DKIM key: {0}")]
    Generation(String),
    /// The stored key of the domain cannot be used.
    #[error("the DKIM key of {domain} cannot be used: {reason}")]
    Unusable {
        /// The domain.
        domain: String,
        /// The reason.
        reason: String,
    },
    /// An operation of the database failed.
    #[error(transparent)]
    Directory(#[from] latchmail_directory::Error),
}
