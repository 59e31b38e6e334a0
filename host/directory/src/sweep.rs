//! Deletes expired data:
//! - web sessions and OAuth grants that have ended, and the app passwords of both
//! - tokens and codes that are no longer needed
//! - OAuth clients that are not used
//! - sendings that are older than a day
//! - the last log-ins of deleted app passwords
//!
//! The service does not depend on the time of the sweep, because every query that reads data with an expiry also checks the expiry.

use super::db::{Source, on_tx};
use super::{Directory, Error};
use crate::clock::Timestamp;

/// Maximum number of accounts in one transaction of a sweep. On SQLite, other writers wait for this transaction.
const BATCH: i64 = 100;
/// Maximum number of transactions in one sweep. The next sweep handles the rest.
const BATCHES: usize = 50;

/// Finds accounts with ended sessions by their expired refresh tokens: the newest token of a session expires together with the session. The accounts are
/// sorted, so that two concurrent sweeps cannot deadlock.
const ACCOUNTS: &str = "SELECT DISTINCT s.account_id FROM refresh_tokens t JOIN sessions s ON s.sid = t.sid \
    WHERE t.expires_at <= $1 ORDER BY s.account_id LIMIT $2";
const END_SESSIONS: &str = "DELETE FROM app_passwords \
    WHERE id IN (SELECT app_password_id FROM sessions WHERE account_id = $1 AND expires_at <= $2) RETURNING id";
const FORGET_TOKENS: &str = "DELETE FROM refresh_tokens \
    WHERE expires_at <= $2 AND sid IN (SELECT sid FROM sessions WHERE account_id = $1)";

impl Directory {
    /// Deletes the data that has expired at `now`, up to a limit, and repairs the data for mail servers. Returns the ids of the app passwords that were
    /// deleted. The caller runs a sweep at the start of the service and about every hour.
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
                let ended_now: Vec<String> = on_tx!(&mut tx, db => sqlx::query_scalar(END_SESSIONS)
                    .bind(account)
                    .bind(now.millis())
                    .fetch_all(db).await)?;
                for id in &ended_now {
                    tx.project(Source::AppPassword(id)).await?;
                }
                on_tx!(&mut tx, db => sqlx::query(FORGET_TOKENS)
                    .bind(account)
                    .bind(now.millis())
                    .execute(db).await.map(drop))?;
                ended.extend(ended_now);
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
