//! The errors of calls to modules.

use latchmail_core::error::Failure;

/// The reason why a call to a module returned no valid response. The details are for the log.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest trapped, or exceeded its memory or CPU limit.
    #[error("module {module} trapped: {detail}")]
    Trapped {
        /// The name of the module.
        module: String,
        /// The reason for the trap.
        detail: String,
        /// The guest's functions that were active at the trap, the innermost function first. Empty
        /// if the functions are unknown.
        backtrace: Vec<String>,
    },
    /// The call's deadline passed.
    #[error("module {module} passed its deadline")]
    Deadline {
        /// The name of the module.
        module: String,
    },
    /// No sandbox of the module became free within the timeout.
    #[error("module {module} has no free sandbox")]
    Busy {
        /// The name of the module.
        module: String,
    },
    /// A host function ended the call. The client receives the failure.
    #[error("module {module}: {failure}")]
    EndedByHost {
        /// The name of the module.
        module: String,
        /// The failure for the client.
        failure: Failure,
    },
    /// The response of the guest is invalid, so the host does not send it.
    #[error("module {module} returned an invalid response: {detail}")]
    InvalidResponse {
        /// The name of the module.
        module: String,
        /// The reason why the response is invalid.
        detail: String,
    },
}
