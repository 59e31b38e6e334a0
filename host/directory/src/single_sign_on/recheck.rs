//! Queries that check web sessions that began at the identity provider. Sessions end at a maximum
//! age. The service also uses the provider's refresh tokens, to check whether the provider still
//! accepts the person.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::SingleSignOn;
use super::end_grouped;
use crate::db::Error;
use crate::debug::debug_fields;

/// The sessions are sorted by account, so that two concurrent transactions cannot deadlock.
const OLD: &str = "SELECT account_id, app_password_id FROM sessions \
    WHERE identity_id IS NOT NULL AND created_at <= $1 ORDER BY account_id, app_password_id";
const DUE: &str = "SELECT sid, sealed_provider_token FROM sessions \
    WHERE identity_id IS NOT NULL AND sealed_provider_token IS NOT NULL \
    AND expires_at > $1 AND COALESCE(provider_checked_at, created_at) <= $2 \
    ORDER BY COALESCE(provider_checked_at, created_at), sid LIMIT $3";
/// If two hosts claim the same session concurrently, the statement of the second host changes no
/// row.
const CLAIM: &str = "UPDATE sessions SET provider_checked_at = $2 \
    WHERE sid = $1 AND COALESCE(provider_checked_at, created_at) <= $3";
const SET_TOKEN: &str = "UPDATE sessions SET sealed_provider_token = $2 WHERE sid = $1";
const ONE: &str = "SELECT account_id, app_password_id FROM sessions WHERE sid = $1";

/// A session for which the service must use the provider's refresh token now.
#[derive(Clone, sqlx_macros::FromRow)]
pub struct DueSession {
    /// The session's id.
    pub sid: String,
    /// The provider's refresh token, encrypted with the service's key.
    pub sealed_provider_token: Vec<u8>,
}

debug_fields!(DueSession { sid });

impl SingleSignOn {
    /// Ends the web sessions that began with a sign-in at the identity provider at `begun_until` or
    /// before. Returns the ids of the deleted app passwords.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn end_old_provider_sessions(
        &self,
        begun_until: Timestamp,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Vec<String>, Error> {
        let mut tx = self.db.begin().await?;
        let old: Vec<(String, String)> = tx.all(OLD, [begun_until]).await?;
        let ended = end_grouped(&mut tx, old, "maximum age", now, origin).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Returns up to `limit` sessions whose refresh token of the provider was last used at
    /// `used_until` or before.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn due_provider_sessions(
        &self,
        used_until: Timestamp,
        now: Timestamp,
        limit: i64,
    ) -> Result<Vec<DueSession>, Error> {
        self.db.all(DUE, (now, used_until, limit)).await
    }

    /// Records that this host uses the refresh token of a due session now. Returns `false` if
    /// another host has claimed the session. Two hosts must not use the same refresh token, because
    /// a provider can end all tokens of a person if a token is used twice.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn claim_provider_session(
        &self,
        sid: &str,
        used_until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let changed = self.db.execute(CLAIM, (sid, now, used_until)).await?;
        Ok(changed == 1)
    }

    /// Replaces the provider's refresh token of a session. Only the host that claimed the session
    /// must call this function. Does nothing if the session has ended.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_provider_token(&self, sid: &str, sealed: &[u8]) -> Result<(), Error> {
        self.db.execute(SET_TOKEN, (sid, sealed)).await?;
        Ok(())
    }

    /// Ends the session `sid`, because the provider refused the session's refresh token. Returns
    /// the ids of the deleted app passwords.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn end_refused_provider_session(
        &self,
        sid: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Vec<String>, Error> {
        let mut tx = self.db.begin().await?;
        let session: Vec<(String, String)> = tx.all(ONE, [sid]).await?;
        let reason = "the identity provider refused to refresh the sign-in";
        let ended = end_grouped(&mut tx, session, reason, now, origin).await?;
        tx.commit().await?;
        Ok(ended)
    }
}
