//! The error type of this crate.

/// The reason why there is no key or no signature. The text of the error is for the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key could not be generated.
    #[error("failed to generate a DKIM key: {0}")]
    Generation(String),
    /// The domain has a key that cannot be used.
    #[error("the DKIM key of {domain} cannot be used: {reason}")]
    Unusable {
        /// The domain.
        domain: String,
        /// The reason.
        reason: String,
    },
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] latchmail_directory::Error),
}
