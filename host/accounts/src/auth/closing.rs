//! Closes accounts on request of their owners. A closed account is disabled at once, and deleted
//! after a grace period. The crate `latchmail-mailbox` deletes it with its mailbox.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::accounts::removal::Scheduling;
use latchmail_directory::events::Kind;

use super::account::{Confirmation, Session, session_over};
use super::verifier::Verifier;

impl Verifier {
    /// Closes the account of a session after the user has confirmed it with the password. All
    /// credentials of the account end. Returns the time at which the account is deleted. Returns
    /// `None` if the password or the two-factor code is wrong.
    ///
    /// # Errors
    /// Returns 403 if the mail server has the user, or if a user of the identity provider did not
    /// sign in within the last five minutes. Returns 401 if the session has ended, or if the
    /// two-factor code is missing. Returns 429 after too many wrong passwords. Returns 500 for an
    /// internal error. On error, nothing is changed.
    pub async fn close_account(
        &self,
        confirmation: Confirmation<'_>,
        grace: Duration,
        origin: Origin,
    ) -> Result<Option<Timestamp>, Failure> {
        let Session { account, sid } = confirmation.session;
        let found = self.directory.accounts.active(account).await?;
        let address = found.ok_or_else(session_over)?.address;
        if self.users.manages(&address) {
            return Err(Failure::forbidden(
                codes::ACCOUNT_MANAGED_ELSEWHERE,
                "The mail server's administrator manages this account",
            ));
        }
        if !self
            .confirm(confirmation, Kind::AccountDeletionFailed, &origin)
            .await?
        {
            return Ok(None);
        }
        let now = self.clock.now();
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, sid) = (account.to_owned(), sid.to_owned());
        let closed = self.tasks.complete(async move {
            let session = Session {
                account: &account,
                sid: &sid,
            };
            let session = Some(session.asking(now));
            let accounts = &directory.accounts;
            let planned =
                accounts.schedule_deletion(&account, session, now.plus(grace), now, &origin);
            match planned.await? {
                Scheduling::Planned { deletes_at, ended } => {
                    mail_server.end_sessions(&ended).await;
                    Ok(deletes_at)
                }
                Scheduling::Unknown | Scheduling::SessionOver => Err(session_over()),
            }
        });
        Ok(Some(closed.await?))
    }
}
