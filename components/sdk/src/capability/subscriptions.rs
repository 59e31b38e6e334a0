//! `latchmail:host/subscriptions`: the subscriptions of agents to events of the caller's mailbox.

use super::{Error, Host};
use crate::bindings::latchmail::host::subscriptions;
pub use crate::bindings::latchmail::host::subscriptions::{
    Exceeded as ExceededLimit, NewSubscription, SubscribeError, Subscribed,
};

/// The subscriptions of the caller's credential. Needs the scope `mail:read`.
pub trait Subscriptions {
    /// Creates a subscription, or refreshes the subscription with the same name, folder and URL.
    ///
    /// # Errors
    /// Returns [`SubscribeError::Callback`] if the receiver does not prove that it expects the
    /// events, and [`SubscribeError::Exceeded`] if a limit is exceeded.
    fn subscribe(&self, subscription: &NewSubscription) -> Result<Subscribed, SubscribeError>;

    /// Ends a subscription.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such subscription.
    fn unsubscribe(&self, name: &str, folder: Option<&str>, url: &str) -> Result<(), Error>;
}

impl Subscriptions for Host {
    fn subscribe(&self, subscription: &NewSubscription) -> Result<Subscribed, SubscribeError> {
        subscriptions::subscribe(subscription)
    }

    fn unsubscribe(&self, name: &str, folder: Option<&str>, url: &str) -> Result<(), Error> {
        subscriptions::unsubscribe(name, folder, url)
    }
}

impl From<Error> for SubscribeError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
