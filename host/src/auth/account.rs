//! What a signed-in person does to the account itself: mail clients' app passwords, the list of all that can reach it, its profile, its
//! password.

use std::num::NonZeroU32;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::sealing::Purpose;
use super::secrets::{self, AppPassword};
use super::sessions::CODE_REQUIRED;
use super::two_factor::Checked;
use super::uses::to_the_minute;
use super::{Auth, detached, passwords, person};
use crate::caller::Origin;
use crate::clock::Timestamp;
use crate::directory::credentials::{AppPasswordKind, Credential, NewAppPassword, Revocation};
use crate::directory::events::{Event, Kind};
use crate::directory::password::{Change, Outcome, Renewed};
use crate::directory::profiles::{self, Changes, Profile};
use crate::directory::sessions::{Asking, Made};
use crate::directory::two_factor::Person;
use crate::error::Failure;
use crate::limits::Key;

/// All sessions of an account together can have this many times as many wrong passwords as one.
const ALL_SESSIONS: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// The web session that asks for a change to its account.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The account's id.
    pub account: &'a str,
    /// The session's id.
    pub sid: &'a str,
}

/// The password of a session's account, where the session alone is not enough, with the two-factor code if one came with it.
pub struct Confirmation<'a> {
    /// The session.
    pub session: Session<'a>,
    /// The password.
    pub password: SecretString,
    /// The code.
    pub code: Option<&'a SecretString>,
}

impl<'a> Session<'a> {
    pub(super) const fn asking(self, at: Timestamp) -> Asking<'a> {
        Asking {
            account_id: self.account,
            sid: self.sid,
            at,
        }
    }
}

/// The session ended while its request was under way.
pub(crate) fn session_over() -> Failure {
    Failure::unauthorized("Mail session expired, please log in again")
}

/// An app password that was made.
#[derive(Debug)]
pub struct MadeAppPassword {
    /// Opaque.
    pub id: String,
    /// The password itself, shown this once.
    pub secret: SecretString,
}

/// What came of a change of password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordChange {
    /// It is the new one.
    Changed,
    /// The new one is the current one.
    Same,
    /// The current one is another.
    Wrong,
}

impl Auth {
    /// Makes an app password for a mail client. None where the account has as many as it may.
    ///
    /// # Errors
    /// 401 where the session ended meanwhile; 500. Nothing was made then.
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
        let kept =
            self.directory
                .create_app_password(session.asking(self.clock.now()), &password, origin);
        match kept.await? {
            Made::Made => Ok(Some(MadeAppPassword {
                id: password.id,
                secret: secret.secret().clone(),
            })),
            Made::Full => Ok(None),
            Made::SessionOver => Err(session_over()),
        }
    }

    /// All that can reach an account, newest first; when each was last used counts what is not written down yet, and what the mail
    /// server says of mail clients.
    ///
    /// # Errors
    /// 500.
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

    /// Revokes an app password of an account that backs no API token; a web session's ends the session.
    ///
    /// # Errors
    /// 500; it is as it was then.
    pub async fn revoke_app_password(
        &self,
        account: &str,
        id: &str,
        origin: Origin,
    ) -> Result<Revocation, Failure> {
        let (directory, mail) = (self.directory.clone(), Arc::clone(&self.mail));
        let (account, id) = (account.to_owned(), id.to_owned());
        let now = self.clock.now();
        detached(async move {
            let revoked = directory
                .revoke_app_password(&account, &id, now, &origin)
                .await?;
            if revoked == Revocation::Revoked {
                mail.end(&[id]).await;
            }
            Ok(revoked)
        })
        .await
    }

    /// An account's profile, where it has one.
    ///
    /// # Errors
    /// 500.
    pub async fn profile(&self, account: &str) -> Result<Option<Profile>, Failure> {
        Ok(self.directory.profile(account).await?)
    }

    /// Changes a profile, or makes it of all that is in one. Whether there is one now.
    ///
    /// # Errors
    /// 400 naming the first field that will not do; 401 where the session ended meanwhile; 500.
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
        let there = self
            .directory
            .change_profile(session.asking(now), &changes, origin);
        match there.await? {
            profiles::Change::Changed => Ok(true),
            profiles::Change::Incomplete => Ok(false),
            profiles::Change::SessionOver => Err(session_over()),
        }
    }

    /// Whether this is an account's password: asked where a session alone is not enough. A wrong one is recorded as `failed`.
    ///
    /// # Errors
    /// 401 `Two-factor code required`; 429 if the session or the account has had too many wrong ones; 500.
    pub async fn confirm(
        &self,
        confirmation: Confirmation<'_>,
        failed: Kind,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        let verified = self.verified(confirmation, failed, origin).await?;
        Ok(verified.is_some())
    }

    /// The hash that an account's password was verified against; none of a wrong one, which is recorded as `failed`. Wrong ones are limited here, so that the
    /// limit holds for every caller. They neither count towards the limits of signing in nor block it.
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
        let as_long_as_any = passwords::can_be(&password);
        let hash = self.directory.password_hash(account).await?;
        let right = as_long_as_any && self.passwords.verify(password, hash.as_deref()).await?;
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

    /// Changes an account's password on the word of its session, which goes on with another app password. All other web sessions,
    /// OAuth grants and API tokens end.
    ///
    /// # Errors
    /// 400 for a new password that will not do; 401 if the session has ended, or `Two-factor code required`; 429 after too many wrong passwords; 500.
    /// Nothing was changed then.
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
        let (directory, mail) = (self.directory.clone(), Arc::clone(&self.mail));
        let (account, sid) = (account.to_owned(), sid.to_owned());
        detached(async move {
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
                    mail.end(&ended).await;
                    Ok(PasswordChange::Changed)
                }
                Outcome::AnotherPassword => Ok(PasswordChange::Wrong),
                Outcome::SessionOver => Err(session_over()),
            }
        })
        .await
    }
}
