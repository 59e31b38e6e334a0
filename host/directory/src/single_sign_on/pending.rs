//! Sign-ins that continue at the identity provider. Each sign-in can be finished once, on any host
//! of the service.

use std::net::IpAddr;

use latchmail_core::clock::Timestamp;

use super::SingleSignOn;
use crate::crowd::{self, Crowd, crowd};
use crate::db::Error;

const INSERT: &str = "INSERT INTO provider_sign_ins (state_hash, sealed, expires_at, network, region) \
    VALUES ($1, $2, $3, $4, $5)";
/// Unfinished sign-ins.
const PENDING: Crowd = crowd!("provider_sign_ins", "state_hash", "expires_at", "TRUE");
/// If two requests finish the same sign-in concurrently, the statement of the second request
/// deletes no row.
const TAKE: &str =
    "DELETE FROM provider_sign_ins WHERE state_hash = $1 RETURNING sealed, expires_at";

impl SingleSignOn {
    /// Stores a sign-in that continues at the identity provider. `state_hash` is the hash of the
    /// parameter `state`. `sealed` is the encrypted sign-in request. `from` is the client's IP
    /// address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_provider_sign_in(
        &self,
        state_hash: &str,
        sealed: &str,
        expires_at: Timestamp,
        from: IpAddr,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        PENDING.make_room(&mut tx).await?;
        let (network, region) = crowd::origin(from);
        tx.execute(INSERT, (state_hash, sealed, expires_at, network, region))
            .await?;
        tx.commit().await
    }

    /// Removes an unfinished sign-in and returns its encrypted request. Returns `None` if there is
    /// no such sign-in, or if it has expired.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn take_provider_sign_in(
        &self,
        state_hash: &str,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        let taken: Option<(String, i64)> = self.db.returning(TAKE, [state_hash]).await?;
        let current = taken.filter(|(_, expires_at)| now.millis() < *expires_at);
        Ok(current.map(|(sealed, _)| sealed))
    }
}
