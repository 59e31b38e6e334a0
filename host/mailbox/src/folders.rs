//! The folders of a mailbox: their entries in the index, their ids and roles, and the rights of
//! members.

mod ids;
pub(crate) mod path;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod states;

use std::borrow::Cow;
use std::sync::Arc;

use latchmail_core::account_permits::AccountPermits;
use tokio::sync::OwnedSemaphorePermit;

use crate::access::Access;
use crate::context::Context;
use crate::error::Error;

/// The folders in the index of messages.
#[derive(Debug)]
pub struct Folders {
    context: Arc<Context>,
    /// One lock per account, which serializes the updates of the index from the mail server.
    pub(crate) locks: AccountPermits,
}

impl Folders {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self {
            context,
            locks: AccountPermits::new(1),
        }
    }

    /// Acquires the lock for updates of the index from the mail server.
    pub(crate) async fn lock<'a>(
        &self,
        access: &'a Access,
    ) -> Result<(Cow<'a, Access>, Option<OwnedSemaphorePermit>), Error> {
        self.context.connections.lock(&self.locks, access).await
    }
}
