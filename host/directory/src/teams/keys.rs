//! The sealed keys of shared mailboxes. A key is an app password for the members. When the service's own key is replaced, all keys of mailboxes must be sealed
//! with the new key.

use super::super::db::on;
use super::super::{Directory, Error};

const SEALED: &str = "SELECT mailbox, sealed_password FROM team_keys ORDER BY mailbox";
const RESEAL: &str =
    "UPDATE team_keys SET sealed_password = $3 WHERE mailbox = $1 AND sealed_password = $2";

impl Directory {
    /// Returns the id and the sealed key of every shared mailbox.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn team_keys(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_as(SEALED).fetch_all(pool).await)?)
    }

    /// Replaces the sealed key `before` of a mailbox with `after`. `after` must be the same key, sealed again. Does nothing if a concurrent request changed the
    /// key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn reseal_team_key(
        &self,
        mailbox: &str,
        before: &[u8],
        after: &[u8],
    ) -> Result<(), Error> {
        self.db.reseal(RESEAL, mailbox, before, after).await
    }
}
