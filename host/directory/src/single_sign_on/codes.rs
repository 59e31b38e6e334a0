//! The codes of completed sign-ins at the identity provider. A client exchanges a code for the
//! tokens of a session one time, within a minute.

use latchmail_core::clock::Timestamp;

use super::SingleSignOn;
use crate::db::{Error, Tx};
use crate::debug::debug_fields;

const INSERT: &str = "INSERT INTO sign_in_codes (code_hash, account_id, identity_id, provider_sid, challenge, expires_at, sealed_provider_token) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const FIND: &str = "SELECT account_id, identity_id, provider_sid, challenge, sealed_provider_token FROM sign_in_codes \
    WHERE code_hash = $1 AND expires_at > $2";
const DELETE: &str = "DELETE FROM sign_in_codes WHERE code_hash = $1";
/// If two requests exchange the same code concurrently, the statement of the second request deletes
/// no row.
const CONSUME: &str = "DELETE FROM sign_in_codes WHERE code_hash = $1 AND expires_at > $2";
const SIGNED_IN_AT: &str = "SELECT created_at FROM sessions \
    WHERE sid = $1 AND account_id = $2 AND identity_id IS NOT NULL";

/// A code to store.
#[derive(Clone, Debug)]
pub struct NewSignInCode {
    /// SHA-256 of the code, lower-case hexadecimal.
    pub hash: String,
    /// The time until which the code can be exchanged.
    pub expires_at: Timestamp,
    /// The values that the code stands for.
    pub content: SignInCode,
}

/// The values that a code stands for.
#[derive(Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct SignInCode {
    /// The account of the person's mailbox.
    pub account_id: String,
    /// The id of the person's row in the table `identities`.
    pub identity_id: String,
    /// The provider's id of the person's session at the provider.
    pub provider_sid: Option<String>,
    /// The code challenge (RFC 7636, S256).
    pub challenge: String,
    /// The provider's refresh token, encrypted with the service's key. `None` if the provider
    /// issued none.
    pub sealed_provider_token: Option<Vec<u8>>,
}

debug_fields!(SignInCode {
    account_id,
    identity_id,
    provider_sid
});

impl SingleSignOn {
    /// Stores a code.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_sign_in_code(&self, code: &NewSignInCode) -> Result<(), Error> {
        let content = &code.content;
        let row = (
            &code.hash,
            &content.account_id,
            &content.identity_id,
            &content.provider_sid,
            &content.challenge,
            code.expires_at,
            &content.sealed_provider_token,
        );
        self.db.execute(INSERT, row).await?;
        Ok(())
    }

    /// Returns the values of the code with this hash. Returns `None` if the code was used or has
    /// expired. Does not consume the code.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sign_in_code(
        &self,
        hash: &str,
        now: Timestamp,
    ) -> Result<Option<SignInCode>, Error> {
        self.db.optional(FIND, (hash, now)).await
    }

    /// Deletes the code with this hash.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delete_sign_in_code(&self, hash: &str) -> Result<(), Error> {
        self.db.execute(DELETE, [hash]).await?;
        Ok(())
    }

    /// Returns the time at which the person of a web session signed in at the identity provider.
    /// Returns `None` if the session began with a password.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn signed_in_at_provider(
        &self,
        account_id: &str,
        sid: &str,
    ) -> Result<Option<Timestamp>, Error> {
        let at: Option<i64> = self
            .db
            .optional_value(SIGNED_IN_AT, (sid, account_id))
            .await?;
        Ok(at.map(Timestamp::from_millis))
    }
}

/// Consumes a code. Returns `false` if the code was used or has expired.
pub(crate) async fn consume(tx: &mut Tx, hash: &str, now: Timestamp) -> Result<bool, Error> {
    let deleted = tx.execute(CONSUME, (hash, now)).await?;
    Ok(deleted == 1)
}
