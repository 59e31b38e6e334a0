//! Finds the app password that a mail client presents to the service itself, with HTTP Basic
//! authentication. The mail server checks the app passwords of its own clients.

use latchmail_core::clock::Timestamp;

use super::Credentials;
use crate::db::{Error, FromLookup, Row};
use crate::debug::debug_fields;

const BY_SELECTOR: &str = "SELECT p.id, p.account_id, a.address, a.admin, p.secret_hash, p.expires_at \
    FROM app_passwords p JOIN accounts a ON a.id = p.account_id \
    WHERE p.selector = $1 AND p.kind = 'app_password' AND a.active";

/// An app password of a mail client, and its active account.
#[derive(Clone)]
pub struct Presented {
    /// The app password's id.
    pub id: String,
    /// The account's id.
    pub account_id: String,
    /// The account's address.
    pub address: String,
    /// Whether the account belongs to an administrator.
    pub admin: bool,
    /// SHA-256 of the whole secret, lower-case hexadecimal.
    pub secret_hash: String,
    /// The time at which the app password expires, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

debug_fields!(Presented {
    id,
    account_id,
    expires_at
});

impl FromLookup for Presented {
    fn of(row: &Row<'_>) -> Result<Self, Error> {
        let expires_at: Option<i64> = row.get("expires_at")?;
        Ok(Self {
            id: row.get("id")?,
            account_id: row.get("account_id")?,
            address: row.get("address")?,
            admin: row.get("admin")?,
            secret_hash: row.get("secret_hash")?,
            expires_at: expires_at.map(Timestamp::from_millis),
        })
    }
}

impl Credentials {
    /// Returns the app password of a mail client with this selector. Returns `None` if the selector
    /// is unknown, belongs to another kind of app password, or if the account is disabled. The
    /// caller must compare the hash and the expiry.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn by_selector(&self, selector: &str) -> Result<Option<Presented>, Error> {
        self.lookup.one(BY_SELECTOR, [selector]).await
    }
}
