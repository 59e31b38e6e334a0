//! Forgetting what is over: ended sessions and OAuth grants with their app passwords, tokens that no longer tell anything, clients that nobody uses,
//! sendings of yesterday, and the last log-ins of app passwords that are gone.
//!
//! Nothing depends on it being done in time: whatever reads checks the end itself.

use super::db::on_tx;
use super::{Directory, Error};
use crate::clock::Timestamp;

/// Accounts cleared in one transaction: what others wait for on SQLite.
const BATCH: i64 = 100;
/// Transactions of one sweep. What is left waits for the next.
const BATCHES: usize = 50;

/// A session's newest token ends with it, so whoever has an ended session has an ended token. In order, so that two sweeps at once
/// cannot wait for each other.
const ACCOUNTS: &str = "SELECT DISTINCT s.account_id FROM refresh_tokens t JOIN sessions s ON s.sid = t.sid \
    WHERE t.expires_at <= $1 ORDER BY s.account_id LIMIT $2";
const END_SESSIONS: &str = "DELETE FROM app_passwords \
    WHERE id IN (SELECT app_password_id FROM sessions WHERE account_id = $1 AND expires_at <= $2) RETURNING id";
const FORGET_TOKENS: &str = "DELETE FROM refresh_tokens \
    WHERE expires_at <= $2 AND sid IN (SELECT sid FROM sessions WHERE account_id = $1)";

impl Directory {
    /// Forgets the sessions that are over at `now`, up to a bound, and repairs what mail servers read. Answers the app passwords
    /// that went. To be called at the start and every hour or so.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Rows that were already deleted stay deleted.
    pub async fn sweep(&self, now: Timestamp) -> Result<Vec<String>, Error> {
        let mut ended = Vec::new();
        for _ in 0..BATCHES {
            let mut tx = self.db.begin().await?;
            let accounts: Vec<String> = on_tx!(&mut tx, db => sqlx::query_scalar(ACCOUNTS)
                .bind(now.millis())
                .bind(BATCH)
                .fetch_all(db).await)?;
            if accounts.is_empty() {
                break;
            }
            for account in &accounts {
                tx.lock_account(account).await?;
                let died: Vec<String> = on_tx!(&mut tx, db => sqlx::query_scalar(END_SESSIONS)
                    .bind(account)
                    .bind(now.millis())
                    .fetch_all(db).await)?;
                on_tx!(&mut tx, db => sqlx::query(FORGET_TOKENS)
                    .bind(account)
                    .bind(now.millis())
                    .execute(db).await.map(drop))?;
                ended.extend(died);
            }
            tx.commit().await?;
        }
        ended.extend(self.sweep_grants(now).await?);
        self.sweep_sendings(now).await?;
        self.sweep_last_logins().await?;
        self.db.repair_mailserver().await?;
        Ok(ended)
    }
}
