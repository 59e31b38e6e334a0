//! Deletes old changes from the change logs, and deletes the rows of deleted folders to which no
//! change refers any longer.

use std::time::Duration;

use latchmail_core::clock::Timestamp;

use super::MessageIndex;
use super::folders::forget_deleted;
use super::log::{MAX_CHANGES, prune, stored};
use crate::db::{Error, on};

/// The time for which a change log keeps a change.
const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Maximum number of mailboxes in one query of the sweep.
const MAX_MAILBOXES: i64 = 100;

/// Returns the accounts with an id greater than $1 whose change log has more than $3 changes, or
/// has changes that were made before $2 (in milliseconds since 1970).
const OUTDATED: &str = "SELECT m.account_id FROM mailboxes m \
     LEFT JOIN mailbox_changes c ON c.account_id = m.account_id AND c.version = m.pruned_version + 1 \
     LEFT JOIN mailbox_events e ON e.account_id = m.account_id AND e.version = m.pruned_version + 1 \
     WHERE m.account_id > $1 AND m.version > m.pruned_version \
     AND (COALESCE(c.changed_at, e.changed_at) < $2 OR m.version - m.pruned_version > $3) \
     ORDER BY m.account_id LIMIT $4";

impl MessageIndex {
    /// Deletes old changes from the change logs. Then deletes the rows of deleted folders to which
    /// no change refers any longer.
    pub(crate) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        let before = now.minus(RETENTION).millis();
        let mut after = String::new();
        loop {
            let accounts: Vec<String> = on!(&self.db, pool => sqlx::query_scalar(OUTDATED)
                .bind(&after)
                .bind(before)
                .bind(stored(MAX_CHANGES))
                .bind(MAX_MAILBOXES)
                .fetch_all(pool)
                .await)?;
            let Some(last) = accounts.last() else {
                return Ok(());
            };
            after.clone_from(last);
            for account in &accounts {
                while prune(&self.db, account, before).await? {}
                forget_deleted(&self.db, account).await?;
            }
        }
    }
}
