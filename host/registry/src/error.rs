//! The errors of this crate. Each text is one sentence for the operator, and contains no text of a
//! registry.

use std::fmt;

use http::StatusCode;
use latchmail_core::error::StartError;

use crate::digest::Digest;
use crate::reference::{InvalidReference, Reference};

/// The reason why an artifact cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting or a file of the section `[registry]` is invalid.
    #[error(transparent)]
    Settings(#[from] StartError),
    /// The text is not a reference.
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    /// The reference lacks a part that the operation needs, or has a part that it does not accept.
    #[error("{reference} {problem}")]
    Incomplete {
        /// The reference.
        reference: String,
        /// The problem, as a phrase.
        problem: &'static str,
    },
    /// The server does not respond.
    #[error("cannot reach the registry: {0}")]
    Unreachable(String),
    /// The URL is not encrypted, and `registry.plain_http` does not list its server.
    #[error(
        "the registry uses the unencrypted server {0}; to allow this, add the server to `registry.plain_http`"
    )]
    NotEncrypted(String),
    /// The registry redirects a request too often, or to an invalid URL.
    #[error("the registry redirects the request for {0} too often or to an invalid URL")]
    Redirect(String),
    /// The registry accepts the request only with other credentials.
    #[error("the registry {0} refuses the credentials, or needs some (`registry.credentials`)")]
    Unauthorized(String),
    /// The artifact does not exist, or is not visible with these credentials.
    #[error("{0} does not exist in the registry")]
    NotFound(String),
    /// The registry returned an error.
    #[error("the registry responded with status {status} to the request for {what}")]
    Status {
        /// The content that was requested.
        what: String,
        /// The status.
        status: StatusCode,
    },
    /// The content exceeds a limit.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// The content.
        what: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The content has not the form that this program needs.
    #[error("{what} is not valid: {reason}")]
    Malformed {
        /// The content.
        what: String,
        /// The reason.
        reason: String,
    },
    /// The content is not the content with this digest.
    #[error("the registry returned other content for {what} than that with the digest {digest}")]
    WrongContent {
        /// The content.
        what: String,
        /// The digest of the requested content.
        digest: Digest,
    },
    /// No key is configured that could verify a signature.
    #[error(
        "no key for the verification of signatures is configured; set `registry.keys`, or `registry.allow_unsigned` and use --unsigned"
    )]
    NoKeys,
    /// The configuration does not allow artifacts without a verified signature.
    #[error("--unsigned is allowed only with `registry.allow_unsigned = true`")]
    UnsignedNotAllowed,
    /// The artifact has no valid signature.
    #[error("{artifact} is not accepted: {reason}")]
    Signature {
        /// The artifact.
        artifact: String,
        /// The reason.
        reason: String,
    },
    /// The file to upload is not a component.
    #[error("the file is not a WebAssembly component")]
    NotAComponent,
}

impl Error {
    /// Creates the error for a reference without the needed parts.
    pub(crate) fn incomplete(reference: &Reference, problem: &'static str) -> Self {
        Self::Incomplete {
            reference: reference.to_string(),
            problem,
        }
    }

    /// Creates the error for content without the needed form.
    pub(crate) fn malformed(what: &str, reason: impl fmt::Display) -> Self {
        Self::Malformed {
            what: what.to_owned(),
            reason: reason.to_string(),
        }
    }
}
