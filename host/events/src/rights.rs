//! The rights of a caller at this moment. A stream lasts longer than the request that opened it, so
//! its rights are checked again before and after each read.

use std::fmt;

use futures_util::future::BoxFuture;
use latchmail_mailbox::{Access, Error};
use tokio::time::Instant;

/// The rights of a caller.
#[derive(Debug)]
pub struct Rights {
    /// The access with the current grants of a member.
    pub access: Access,
    /// The time at which the rights must be checked again, because they can expire.
    pub until: Instant,
}

/// Finds the current rights of callers. The crate `latchmail-service` implements this trait with
/// the database.
pub trait CurrentRights: fmt::Debug + Send + Sync {
    /// Returns the current rights. Returns `None` if the mail server does not accept the credential
    /// of the access any longer, if the account is disabled, or if the member has no grants any
    /// longer.
    ///
    /// # Errors
    /// Returns an [`Error`] if the database fails.
    fn current<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Option<Rights>, Error>>;

    /// Returns the time until which the credential with this id at the mail server is valid.
    /// Returns `None` if the credential is not valid.
    ///
    /// # Errors
    /// Returns an [`Error`] if the database fails.
    fn valid_until<'a>(
        &'a self,
        credential: &'a str,
    ) -> BoxFuture<'a, Result<Option<Instant>, Error>>;
}
