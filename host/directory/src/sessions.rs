//! Web sessions and their refresh tokens.
//!
//! A session has one app password, which is encrypted with the service's key. Deleting the app
//! password ends the session. So the mail server and the service begin to refuse the session at the
//! same moment.
//!
//! A refresh token can be used one time. Used tokens are stored until they expire, to detect a
//! second use. The time between the two uses distinguishes a stolen token from a second browser
//! tab.

mod sweep;

use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::credentials::{self, NewAppPassword};
use crate::db::{Db, Error, FromLookup, Lookup, Row, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};

/// A second use of a refresh token within this time counts as a retry or as a second browser tab. A
/// second use after this time ends the session.
pub const REUSE_GRACE: Duration = Duration::from_secs(10);

const INSERT: &str = "INSERT INTO sessions \
    (sid, account_id, app_password_id, sealed_password, created_at, expires_at, identity_id, provider_sid, sealed_provider_token) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
/// Maximum number of web sessions of an account. Each session has its own rate limits, so this
/// maximum also limits the requests of an account. If an account exceeds the maximum, the least
/// recently refreshed sessions are ended.
const MAX_SESSIONS: i64 = 100;
/// Ends all sessions of an account except the $2 most recently refreshed sessions. The LIMIT has no
/// effect. SQLite requires a LIMIT before OFFSET.
const END_OLDEST: &str = "DELETE FROM app_passwords WHERE id IN (SELECT app_password_id FROM sessions \
    WHERE account_id = $1 ORDER BY expires_at DESC, sid LIMIT 1000000 OFFSET $2) RETURNING id";
/// Sets the end of a session to $2. A session that began at the identity provider ends at the
/// latest $3 milliseconds after the sign-in.
const SET_END: &str = "UPDATE sessions SET expires_at = CASE \
    WHEN identity_id IS NOT NULL AND created_at + $3 < $2 THEN created_at + $3 ELSE $2 END \
    WHERE sid = $1 RETURNING expires_at";
const LIVE: &str = "SELECT s.sid, s.account_id, a.address, a.admin, s.app_password_id, s.sealed_password \
    FROM sessions s JOIN accounts a ON a.id = s.account_id \
    WHERE s.sid = $1 AND s.expires_at > $2 AND a.active";
/// Returns the time of the sign-in, and 1 if the user proved the account's second factor. Returns 0
/// instead of 1 if the session began at the identity provider or before the account got its second
/// factor.
const SIGN_IN: &str = "SELECT s.created_at, \
    CASE WHEN s.identity_id IS NULL AND f.created_at <= s.created_at THEN 1 ELSE 0 END \
    FROM sessions s LEFT JOIN two_factor f ON f.account_id = s.account_id \
    WHERE s.sid = $1 AND s.account_id = $2";
/// Ends all web sessions of an account. When an app password is deleted, the database also deletes
/// the session and its refresh tokens, by foreign key.
const END_ALL: &str = "DELETE FROM app_passwords \
    WHERE id IN (SELECT app_password_id FROM sessions WHERE account_id = $1) RETURNING id";

const INSERT_TOKEN: &str =
    "INSERT INTO refresh_tokens (hash, sid, created_at, expires_at) VALUES ($1, $2, $3, $4)";
const USE_TOKEN: &str = "UPDATE refresh_tokens SET used_at = $2 WHERE hash = $1";
/// Maximum number of used refresh tokens that are stored for a session. The oldest used tokens are
/// deleted. A session that is refreshed every 15 minutes reaches this number after more than ten
/// days.
const MAX_USED_TOKENS: i64 = 1000;
const DELETE_USED: &str = "DELETE FROM refresh_tokens WHERE hash IN (SELECT hash FROM refresh_tokens \
    WHERE sid = $1 AND used_at IS NOT NULL ORDER BY used_at DESC, hash LIMIT 1000000 OFFSET $2)";
const OWNER_OF_TOKEN: &str =
    "SELECT s.account_id FROM refresh_tokens t JOIN sessions s ON s.sid = t.sid WHERE t.hash = $1";
const SESSION_OF_TOKEN: &str = "SELECT t.used_at, s.sid, s.account_id, a.address, a.admin, s.app_password_id, s.sealed_password \
    FROM refresh_tokens t JOIN sessions s ON s.sid = t.sid JOIN accounts a ON a.id = s.account_id \
    WHERE t.hash = $1 AND t.expires_at > $2 AND s.expires_at > $2 AND a.active";

/// A session to create.
#[derive(Clone)]
pub struct NewSession {
    /// An opaque id.
    pub sid: String,
    /// The account's id.
    pub account_id: String,
    /// The app password with which requests of the session log in to the mail server.
    pub app_password: NewAppPassword,
    /// The app password, encrypted with the service's key.
    pub sealed_password: Vec<u8>,
    /// SHA-256 of the first refresh token, lower-case hexadecimal.
    pub refresh_hash: String,
    /// The current time.
    pub created_at: Timestamp,
    /// The time at which the session ends without a further refresh.
    pub expires_at: Timestamp,
    /// The sign-in at the identity provider. `None` if the session begins with a password.
    pub provider: Option<ProviderSession>,
}

/// The sign-in at the identity provider with which a session begins.
#[derive(Clone)]
pub struct ProviderSession {
    /// The id of the person's row in the table `identities`.
    pub identity_id: String,
    /// The provider's id of the person's session at the provider.
    pub sid: Option<String>,
    /// The provider's refresh token, encrypted with the service's key. `None` if the provider
    /// issued none.
    pub sealed_token: Option<Vec<u8>>,
}

debug_fields!(NewSession {
    sid,
    account_id,
    app_password,
    created_at,
    expires_at
});

/// A live session, with the data of its account that a request needs.
#[derive(Clone, sqlx_macros::FromRow)]
pub struct Session {
    /// The session's id.
    pub sid: String,
    /// The account's id.
    pub account_id: String,
    /// The account's address.
    pub address: String,
    /// Whether the account has administrator rights.
    pub admin: bool,
    /// The id of the app password with which requests of the session log in to the mail server.
    pub app_password_id: String,
    /// The app password, encrypted with the service's key.
    pub sealed_password: Vec<u8>,
}

debug_fields!(Session {
    sid,
    account_id,
    address,
    admin,
    app_password_id
});

impl FromLookup for Session {
    fn of(row: &Row<'_>) -> Result<Self, Error> {
        Ok(Self {
            sid: row.get("sid")?,
            account_id: row.get("account_id")?,
            address: row.get("address")?,
            admin: row.get("admin")?,
            app_password_id: row.get("app_password_id")?,
            sealed_password: row.get("sealed_password")?,
        })
    }
}

/// The sign-in with which a session began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSignIn {
    /// The time of the sign-in. A refresh of the session does not change this time.
    pub at: Timestamp,
    /// Whether the user proved the account's second factor to this service.
    pub has_second_factor: bool,
}

/// The result of using a refresh token.
#[derive(Clone, Debug)]
pub enum Rotation {
    /// The token was valid. A new token replaced it, and the session has a later end.
    Rotated(Session),
    /// The token was already used, at most [`REUSE_GRACE`] ago. The token is refused, but the
    /// session continues.
    UsedJustNow,
    /// The token was already used, more than [`REUSE_GRACE`] ago. The token's session was ended.
    Stolen {
        /// The id of the app password that was deleted with the session.
        app_password_id: String,
    },
    /// The token does not exist, the token or its session has expired, or the account is not
    /// active.
    Unknown,
}

/// A refresh token that a client sent, and its live session.
#[derive(sqlx_macros::FromRow)]
struct Presented {
    used_at: Option<i64>,
    #[sqlx(flatten)]
    session: Session,
}

/// The web sessions.
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
}

impl Sessions {
    /// Creates a session with its app password and its first refresh token, in one transaction.
    /// Does not check a password. Only for tests. People sign in with [`Sessions::sign_in`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. No session is created in that case.
    #[cfg(any(test, feature = "testing"))]
    pub async fn begin(&self, session: &NewSession, origin: &Origin) -> Result<(), Error> {
        let mut tx = self.db.begin_locked(&session.account_id).await?;
        insert(&mut tx, session).await?;
        let begun = Event::of(Kind::SignedIn, &session.account_id, session.created_at)
            .about(&session.app_password.id)
            .detail(&session.app_password.label);
        events::commit(tx, begun, origin).await
    }

    /// Returns the session `sid`. Returns `None` if the session is not live at `now` or the
    /// session's account is not active.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, sid: &str, now: Timestamp) -> Result<Option<Session>, Error> {
        self.lookup.one(LIVE, (sid, now)).await
    }

    /// Returns the sign-in with which the session `sid` of an account began. Returns `None` if the
    /// account has no such session.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sign_in(
        &self,
        account_id: &str,
        sid: &str,
    ) -> Result<Option<SessionSignIn>, Error> {
        let found: Option<(i64, i32)> = self.db.optional(SIGN_IN, (sid, account_id)).await?;
        Ok(found.map(|(at, has_second_factor)| SessionSignIn {
            at: Timestamp::from_millis(at),
            has_second_factor: has_second_factor == 1,
        }))
    }

    /// Consumes the refresh token with the hash `presented` and stores `next` instead. The session
    /// then ends at `expires_at`. A session that began at the identity provider ends at the latest
    /// `provider_max_age` after the sign-in. If two calls use the same token concurrently, only the
    /// first call returns [`Rotation::Rotated`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The token is unchanged in that case.
    pub async fn rotate_refresh_token(
        &self,
        presented: &str,
        next: &str,
        now: Timestamp,
        expires_at: Timestamp,
        provider_max_age: Duration,
        origin: &Origin,
    ) -> Result<Rotation, Error> {
        let mut tx = self.db.begin().await?;
        let Some(token) = find(&mut tx, presented, now).await? else {
            return Ok(Rotation::Unknown);
        };
        let session = token.session;
        if let Some(used_at) = token.used_at {
            if now.since(Timestamp::from_millis(used_at)) <= REUSE_GRACE {
                return Ok(Rotation::UsedJustNow);
            }
            credentials::delete(&mut tx, &session.app_password_id).await?;
            let stolen = Event::of(Kind::RefreshTokenReused, &session.account_id, now)
                .about(&session.app_password_id);
            events::commit(tx, stolen, origin).await?;
            return Ok(Rotation::Stolen {
                app_password_id: session.app_password_id,
            });
        }
        tx.execute(USE_TOKEN, (presented, now)).await?;
        tx.execute(DELETE_USED, (&session.sid, MAX_USED_TOKENS))
            .await?;
        insert_token(&mut tx, next, &session.sid, now, expires_at).await?;
        let expires_at: i64 = tx
            .value(
                SET_END,
                (
                    &session.sid,
                    expires_at,
                    i64::try_from(provider_max_age.as_millis()).unwrap_or(i64::MAX / 2),
                ),
            )
            .await?;
        let expires_at = Timestamp::from_millis(expires_at);
        credentials::set_end(&mut tx, &session.app_password_id, expires_at).await?;
        tx.commit().await?;
        Ok(Rotation::Rotated(session))
    }

    /// Ends every web session of an account and deletes the app passwords of these sessions. The
    /// refresh token with the hash `presented` must be live and unused, and must belong to the
    /// account.
    ///
    /// Returns the ids of the deleted app passwords. Returns `None` if the token does not meet the
    /// conditions.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. No session is ended in that case.
    pub async fn end(
        &self,
        account_id: &str,
        presented: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut tx = self.db.begin().await?;
        let Some(token) = find(&mut tx, presented, now).await? else {
            return Ok(None);
        };
        if token.used_at.is_some() || token.session.account_id != account_id {
            return Ok(None);
        }
        let ended = credentials::delete_by(&mut tx, END_ALL, [account_id]).await?;
        let signed_out = Event::of(Kind::SignedOut, account_id, now);
        events::commit(tx, signed_out, origin).await?;
        Ok(Some(ended))
    }
}

/// Returns the token with the hash `presented`, used or unused. The token and its session must be
/// live at `now`. Locks the account of the session.
async fn find(tx: &mut Tx, presented: &str, now: Timestamp) -> Result<Option<Presented>, Error> {
    // On SQLite, no other transaction can change the account.
    if let Tx::Postgres(_) = tx {
        let owner: Option<String> = tx.optional_value(OWNER_OF_TOKEN, [presented]).await?;
        let Some(owner) = owner else {
            return Ok(None);
        };
        tx.lock_account(&owner).await?;
    }
    // Read the token after taking the lock. Another request may have used the token or ended the
    // session while this call waited for the lock.
    tx.optional(SESSION_OF_TOKEN, (presented, now)).await
}

/// Creates a session with its app password and its first refresh token. If the account has more
/// than [`MAX_SESSIONS`] sessions, ends the least recently refreshed sessions.
pub(super) async fn insert(tx: &mut Tx, session: &NewSession) -> Result<(), Error> {
    let too_many = (&session.account_id, MAX_SESSIONS - 1);
    let ended = credentials::delete_by(tx, END_OLDEST, too_many).await?;
    for id in &ended {
        let event = Event::of(
            Kind::SessionRevoked,
            &session.account_id,
            session.created_at,
        )
        .about(id)
        .detail("limit of 100 sessions exceeded");
        events::record(tx, event, &Origin::service()).await?;
    }
    credentials::insert(
        tx,
        &session.account_id,
        &session.app_password,
        session.created_at,
        Some(session.expires_at),
    )
    .await?;
    let row = (
        &session.sid,
        &session.account_id,
        &session.app_password.id,
        &session.sealed_password,
        session.created_at,
        session.expires_at,
        session
            .provider
            .as_ref()
            .map(|provider| &provider.identity_id),
        session
            .provider
            .as_ref()
            .and_then(|provider| provider.sid.as_ref()),
        session
            .provider
            .as_ref()
            .and_then(|provider| provider.sealed_token.as_ref()),
    );
    tx.execute(INSERT, row).await?;
    insert_token(
        tx,
        &session.refresh_hash,
        &session.sid,
        session.created_at,
        session.expires_at,
    )
    .await
}

async fn insert_token(
    tx: &mut Tx,
    hash: &str,
    sid: &str,
    created_at: Timestamp,
    expires_at: Timestamp,
) -> Result<(), Error> {
    tx.execute(INSERT_TOKEN, (hash, sid, created_at, expires_at))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
