//! The error type of host functions.

use crate::latchmail::host::drafts::DraftError;
use crate::latchmail::host::filters::FilterError;
use crate::latchmail::host::mailbox::{
    ChangesError, ConditionalError, SearchError, StreamError, ThreadsError,
};
use crate::latchmail::host::outbox::SendError;
use crate::latchmail::host::queries::QueryError;
use crate::latchmail::host::subscriptions::SubscribeError;
use crate::latchmail::host::teams::Refused;
use crate::latchmail::host::types::Error;

/// The error of a host function. `E` is the error type of the function in the WIT package.
#[derive(Debug)]
pub enum HostError<E> {
    /// The guest receives this error.
    Guest(E),
    /// This error ends the call of the guest.
    Trap(wasmtime::Error),
}

impl<E> HostError<E> {
    /// Creates an error that ends the call of the guest.
    pub fn trap(error: impl Into<wasmtime::Error>) -> Self {
        Self::Trap(error.into())
    }

    /// Returns the error that the guest receives.
    ///
    /// # Errors
    /// Returns the error that ends the call of the guest.
    pub fn into_guest(self) -> wasmtime::Result<E> {
        match self {
            Self::Guest(error) => Ok(error),
            Self::Trap(error) => Err(error),
        }
    }
}

impl<E> From<E> for HostError<E> {
    fn from(error: E) -> Self {
        Self::Guest(error)
    }
}

/// Several error types have the case `failed`, which contains an [`Error`].
macro_rules! from_error {
    ($($failed:path => $type:ty),*) => {
        $(impl From<Error> for HostError<$type> {
            fn from(error: Error) -> Self {
                Self::Guest($failed(error))
            }
        })*
    };
}

from_error!(
    SearchError::Failed => SearchError,
    ThreadsError::Failed => ThreadsError,
    ChangesError::Failed => ChangesError,
    ConditionalError::Failed => ConditionalError,
    StreamError::Failed => StreamError,
    Refused::Failed => Refused,
    SendError::Failed => SendError,
    DraftError::Failed => DraftError,
    FilterError::Failed => FilterError,
    SubscribeError::Failed => SubscribeError,
    QueryError::Failed => QueryError
);

impl From<Error> for SendError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
