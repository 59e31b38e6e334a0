//! Finds the mailboxes that are shared with a caller, decrypts the keys of these mailboxes, and
//! reads the caller's grants.

use std::sync::Arc;

use latchmail_core::caller::{Caller, MailCredential, Shared};
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;

use super::Auth;

impl Auth {
    /// Switches the caller to the shared mailbox with the id `mailbox`. The caller must have a
    /// grant in this mailbox. The grants are read from the directory at every request, so a changed
    /// grant takes effect at the next request.
    ///
    /// # Errors
    /// Returns 404 if the mailbox does not exist or the caller has no access. Returns 500 for an
    /// internal error.
    pub async fn switch_mailbox(&self, caller: Caller, mailbox: &str) -> Result<Caller, Failure> {
        let shared = self.shared(mailbox, &caller.account).await?;
        Ok(Caller {
            shared: Some(Box::new(shared)),
            ..caller
        })
    }

    /// Returns the credential of the mailbox with the id `mailbox`, and the account's grants in
    /// this mailbox.
    ///
    /// # Errors
    /// Returns 404 if the mailbox does not exist or the account has no access. Returns 500 for an
    /// internal error.
    pub async fn shared(&self, mailbox: &str, account: &str) -> Result<Shared, Failure> {
        let shared = self.directory.teams.shared_mailbox(mailbox, account);
        let shared = shared.await?.ok_or_else(Failure::no_mailbox)?;
        if shared.grants.anywhere().is_none() {
            return Err(Failure::no_mailbox());
        }
        let password = self
            .keys
            .open(Purpose::TeamKey, mailbox, &shared.sealed_password)
            .ok_or_else(|| {
                Failure::no_mailbox()
                    .because("the service's keys cannot decrypt the shared mailbox's key")
            })?;
        Ok(Shared {
            account: mailbox.to_owned(),
            mail: MailCredential::app_password(shared.app_password_id, shared.address, password),
            grants: Arc::new(shared.grants),
        })
    }
}
