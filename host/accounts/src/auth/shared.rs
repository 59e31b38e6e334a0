//! Opens mailboxes that are shared with the caller, with the caller's grants in them.

use std::sync::Arc;

use latchmail_core::caller::{Caller, MailCredential, Shared};
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;

use super::Auth;

impl Auth {
    /// Switches the caller to a shared mailbox, given by its id, in which the caller has a grant. The directory is queried at every
    /// request, so that a change or withdrawal of a grant takes effect at the next request.
    ///
    /// # Errors
    /// Returns 404 if the caller has no access to such a mailbox, for any reason, and 500.
    pub async fn switch_mailbox(&self, caller: Caller, mailbox: &str) -> Result<Caller, Failure> {
        let shared = self.shared(mailbox, &caller.account).await?;
        Ok(Caller {
            shared: Some(Box::new(shared)),
            ..caller
        })
    }

    /// Returns a mailbox that is shared with an account, by its id.
    ///
    /// # Errors
    /// Returns 404 if the account has no access to such a mailbox, for any reason, and 500.
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
                Failure::no_mailbox()
                    .because("the mailbox's key cannot be opened with the service's keys")
            })?;
        Ok(Shared {
            account: mailbox.to_owned(),
            mail: MailCredential::app_password(shared.app_password_id, shared.address, password),
            grants: Arc::new(shared.grants),
        })
    }
}
