//! Personal API tokens. For each token, the database stores a selector, a hash and an app password.
//! The app password is encrypted with a key that is derived from the token.
//!
//! A revoked token keeps its row. So a client with a revoked token can learn that the token was
//! revoked.

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;

use crate::credentials::{self, CredentialCreation, NewAppPassword};
use crate::db::{Db, Error, FromLookup, Lookup, Row, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};
use crate::session_caller::SessionCaller;

/// Maximum number of revoked tokens of an account in the database.
const MAX_REVOKED: i64 = 1000;

const INSERT: &str = "INSERT INTO api_tokens \
    (id, account_id, label, scopes, selector, secret_hash, hint, app_password_id, sealed_password, created_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
const COUNT: &str = "SELECT COUNT(*) FROM api_tokens WHERE account_id = $1 AND revoked_at IS NULL";
const BY_SELECTOR: &str = "SELECT t.id, t.account_id, a.address, a.admin, t.scopes, t.secret_hash, t.app_password_id, t.sealed_password, \
        t.expires_at, (t.revoked_at IS NOT NULL OR NOT a.active) AS revoked, (p.suspended_at IS NOT NULL) AS suspended, p.policy \
    FROM api_tokens t JOIN accounts a ON a.id = t.account_id LEFT JOIN app_passwords p ON p.id = t.app_password_id \
    WHERE t.selector = $1";
const LIST: &str = "SELECT t.id, t.label, t.scopes, t.hint, t.created_at, t.expires_at, t.app_password_id, p.last_used_at \
    FROM api_tokens t LEFT JOIN app_passwords p ON p.id = t.app_password_id \
    WHERE t.account_id = $1 AND t.revoked_at IS NULL ORDER BY t.created_at DESC, t.id DESC";
const OWN: &str =
    "SELECT label, app_password_id, revoked_at FROM api_tokens WHERE id = $1 AND account_id = $2";
const REVOKE: &str = "UPDATE api_tokens SET revoked_at = $2, sealed_password = NULL WHERE id = $1";
const REVOKE_ALL: &str = "UPDATE api_tokens SET revoked_at = $2, sealed_password = NULL \
    WHERE account_id = $1 AND revoked_at IS NULL";
/// Deletes all revoked tokens of an account except the $2 most recently revoked tokens. The LIMIT
/// has no effect. SQLite requires a LIMIT before OFFSET.
const DELETE_OLDEST: &str = "DELETE FROM api_tokens WHERE id IN (SELECT id FROM api_tokens \
    WHERE account_id = $1 AND revoked_at IS NOT NULL ORDER BY revoked_at DESC, id DESC LIMIT 1000000 OFFSET $2)";

/// A token to store.
#[derive(Clone)]
pub struct NewToken {
    /// An opaque id.
    pub id: String,
    /// The account's id.
    pub account_id: String,
    /// The label that people see.
    pub label: String,
    /// The token's scopes, in canonical order and without duplicates.
    pub scopes: Vec<Scope>,
    /// The public first part of the secret. The selector is unique among all tokens.
    pub selector: String,
    /// SHA-256 of the whole secret, lower-case hexadecimal.
    pub secret_hash: String,
    /// The last four characters of the secret.
    pub hint: String,
    /// The app password with which requests with this token log in to the mail server.
    pub app_password: NewAppPassword,
    /// The app password, encrypted with a key that is derived from the token.
    pub sealed_password: Vec<u8>,
    /// The current time.
    pub created_at: Timestamp,
    /// The time at which the token expires, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

debug_fields!(NewToken {
    id,
    account_id,
    label,
    scopes,
    app_password
});

/// A token in the list of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// An opaque id.
    pub id: String,
    /// The label that people see.
    pub label: String,
    /// The token's scopes, in canonical order.
    pub scopes: Vec<Scope>,
    /// The last four characters of the secret.
    pub hint: String,
    /// The time at which the token was created.
    pub created_at: Timestamp,
    /// The time at which the token expires or expired, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The time of the last recorded use, or `None` if no use was recorded.
    pub last_used_at: Option<Timestamp>,
    /// The id of the app password with which requests with the token log in to the mail server.
    pub app_password_id: Option<String>,
}

/// A token that a client sent, valid or not.
#[derive(Clone)]
pub struct Presented {
    /// The token's id.
    pub id: String,
    /// The account's id.
    pub account_id: String,
    /// The account's address.
    pub address: String,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The token's scopes, in canonical order.
    pub scopes: Vec<Scope>,
    /// SHA-256 of the whole secret, lower-case hexadecimal.
    pub secret_hash: String,
    /// The id of the token's app password, and the app password encrypted with a key that is
    /// derived from the token. `None` if the app password was deleted.
    pub app_password: Option<(String, Vec<u8>)>,
    /// The time at which the token expires or expired, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// Whether the token was revoked or its account is not active.
    pub revoked: bool,
    /// Whether the owner suspended the token.
    pub suspended: bool,
    /// The policy of the token, as JSON.
    pub policy: Option<String>,
}

debug_fields!(Presented {
    id,
    account_id,
    scopes,
    expires_at,
    revoked
});

/// The result of revoking a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The token was revoked, and its app password was deleted.
    Revoked {
        /// The id of the app password that was deleted.
        app_password_id: Option<String>,
    },
    /// The token was already revoked.
    Already,
    /// The account has no such token.
    Unknown,
}

impl FromLookup for Presented {
    fn of(row: &Row<'_>) -> Result<Self, Error> {
        let app_password: Option<String> = row.get("app_password_id")?;
        let expires_at: Option<i64> = row.get("expires_at")?;
        Ok(Self {
            id: row.get("id")?,
            account_id: row.get("account_id")?,
            address: row.get("address")?,
            admin: row.get("admin")?,
            scopes: Scope::read_list(&row.get::<String>("scopes")?),
            secret_hash: row.get("secret_hash")?,
            app_password: app_password.zip(row.get("sealed_password")?),
            expires_at: expires_at.map(Timestamp::from_millis),
            revoked: row.get("revoked")?,
            suspended: row.get("suspended")?,
            policy: row.get("policy")?,
        })
    }
}

#[derive(sqlx_macros::FromRow)]
struct ListedRow {
    id: String,
    label: String,
    scopes: String,
    hint: String,
    created_at: i64,
    expires_at: Option<i64>,
    app_password_id: Option<String>,
    last_used_at: Option<i64>,
}

/// The API tokens.
#[derive(Clone, Debug)]
pub struct ApiTokens {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
}

impl ApiTokens {
    /// Stores a token with its app password, in one transaction. The account must have fewer than
    /// `at_most` tokens, including expired tokens and excluding revoked tokens. Concurrent calls
    /// cannot exceed this limit.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn create(
        &self,
        sid: &str,
        token: &NewToken,
        at_most: u32,
        origin: &Origin,
    ) -> Result<CredentialCreation, Error> {
        let caller = SessionCaller {
            account_id: &token.account_id,
            sid,
            at: token.created_at,
        };
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(CredentialCreation::SessionOver);
        }
        let held: i64 = tx.value(COUNT, [&token.account_id]).await?;
        if held >= i64::from(at_most) {
            return Ok(CredentialCreation::Full);
        }
        credentials::insert(
            &mut tx,
            &token.account_id,
            &token.app_password,
            token.created_at,
            token.expires_at,
        )
        .await?;
        let row = (
            &token.id,
            &token.account_id,
            &token.label,
            Scope::list(&token.scopes),
            &token.selector,
            &token.secret_hash,
            &token.hint,
            &token.app_password.id,
            &token.sealed_password,
            token.created_at,
            token.expires_at,
        );
        tx.execute(INSERT, row).await?;
        let made = Event::of(Kind::TokenCreated, &token.account_id, token.created_at)
            .about(&token.id)
            .detail(&token.label);
        events::commit(tx, made, origin).await?;
        Ok(CredentialCreation::Created)
    }

    /// Returns the token with this selector, valid or not. Returns `None` if there is no such
    /// token. All tokens of an inactive account count as revoked.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn by_selector(&self, selector: &str) -> Result<Option<Presented>, Error> {
        self.lookup.one(BY_SELECTOR, [selector]).await
    }

    /// Returns an account's tokens, newest first. Includes expired tokens and excludes revoked
    /// tokens.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account_id: &str) -> Result<Vec<Token>, Error> {
        let rows: Vec<ListedRow> = self.db.all(LIST, [account_id]).await?;
        let token = |row: ListedRow| Token {
            scopes: Scope::read_list(&row.scopes),
            id: row.id,
            label: row.label,
            hint: row.hint,
            created_at: Timestamp::from_millis(row.created_at),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
            app_password_id: row.app_password_id,
        };
        Ok(rows.into_iter().map(token).collect())
    }

    /// Revokes a token of an account and deletes its app password.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn revoke(
        &self,
        account_id: &str,
        id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Revocation, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let own: Option<(String, Option<String>, Option<i64>)> =
            tx.optional(OWN, (id, account_id)).await?;
        let Some((label, app_password_id, revoked_at)) = own else {
            return Ok(Revocation::Unknown);
        };
        if revoked_at.is_some() {
            return Ok(Revocation::Already);
        }
        tx.execute(REVOKE, (id, now)).await?;
        if let Some(app_password) = &app_password_id {
            credentials::delete(&mut tx, app_password).await?;
        }
        tx.execute(DELETE_OLDEST, (account_id, MAX_REVOKED)).await?;
        let revoked = Event::of(Kind::TokenRevoked, account_id, now)
            .about(id)
            .detail(&label);
        events::commit(tx, revoked, origin).await?;
        Ok(Revocation::Revoked { app_password_id })
    }
}

/// Revokes every token of an account. Returns the number of revoked tokens. The caller must delete
/// the app passwords of these tokens in the same transaction.
pub(super) async fn revoke_all(
    tx: &mut Tx,
    account_id: &str,
    now: Timestamp,
) -> Result<u64, Error> {
    let revoked = tx.execute(REVOKE_ALL, (account_id, now)).await?;
    tx.execute(DELETE_OLDEST, (account_id, MAX_REVOKED)).await?;
    Ok(revoked)
}

#[cfg(test)]
mod tests;
