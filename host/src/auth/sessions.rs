//! Web sessions: begun with a password, kept with refresh tokens, ended all at once.
//!
//! A session is one app password of its own at the mail server, sealed in the directory under the session's id. Who presents its
//! access token is told in [`super::by_access_token`].

use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::task::JoinHandle;

use super::sealing::Purpose;
use super::secrets::{self, AppPassword, sha256_hex};
use super::two_factor::Checked;
use super::{Auth, detached, user_agent};

use crate::caller::Origin;
use crate::clock::Timestamp;
use crate::directory::accounts::Account;
use crate::directory::credentials::{AppPasswordKind, NewAppPassword};
use crate::directory::events::{Event, Kind};
use crate::directory::sessions::{NewSession, Rotation};
use crate::directory::two_factor::{Factor, SignIn};
use crate::error::Failure;

/// How long a session lives after its last refresh.
pub const LIFETIME: Duration = Duration::from_hours(30 * 24);

const INVALID: &str = "Invalid credentials";
/// What somebody is told whose password is right and who has to show a code.
pub(crate) const CODE_REQUIRED: &str = "Two-factor code required";

/// Why what was right a moment ago is not any more, for the record.
pub(super) const CODE_USED: &str =
    "two-factor code used before, too many were wrong, or the secret was replaced";
pub(super) const ACCOUNT_CHANGED: &str = "the account was changed meanwhile";

/// What a client holds of a session.
#[derive(Debug)]
pub struct Tokens {
    /// Good for 15 minutes.
    pub access: SecretString,
    /// Good once, for 30 days.
    pub refresh: SecretString,
}

/// A session begun.
#[derive(Debug)]
pub struct SignedIn {
    /// What the client gets.
    pub tokens: Tokens,
    /// The account's address, lower case.
    pub address: String,
    /// Whether the account is an administrator's.
    pub admin: bool,
}

/// Somebody who tries to sign in.
struct Attempt<'a> {
    address: &'a str,
    account: Option<&'a Account>,
    origin: &'a Origin,
}

/// Somebody whose password and second factor were found right.
pub(super) struct Identified {
    pub(super) account: Account,
    pub(super) factor: Factor,
}

impl Identified {
    /// Where what they do comes from, with which credential.
    pub(super) fn origin(&self, origin: &Origin, credential: Option<&str>) -> Origin {
        Origin {
            actor: self.account.address.clone(),
            credential: credential.map(ToOwned::to_owned),
            ..origin.clone()
        }
    }
}

/// A task that nobody waits for any more once this is gone.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn answer(mut self) -> Result<T, Failure> {
        (&mut self.0).await.map_err(Failure::internal)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Auth {
    /// Begins a session for the account `address` (lower case), named after the client. `code` is a code of its second factor, or a
    /// recovery code; without a second factor it is ignored.
    ///
    /// An unknown address, an inactive account and a wrong password are one failure and take the same time.
    ///
    /// # Errors
    /// 401 `Invalid credentials`; 401 `Two-factor code required` where the password is right and no code was given; 503 where the
    /// credentials are right and the mail server is not there; 500. A code is used up only where the session is begun.
    pub async fn sign_in(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<SignedIn, Failure> {
        // A session without a mail server is of no use, so it is asked while the password is checked: nothing is begun before
        // both have answered, and a wrong password waits for no mail server.
        let mail = Arc::clone(&self.mail);
        let reached = AbortOnDrop(tokio::spawn(async move { mail.ping().await }));
        let now = self.clock.now();
        let identified = self.identify(address, password, code, origin).await?;
        let Identified { account, factor } = &identified;
        reached
            .answer()
            .await?
            .map_err(|e| Failure::mail_unavailable().because(e))?;
        let (session, tokens) = self.mint(&account.id, origin, now)?;
        let owner = identified.origin(origin, Some(&session.app_password.id));
        let begun = self
            .directory
            .sign_in(&session, &account.password_hash, factor, &owner)
            .await?;
        let reason = match begun {
            SignIn::Begun => {
                return Ok(SignedIn {
                    tokens,
                    address: account.address.clone(),
                    admin: account.admin,
                });
            }
            SignIn::CodeUsed => CODE_USED,
            SignIn::AccountChanged => ACCOUNT_CHANGED,
        };
        Err(self.too_late(account, reason, origin).await?)
    }

    /// Whoever knows an account's password and shows what it asks for beside it. Nothing of that is used up yet: it is in the transaction of what it is
    /// shown for.
    ///
    /// An unknown address, an inactive account and a wrong password are one failure and take the same time.
    ///
    /// # Errors
    /// 401 `Invalid credentials`; 401 `Two-factor code required` where the password is right and no code was given; 500.
    pub(super) async fn identify(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        origin: &Origin,
    ) -> Result<Identified, Failure> {
        let found = self.directory.account_by_address(address).await?;
        let attempt = Attempt {
            address,
            account: found.as_ref(),
            origin,
        };
        let account = found.as_ref().filter(|account| account.active);
        let hash = account.map(|account| account.password_hash.as_str());
        let right = self.passwords.verify(password, hash).await?;
        let now = self.clock.now();
        let Some(account) = account.filter(|_| right) else {
            let reason = match &found {
                None => "no such account",
                Some(account) if !account.active => "the account is disabled",
                Some(_) => "wrong password",
            };
            return Err(self.refused(&attempt, reason, INVALID, now).await?);
        };
        let factor = match self.second_factor(&account.id, code, now).await? {
            Checked::Passed(factor) => factor,
            Checked::Missing => {
                let reason = "two-factor code missing";
                return Err(self.refused(&attempt, reason, CODE_REQUIRED, now).await?);
            }
            Checked::WrongCode => {
                self.directory.wrong_code(&account.id, now, origin).await?;
                return Err(Failure::unauthorized(INVALID));
            }
            Checked::Wrong(reason) => {
                return Err(self.refused(&attempt, reason, INVALID, now).await?);
            }
        };
        Ok(Identified {
            account: account.clone(),
            factor,
        })
    }

    /// Records that what somebody had shown was no longer good when it was to be used, and answers what that is answered.
    pub(super) async fn too_late(
        &self,
        account: &Account,
        reason: &'static str,
        origin: &Origin,
    ) -> Result<Failure, Failure> {
        let attempt = Attempt {
            address: &account.address,
            account: Some(account),
            origin,
        };
        self.refused(&attempt, reason, INVALID, self.clock.now())
            .await
    }

    /// Records an attempt that failed, and answers what it is answered.
    async fn refused(
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
        self.directory.record(failed, attempt.origin).await?;
        Ok(Failure::unauthorized(text))
    }

    /// Exchanges a refresh token for a new pair of the same session.
    ///
    /// # Errors
    /// 401 `Invalid or expired refresh token`, whatever is wrong with it; 500. Used a second time after a while, the token ends
    /// its session.
    pub async fn refresh(
        &self,
        presented: &SecretString,
        origin: &Origin,
    ) -> Result<Tokens, Failure> {
        let now = self.clock.now();
        let refresh = secrets::refresh_token()?;
        let rotation = self
            .directory
            .rotate_refresh_token(
                &sha256_hex(presented.expose_secret()),
                &sha256_hex(refresh.expose_secret()),
                now,
                now.plus(LIFETIME),
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
                tracing::warn!(
                    app_password_id,
                    "a refresh token was used again: its session is ended"
                );
                self.mail.end(&[app_password_id]).await;
                Err(bad_refresh_token())
            }
            Rotation::UsedJustNow | Rotation::Unknown => Err(bad_refresh_token()),
        }
    }

    /// Ends every web session of the account, on every device, provided that the refresh token is live and the account's.
    ///
    /// # Errors
    /// 401 `Invalid or expired refresh token`; 500. Nothing was ended then.
    pub async fn sign_out(
        &self,
        account: &str,
        presented: &SecretString,
        origin: Origin,
    ) -> Result<(), Failure> {
        let (directory, mail) = (self.directory.clone(), Arc::clone(&self.mail));
        let (account, hash) = (account.to_owned(), sha256_hex(presented.expose_secret()));
        let now = self.clock.now();
        detached(async move {
            let revoked = directory
                .end_sessions(&account, &hash, now, &origin)
                .await?
                .ok_or_else(bad_refresh_token)?;
            mail.end(&revoked).await;
            Ok(())
        })
        .await
    }

    /// A session of an account and what its client gets; nothing is kept yet.
    pub(super) fn mint(
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
        };
        Ok((session, tokens))
    }
}

fn bad_refresh_token() -> Failure {
    Failure::unauthorized("Invalid or expired refresh token")
}
