//! Ends the sessions that have expired.

use latchmail_core::clock::Timestamp;

use super::Sessions;
use crate::credentials;
use crate::db::Error;

/// Maximum number of accounts in one transaction of a sweep. On SQLite, other writers wait for the
/// transaction.
const BATCH: i64 = 100;
/// Maximum number of transactions in one sweep. The next sweep processes the remaining accounts.
const BATCHES: usize = 50;

/// Finds accounts with ended sessions by their expired refresh tokens. A session and its newest
/// token expire at the same time. The accounts are sorted, so that two concurrent sweeps cannot
/// deadlock.
const ACCOUNTS: &str = "SELECT DISTINCT s.account_id FROM refresh_tokens t JOIN sessions s ON s.sid = t.sid \
    WHERE t.expires_at <= $1 ORDER BY s.account_id LIMIT $2";
const END_SESSIONS: &str = "DELETE FROM app_passwords \
    WHERE id IN (SELECT app_password_id FROM sessions WHERE account_id = $1 AND expires_at <= $2) RETURNING id";
const FORGET_TOKENS: &str = "DELETE FROM refresh_tokens \
    WHERE expires_at <= $2 AND sid IN (SELECT sid FROM sessions WHERE account_id = $1)";

impl Sessions {
    /// Ends the sessions that have expired at `now`, up to a limit. Returns the ids of their app
    /// passwords.
    pub(crate) async fn sweep(&self, now: Timestamp) -> Result<Vec<String>, Error> {
        let mut ended = Vec::new();
        for _ in 0..BATCHES {
            let mut tx = self.db.begin().await?;
            let accounts: Vec<String> = tx.values(ACCOUNTS, (now, BATCH)).await?;
            if accounts.is_empty() {
                break;
            }
            for account in &accounts {
                tx.lock_account(account).await?;
                ended.extend(credentials::delete_by(&mut tx, END_SESSIONS, (account, now)).await?);
                tx.execute(FORGET_TOKENS, (account, now)).await?;
            }
            tx.commit().await?;
        }
        Ok(ended)
    }
}
