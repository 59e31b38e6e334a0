//! The credentials of the search index. The service indexes a mailbox even if the account sends no
//! request. So the service stores a credential that it can decrypt with its own keys.
//!
//! Each account has at most one such credential: an app password that the mail server accepts over
//! IMAP only, sealed with the service's keyring. The first use creates the credential. The
//! credential remains valid when the account's password changes. It ends when the account is
//! disabled or deleted.

use std::sync::Arc;

use latchmail_core::caller::MailCredential;
use latchmail_core::clock::Clock;
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::AppPassword;
use latchmail_directory::credentials::index_keys::IndexedAccount;
use latchmail_directory::credentials::{AppPasswordKind, Credentials, NewAppPassword};

/// The label of the credential in the operator's list of credentials.
const LABEL: &str = "Search index";

/// Creates and decrypts the credentials of the search index.
#[derive(Debug)]
pub struct IndexCredentials {
    credentials: Credentials,
    keys: Arc<Keyring>,
    clock: Clock,
}

impl IndexCredentials {
    /// Creates the manager of the search index credentials.
    #[must_use]
    pub fn new(credentials: Credentials, keys: Arc<Keyring>, clock: Clock) -> Self {
        Self {
            credentials,
            keys,
            clock,
        }
    }

    /// Returns the credential with which the service reads the mailbox of an account. If the
    /// account has no credential, or if the service's keys cannot decrypt the credential, creates a
    /// new credential. Returns `None` if the account does not exist or is disabled.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn credential(&self, account_id: &str) -> Result<Option<MailCredential>, Failure> {
        let Some(account) = self.credentials.index_key(account_id).await? else {
            return Ok(None);
        };
        if let Some(credential) = self.open(account_id, &account) {
            return Ok(Some(credential));
        }
        let unusable = account.key.as_ref().map(|key| key.app_password_id.as_str());
        if unusable.is_some() {
            tracing::warn!(
                account = account_id,
                "the credential of the search index cannot be opened with the service's keys; it is replaced"
            );
        }
        let secret = AppPassword::generate()?;
        let password = NewAppPassword::of(&secret, AppPasswordKind::Index, LABEL)?;
        let sealed = self
            .keys
            .seal(Purpose::IndexKey, account_id, secret.secret())?;
        let created = self.credentials.create_index_key(
            account_id,
            &password,
            &sealed,
            unusable,
            self.clock.now(),
        );
        let Some(account) = created.await? else {
            return Ok(None);
        };
        let credential = self.open(account_id, &account).ok_or_else(|| {
            Failure::internal(
                "the credential of the search index that another host created cannot be decrypted",
            )
        })?;
        Ok(Some(credential))
    }

    /// Decrypts the credential of an account. Returns `None` if the account has no credential, or
    /// if none of the service's keys decrypts the credential.
    fn open(&self, account_id: &str, account: &IndexedAccount) -> Option<MailCredential> {
        let key = account.key.as_ref()?;
        let password = self
            .keys
            .open(Purpose::IndexKey, account_id, &key.sealed_password)?;
        Some(MailCredential::app_password(
            key.app_password_id.clone(),
            account.address.clone(),
            password,
        ))
    }
}
