//! Ends the access of users who were removed from the mail server or changed their password there.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::error::Failure;
use latchmail_core::fingerprint::is_fingerprint;
use latchmail_directory::accounts::Account;
use latchmail_net::dovecot_auth::Error;
use latchmail_net::dovecot_auth::lookup::PassdbEntry;
use tokio::time::sleep;

use super::mail_server_sign_in::{MailServerAccounts, PasswordVersion, look_up};
use crate::mail_server_users::LookupError;

/// The time between the first and the second lookup of a user who seems to be removed. Credentials
/// are revoked only if the second lookup has the same result, because a program can replace the
/// mail server's list of users in several steps.
const CONFIRMATION: Duration = Duration::from_secs(2);

/// The failed lookups of one recheck.
#[derive(Default)]
struct Failures {
    count: usize,
    first: Option<Error>,
}

impl Failures {
    /// Records a failed lookup. Returns `true` if the connection for lookups is still usable.
    fn record(&mut self, error: Error) -> bool {
        let usable = matches!(error, Error::Failed(_));
        self.count += 1;
        self.first.get_or_insert(error);
        usable
    }

    fn log(&self) {
        if let Some(error) = &self.first {
            tracing::warn!(
                %error,
                failures = self.count,
                "failed to look up users of the mail server; the next recheck looks up these users again"
            );
        }
    }
}

impl MailServerAccounts {
    /// Looks up every user of the mail server who has credentials. Revokes all credentials of users
    /// who were removed. Ends the sessions, OAuth grants and API tokens of users whose password has
    /// changed. A failed lookup changes nothing and is logged. Does nothing without
    /// `sign_in.mailserver.lookup_socket`.
    ///
    /// # Errors
    /// Returns 500 if the database fails.
    pub async fn recheck_mail_server_users(&self) -> Result<(), Failure> {
        let accounts = self.directory.accounts.with_credentials().await?;
        let managed = |account: &Account| self.users.manages(&account.address);
        let accounts: Vec<Account> = accounts.into_iter().filter(managed).collect();
        let mut failures = Failures::default();
        let suspects = self.suspects(accounts, &mut failures).await?;
        if !suspects.is_empty() {
            sleep(CONFIRMATION).await;
            let suspects = suspects.into_iter().map(|(account, _)| account).collect();
            for (account, reason) in self.suspects(suspects, &mut failures).await? {
                self.revoke_credentials(account, reason).await?;
            }
        }
        failures.log();
        Ok(())
    }

    /// Looks up the users of these accounts. Returns the accounts of users who must not have
    /// access, each with the reason. For every other user, updates the stored fingerprint of the
    /// password.
    async fn suspects(
        &self,
        accounts: Vec<Account>,
        failures: &mut Failures,
    ) -> Result<Vec<(Account, &'static str)>, Failure> {
        let mut suspects = Vec::new();
        if accounts.is_empty() {
            return Ok(suspects);
        }
        let mut lookups = match self.users.lookups().await {
            Ok(lookups) => lookups,
            Err(LookupError::NotConfigured) => return Ok(suspects),
            Err(LookupError::Failed(error)) => {
                failures.record(error);
                return Ok(suspects);
            }
        };
        for account in accounts {
            let known = account.login_name.as_deref();
            let names = self.users.names(&account.address, known);
            match look_up(&mut lookups, &names).await {
                Ok(entry) => {
                    if let Some(reason) = reason(&account, entry.as_ref()) {
                        suspects.push((account, reason));
                    } else {
                        let entry = entry.unwrap_or(PassdbEntry::NotFound);
                        let version = PasswordVersion::of(&entry);
                        self.synchronize(&account, version).await?;
                    }
                }
                Err(error) => {
                    if !failures.record(error) {
                        break;
                    }
                }
            }
        }
        Ok(suspects)
    }

    async fn revoke_credentials(
        &self,
        account: Account,
        reason: &'static str,
    ) -> Result<(), Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let now = self.clock.now();
        self.tasks
            .complete(async move {
                let origin = Origin::service();
                let ended = directory
                    .credentials
                    .revoke_credentials(&account.id, reason, now, &origin)
                    .await?;
                mail_server.end_sessions(&ended).await;
                mail_server.end_user_sessions(&account.address).await;
                Ok(())
            })
            .await
    }
}

/// Returns the reason why the user must not have access, or `None` if the user has access. A
/// missing passdb entry counts only if the user had an entry before, because some passdbs support
/// no lookups.
fn reason(account: &Account, entry: Option<&PassdbEntry>) -> Option<&'static str> {
    match entry {
        None => Some("the mail server has no such user"),
        Some(PassdbEntry::Found { disabled: true, .. }) => {
            Some("the mail server does not let the user log in")
        }
        Some(PassdbEntry::NotFound) if is_fingerprint(&account.password_hash) => {
            Some("the mail server has no password of the user")
        }
        Some(_) => None,
    }
}
