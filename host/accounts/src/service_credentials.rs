//! The credentials of the service. The service indexes a mailbox and sends scheduled messages even
//! if the account sends no request. So the service stores credentials that it can decrypt with its
//! own keys.
//!
//! Each account has at most one such credential for each use: an app password, sealed with the
//! service's keyring. The mail server accepts the credential of the search index over IMAP only.
//! The first use creates the credential. The credential remains valid when the account's password
//! changes. It ends when the account is disabled or deleted.

use std::sync::Arc;

use latchmail_core::caller::MailCredential;
use latchmail_core::clock::Clock;
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets::AppPassword;
use latchmail_directory::credentials::index_keys::{IndexedAccount, ServiceUse};
use latchmail_directory::credentials::{AppPasswordKind, Credentials, NewAppPassword};

/// Returns the label of the credential in the operator's list of credentials.
const fn label(service_use: ServiceUse) -> &'static str {
    match service_use {
        ServiceUse::Index => "Search index",
        ServiceUse::Outbox => "Scheduled mail",
        ServiceUse::Removal => "Deletion of the mailbox",
    }
}

const fn purpose(service_use: ServiceUse) -> Purpose {
    match service_use {
        ServiceUse::Index => Purpose::IndexKey,
        ServiceUse::Outbox | ServiceUse::Removal => Purpose::OutboxKey,
    }
}

const fn kind(service_use: ServiceUse) -> AppPasswordKind {
    match service_use {
        ServiceUse::Index => AppPasswordKind::Index,
        ServiceUse::Outbox | ServiceUse::Removal => AppPasswordKind::TeamKey,
    }
}

/// Creates and decrypts the credentials of the service for one use.
#[derive(Debug)]
pub struct ServiceCredentials {
    service_use: ServiceUse,
    credentials: Credentials,
    keys: Arc<Keyring>,
    clock: Clock,
}

impl ServiceCredentials {
    /// Creates the manager of the credentials for a use.
    #[must_use]
    pub fn new(
        service_use: ServiceUse,
        credentials: Credentials,
        keys: Arc<Keyring>,
        clock: Clock,
    ) -> Self {
        Self {
            service_use,
            credentials,
            keys,
            clock,
        }
    }

    /// Returns the credential with which the service uses the mailbox of an account. If the
    /// account has no credential, or if the service's keys cannot decrypt the credential, creates a
    /// new credential. Returns `None` if the account does not exist or is disabled.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn credential(&self, account_id: &str) -> Result<Option<MailCredential>, Failure> {
        let Some(account) = self
            .credentials
            .service_key(self.service_use, account_id)
            .await?
        else {
            return Ok(None);
        };
        if let Some(credential) = self.open(account_id, &account) {
            return Ok(Some(credential));
        }
        let unusable = account.key.as_ref().map(|key| key.app_password_id.as_str());
        if unusable.is_some() {
            tracing::warn!(
                account = account_id,
                "a credential of the service cannot be opened with the service's keys; it is replaced"
            );
        }
        let secret = AppPassword::generate()?;
        let password =
            NewAppPassword::of(&secret, kind(self.service_use), label(self.service_use))?;
        let sealed = self
            .keys
            .seal(purpose(self.service_use), account_id, secret.secret())?;
        let created = self.credentials.create_service_key(
            self.service_use,
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
                "the credential of the service that another host created cannot be decrypted",
            )
        })?;
        Ok(Some(credential))
    }

    /// Returns the address of an account. Returns `None` if the account does not exist or is
    /// disabled.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn active_address(&self, account_id: &str) -> Result<Option<String>, Failure> {
        let account = self.credentials.service_key(self.service_use, account_id);
        Ok(account.await?.map(|account| account.address))
    }

    /// Decrypts the credential of an account. Returns `None` if the account has no credential, or
    /// if none of the service's keys decrypts the credential.
    fn open(&self, account_id: &str, account: &IndexedAccount) -> Option<MailCredential> {
        let key = account.key.as_ref()?;
        let password =
            self.keys
                .open(purpose(self.service_use), account_id, &key.sealed_password)?;
        Some(MailCredential::app_password(
            key.app_password_id.clone(),
            account.address.clone(),
            password,
        ))
    }
}
