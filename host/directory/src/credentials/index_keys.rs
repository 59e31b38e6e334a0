//! The credentials of the service: app passwords with which the service uses a mailbox without a
//! request of the account. An active account has at most one such credential for the search index,
//! and one for the outbox. They end when the account is disabled or deleted. An account that is
//! being deleted has one credential, with which the service deletes the mailbox.

use latchmail_core::clock::Timestamp;

use super::Credentials;
use crate::credentials::{self, NewAppPassword};
use crate::db::Error;
use crate::debug::debug_fields;

const FIND_INDEX: &str = "SELECT a.address, k.app_password_id, k.sealed_password \
    FROM accounts a LEFT JOIN index_keys k ON k.account_id = a.id WHERE a.id = $1 AND a.active";
const FIND_OUTBOX: &str = "SELECT a.address, k.app_password_id, k.sealed_password \
    FROM accounts a LEFT JOIN outbox_keys k ON k.account_id = a.id WHERE a.id = $1 AND a.active";
/// The account is disabled, so its credential for the outbox has ended.
const FIND_REMOVAL: &str = "SELECT a.address, k.app_password_id, k.sealed_password \
    FROM accounts a LEFT JOIN outbox_keys k ON k.account_id = a.id WHERE a.id = $1 AND a.removing";
const INSERT_INDEX: &str =
    "INSERT INTO index_keys (account_id, app_password_id, sealed_password) VALUES ($1, $2, $3)";
const INSERT_OUTBOX: &str =
    "INSERT INTO outbox_keys (account_id, app_password_id, sealed_password) VALUES ($1, $2, $3)";

/// The use of a credential of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceUse {
    /// The search index. The mail server accepts the credential over IMAP only.
    Index,
    /// The outbox. The mail server accepts the credential over IMAP and SMTP.
    Outbox,
    /// The deletion of the mailbox, for an account whose deletion has begun. The mail server
    /// accepts the credential over IMAP and ManageSieve.
    Removal,
}

impl ServiceUse {
    const fn find(self) -> &'static str {
        match self {
            Self::Index => FIND_INDEX,
            Self::Outbox => FIND_OUTBOX,
            Self::Removal => FIND_REMOVAL,
        }
    }

    const fn insert(self) -> &'static str {
        match self {
            Self::Index => INSERT_INDEX,
            Self::Outbox | Self::Removal => INSERT_OUTBOX,
        }
    }
}

/// An active account and its credential for one use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedAccount {
    /// The account's address.
    pub address: String,
    /// The credential, or `None` if the account has none.
    pub key: Option<IndexKey>,
}

/// A credential of the service.
#[derive(Clone, PartialEq, Eq)]
pub struct IndexKey {
    /// The app password's id.
    pub app_password_id: String,
    /// The app password, encrypted with the service's key. Decryption also needs the account's id.
    pub sealed_password: Vec<u8>,
}

debug_fields!(IndexKey { app_password_id });

/// The columns of [`FIND`].
type Row = (String, Option<String>, Option<Vec<u8>>);

fn indexed_account((address, id, sealed): Row) -> IndexedAccount {
    let key = id.zip(sealed);
    IndexedAccount {
        address,
        key: key.map(|(app_password_id, sealed_password)| IndexKey {
            app_password_id,
            sealed_password,
        }),
    }
}

impl Credentials {
    /// Returns an account and its credential for a use. Returns `None` if the account does not
    /// exist or is disabled.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn service_key(
        &self,
        service_use: ServiceUse,
        account_id: &str,
    ) -> Result<Option<IndexedAccount>, Error> {
        let row: Option<Row> = self.db.optional(service_use.find(), [account_id]).await?;
        Ok(row.map(indexed_account))
    }

    /// Stores a new credential of an account for a use. `sealed` is the app password,
    /// encrypted with the service's key for the account's id. The new credential replaces the app
    /// password with the id `replaced`. If a concurrent request stored another credential, stores
    /// nothing and returns the other credential.
    ///
    /// Returns `None` if the account does not exist or is disabled.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn create_service_key(
        &self,
        service_use: ServiceUse,
        account_id: &str,
        password: &NewAppPassword,
        sealed: &[u8],
        replaced: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<IndexedAccount>, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let row: Option<Row> = tx.optional(service_use.find(), [account_id]).await?;
        let Some(account) = row.map(indexed_account) else {
            return Ok(None);
        };
        if let Some(key) = &account.key {
            if replaced != Some(key.app_password_id.as_str()) {
                return Ok(Some(account));
            }
            credentials::delete(&mut tx, &key.app_password_id).await?;
        }
        credentials::insert(&mut tx, account_id, password, now, password.expires_at).await?;
        tx.execute(service_use.insert(), (account_id, &password.id, sealed))
            .await?;
        tx.commit().await?;
        Ok(Some(IndexedAccount {
            key: Some(IndexKey {
                app_password_id: password.id.clone(),
                sealed_password: sealed.to_owned(),
            }),
            ..account
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::{AppPasswordKind, Revocation};
    use crate::keys::sealed::SealedColumn;
    use crate::testing::{Fresh, NOW, both, new_app_password};
    use latchmail_core::caller::Origin;

    const STORED: &str = "SELECT COUNT(*) FROM app_passwords WHERE kind = 'index'";

    async fn create(fresh: &Fresh, id: &str, replaced: Option<&str>) -> Option<IndexedAccount> {
        let password = new_app_password(id, AppPasswordKind::Index);
        let directory = &fresh.directory;
        let created = directory.credentials.create_service_key(
            ServiceUse::Index,
            "a",
            &password,
            id.as_bytes(),
            replaced,
            NOW,
        );
        created.await.unwrap()
    }

    fn account(key: Option<&str>) -> IndexedAccount {
        IndexedAccount {
            address: "ada@example.org".into(),
            key: key.map(|id| IndexKey {
                app_password_id: id.into(),
                sealed_password: id.into(),
            }),
        }
    }

    async fn an_account_has_at_most_one_index_key(fresh: Fresh) {
        let directory = &fresh.directory;
        assert_eq!(create(&fresh, "early", None).await, None);
        directory.with("a", "ada@example.org", &["s"]).await;
        assert_eq!(
            directory
                .credentials
                .service_key(ServiceUse::Index, "a")
                .await
                .unwrap(),
            Some(account(None))
        );
        assert_eq!(
            create(&fresh, "one", None).await,
            Some(account(Some("one")))
        );
        assert_eq!(
            create(&fresh, "two", None).await,
            Some(account(Some("one")))
        );
        let other = create(&fresh, "two", Some("another")).await;
        assert_eq!(other, Some(account(Some("one"))));
        let replaced = create(&fresh, "two", Some("one")).await;
        assert_eq!(replaced, Some(account(Some("two"))));
        assert_eq!(
            directory
                .credentials
                .service_key(ServiceUse::Index, "a")
                .await
                .unwrap(),
            Some(account(Some("two")))
        );
        assert_eq!(fresh.number(STORED).await, 1);
        let ended = "SELECT COUNT(*) FROM ended_app_passwords WHERE app_password_id = 'one'";
        assert_eq!(fresh.number(ended).await, 1);
    }

    async fn an_index_key_ends_with_the_account_and_is_not_a_credential_of_the_user(fresh: Fresh) {
        let (directory, origin) = (&fresh.directory, Origin::default());
        directory.with("a", "ada@example.org", &["s"]).await;
        create(&fresh, "one", None).await;
        let events = "SELECT COUNT(*) FROM security_events WHERE subject = 'one'";
        assert_eq!(fresh.number(events).await, 0);
        let listed = directory.credentials.list("a", NOW).await.unwrap();
        assert!(listed.iter().all(|one| one.id != "one"));
        let listed = directory
            .credentials
            .list_with_grants("a", NOW)
            .await
            .unwrap();
        assert!(listed.iter().any(|one| one.id == "one"));
        let revoked = directory
            .credentials
            .revoke_app_password("a", "one", NOW, &origin);
        assert_eq!(revoked.await.unwrap(), Revocation::Unknown);
        let changed = directory
            .credentials
            .set_password("a", "another hash", NOW, &origin);
        assert_eq!(changed.await.unwrap().unwrap(), ["s-password"]);
        assert_eq!(
            directory
                .credentials
                .service_key(ServiceUse::Index, "a")
                .await
                .unwrap(),
            Some(account(Some("one")))
        );

        assert!(directory.accounts.disable("a", NOW, &origin).await.unwrap());
        assert_eq!(fresh.number(STORED).await, 0);
        assert_eq!(
            directory
                .credentials
                .service_key(ServiceUse::Index, "a")
                .await
                .unwrap(),
            None
        );
        assert_eq!(create(&fresh, "two", None).await, None);
        assert!(directory.accounts.enable("a", NOW, &origin).await.unwrap());
        assert_eq!(
            directory
                .credentials
                .service_key(ServiceUse::Index, "a")
                .await
                .unwrap(),
            Some(account(None))
        );
        assert_eq!(
            create(&fresh, "two", None).await,
            Some(account(Some("two")))
        );
        assert!(directory.accounts.delete("a", NOW, &origin).await.unwrap());
        assert_eq!(fresh.number(STORED).await, 0);
        let left = directory
            .keys
            .sealed(SealedColumn::IndexKey, b"", "", 10)
            .await;
        assert!(left.unwrap().is_empty());
    }

    both!(
        an_account_has_at_most_one_index_key,
        an_index_key_ends_with_the_account_and_is_not_a_credential_of_the_user,
    );
}
