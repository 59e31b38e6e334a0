//! Back-channel logout: the identity provider ends the web sessions of a person.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::SingleSignOn;
use super::end_grouped;
use crate::db::Error;

/// Inserts no row if the token was accepted before.
const INSERT: &str = "INSERT INTO logout_tokens (token_hash, expires_at) VALUES ($1, $2) ON CONFLICT (token_hash) DO NOTHING";
/// The sessions are sorted by account, so that two concurrent logouts cannot deadlock.
const SESSIONS: &str = "SELECT s.account_id, s.app_password_id FROM sessions s JOIN identities i ON i.id = s.identity_id \
    WHERE i.issuer = $1 AND (CAST($2 AS TEXT) IS NULL OR i.subject = $2) AND (CAST($3 AS TEXT) IS NULL OR s.provider_sid = $3) \
    ORDER BY s.account_id, s.app_password_id";
const DELETE_CODES: &str = "DELETE FROM sign_in_codes WHERE (CAST($3 AS TEXT) IS NULL OR provider_sid = $3) \
    AND identity_id IN (SELECT id FROM identities WHERE issuer = $1 AND (CAST($2 AS TEXT) IS NULL OR subject = $2))";

/// A verified logout token. At least one of `subject` and `sid` must be present.
#[derive(Clone, Copy, Debug)]
pub struct ProviderLogout<'a> {
    /// The hash of the issuer and the token's id.
    pub token_hash: &'a str,
    /// The time at which the token expires.
    pub expires_at: Timestamp,
    /// The provider's issuer identifier.
    pub issuer: &'a str,
    /// The provider's id of the person.
    pub subject: Option<&'a str>,
    /// The provider's id of the session at the provider. Only web sessions that began with this
    /// session end.
    pub sid: Option<&'a str>,
    /// The current time.
    pub at: Timestamp,
}

impl SingleSignOn {
    /// Ends the web sessions that a logout token names, and deletes the person's unused sign-in
    /// codes. API tokens, OAuth grants and app passwords of mail clients remain. Returns the ids of
    /// the deleted app passwords. Returns `None` if the token was accepted before.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn end_provider_sessions(
        &self,
        logout: ProviderLogout<'_>,
        origin: &Origin,
    ) -> Result<Option<Vec<String>>, Error> {
        let mut tx = self.db.begin().await?;
        let inserted = tx
            .execute(INSERT, (logout.token_hash, logout.expires_at))
            .await?;
        if inserted == 0 {
            return Ok(None);
        }
        tx.execute(DELETE_CODES, (logout.issuer, logout.subject, logout.sid))
            .await?;
        let sessions: Vec<(String, String)> = tx
            .all(SESSIONS, (logout.issuer, logout.subject, logout.sid))
            .await?;
        let ended =
            end_grouped(&mut tx, sessions, "back-channel logout", logout.at, origin).await?;
        tx.commit().await?;
        Ok(Some(ended))
    }
}
