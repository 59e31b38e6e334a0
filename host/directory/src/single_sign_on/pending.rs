//! Sign-ins that continue at the identity provider. Each sign-in can be finished once, on any host of the service.

use super::super::db::{on, on_tx};
use super::super::{Directory, Error};
use crate::clock::Timestamp;

const INSERT: &str =
    "INSERT INTO provider_sign_ins (state_hash, sealed, expires_at) VALUES ($1, $2, $3)";
/// Maximum number of unfinished sign-ins. Any client can start sign-ins. If there are more, the oldest ones are deleted.
const MAX_PENDING: i64 = 10_000;
/// Deletes all rows except the $1 newest rows. The LIMIT has no effect. SQLite requires a LIMIT before OFFSET.
const DELETE_OLDEST: &str = "DELETE FROM provider_sign_ins WHERE state_hash IN \
    (SELECT state_hash FROM provider_sign_ins ORDER BY expires_at DESC, state_hash LIMIT 1000000 OFFSET $1)";
/// If two requests finish the same sign-in concurrently, the statement of the second request deletes no row.
const TAKE: &str =
    "DELETE FROM provider_sign_ins WHERE state_hash = $1 RETURNING sealed, expires_at";

impl Directory {
    /// Stores a sign-in that continues at the identity provider. `state_hash` is the hash of the parameter `state`. `sealed` is the sealed request.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_provider_sign_in(
        &self,
        state_hash: &str,
        sealed: &str,
        expires_at: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        on_tx!(&mut tx, db => sqlx::query(DELETE_OLDEST)
            .bind(MAX_PENDING - 1)
            .execute(db).await.map(drop))?;
        on_tx!(&mut tx, db => sqlx::query(INSERT)
            .bind(state_hash)
            .bind(sealed)
            .bind(expires_at.millis())
            .execute(db).await.map(drop))?;
        tx.commit().await
    }

    /// Removes an unfinished sign-in and returns its sealed request. Returns `None` if there is no such sign-in, or if it has expired.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn take_provider_sign_in(
        &self,
        state_hash: &str,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        let taken: Option<(String, i64)> = on!(&self.db, pool => sqlx::query_as(TAKE)
            .bind(state_hash)
            .fetch_optional(pool).await)?;
        let current = taken.filter(|(_, expires_at)| now.millis() < *expires_at);
        Ok(current.map(|(sealed, _)| sealed))
    }
}
