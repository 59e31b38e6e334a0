//! Grants. A grant permits a client to access a mailbox, and has its own app password. A grant ends
//! when its newest refresh token expires, or when a request ends the grant.

use std::fmt;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::OAuth;
use crate::credentials::{self, NewAppPassword};
use crate::db::{Error, FromLookup, Row, Tx, on_tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};

/// Maximum number of grants of an account. If an account exceeds the maximum, its oldest grants are
/// ended.
const MAX_GRANTS: i64 = 100;

/// The kinds of tokens in the database.
const ACCESS: &str = "access";
const REFRESH: &str = "refresh";

const INSERT: &str = "INSERT INTO oauth_grants (id, account_id, app_password_id, client_id, resource, scope, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
const INSERT_TOKEN: &str = "INSERT INTO oauth_tokens (token_hash, grant_id, kind, sealed_password, expires_at, scope) VALUES ($1, $2, $3, $4, $5, $6)";
/// Ends all grants of an account except the $2 newest grants. The LIMIT has no effect. SQLite
/// requires a LIMIT before OFFSET.
const END_OLDEST: &str = "DELETE FROM app_passwords WHERE id IN (SELECT app_password_id FROM oauth_grants WHERE account_id = $1 \
    ORDER BY created_at DESC, id DESC LIMIT 1000000 OFFSET $2) RETURNING id";
const BY_TOKEN: &str = "SELECT g.id, g.account_id, a.address, a.admin, g.app_password_id, g.client_id, g.resource, COALESCE(t.scope, g.scope) AS scope, t.sealed_password, (p.suspended_at IS NOT NULL) AS suspended, p.policy \
    FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id JOIN accounts a ON a.id = g.account_id JOIN app_passwords p ON p.id = g.app_password_id \
    WHERE t.token_hash = $1 AND t.kind = $2 AND t.expires_at > $3 AND a.active";
const IS_SUSPENDED: &str = "SELECT 1 FROM app_passwords WHERE id = $1 AND suspended_at IS NOT NULL";
/// Marks a token as used. If two calls use the same token concurrently, the statement of the second
/// call changes no row.
const USE: &str = "UPDATE oauth_tokens SET sealed_password = NULL WHERE token_hash = $1 AND sealed_password IS NOT NULL";
const FORGET_ACCESS: &str =
    "DELETE FROM oauth_tokens WHERE grant_id = $1 AND kind = 'access' AND expires_at <= $2";
const EXPIRED: &str = "SELECT id, account_id FROM app_passwords WHERE kind = 'oauth_grant' AND expires_at <= $1 ORDER BY account_id, id LIMIT $2";
const END_EXPIRED: &str =
    "DELETE FROM app_passwords WHERE id = $1 AND expires_at <= $2 RETURNING id";
const OWN: &str =
    "SELECT label FROM app_passwords WHERE id = $1 AND account_id = $2 AND kind = 'oauth_grant'";
const FORGET: [&str; 2] = [
    "DELETE FROM oauth_tokens WHERE expires_at <= $1",
    "DELETE FROM oauth_codes WHERE expires_at <= $1",
];
const FORGET_DEVICES: &str = "DELETE FROM oauth_devices WHERE expires_at <= $1";

/// The time for which expired codes and tokens are stored. During this time, an expired token can
/// be distinguished from a token that never existed.
const RETENTION: Duration = Duration::from_hours(24);
/// Maximum number of expired grants that one sweep ends. The next sweep ends the remaining grants.
const MAX_SWEPT: i64 = 1000;

/// A token to store.
#[derive(Clone)]
pub struct NewToken {
    /// SHA-256 of the token, lower-case hexadecimal.
    pub hash: String,
    /// The grant's app password, encrypted with a key that is derived from the token.
    pub sealed_password: Vec<u8>,
    /// The time at which the token expires.
    pub expires_at: Timestamp,
}

debug_fields!(NewToken { expires_at });

/// A pair of tokens for a client.
#[derive(Clone, Debug)]
pub struct NewTokens {
    /// The access token. The client sends this token with its requests.
    pub access: NewToken,
    /// The refresh token. The client can exchange this token one time for the next pair of tokens.
    /// The grant expires together with the refresh token.
    pub refresh: NewToken,
    /// The scopes of the access token, separated by spaces. `None` if the access token has all
    /// scopes of its grant.
    pub narrowed: Option<String>,
}

/// A grant to create.
#[derive(Clone, Debug)]
pub struct NewGrant {
    /// An opaque id.
    pub id: String,
    /// The account whose mailbox the grant is for.
    pub account_id: String,
    /// The client's id.
    pub client_id: String,
    /// The resource server (RFC 8707) for which the grant's tokens are valid.
    pub resource: String,
    /// The scopes of the grant, separated by spaces.
    pub scope: String,
    /// The app password with which requests of the grant log in to the mail server.
    pub app_password: NewAppPassword,
    /// The first tokens of the grant.
    pub tokens: NewTokens,
    /// The current time.
    pub at: Timestamp,
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The grant's id.
    pub id: String,
    /// The account whose mailbox the grant is for.
    pub account_id: String,
    /// The account's address.
    pub address: String,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The id of the app password with which requests of the grant log in to the mail server.
    pub app_password_id: String,
    /// The client's id.
    pub client_id: String,
    /// The resource server (RFC 8707) for which the grant's tokens are valid.
    pub resource: String,
    /// The scopes of the token that was looked up, separated by spaces. A refresh token has all
    /// scopes of its grant.
    pub scope: String,
    /// Whether the owner suspended the grant.
    pub suspended: bool,
    /// The policy of the grant, as JSON.
    pub policy: Option<String>,
}

/// A valid token that a client sent, with its grant.
#[derive(Clone)]
pub struct Presented {
    /// The token's grant.
    pub grant: Grant,
    /// The grant's app password, encrypted with a key that is derived from the token. `None` for a
    /// used refresh token.
    pub sealed_password: Option<Vec<u8>>,
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented")
            .field("grant", &self.grant)
            .field("used", &self.sealed_password.is_none())
            .finish()
    }
}

/// The result of rotating a refresh token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// The next pair of tokens replaced the token.
    Rotated,
    /// The token was already used. The grant was ended, because two parties have the token.
    Reused,
    /// The token or its grant expired or does not exist.
    Unknown,
    /// The owner suspended the grant. The token is still unused.
    Suspended,
}

impl FromLookup for Presented {
    fn of(row: &Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            sealed_password: row.get("sealed_password")?,
            grant: Grant {
                id: row.get("id")?,
                account_id: row.get("account_id")?,
                address: row.get("address")?,
                admin: row.get("admin")?,
                app_password_id: row.get("app_password_id")?,
                client_id: row.get("client_id")?,
                resource: row.get("resource")?,
                scope: row.get("scope")?,
                suspended: row.get("suspended")?,
                policy: row.get("policy")?,
            },
        })
    }
}

impl OAuth {
    /// Returns the access token with this hash and its grant. Returns `None` if the token is not
    /// valid at `now`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn access_token(
        &self,
        hash: &str,
        now: Timestamp,
    ) -> Result<Option<Presented>, Error> {
        self.presented(ACCESS, hash, now).await
    }

    /// Returns the refresh token with this hash and its grant. The token can be used or unused.
    /// Returns `None` if the token does not exist or has expired at `now`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn refresh_token(
        &self,
        hash: &str,
        now: Timestamp,
    ) -> Result<Option<Presented>, Error> {
        self.presented(REFRESH, hash, now).await
    }

    async fn presented(
        &self,
        kind: &str,
        hash: &str,
        now: Timestamp,
    ) -> Result<Option<Presented>, Error> {
        self.lookup.one(BY_TOKEN, (hash, kind, now)).await
    }

    /// Consumes a refresh token and stores the next pair of tokens. The grant then expires together
    /// with the next refresh token. If two calls use the same token concurrently, the first call
    /// returns [`Rotation::Rotated`], and the second call ends the grant.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The token is unchanged in that case.
    pub async fn rotate_grant(
        &self,
        hash: &str,
        grant: &Grant,
        next: &NewTokens,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Rotation, Error> {
        let mut tx = self.db.begin_locked(&grant.account_id).await?;
        // Read the token after taking the lock, because the grant may have ended while this call
        // waited for the lock.
        let lives = on_tx!(&mut tx, db => sqlx::query(BY_TOKEN)
            .bind(hash)
            .bind(REFRESH)
            .bind(now.millis())
            .fetch_optional(db).await.map(|row| row.is_some()))?;
        if !lives {
            return Ok(Rotation::Unknown);
        }
        let suspended = tx.exists(IS_SUSPENDED, [&grant.app_password_id]).await?;
        let used = tx.execute(USE, [hash]).await?;
        // Without the commit, the token remains unused.
        if suspended && used > 0 {
            return Ok(Rotation::Suspended);
        }
        if used == 0 {
            credentials::delete(&mut tx, &grant.app_password_id).await?;
            let reused = Event::of(Kind::OAuthGrantReused, &grant.account_id, now)
                .about(&grant.app_password_id)
                .detail("its refresh token was used a second time");
            events::commit(tx, reused, origin).await?;
            return Ok(Rotation::Reused);
        }
        tx.execute(FORGET_ACCESS, (&grant.id, now)).await?;
        insert_tokens(&mut tx, &grant.id, next).await?;
        credentials::set_end(&mut tx, &grant.app_password_id, next.refresh.expires_at).await?;
        tx.commit().await?;
        Ok(Rotation::Rotated)
    }

    /// Ends the account's grant with this app password. Returns `true` if there was such a grant.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The grant remains valid in that case.
    pub async fn end_grant(
        &self,
        account_id: &str,
        app_password_id: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let label: Option<String> = tx
            .optional_value(OWN, (app_password_id, account_id))
            .await?;
        let Some(label) = label else {
            return Ok(false);
        };
        credentials::delete(&mut tx, app_password_id).await?;
        let ended = Event::of(Kind::OAuthGrantEnded, account_id, now)
            .about(app_password_id)
            .detail(&label);
        events::commit(tx, ended, origin).await?;
        Ok(true)
    }

    /// Ends grants that have expired at `now`, up to a limit. Also deletes codes, devices and
    /// tokens that are not needed any longer. Returns the ids of the deleted app passwords.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Grants that this call already ended remain ended.
    pub(crate) async fn sweep(&self, now: Timestamp) -> Result<Vec<String>, Error> {
        let over: Vec<(String, String)> = self.db.all(EXPIRED, (now, MAX_SWEPT)).await?;
        let mut ended = Vec::new();
        for (id, account_id) in over {
            let mut tx = self.db.begin_locked(&account_id).await?;
            ended.extend(credentials::delete_by(&mut tx, END_EXPIRED, (&id, now)).await?);
            tx.commit().await?;
        }
        let then = now.minus(RETENTION).millis();
        for forget in FORGET {
            self.db.execute(forget, [then]).await?;
        }
        // Delete expired devices without waiting for [`RETENTION`], because any client can create
        // any number of devices.
        self.db.execute(FORGET_DEVICES, [now]).await?;
        self.sweep_clients(now).await?;
        Ok(ended)
    }
}

/// Creates a grant with its app password and its first tokens. Returns the ids of the app passwords
/// that were deleted because the account had too many grants.
pub(super) async fn insert(
    tx: &mut Tx,
    grant: &NewGrant,
    origin: &Origin,
) -> Result<Vec<String>, Error> {
    let too_many = (&grant.account_id, MAX_GRANTS - 1);
    let ended = credentials::delete_by(tx, END_OLDEST, too_many).await?;
    for id in &ended {
        let event = Event::of(Kind::OAuthGrantEnded, &grant.account_id, grant.at)
            .about(id)
            .detail("limit of 100 grants exceeded");
        events::record(tx, event, &Origin::service()).await?;
    }
    let end = grant.tokens.refresh.expires_at;
    credentials::insert(
        tx,
        &grant.account_id,
        &grant.app_password,
        grant.at,
        Some(end),
    )
    .await?;
    let row = (
        &grant.id,
        &grant.account_id,
        &grant.app_password.id,
        &grant.client_id,
        &grant.resource,
        &grant.scope,
        grant.at,
    );
    tx.execute(INSERT, row).await?;
    insert_tokens(tx, &grant.id, &grant.tokens).await?;
    let made = Event::of(Kind::OAuthGrantMade, &grant.account_id, grant.at)
        .about(&grant.app_password.id)
        .detail(&grant.app_password.label);
    events::record(tx, made, origin).await?;
    Ok(ended)
}

async fn insert_tokens(tx: &mut Tx, grant_id: &str, tokens: &NewTokens) -> Result<(), Error> {
    let both = [
        (ACCESS, &tokens.access, tokens.narrowed.as_ref()),
        (REFRESH, &tokens.refresh, None),
    ];
    for (kind, token, scope) in both {
        let row = (
            &token.hash,
            grant_id,
            kind,
            &token.sealed_password,
            token.expires_at,
            scope,
        );
        tx.execute(INSERT_TOKEN, row).await?;
    }
    Ok(())
}
