//! The switch with which the owner of a mailbox lets modules act without a request. The interface
//! `modules` passes the calls of components to [`OwnerModules`], which `latchmail-handlers`
//! implements, because that crate depends on this one.

use std::fmt;

use futures_util::future::BoxFuture;
use latchmail_core::caller::{Origin, Scope};
use latchmail_core::error::Failure;
use latchmail_mailbox::Access;

use crate::modules::Subscriptions;

/// A module that can act for the owner of a mailbox without a request.
#[derive(Clone, Debug)]
pub struct OwnerModule {
    /// The name.
    pub name: String,
    /// A description for the owner. Empty if the module has none.
    pub description: String,
    /// The events and the timers. `None` while the operator has disabled the module.
    pub subscriptions: Option<Subscriptions>,
    /// The scopes that the operator grants. Of an enabled module, only those to which the owner
    /// agreed.
    pub scopes: Vec<Scope>,
    /// Whether the owner has enabled the module.
    pub enabled: bool,
    /// The reason why the module is paused for the mailbox.
    pub paused: Option<String>,
}

/// The owner of a mailbox, with the session of the request.
#[derive(Clone, Debug)]
pub struct ModuleOwner {
    /// The access of the owner to the mailbox.
    pub access: Access,
    /// The id of the session.
    pub sid: String,
    /// The origin of the request, for the audit log.
    pub origin: Origin,
}

/// The reason why a module was not switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no such module.
    #[error("there is no such module")]
    NotFound,
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded,
    /// The mailbox cannot be read.
    #[error("{0}")]
    Mailbox(#[from] latchmail_mailbox::Error),
    /// The database failed.
    #[error("{0}")]
    Failed(#[from] Failure),
}

/// The modules that can act for owners of mailboxes.
pub trait OwnerModules: fmt::Debug + Send + Sync {
    /// Returns the modules, sorted by name.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    fn list<'a>(&'a self, account: &'a str) -> BoxFuture<'a, Result<Vec<OwnerModule>, Failure>>;

    /// Enables or disables a module for the mailbox of its owner. Events from before the call are
    /// not delivered to a module that is enabled.
    ///
    /// # Errors
    /// Returns a [`SwitchError`] if there is no such module, or if the operation fails.
    fn switch<'a>(
        &'a self,
        owner: &'a ModuleOwner,
        name: &'a str,
        enabled: bool,
    ) -> BoxFuture<'a, Result<OwnerModule, SwitchError>>;
}
