//! The deletion of accounts after a grace period. The account is disabled during this period, and
//! can be enabled again. After the period, a job deletes the mailbox and then the account.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Accounts;
use super::administration::set_inactive;
use crate::credentials::mail_server_users::end_everything;
use crate::db::{Error, Source};
use crate::events::{self, Event, Kind};
use crate::session_caller::SessionCaller;

const FIND: &str = "SELECT address, deletes_at, removing FROM accounts WHERE id = $1";
/// Keeps the earlier time.
const SCHEDULE: &str = "UPDATE accounts SET deletes_at = CASE WHEN deletes_at < $2 THEN deletes_at ELSE $2 END \
    WHERE id = $1";
const BEGIN: &str = "UPDATE accounts SET removing = TRUE WHERE id = $1";
const DUE: &str = "SELECT id FROM accounts WHERE deletes_at <= $1 ORDER BY deletes_at, id LIMIT $2";

/// The result of a request to delete an account later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// The account is disabled.
    Planned {
        /// The time at which the account is deleted.
        deletes_at: Timestamp,
        /// The ids of the deleted app passwords.
        ended: Vec<String>,
    },
    /// The account does not exist.
    Unknown,
    /// The session of the request ended.
    SessionOver,
}

/// A deletion that is planned or in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The time at which the account is deleted.
    pub deletes_at: Timestamp,
    /// Whether the deletion has begun. The account can then no longer be enabled.
    pub removing: bool,
}

/// The result of an attempt to begin a planned deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The deletion has begun, now or earlier.
    Begun,
    /// The account is deleted at this time, which is later.
    At(Timestamp),
    /// The account does not exist, or its deletion was cancelled.
    None,
}

/// The columns of [`FIND`].
type Row = (String, Option<i64>, bool);

impl Accounts {
    /// Disables an account, ends all its credentials, and plans its deletion. If the deletion is
    /// planned already, the earlier time applies. `session` is the session of the owner who sent
    /// the request, or `None` for the operator.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn schedule_deletion(
        &self,
        account_id: &str,
        session: Option<SessionCaller<'_>>,
        at: Timestamp,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Scheduling, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        if let Some(session) = session
            && !session.lock(&mut tx).await?
        {
            return Ok(Scheduling::SessionOver);
        }
        tx.execute(SCHEDULE, (account_id, at)).await?;
        let row: Option<Row> = tx.optional(FIND, [account_id]).await?;
        let Some((_, Some(deletes_at), removing)) = row else {
            return Ok(Scheduling::Unknown);
        };
        let deletes_at = Timestamp::from_millis(deletes_at);
        if removing {
            let ended = Vec::new();
            return Ok(Scheduling::Planned { deletes_at, ended });
        }
        set_inactive(&mut tx, account_id).await?;
        let (ended, _) = end_everything(&mut tx, account_id, now).await?;
        let detail = format!("to be deleted at {deletes_at}");
        let planned = Event::of(Kind::AccountDeletionPlanned, account_id, now).detail(&detail);
        events::commit(tx, planned, origin).await?;
        Ok(Scheduling::Planned { deletes_at, ended })
    }

    /// Returns the planned deletion of an account. Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn deletion(&self, account_id: &str) -> Result<Option<Deletion>, Error> {
        let row: Option<Row> = self.db.optional(FIND, [account_id]).await?;
        Ok(row.and_then(|(_, deletes_at, removing)| {
            Some(Deletion {
                deletes_at: Timestamp::from_millis(deletes_at?),
                removing,
            })
        }))
    }

    /// Begins the planned deletion of an account if its time has come. The service can then log in
    /// to the mailbox, and the account can no longer be enabled.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn begin_removal(&self, account_id: &str, now: Timestamp) -> Result<Removal, Error> {
        let mut tx = self.db.begin_locked(account_id).await?;
        let row: Option<Row> = tx.optional(FIND, [account_id]).await?;
        let Some((address, Some(deletes_at), removing)) = row else {
            return Ok(Removal::None);
        };
        let deletes_at = Timestamp::from_millis(deletes_at);
        if removing {
            return Ok(Removal::Begun);
        }
        if deletes_at > now {
            return Ok(Removal::At(deletes_at));
        }
        tx.execute(BEGIN, [account_id]).await?;
        tx.project(Source::Account(&address)).await?;
        tx.commit().await?;
        Ok(Removal::Begun)
    }

    /// Returns at most `limit` accounts whose deletion is planned at `until` or earlier.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn due_deletions(&self, until: Timestamp, limit: u32) -> Result<Vec<String>, Error> {
        self.db.values(DUE, (until, limit)).await
    }
}

#[cfg(test)]
mod tests;
