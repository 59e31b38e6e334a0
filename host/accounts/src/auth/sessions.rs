//! Web sessions: sign-in with a password, refresh with refresh tokens, and sign-out of all
//! sessions.
//!
//! Each session has its own app password for the mail server. The directory stores the app
//! password, encrypted with the service's keys and bound to the session's id.
//! [`super::by_access_token`] finds the caller of an access token.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::codes;
use latchmail_core::config::Config;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::limits::{Failures, Limit};
use latchmail_core::metrics;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::{self, AppPassword, sha256_hex};
use latchmail_core::traces::in_request;
use latchmail_directory::Directory;
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::sessions::{NewSession, Rotation};
use latchmail_directory::two_factor::SignIn;
use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;

use super::access_token::AccessTokens;
use super::reasons::{ACCOUNT_CHANGED, CODE_USED};
use super::user_agent;
use super::verifier::{Identified, Verifier};
use crate::mail_server::MailServer;

/// Lifetime of a session after the last refresh of its tokens.
pub const LIFETIME: Duration = Duration::from_hours(30 * 24);

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

/// A Tokio task that is aborted when this value is dropped.
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

/// The web sessions of all accounts.
#[derive(Debug)]
pub struct Sessions {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) keys: Arc<Keyring>,
    pub(super) tasks: DetachedTasks,
    pub(super) verifier: Arc<Verifier>,
    pub(super) access_tokens: AccessTokens,
    /// The maximum age of a session that began at the identity provider.
    pub(super) provider_max_age: Duration,
    /// Counts invalid signatures of access tokens, per client.
    pub(super) failures: Arc<Failures>,
    /// Maximum number of invalid signatures per minute for one client.
    pub(super) wrong_signatures: Limit,
}

impl Sessions {
    pub(super) fn new(config: &Config, verifier: &Arc<Verifier>, failures: Arc<Failures>) -> Self {
        Self {
            directory: verifier.directory.clone(),
            mail_server: Arc::clone(&verifier.mail_server),
            clock: verifier.clock.clone(),
            keys: Arc::clone(&verifier.keys),
            tasks: verifier.tasks.clone(),
            verifier: Arc::clone(verifier),
            access_tokens: AccessTokens::new(&config.base_url()),
            provider_max_age: config.sign_in.oidc.max_session_age,
            failures,
            wrong_signatures: Limit::new(config.limits.unproven),
        }
    }

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
    /// server is unavailable, except for wrong credentials that the service verifies itself.
    /// Returns 500 for an internal error. On error, the code is not consumed.
    pub async fn sign_in(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<SignedIn, Failure> {
        self.verifier.require_password_sign_in(address)?;
        // A session needs the mail server, so the service pings the mail server while it verifies
        // the password. For a wrong password, the service does not wait for the ping.
        let permit = self.verifier.password_permit(address, origin).await?;
        let mail_server = Arc::clone(&self.mail_server);
        let ping = in_request(async move { mail_server.ping().await });
        let pinged = AbortOnDrop(tokio::spawn(ping));
        let now = self.clock.now();
        let identified = self
            .verifier
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
        Err(self
            .verifier
            .reject_changed(account, reason, origin)
            .await?)
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
                self.provider_max_age,
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
        self.tasks
            .complete(async move {
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
            app_password: NewAppPassword::of(
                &password,
                AppPasswordKind::WebSession,
                user_agent::label(origin.user_agent.as_deref()),
            )?,
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
    Failure::unauthorized(
        codes::INVALID_REFRESH_TOKEN,
        "Invalid or expired refresh token",
    )
}
