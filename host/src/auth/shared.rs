//! The caller in a mailbox that is shared with it: what opens the mailbox, and what the caller was granted in it.

use std::sync::Arc;

use super::Auth;
use super::sealing::Purpose;
use crate::caller::{Caller, MailCredential, Shared};
use crate::error::Failure;

impl Auth {
    /// The caller in somebody else's mailbox, by its id: one that is shared with it and in which it was granted anything. Asked for every request, so
    /// that what was narrowed or withdrawn counts at the next.
    ///
    /// # Errors
    /// 404 where there is no such mailbox for the caller, whatever the reason; 500.
    pub async fn enter(&self, caller: Caller, mailbox: &str) -> Result<Caller, Failure> {
        let shared = self.shared(mailbox, &caller.account).await?;
        Ok(Caller {
            shared: Some(Box::new(shared)),
            ..caller
        })
    }

    /// A mailbox that is shared with an account, by its id.
    ///
    /// # Errors
    /// 404 if there is no such mailbox for the account, whatever the reason; 500.
    pub(crate) async fn shared(&self, mailbox: &str, account: &str) -> Result<Shared, Failure> {
        let shared = self.directory.shared_mailbox(mailbox, account);
        let shared = shared.await?.ok_or_else(Failure::no_mailbox)?;
        if shared.grants.anywhere().is_none() {
            return Err(Failure::no_mailbox());
        }
        let password = self
            .keys
            .open(Purpose::TeamKey, mailbox, &shared.sealed_password)
            .ok_or_else(|| {
                Failure::no_mailbox().because("its key cannot be opened with the service's keys")
            })?;
        Ok(Shared {
            account: mailbox.to_owned(),
            mail: MailCredential::app_password(shared.app_password_id, shared.address, password),
            grants: Arc::new(shared.grants),
        })
    }
}
