//! Exit statuses other than 1.

/// An error with an exit status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct Status {
    /// The exit status.
    pub status: u8,
    /// The sentence for the user.
    pub text: String,
}

impl Status {
    /// Creates an error.
    pub(crate) fn new(status: u8, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
        }
    }
}
