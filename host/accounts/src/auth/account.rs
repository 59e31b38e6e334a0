//! Operations on the caller's own account: app passwords of mail clients, the list of credentials,
//! the profile and the password.

use std::num::NonZeroU32;
use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::codes;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::limits::{Bucket, Key, record_rejection};
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::AppPassword;
use latchmail_directory::Directory;
use latchmail_directory::accounts::profiles::{Profile, ProfileUpdate, UpdateOutcome};
use latchmail_directory::credentials::password::{Change, Outcome, Renewed};
use latchmail_directory::credentials::{
    AppPasswordKind, Credential, CredentialCreation, NewAppPassword, Revocation,
};
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::session_caller::SessionCaller;
use latchmail_directory::two_factor::Person;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::two_factor::{Checked, second_factor};
use super::uses::{Uses, to_the_minute};
use super::verifier::{CODE_REQUIRED, RECENT, Verifier};
use super::{passwords, person};
use crate::mail_server::MailServer;
use crate::mail_server_users::Verification;

/// The limit on wrong passwords for all sessions of an account is this number times the limit for
/// one session.
const ALL_SESSIONS: NonZeroU32 = NonZeroU32::new(4).unwrap();

const SIGN_IN_AGAIN: &str = "This action needs a sign-in at the identity provider within the last five minutes. \
    Sign in again, and repeat the request.";

/// The web session that requests an operation on its account.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// Id of the account.
    pub account: &'a str,
    /// Id of the session.
    pub sid: &'a str,
}

/// The password and the two-factor code with which a user confirms a request.
pub struct Confirmation<'a> {
    /// The session that sent the request.
    pub session: Session<'a>,
    /// The password.
    pub password: SecretString,
    /// The two-factor code, if the client sent one.
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

/// Returns the error for a request whose session ended before the request was completed.
pub(crate) fn session_over() -> Failure {
    Failure::unauthorized(
        codes::MAIL_SESSION_EXPIRED,
        "Mail session expired, please log in again",
    )
}

/// A new app password.
#[derive(Debug)]
pub struct MadeAppPassword {
    /// Id of the app password.
    pub id: String,
    /// The app password. The user sees the app password only once.
    pub secret: SecretString,
}

/// Result of a change of password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordChange {
    /// The password was changed.
    Changed,
    /// The new password is identical to the current password. Nothing was changed.
    Same,
    /// The change must be confirmed with the current password, and the given password is wrong.
    Wrong,
}

/// The app passwords of mail clients, and the list of all credentials of an account.
#[derive(Debug)]
pub struct Credentials {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) tasks: DetachedTasks,
    pub(super) uses: Arc<Uses>,
}

impl Credentials {
    /// Creates an app password for a mail client. Returns `None` if the account already has the
    /// maximum number of app passwords.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, or 500 for an internal error. On error, no
    /// app password is created.
    pub async fn create_app_password(
        &self,
        session: Session<'_>,
        label: &str,
        origin: &Origin,
    ) -> Result<Option<MadeAppPassword>, Failure> {
        let secret = AppPassword::generate()?;
        let password = NewAppPassword::of(&secret, AppPasswordKind::AppPassword, label)?;
        let created = self.directory.credentials.create_app_password(
            session.asking(self.clock.now()),
            &password,
            origin,
        );
        match created.await? {
            CredentialCreation::Created => Ok(Some(MadeAppPassword {
                id: password.id,
                secret: secret.secret().clone(),
            })),
            CredentialCreation::Full => Ok(None),
            CredentialCreation::SessionOver => Err(session_over()),
        }
    }

    /// Returns all credentials of an account, newest first, without OAuth grants. For the time of
    /// last use, also considers uses that are recorded only in memory, and log-ins that the mail
    /// server reports.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn credentials(&self, account: &str) -> Result<Vec<Credential>, Failure> {
        let now = self.clock.now();
        let credentials = self.directory.credentials.list(account, now).await?;
        self.with_last_uses(account, credentials).await
    }

    /// Returns the credentials that [`Credentials::credentials`] returns, and also the OAuth grants
    /// and the credential of the search index.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn credentials_and_grants(&self, account: &str) -> Result<Vec<Credential>, Failure> {
        let now = self.clock.now();
        let credentials = self
            .directory
            .credentials
            .list_with_grants(account, now)
            .await?;
        self.with_last_uses(account, credentials).await
    }

    async fn with_last_uses(
        &self,
        account: &str,
        mut credentials: Vec<Credential>,
    ) -> Result<Vec<Credential>, Failure> {
        let mail_clients = self.directory.credentials.last_logins(account).await?;
        for credential in &mut credentials {
            let noted = self.uses.latest(&credential.id);
            let logged_in = mail_clients.get(&credential.id).copied();
            let latest = credential.last_used_at.max(noted).max(logged_in);
            credential.last_used_at = latest.map(to_the_minute);
        }
        Ok(credentials)
    }

    /// Revokes an app password of an account. If the app password belongs to a web session, the
    /// session ends. App passwords of API tokens are not revoked.
    ///
    /// # Errors
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn revoke_app_password(
        &self,
        account: &str,
        id: &str,
        origin: Origin,
    ) -> Result<Revocation, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, id) = (account.to_owned(), id.to_owned());
        let now = self.clock.now();
        self.tasks
            .complete(async move {
                let revoked = directory
                    .credentials
                    .revoke_app_password(&account, &id, now, &origin)
                    .await?;
                if let Revocation::Revoked(kind) = revoked {
                    mail_server.end_sessions(&[id]).await;
                    if kind == AppPasswordKind::AppPassword
                        && let Some(account) = directory.accounts.active(&account).await?
                    {
                        mail_server.end_user_sessions(&account.address).await;
                    }
                }
                Ok(revoked)
            })
            .await
    }
}

/// The profiles of accounts.
#[derive(Debug)]
pub struct Profiles {
    pub(super) directory: Directory,
    pub(super) clock: Clock,
}

impl Profiles {
    /// Returns the profile of an account, or `None` if the account has no profile.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn profile(&self, account: &str) -> Result<Option<Profile>, Failure> {
        Ok(self.directory.accounts.profile(account).await?)
    }

    /// Changes the profile of the session's account. If the account has no profile and `update`
    /// contains all fields, creates a profile. If the account has no profile and a field is
    /// missing, returns `false`.
    ///
    /// # Errors
    /// Returns 400 if a field is invalid, 401 if the session ended concurrently, or 500 for an
    /// internal error. The error text for 400 names the first invalid field.
    pub async fn change_profile(
        &self,
        session: Session<'_>,
        update: ProfileUpdate,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        let now = self.clock.now();
        let name = |field, given: Option<String>| {
            given.map(|given| person::name(field, &given)).transpose()
        };
        let update = ProfileUpdate {
            first_name: name("first_name", update.first_name)?,
            last_name: name("last_name", update.last_name)?,
            dob: update.dob,
        };
        if let Some(dob) = &update.dob {
            person::date_of_birth(dob, now.date())?;
        }
        let outcome = self
            .directory
            .accounts
            .change_profile(session.asking(now), &update, origin);
        match outcome.await? {
            UpdateOutcome::Changed => Ok(true),
            UpdateOutcome::Incomplete => Ok(false),
            UpdateOutcome::SessionOver => Err(session_over()),
        }
    }
}

impl Verifier {
    /// Returns `true` if the password and the two-factor code of the confirmation are correct.
    /// Otherwise records an audit event of the kind `failed`. Use this function for requests that a
    /// session alone does not authorize.
    ///
    /// A user who signs in at the identity provider has no password that this service can verify.
    /// The request of such a user is confirmed by a sign-in at the provider within the last five
    /// minutes.
    ///
    /// # Errors
    /// Returns 400 if the password is empty. Returns 403 if a user of the identity provider did not
    /// sign in within the last five minutes. Returns 401 `Two-factor code required` if the password
    /// is correct and the code is missing. Returns 429 if the session or the account has had too
    /// many wrong passwords. Returns 500 for an internal error.
    pub async fn confirm(
        &self,
        confirmation: Confirmation<'_>,
        failed: Kind,
        origin: &Origin,
    ) -> Result<bool, Failure> {
        if let Some(recent) = self.has_recent_sign_in(confirmation.session).await? {
            return if recent {
                Ok(true)
            } else {
                let failed = Event::of(failed, confirmation.session.account, self.clock.now())
                    .detail("no recent sign-in at the identity provider");
                self.directory.events.record(failed, origin).await?;
                Err(Failure::forbidden(
                    codes::RECENT_SIGN_IN_REQUIRED,
                    SIGN_IN_AGAIN,
                ))
            };
        }
        if confirmation.password.expose_secret().is_empty() {
            return Err(Failure::invalid(
                codes::FIELD_REQUIRED,
                "password is required",
            ));
        }
        let verified = self.verified(confirmation, failed, origin).await?;
        Ok(verified.is_some())
    }

    /// Returns the stored password hash if the password and the two-factor code are correct.
    /// Otherwise records an audit event of the kind `failed` and returns `None`.
    ///
    /// This function applies the limit on wrong passwords. Failures in this function do not count
    /// towards the limits for signing in.
    pub(super) async fn verified(
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
        let limits = [
            (Key::Session(sid.into()), self.wrong_passwords.get()),
            (
                Key::Account(account.into()),
                self.wrong_passwords.get().saturating_mul(ALL_SESSIONS),
            ),
        ];
        let attempt = self.failures.attempt(limits).await;
        let attempt = attempt.inspect_err(|_| {
            record_rejection(Bucket::PasswordChange.name(), self.clock.now());
        })?;
        let verified = self.verify_password(account, password, origin).await;
        let verified = match verified {
            // The password could not be verified, so the attempt does not count as a wrong
            // password.
            Err(failure) => {
                attempt.succeeded().await;
                return Err(failure);
            }
            Ok(verified) => verified,
        };
        let now = self.clock.now();
        if let Some(hash) = verified {
            match second_factor(&self.directory, &self.keys, account, code, now).await? {
                Checked::Missing => {
                    attempt.succeeded().await;
                    return Err(Failure::unauthorized(CODE_REQUIRED.0, CODE_REQUIRED.1));
                }
                Checked::Passed(factor) => {
                    let person = Person {
                        account_id: account,
                        password_hash: &hash,
                        factor: &factor,
                        at: now,
                    };
                    if self.directory.second_factors.use_factor(person).await? {
                        attempt.succeeded().await;
                        return Ok(Some(hash));
                    }
                }
                Checked::WrongCode => {
                    self.directory
                        .second_factors
                        .wrong_code(account, now, origin)
                        .await?;
                }
                Checked::Wrong(_) => {}
            }
        }
        let failed = Event::of(failed, account, now);
        self.directory.events.record(failed, origin).await?;
        Ok(None)
    }

    /// Returns the stored password hash or fingerprint of an account if the password is correct.
    async fn verify_password(
        &self,
        account: &str,
        password: SecretString,
        origin: &Origin,
    ) -> Result<Option<String>, Failure> {
        let has_valid_length = passwords::has_valid_length(&password);
        let found = self.directory.accounts.active(account).await?;
        if let Some(found) = found.as_ref().filter(|a| self.users.manages(&a.address)) {
            let right = has_valid_length && {
                let permit = self.users.permit(origin.client).await?;
                let verification = self.mail_server_accounts.mail_server_user(
                    &found.address,
                    &password,
                    origin.client,
                    permit,
                );
                matches!(
                    verification.await?,
                    Verification::Accepted { address, .. } if address == found.address
                )
            };
            // The fingerprint can have changed, because the verification can take seconds. So read
            // the fingerprint again.
            let current = self.directory.credentials.password_hash(account).await?;
            return Ok(current.filter(|_| right));
        }
        let hash = found.map(|found| found.password_hash);
        let right = has_valid_length && {
            let permit = self.passwords.permit(origin.client).await?;
            let verified = self.passwords.verify(password, hash.as_deref(), permit);
            verified.await?
        };
        Ok(hash.filter(|_| right))
    }

    /// Returns whether the user of a session signed in at the identity provider within the last
    /// five minutes. Returns `None` if the user signs in with a password.
    async fn has_recent_sign_in(&self, session: Session<'_>) -> Result<Option<bool>, Failure> {
        let account = self.directory.accounts.active(session.account).await?;
        if !account.is_some_and(|account| self.users.settings().is_at_provider(&account.address)) {
            return Ok(None);
        }
        let at = self
            .directory
            .single_sign_on
            .signed_in_at_provider(session.account, session.sid)
            .await?;
        Ok(Some(
            at.is_some_and(|at| self.clock.now().since(at) <= RECENT),
        ))
    }

    /// Changes the password of an account. The session of this request continues with a new app
    /// password. All other web sessions, all OAuth grants and all API tokens of the account end.
    ///
    /// # Errors
    /// Returns 403 if the service does not store the password. Returns 400 if the new password is
    /// invalid. Returns 401 if the session has ended, or if the two-factor code is missing. Returns
    /// 429 after too many wrong passwords. Returns 500 for an internal error. On error, nothing is
    /// changed.
    pub async fn change_password(
        &self,
        confirmation: Confirmation<'_>,
        new: SecretString,
        origin: Origin,
    ) -> Result<PasswordChange, Failure> {
        let found = self
            .directory
            .accounts
            .active(confirmation.session.account)
            .await?;
        let hint = found.and_then(|found| self.users.settings().password_hint(&found.address));
        if let Some(hint) = hint {
            return Err(Failure::forbidden(codes::PASSWORD_MANAGED_ELSEWHERE, hint));
        }
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
        let password_hash = self.passwords.hash(new, origin.client).await?;
        let secret = AppPassword::generate()?;
        let app_password = NewAppPassword::of(&secret, AppPasswordKind::WebSession, "")?;
        let sealed_password = self.keys.seal(Purpose::WebSession, sid, secret.secret())?;
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, sid) = (account.to_owned(), sid.to_owned());
        self.tasks
            .complete(async move {
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
                match directory
                    .credentials
                    .change_password(&change, &origin)
                    .await?
                {
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
