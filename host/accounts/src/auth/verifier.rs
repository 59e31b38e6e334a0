//! Verifies the passwords and second factors of accounts.
//!
//! This module starts no sessions. The caller consumes the second factor in the transaction of the
//! action that the verification authorizes.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::Config;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::{Failure, StartError};
use latchmail_core::keyring::Keyring;
use latchmail_core::limits::{Failures, Limit};
use latchmail_core::metrics;
use latchmail_core::work_queue::WorkPermit;
use latchmail_core::{Code, codes};
use latchmail_directory::Directory;
use latchmail_directory::accounts::Account;
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::two_factor::Factor;
use secrecy::SecretString;

use super::mail_server_sign_in::MailServerAccounts;
use super::passwords::Passwords;
use super::reasons::{ACCOUNT_CHANGED, DISABLED, NO_ACCOUNT};
use super::two_factor::{Checked, second_factor};
use crate::mail_server::MailServer;
use crate::mail_server_users::{MailServerUsers, WRONG_PASSWORD};

const INVALID: (Code, &str) = (codes::INVALID_CREDENTIALS, "Invalid credentials");
/// The path of the URL at which clients start a sign-in at the identity provider.
pub const START_PATH: &str = "/auth/oidc/start";
/// Error text if the password is correct but a two-factor code is required.
pub(super) const CODE_REQUIRED: (Code, &str) =
    (codes::TWO_FACTOR_CODE_REQUIRED, "Two-factor code required");
/// Maximum age of a sign-in that confirms a request.
pub(super) const RECENT: Duration = Duration::from_mins(5);

/// An attempt to sign in.
struct Attempt<'a> {
    address: &'a str,
    account: Option<&'a Account>,
    origin: &'a Origin,
}

/// Returns the label `outcome` of the metric for the reason of a rejected password. All reasons
/// without an own label, such as a rejection by the mail server, have the label `refused`.
fn outcome(reason: &str) -> &'static str {
    match reason {
        WRONG_PASSWORD => "wrong_password",
        NO_ACCOUNT => "unknown_account",
        DISABLED => "account_disabled",
        _ => "refused",
    }
}

/// An account whose password and second factor were verified.
pub(super) struct Identified {
    pub(super) account: Account,
    pub(super) factor: Factor,
}

impl Identified {
    /// Returns the origin of the account's actions for audit events. `credential` is the id of the
    /// new credential, or `None` without a new credential.
    pub(super) fn origin(&self, origin: &Origin, credential: Option<&str>) -> Origin {
        Origin {
            actor: self.account.address.clone(),
            credential: credential.map(ToOwned::to_owned),
            ..origin.clone()
        }
    }
}

/// Verifies the passwords and second factors of accounts.
#[derive(Debug)]
pub struct Verifier {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) keys: Arc<Keyring>,
    pub(super) tasks: DetachedTasks,
    pub(super) passwords: Passwords,
    /// Verifies passwords on domains whose passwords the mail server verifies.
    pub(super) users: Arc<MailServerUsers>,
    pub(super) mail_server_accounts: Arc<MailServerAccounts>,
    /// The URL at which clients start a sign-in at the identity provider.
    pub(super) provider_start_url: String,
    /// Counts wrong passwords in confirmations, per session and per account.
    pub(super) failures: Arc<Failures>,
    /// Maximum number of wrong passwords per minute for one session.
    pub(super) wrong_passwords: Limit,
}

impl Verifier {
    /// Creates the verifier. Returns an error if the system provides no randomness.
    pub(super) fn new(
        config: &Config,
        accounts: &Arc<MailServerAccounts>,
        failures: Arc<Failures>,
    ) -> Result<Self, StartError> {
        Ok(Self {
            directory: accounts.directory.clone(),
            mail_server: Arc::clone(&accounts.mail_server),
            clock: accounts.clock.clone(),
            keys: Arc::clone(&accounts.keys),
            tasks: accounts.tasks.clone(),
            passwords: Passwords::new()
                .map_err(|e| StartError::new(format!("cannot hash passwords: {e}")))?,
            users: Arc::clone(&accounts.users),
            mail_server_accounts: Arc::clone(accounts),
            provider_start_url: format!("{}{START_PATH}", config.base_url()),
            failures,
            wrong_passwords: Limit::new(config.limits.password_change),
        })
    }

    /// Checks that the user with this address signs in with a password.
    pub(super) fn require_password_sign_in(&self, address: &str) -> Result<(), Failure> {
        if !self.users.settings().is_at_provider(address) {
            return Ok(());
        }
        Err(Failure::forbidden(
            codes::IDENTITY_PROVIDER_REQUIRED,
            format!(
                "This account signs in at the identity provider. Start at {}",
                self.provider_start_url
            ),
        ))
    }

    /// Waits for a permit to verify the password of an address.
    ///
    /// # Errors
    /// Returns 503 if the queue of waiting verifications is full, or if the client disconnects.
    pub(super) async fn password_permit(
        &self,
        address: &str,
        origin: &Origin,
    ) -> Result<WorkPermit, Failure> {
        if self.users.manages(address) {
            self.users.permit(origin.client).await
        } else {
            self.passwords.permit(origin.client).await
        }
    }

    /// Verifies an account's password and second factor. `permit` is a permit of
    /// [`Self::password_permit`]. On a domain whose passwords the mail server verifies, the first
    /// sign-in creates the account. The caller must consume the two-factor code in the transaction
    /// of the authorized action.
    ///
    /// The function returns the same error and takes the same time for an unknown address, an
    /// inactive account and a wrong password.
    ///
    /// # Errors
    /// Returns 403 if the user signs in at the identity provider. Returns 401
    /// `Two-factor code required` if the password is correct and `code` is missing. Returns 401
    /// `Invalid credentials` for all other wrong credentials. Returns 503 if the mail server
    /// verifies the password and is unavailable. Returns 500 for an internal error.
    pub(super) async fn identify(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
        permit: WorkPermit,
    ) -> Result<Identified, Failure> {
        self.require_password_sign_in(address)?;
        let found = self.directory.accounts.by_address(address).await?;
        let verified = if self.users.manages(address) {
            self.mail_server_accounts
                .mail_server_account(address, &password, origin, permit)
                .await?
        } else {
            self.verify_stored(found.clone(), password, permit).await?
        };
        let attempt = Attempt {
            address,
            account: verified.as_ref().ok().or(found.as_ref()),
            origin,
        };
        let now = self.clock.now();
        let account = match &verified {
            Ok(account) => account,
            Err(reason) => {
                metrics::SIGN_INS.increment([outcome(reason)]);
                return Err(self.reject(&attempt, reason, INVALID, now).await?);
            }
        };
        let factor =
            match second_factor(&self.directory, &self.keys, &account.id, code, now).await? {
                Checked::Passed(factor) => factor,
                Checked::Missing => {
                    metrics::SIGN_INS.increment(["code_missing"]);
                    let reason = "two-factor code missing";
                    return Err(self.reject(&attempt, reason, CODE_REQUIRED, now).await?);
                }
                Checked::WrongCode => {
                    metrics::SIGN_INS.increment(["wrong_code"]);
                    self.directory
                        .second_factors
                        .wrong_code(&account.id, now, origin)
                        .await?;
                    return Err(Failure::unauthorized(INVALID.0, INVALID.1));
                }
                Checked::Wrong(reason) => {
                    metrics::SIGN_INS.increment(["wrong_code"]);
                    return Err(self.reject(&attempt, reason, INVALID, now).await?);
                }
            };
        Ok(Identified {
            account: account.clone(),
            factor,
        })
    }

    /// Verifies a password with the stored hash of an account. Returns the reason for the audit
    /// event if the password is rejected.
    async fn verify_stored(
        &self,
        found: Option<Account>,
        password: SecretString,
        permit: WorkPermit,
    ) -> Result<Result<Account, &'static str>, Failure> {
        let account = found.as_ref().filter(|account| account.active);
        let hash = account.map(|account| account.password_hash.as_str());
        let right = self.passwords.verify(password, hash, permit).await?;
        Ok(match found {
            None => Err(NO_ACCOUNT),
            Some(account) if !account.active => Err(DISABLED),
            Some(account) if right => Ok(account),
            Some(_) => Err(WRONG_PASSWORD),
        })
    }

    /// Records an audit event for verified credentials that do not permit the sign-in, for example
    /// because the account has changed since the verification. Returns the failure for the client.
    pub(super) async fn reject_changed(
        &self,
        account: &Account,
        reason: &'static str,
        origin: &Origin,
    ) -> Result<Failure, Failure> {
        let is_changed = reason == ACCOUNT_CHANGED;
        metrics::SIGN_INS.increment([if is_changed {
            "account_changed"
        } else {
            "wrong_code"
        }]);
        let attempt = Attempt {
            address: &account.address,
            account: Some(account),
            origin,
        };
        self.reject(&attempt, reason, INVALID, self.clock.now())
            .await
    }

    /// Records an audit event for a failed attempt. Returns the failure for the client.
    async fn reject(
        &self,
        attempt: &Attempt<'_>,
        reason: &'static str,
        (code, text): (Code, &'static str),
        now: Timestamp,
    ) -> Result<Failure, Failure> {
        let failed = Event {
            account: attempt.account.map(|account| account.id.as_str()),
            address: attempt.address,
            ..Event::of(Kind::SignInFailed, "", now).detail(reason)
        };
        self.directory.events.record(failed, attempt.origin).await?;
        Ok(Failure::unauthorized(code, text))
    }
}
