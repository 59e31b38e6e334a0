//! The errors of calls of modules.

use latchmail_core::error::Failure;

/// An error of a call without a response of the module. The detail is for the log.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The guest trapped, or exceeded its memory or CPU limit.
    #[error("module {module} trapped: {detail}")]
    Trapped {
        /// The name of the module.
        module: String,
        /// The reason of the trap.
        detail: String,
        /// The functions that were active, the innermost first. Empty if the functions are not known.
        backtrace: Vec<String>,
    },
    /// The call's deadline passed.
    #[error("module {module} passed its deadline")]
    Deadline {
        /// The name of the module.
        module: String,
    },
    /// All sandboxes of the module are in use.
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
    /// The host cannot send the response of the guest.
    #[error("module {module} returned an invalid response: {detail}")]
    InvalidResponse {
        /// The name of the module.
        module: String,
        /// The reason.
        detail: String,
    },
}
