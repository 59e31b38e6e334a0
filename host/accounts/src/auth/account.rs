//! Changes that a signed-in person makes to their own account: app passwords of mail clients, the list of credentials, the profile and the
//! password.

use std::num::NonZeroU32;
use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::limits::Key;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::{self, AppPassword};
use latchmail_directory::credentials::{
    AppPasswordKind, Credential, CredentialCreation, NewAppPassword, Revocation,
};
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::password::{Change, Outcome, Renewed};
use latchmail_directory::profiles::{self, Changes, Profile};
use latchmail_directory::session_caller::SessionCaller;
use latchmail_directory::two_factor::Person;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::sessions::CODE_REQUIRED;
use super::two_factor::Checked;
use super::uses::to_the_minute;
use super::{Auth, passwords, person};

/// Factor by which the limit of wrong passwords of one session is multiplied for all sessions of an account together.
const ALL_SESSIONS: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// The web session that requests a change to its account.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// Id of the account.
    pub account: &'a str,
    /// Id of the session.
    pub sid: &'a str,
}

/// The password that confirms a request of a session, with the two-factor code if one was sent.
pub struct Confirmation<'a> {
    /// The session.
    pub session: Session<'a>,
    /// The password.
    pub password: SecretString,
    /// The two-factor code.
    pub code: Option<&'a SecretString>,
}

impl<'a> Session<'a> {
    pub(super) const fn asking(self, at: Timestamp) -> SessionCaller<'a> {
        SessionCaller {
            account_id: self.account,
            sid: self.sid,
            at,
        }
    }
}

/// Returns the failure for a session that ended during its request.
pub(crate) fn session_over() -> Failure {
    Failure::unauthorized("Mail session expired, please log in again")
}

/// A new app password.
#[derive(Debug)]
pub struct MadeAppPassword {
    /// Id of the app password.
    pub id: String,
    /// The password. It is shown once.
    pub secret: SecretString,
}

/// Result of a change of password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordChange {
    /// The password was changed.
    Changed,
    /// The new password is the current one.
    Same,
    /// The given current password is wrong.
    Wrong,
}

impl Auth {
    /// Creates an app password for a mail client. Returns `None` if the account has reached the limit.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, and 500. On error nothing was created.
    pub async fn create_app_password(
        &self,
        session: Session<'_>,
        label: &str,
        origin: &Origin,
    ) -> Result<Option<MadeAppPassword>, Failure> {
        let secret = AppPassword::generate()?;
        let password = NewAppPassword {
            id: secrets::id()?,
            kind: AppPasswordKind::AppPassword,
            label: label.to_owned(),
            selector: secret.selector().to_owned(),
            secret_hash: secret.hash(),
            expires_at: None,
        };
        let created =
            self.directory
                .create_app_password(session.asking(self.clock.now()), &password, origin);
        match created.await? {
            CredentialCreation::Created => Ok(Some(MadeAppPassword {
                id: password.id,
                secret: secret.secret().clone(),
            })),
            CredentialCreation::Full => Ok(None),
            CredentialCreation::SessionOver => Err(session_over()),
        }
    }

    /// Returns all credentials of an account, newest first. The times of last use include uses that are not yet written to the database,
    /// and log-ins that the mail server reports.
    ///
    /// # Errors
    /// Returns 500.
    pub async fn credentials(&self, account: &str) -> Result<Vec<Credential>, Failure> {
        let mut credentials = self
            .directory
            .credentials(account, self.clock.now())
            .await?;
        let mail_clients = self.directory.last_logins(account).await?;
        for credential in &mut credentials {
            let noted = self.uses.latest(&credential.id);
            let logged_in = mail_clients.get(&credential.id).copied();
            let latest = credential.last_used_at.max(noted).max(logged_in);
            credential.last_used_at = latest.map(to_the_minute);
        }
        Ok(credentials)
    }

    /// Revokes an app password of an account, unless it belongs to an API token. Revoking the app password of a web session ends the
    /// session.
    ///
    /// # Errors
    /// Returns 500. On error nothing was changed.
    pub async fn revoke_app_password(
        &self,
        account: &str,
        id: &str,
        origin: Origin,
    ) -> Result<Revocation, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, id) = (account.to_owned(), id.to_owned());
        let now = self.clock.now();
        self.run_change(async move {
            let revoked = directory
                .revoke_app_password(&account, &id, now, &origin)
                .await?;
            if revoked == Revocation::Revoked {
                mail_server.end_sessions(&[id]).await;
            }
            Ok(revoked)
        })
        .await
    }

    /// Returns the profile of an account, or `None` if it has none.
    ///
    /// # Errors
    /// Returns 500.
    pub async fn profile(&self, account: &str) -> Result<Option<Profile>, Failure> {
        Ok(self.directory.profile(account).await?)
    }

    /// Changes a profile. Creates the profile if there is none and all fields are given. Returns `false` if there is still no profile.
    ///
    /// # Errors
    /// Returns 400 naming the first invalid field, 401 if the session ended concurrently, and 500.
    pub async fn change_profile(
        &self,
        session: Session<'_>,
        changes: Changes,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        let now = self.clock.now();
        let name = |field, given: Option<String>| {
            given.map(|given| person::name(field, &given)).transpose()
        };
        let changes = Changes {
            first_name: name("first_name", changes.first_name)?,
            last_name: name("last_name", changes.last_name)?,
            dob: changes.dob,
        };
        if let Some(dob) = &changes.dob {
            person::date_of_birth(dob, now.date())?;
        }
        let outcome = self
            .directory
            .change_profile(session.asking(now), &changes, origin);
        match outcome.await? {
            profiles::Change::Changed => Ok(true),
            profiles::Change::Incomplete => Ok(false),
            profiles::Change::SessionOver => Err(session_over()),
        }
    }

    /// Returns whether the password is the account's, for requests that a session alone does not authorize. A wrong password is recorded as
    /// an event of kind `failed`.
    ///
    /// # Errors
    /// Returns 401 `Two-factor code required`, 429 if the session or the account has had too many wrong passwords, and 500.
    pub async fn confirm(
        &self,
        confirmation: Confirmation<'_>,
        failed: Kind,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        let verified = self.verified(confirmation, failed, origin).await?;
        Ok(verified.is_some())
    }

    /// Returns the hash that the password was verified against, or `None` if the password is wrong. A wrong password is recorded as an
    /// event of kind `failed`.
    ///
    /// The limit of wrong passwords is applied here, so that it holds for every caller. These failures neither count towards the limits of
    /// sign-in nor block it.
    async fn verified(
        &self,
        confirmation: Confirmation<'_>,
        failed: Kind,
        origin: &Origin,
    ) -> Result<Option<String>, Failure> {
        let Confirmation {
            session: Session { account, sid },
            password,
            code,
        } = confirmation;
        let attempt = self.failures.attempt([
            (Key::Session(sid.into()), self.wrong_passwords),
            (
                Key::Account(account.into()),
                self.wrong_passwords.saturating_mul(ALL_SESSIONS),
            ),
        ])?;
        let has_valid_length = passwords::has_valid_length(&password);
        let hash = self.directory.password_hash(account).await?;
        let right = has_valid_length && self.passwords.verify(password, hash.as_deref()).await?;
        let now = self.clock.now();
        if let Some(hash) = hash.filter(|_| right) {
            match self.second_factor(account, code, now).await? {
                Checked::Missing => {
                    attempt.succeeded();
                    return Err(Failure::unauthorized(CODE_REQUIRED));
                }
                Checked::Passed(factor) => {
                    let person = Person {
                        account_id: account,
                        password_hash: &hash,
                        factor: &factor,
                        at: now,
                    };
                    if self.directory.use_factor(person).await? {
                        attempt.succeeded();
                        return Ok(Some(hash));
                    }
                }
                Checked::WrongCode => self.directory.wrong_code(account, now, origin).await?,
                Checked::Wrong(_) => {}
            }
        }
        let failed = Event::of(failed, account, now);
        self.directory.record(failed, origin).await?;
        Ok(None)
    }

    /// Changes the password of an account. The session that requests it continues with a new app password. All other web sessions, OAuth
    /// grants and API tokens end.
    ///
    /// # Errors
    /// Returns 400 for an invalid new password, 401 if the session has ended or with `Two-factor code required`, 429 after too many wrong
    /// passwords, and 500. On error nothing was changed.
    pub async fn change_password(
        &self,
        confirmation: Confirmation<'_>,
        new: SecretString,
        origin: Origin,
    ) -> Result<PasswordChange, Failure> {
        person::new_password("new_password", new.expose_secret())?;
        let Session { account, sid } = confirmation.session;
        let same = confirmation.password.expose_secret().as_bytes();
        let same = bool::from(same.ct_eq(new.expose_secret().as_bytes()));
        let verified = self.verified(confirmation, Kind::PasswordChangeFailed, &origin);
        let Some(checked) = verified.await? else {
            return Ok(PasswordChange::Wrong);
        };
        let now = self.clock.now();
        if same {
            return Ok(PasswordChange::Same);
        }
        let password_hash = self.passwords.hash(new).await?;
        let secret = AppPassword::generate()?;
        let app_password = NewAppPassword {
            id: secrets::id()?,
            kind: AppPasswordKind::WebSession,
            label: String::new(),
            selector: secret.selector().to_owned(),
            secret_hash: secret.hash(),
            expires_at: None,
        };
        let sealed_password = self.keys.seal(Purpose::WebSession, sid, secret.secret())?;
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, sid) = (account.to_owned(), sid.to_owned());
        self.run_change(async move {
            let change = Change {
                account_id: &account,
                checked: &checked,
                password_hash: &password_hash,
                session: Renewed {
                    sid: &sid,
                    app_password: &app_password,
                    sealed_password: &sealed_password,
                },
                at: now,
            };
            match directory.change_password(&change, &origin).await? {
                Outcome::Changed(ended) => {
                    mail_server.end_sessions(&ended).await;
                    Ok(PasswordChange::Changed)
                }
                Outcome::AnotherPassword => Ok(PasswordChange::Wrong),
                Outcome::SessionOver => Err(session_over()),
            }
        })
        .await
    }
}
