//! Sign-in with the passwords of the mail server's users. The first sign-in of a user creates the
//! account.
//!
//! The functions do not reveal whether an account exists, because the mail server verifies the
//! password before the service looks up the account.

use std::net::IpAddr;
use std::sync::Arc;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::fingerprint::{Comparison, is_fingerprint};
use latchmail_core::keyring::Keyring;
use latchmail_core::secrets::{self, AppPassword};
use latchmail_core::work_queue::WorkPermit;
use latchmail_directory::Directory;
use latchmail_directory::accounts::{Account, NewAccount};
use latchmail_net::dovecot_auth::Error;
use latchmail_net::dovecot_auth::lookup::{Lookups, PassdbEntry};
use secrecy::SecretString;

use super::reasons::{ACCOUNT_CHANGED, DISABLED};
use crate::mail_server::MailServer;
use crate::mail_server_users::{LookupError, MailServerUsers, Verification};

/// Returns the passdb entry of the first name in `names` that the mail server knows. Returns `None`
/// if the mail server knows none of the names.
///
/// # Errors
/// Returns an error if the mail server cannot look up a name at the moment.
pub(super) async fn look_up(
    lookups: &mut Lookups,
    names: &[&str],
) -> Result<Option<PassdbEntry>, Error> {
    for name in names {
        if lookups.user_exists(name).await? {
            return lookups.passdb_entry(name).await.map(Some);
        }
    }
    Ok(None)
}

/// The version of a user's password at the mail server. A new version means that the password has
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PasswordVersion<'a> {
    /// The password has this version.
    Known(&'a str),
    /// The version is unknown, because the mail server has no passdb entry of the user.
    Hidden,
    /// The version is unknown, because the service could not look up the user.
    Unasked,
}

/// A change of an account's stored password hash or fingerprint.
#[derive(Debug, PartialEq, Eq)]
enum FingerprintChange {
    None,
    /// Replace the stored value with this text. The password has not changed.
    Store(String),
    /// Replace the stored value with this text. The password has changed.
    Changed(String),
}

/// The accounts of the mail server's users.
#[derive(Debug)]
pub struct MailServerAccounts {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) keys: Arc<Keyring>,
    pub(super) tasks: DetachedTasks,
    pub(super) users: Arc<MailServerUsers>,
}

impl MailServerAccounts {
    /// Verifies a password with the mail server. Returns the account of the user, and creates a
    /// missing account. Returns the reason for the audit event if the user is rejected.
    ///
    /// # Errors
    /// Returns 503 if the mail server cannot verify the password at the moment, or 500 for an
    /// internal error.
    pub(super) async fn mail_server_account(
        &self,
        address: &str,
        password: &SecretString,
        origin: &Origin,
        permit: WorkPermit,
    ) -> Result<Result<Account, &'static str>, Failure> {
        let verification = self.mail_server_user(address, password, origin.client, permit);
        let (address, name) = match verification.await? {
            Verification::Accepted { address, name } => (address, name),
            Verification::Rejected(reason) => return Ok(Err(reason)),
        };
        let account = match self.directory.accounts.by_address(&address).await? {
            Some(account) => account,
            None => match self.create_mail_server_account(address, origin).await? {
                Some(account) => account,
                None => return Ok(Err("the address is an alias or reserved")),
            },
        };
        if !account.active {
            return Ok(Err(DISABLED));
        }
        let name = (name != account.address).then_some(name);
        if account.login_name != name {
            let stored = self
                .directory
                .accounts
                .set_login_name(&account.id, name.as_deref());
            stored.await?;
        }
        let account = self
            .synchronized(Account {
                login_name: name,
                ..account
            })
            .await?;
        Ok(account.ok_or(ACCOUNT_CHANGED))
    }

    /// Verifies a password with the mail server. Rejects app passwords, because they must not
    /// create sessions. Rejects users on domains that are not platform domains.
    ///
    /// # Errors
    /// Returns 503 if the mail server cannot verify the password at the moment, or 500 for an
    /// internal error.
    pub(super) async fn mail_server_user(
        &self,
        address: &str,
        password: &SecretString,
        client: Option<IpAddr>,
        permit: WorkPermit,
    ) -> Result<Verification, Failure> {
        const FOREIGN: Verification = Verification::Rejected("the domain is not a platform domain");
        if !self.is_on_platform_domain(address).await? {
            return Ok(FOREIGN);
        }
        // The mail server accepts the app passwords of all accounts, and can replace the name of a
        // user. So reject an app password even if it belongs to another account than `address`.
        if let Some(app_password) = AppPassword::parse(password)
            && self
                .directory
                .credentials
                .is_app_password(app_password.selector(), &app_password.hash())
                .await?
        {
            return Ok(Verification::Rejected("the password is an app password"));
        }
        let verification = self.users.verify(address, password, client, permit).await?;
        if let Verification::Accepted { address, .. } = &verification
            && !self.is_on_platform_domain(address).await?
        {
            return Ok(FOREIGN);
        }
        Ok(verification)
    }

    pub(super) async fn is_on_platform_domain(&self, address: &str) -> Result<bool, Failure> {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        Ok(self
            .directory
            .domains
            .platform_domain(domain)
            .await?
            .is_some())
    }

    /// Creates the account of a user. Returns the existing account if a concurrent sign-in created
    /// this account. Returns `None` if the address is not available.
    pub(super) async fn create_mail_server_account(
        &self,
        address: String,
        origin: &Origin,
    ) -> Result<Option<Account>, Failure> {
        let account = NewAccount::of_mail_server_user(secrets::id()?, address, self.clock.now());
        let origin = Origin {
            actor: account.address.clone(),
            ..origin.clone()
        };
        self.directory
            .accounts
            .create(&account, None, &origin)
            .await?;
        Ok(self.directory.accounts.by_address(&account.address).await?)
    }

    /// Looks up the version of a password that the mail server has accepted, and updates the
    /// account's fingerprint. Returns the current account, or `None` if the account was disabled
    /// concurrently.
    async fn synchronized(&self, account: Account) -> Result<Option<Account>, Failure> {
        let entry = async {
            let mut lookups = self.users.lookups().await?;
            let names = self
                .users
                .names(&account.address, account.login_name.as_deref());
            let entry = look_up(&mut lookups, &names).await?;
            Ok::<_, LookupError>(entry.unwrap_or(PassdbEntry::NotFound))
        };
        let entry = entry.await;
        let version = match &entry {
            Ok(entry) => PasswordVersion::of(entry),
            Err(LookupError::NotConfigured) => PasswordVersion::Unasked,
            Err(error) => {
                tracing::warn!(%error, "failed to look up a user of the mail server at a sign-in");
                PasswordVersion::Unasked
            }
        };
        self.synchronize(&account, version).await?;
        Ok(self.directory.accounts.active(&account.id).await?)
    }

    /// Stores the fingerprint of a password. If the password has changed, also ends the account's
    /// web sessions, OAuth grants and API tokens.
    pub(super) async fn synchronize(
        &self,
        account: &Account,
        version: PasswordVersion<'_>,
    ) -> Result<(), Failure> {
        let before = account.password_hash.clone();
        match fingerprint_change(&self.keys, &account.id, &before, version)? {
            FingerprintChange::None => Ok(()),
            FingerprintChange::Store(after) => {
                let replaced =
                    self.directory
                        .credentials
                        .replace_fingerprint(&account.id, &before, &after);
                // If another sign-in has replaced the fingerprint concurrently, it stored the same
                // fingerprint. So the result does not matter.
                replaced.await?;
                Ok(())
            }
            FingerprintChange::Changed(after) => {
                let (directory, mail_server) =
                    (self.directory.clone(), Arc::clone(&self.mail_server));
                let (id, now) = (account.id.clone(), self.clock.now());
                self.tasks
                    .complete(async move {
                        let origin = Origin::service();
                        let ended = directory
                            .credentials
                            .change_fingerprint(&id, &before, &after, now, &origin)
                            .await?;
                        mail_server.end_sessions(&ended.unwrap_or_default()).await;
                        Ok(())
                    })
                    .await
            }
        }
    }
}

impl<'a> PasswordVersion<'a> {
    pub(super) fn of(entry: &'a PassdbEntry) -> Self {
        match entry {
            // A passdb entry without a version counts as an entry with an empty version. The
            // fingerprint of the empty version records that the user has a passdb entry. So a later
            // lookup detects that the entry was removed.
            PassdbEntry::Found { version, .. } => {
                Self::Known(version.as_deref().unwrap_or_default())
            }
            PassdbEntry::NotFound => Self::Hidden,
        }
    }
}

/// Decides how a stored password hash or fingerprint must change.
fn fingerprint_change(
    keys: &Keyring,
    account_id: &str,
    stored: &str,
    version: PasswordVersion<'_>,
) -> Result<FingerprintChange, Failure> {
    let PasswordVersion::Known(version) = version else {
        return Ok(if stored.is_empty() {
            FingerprintChange::None
        } else if !is_fingerprint(stored) {
            // Remove a password hash from the time before the mail server verified the account's
            // password.
            FingerprintChange::Store(String::new())
        } else if version == PasswordVersion::Hidden {
            // The passdb entry from the last lookup is missing now, so the mail server has a new
            // source of passwords. The password counts as changed.
            FingerprintChange::Changed(String::new())
        } else {
            FingerprintChange::None
        });
    };
    let current = || keys.fingerprint(account_id, version);
    Ok(
        match keys.compare_fingerprint(stored, account_id, version)? {
            Comparison::Same => FingerprintChange::None,
            Comparison::SameWithEarlierKey | Comparison::Unknown => {
                FingerprintChange::Store(current()?)
            }
            Comparison::Different => FingerprintChange::Changed(current()?),
        },
    )
}

#[cfg(test)]
mod tests {
    use latchmail_core::keyring::testing::keyring;

    use super::*;

    #[test]
    fn only_another_version_is_a_changed_password() {
        use FingerprintChange::{Changed, None, Store};
        use PasswordVersion::{Hidden, Known, Unasked};
        let (keys, earlier) = (keyring(&[2, 1]), keyring(&[1]));
        let one = keys.fingerprint("a", "1").unwrap();
        let two = keys.fingerprint("a", "2").unwrap();
        let one_earlier = earlier.fingerprint("a", "1").unwrap();
        let removed_key = keyring(&[3]).fingerprint("a", "1").unwrap();
        let argon2 = "$argon2id$v=19$x";
        for (stored, version, change) in [
            ("", Known("1"), Store(one.clone())),
            (argon2, Known("1"), Store(one.clone())),
            (&one, Known("1"), None),
            (&one, Known("2"), Changed(two.clone())),
            (&one_earlier, Known("1"), Store(one.clone())),
            (&one_earlier, Known("2"), Changed(two.clone())),
            (&removed_key, Known("2"), Store(two.clone())),
            ("", Hidden, None),
            (argon2, Hidden, Store(String::new())),
            (&one, Hidden, Changed(String::new())),
            ("", Unasked, None),
            (argon2, Unasked, Store(String::new())),
            (&one, Unasked, None),
        ] {
            let decided = fingerprint_change(&keys, "a", stored, version).unwrap();
            assert_eq!(decided, change, "{stored} {version:?}");
        }
    }
}
