//! Web sessions: sign-in with a password, refresh with refresh tokens, and sign-out of all
//! sessions.
//!
//! Each session has its own app password for the mail server. The directory stores the app
//! password, sealed for the session's id. [`super::by_access_token`] finds the caller of an access
//! token.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::metrics;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::{self, AppPassword, sha256_hex};
use latchmail_core::traces::in_request;
use latchmail_core::work_queue::WorkPermit;
use latchmail_directory::accounts::Account;
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::sessions::{NewSession, Rotation};
use latchmail_directory::two_factor::{Factor, SignIn};
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;

use super::two_factor::Checked;
use super::{Auth, user_agent};
use crate::mail_server_users::WRONG_PASSWORD;

/// Lifetime of a session after the last refresh of its tokens.
pub const LIFETIME: Duration = Duration::from_hours(30 * 24);

const INVALID: &str = "Invalid credentials";
/// Error text if the password is correct but a two-factor code is required.
pub const CODE_REQUIRED: &str = "Two-factor code required";

/// Reasons in audit events for credentials that are invalid.
pub(super) const DISABLED: &str = "the account is disabled";
const NO_ACCOUNT: &str = "no such account";

/// Reasons in audit events for credentials that became invalid during the request.
pub(super) const CODE_USED: &str =
    "two-factor code used before, too many were wrong, or the secret was replaced";
pub(super) const ACCOUNT_CHANGED: &str = "the account was changed concurrently";

/// The tokens that a client receives for a session.
#[derive(Debug)]
pub struct Tokens {
    /// Access token, valid for 15 minutes.
    pub access: SecretString,
    /// Refresh token. The client can use the refresh token once, within 30 days.
    pub refresh: SecretString,
}

/// A new session.
#[derive(Debug)]
pub struct SignedIn {
    /// Tokens of the session.
    pub tokens: Tokens,
    /// Address of the account, in lower case.
    pub address: String,
    /// Whether the account is an administrator.
    pub admin: bool,
}

/// An attempt to sign in.
struct Attempt<'a> {
    address: &'a str,
    account: Option<&'a Account>,
    origin: &'a Origin,
}

/// Returns the label `outcome` of the metric for the reason of a rejected password. The mail server
/// and its rules have further reasons.
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

/// A task that is aborted when this value is dropped.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, Failure> {
        (&mut self.0).await.map_err(Failure::internal)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Auth {
    /// Starts a session for the account `address`, which must be in lower case. The session's label
    /// is derived from the User-Agent header. `code` is a two-factor code or a recovery code.
    /// Ignores `code` if the account has no second factor.
    ///
    /// The function returns the same error and takes the same time for an unknown address, an
    /// inactive account and a wrong password.
    ///
    /// # Errors
    /// Returns 403 with the URL for the sign-in if the user signs in at the identity provider.
    /// Returns 401 `Two-factor code required` if the password is correct and `code` is missing.
    /// Returns 401 `Invalid credentials` for all other wrong credentials. Returns 503 if the mail
    /// server is unavailable and the credentials are correct, or must be verified by the mail
    /// server. Returns 500 for an internal error. On error, the code is not consumed.
    pub async fn sign_in(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<SignedIn, Failure> {
        self.require_password_sign_in(address)?;
        // A session needs the mail server. The service pings the mail server during the password
        // check. Both must succeed. For a wrong password, the service does not wait for the ping.
        let permit = self.password_permit(address, origin).await?;
        let mail_server = Arc::clone(&self.mail_server);
        let ping = in_request(async move { mail_server.ping().await });
        let pinged = AbortOnDrop(tokio::spawn(ping));
        let now = self.clock.now();
        let identified = self
            .identify(address, password, code, origin, permit)
            .await?;
        let Identified { account, factor } = &identified;
        pinged
            .join()
            .await?
            .map_err(|e| Failure::mail_unavailable().because(e))?;
        let (session, tokens) = self.new_session(&account.id, origin, now)?;
        let owner = identified.origin(origin, Some(&session.app_password.id));
        let begun = self
            .directory
            .second_factors
            .sign_in(&session, &account.password_hash, factor, &owner)
            .await?;
        let reason = match begun {
            SignIn::Begun => {
                metrics::SIGN_INS.increment(["success"]);
                return Ok(SignedIn {
                    tokens,
                    address: account.address.clone(),
                    admin: account.admin,
                });
            }
            SignIn::CodeUsed => CODE_USED,
            SignIn::AccountChanged => ACCOUNT_CHANGED,
        };
        Err(self.reject_changed(account, reason, origin).await?)
    }

    /// Waits until the password of an address can be verified.
    ///
    /// # Errors
    /// Returns 503 if too many verifications wait, or if the client disconnects.
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
            self.mail_server_account(address, &password, origin, permit)
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
        let factor = match self.second_factor(&account.id, code, now).await? {
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
                return Err(Failure::unauthorized(INVALID));
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

    /// Records an audit event for credentials that became invalid after the verification. Returns
    /// the failure for the client.
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
        text: &'static str,
        now: Timestamp,
    ) -> Result<Failure, Failure> {
        let failed = Event {
            account: attempt.account.map(|account| account.id.as_str()),
            address: attempt.address,
            ..Event::of(Kind::SignInFailed, "", now).detail(reason)
        };
        self.directory.events.record(failed, attempt.origin).await?;
        Ok(Failure::unauthorized(text))
    }

    /// Exchanges a refresh token for a new pair of tokens of the same session.
    ///
    /// # Errors
    /// Returns 401 `Invalid or expired refresh token` for every invalid token, or 500 for an
    /// internal error. If a refresh token is used a second time more than ten seconds
    /// (`REUSE_GRACE`) after the first use, the session ends.
    pub async fn refresh(&self, token: &SecretString, origin: &Origin) -> Result<Tokens, Failure> {
        let now = self.clock.now();
        let refresh = secrets::refresh_token()?;
        let rotation = self
            .directory
            .sessions
            .rotate_refresh_token(
                &sha256_hex(token.expose_secret()),
                &sha256_hex(refresh.expose_secret()),
                now,
                now.plus(LIFETIME),
                self.provider_sessions.max_age,
                origin,
            )
            .await?;
        match rotation {
            Rotation::Rotated(session) => Ok(Tokens {
                access: self.access_tokens.sign(
                    &self.keys,
                    &session.account_id,
                    &session.sid,
                    now,
                )?,
                refresh,
            }),
            Rotation::Stolen { app_password_id } => {
                tracing::warn!(app_password_id, "refresh token reused, session ended");
                self.mail_server.end_sessions(&[app_password_id]).await;
                Err(bad_refresh_token())
            }
            Rotation::UsedJustNow | Rotation::Unknown => Err(bad_refresh_token()),
        }
    }

    /// Ends all web sessions of the account, on all devices. The refresh token must be valid and
    /// belong to the account.
    ///
    /// # Errors
    /// Returns 401 `Invalid or expired refresh token` if the token is invalid, or 500 for an
    /// internal error. On error, no session is ended.
    pub async fn sign_out(
        &self,
        account: &str,
        token: &SecretString,
        origin: Origin,
    ) -> Result<(), Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, hash) = (account.to_owned(), sha256_hex(token.expose_secret()));
        let now = self.clock.now();
        self.run_change(async move {
            let revoked = directory
                .sessions
                .end(&account, &hash, now, &origin)
                .await?
                .ok_or_else(bad_refresh_token)?;
            mail_server.end_sessions(&revoked).await;
            Ok(())
        })
        .await
    }

    /// Generates a session of an account, and the tokens of the session. Stores nothing.
    pub(super) fn new_session(
        &self,
        account: &str,
        origin: &Origin,
        now: Timestamp,
    ) -> Result<(NewSession, Tokens), Failure> {
        let sid = secrets::id()?;
        let password = AppPassword::generate()?;
        let refresh = secrets::refresh_token()?;
        let expires_at = now.plus(LIFETIME);
        let tokens = Tokens {
            access: self.access_tokens.sign(&self.keys, account, &sid, now)?,
            refresh,
        };
        let session = NewSession {
            app_password: NewAppPassword {
                id: secrets::id()?,
                kind: AppPasswordKind::WebSession,
                label: user_agent::label(origin.user_agent.as_deref()),
                selector: password.selector().to_owned(),
                secret_hash: password.hash(),
                expires_at: Some(expires_at),
            },
            sealed_password: self
                .keys
                .seal(Purpose::WebSession, &sid, password.secret())?,
            refresh_hash: sha256_hex(tokens.refresh.expose_secret()),
            sid,
            account_id: account.to_owned(),
            created_at: now,
            expires_at,
            provider: None,
        };
        Ok((session, tokens))
    }
}

fn bad_refresh_token() -> Failure {
    Failure::unauthorized("Invalid or expired refresh token")
}
