//! The exports of accounts. The rows contain the state and the progress of exports; the archives
//! are files.
//!
//! An account has at most one export: a new export replaces an ended one. Only the host that has
//! leased the job of an export can change the row.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error};
use crate::events::{self, Event, Kind};
use crate::jobs::Lease;

const UNFINISHED: &str = "SELECT id, account_id, state, created_at, expires_at, messages, size, error, is_last, progress \
    FROM exports WHERE account_id = $1 AND state IN ('pending', 'running') AND expires_at > $2";
const REPLACE: &str = "DELETE FROM exports WHERE account_id = $1";
const INSERT: &str = "INSERT INTO exports (id, account_id, state, created_at, expires_at, is_last) \
    VALUES ($1, $2, 'pending', $3, $4, $5)";
const LAST: &str = "SELECT id, account_id, state, created_at, expires_at, messages, size, error, is_last, progress \
    FROM exports WHERE account_id = $1 AND is_last AND expires_at > $2";
const FIND: &str = "SELECT id, account_id, state, created_at, expires_at, messages, size, error, is_last, progress \
    FROM exports WHERE id = $1 AND expires_at > $2";
const IDS: &str = "SELECT id FROM exports";
/// The lease must still be valid. Otherwise another host has begun to write the export.
const SET_PROGRESS: &str = "UPDATE exports SET state = 'running', progress = $2, messages = $3 \
    WHERE id = $1 AND state IN ('pending', 'running') \
    AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = $4 AND j.host = $5 AND j.attempts = $6)";
const END: &str = "UPDATE exports SET state = $2, size = $3, error = $4, expires_at = $5, progress = NULL \
    WHERE id = $1 AND state IN ('pending', 'running') \
    AND EXISTS (SELECT 1 FROM jobs j WHERE j.id = $6 AND j.host = $7 AND j.attempts = $8)";
const SWEEP: &str = "DELETE FROM exports WHERE expires_at <= $1";

/// An export of an account.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Export {
    /// The opaque id.
    pub id: String,
    /// The id of the account.
    #[sqlx(rename = "account_id")]
    pub account: String,
    /// `pending`, `running`, `ready` or `failed`.
    pub state: String,
    created_at: i64,
    expires_at: i64,
    messages: i64,
    size: Option<i64>,
    /// The reason of a failure, for the account.
    pub error: Option<String>,
    /// Whether the account is being deleted.
    pub is_last: bool,
    /// What is written, as JSON. `None` before the first step, and after the end.
    pub progress: Option<String>,
}

impl Export {
    /// Returns the time of the creation.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_millis(self.created_at)
    }

    /// Returns the time at which the export is deleted.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.expires_at)
    }

    /// Returns the number of exported messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        u64::try_from(self.messages).unwrap_or(0)
    }

    /// Returns the size of the archive in bytes, or `None` if there is no archive.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.size.and_then(|size| u64::try_from(size).ok())
    }
}

/// An export that is not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewExport<'e> {
    /// The opaque id.
    pub id: &'e str,
    /// The id of the account.
    pub account: &'e str,
    /// The time at which the export is deleted if it has not ended.
    pub expires_at: Timestamp,
    /// Whether the account is being deleted.
    pub is_last: bool,
}

/// The end of an export.
#[derive(Clone, Copy, Debug)]
pub enum Ended<'e> {
    /// The archive is complete and has this size in bytes.
    Ready(u64),
    /// The export failed for this reason.
    Failed(&'e str),
}

/// The repository of exports.
#[derive(Clone, Debug)]
pub struct Exports {
    pub(crate) db: Db,
}

impl Exports {
    /// Stores a new export, and deletes the ended exports of the account. If an export of the
    /// account has not ended, returns that export and stores nothing.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the account does not exist.
    pub async fn begin(
        &self,
        new: NewExport<'_>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Option<Export>, Error> {
        let NewExport {
            id,
            account,
            expires_at,
            is_last,
        } = new;
        let mut tx = self.db.begin_locked(account).await?;
        let unfinished: Option<Export> = tx.optional(UNFINISHED, (account, now)).await?;
        if unfinished.is_some() {
            return Ok(unfinished);
        }
        tx.execute(REPLACE, [account]).await?;
        let row = (id, account, now, expires_at, is_last);
        tx.execute(INSERT, row).await?;
        let event = Event::of(Kind::ExportRequested, account, now).about(id);
        events::commit(tx, event, origin).await?;
        Ok(None)
    }

    /// Returns an export. Returns `None` if the export does not exist or is expired.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, id: &str, now: Timestamp) -> Result<Option<Export>, Error> {
        self.db.optional(FIND, (id, now)).await
    }

    /// Returns the export of an account that is being deleted, if the deletion has requested it.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn last(&self, account: &str, now: Timestamp) -> Result<Option<Export>, Error> {
        self.db.optional(LAST, (account, now)).await
    }

    /// Returns the ids of all exports.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn ids(&self) -> Result<Vec<String>, Error> {
        self.db.values(IDS, ()).await
    }

    /// Stores the progress of an export. Returns `false`, and stores nothing, if the lease is lost
    /// or the export was deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_progress(
        &self,
        id: &str,
        lease: &Lease,
        progress: &str,
        messages: u64,
    ) -> Result<bool, Error> {
        let messages = i64::try_from(messages).unwrap_or(i64::MAX);
        let (job, host) = (&*lease.job, &*lease.host);
        let row = (id, progress, messages, job, host, lease.attempt);
        Ok(self.db.execute(SET_PROGRESS, row).await? > 0)
    }

    /// Ends an export, which then expires at `expires_at`. Returns `false`, and changes nothing, if
    /// the lease is lost or the export was deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn end(
        &self,
        id: &str,
        lease: &Lease,
        ended: Ended<'_>,
        expires_at: Timestamp,
    ) -> Result<bool, Error> {
        let (state, size, error) = match ended {
            Ended::Ready(size) => ("ready", Some(i64::try_from(size).unwrap_or(i64::MAX)), None),
            Ended::Failed(reason) => ("failed", None, Some(reason)),
        };
        let (job, host) = (&*lease.job, &*lease.host);
        let row = (id, state, size, error, expires_at, job, host, lease.attempt);
        Ok(self.db.execute(END, row).await? > 0)
    }

    /// Deletes expired exports.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(SWEEP, [now]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::jobs::{NewJob, NewLease};
    use crate::testing::{Fresh, NOW, both};

    async fn an_account_has_one_export_and_only_the_leasing_host_changes_it(fresh: Fresh) {
        let (directory, exports) = (&fresh.directory, &fresh.directory.exports);
        directory.with("a", "ada@example.org", &[]).await;
        let expiry = NOW.plus(Duration::from_hours(1));
        let origin = Origin::default();
        let begin = async |id| {
            let new = NewExport {
                id,
                account: "a",
                expires_at: expiry,
                is_last: id == "two",
            };
            exports.begin(new, NOW, &origin).await.unwrap()
        };
        assert_eq!(begin("one").await, None);
        assert_eq!(begin("two").await.unwrap().id, "one");
        let job = NewJob {
            id: "job",
            kind: "export",
            key: "one",
            account: "a",
            due_at: NOW,
            sealed_payload: b"",
        };
        directory.jobs.ensure(job).await.unwrap();
        let new = NewLease {
            host: "h",
            kinds: ",export,",
            now: NOW,
            duration: Duration::from_secs(10),
            account_limit: 1,
        };
        let (lease, _) = directory.jobs.lease(new).await.unwrap().unwrap();
        let lost = Lease {
            attempt: lease.attempt + 1,
            ..lease.clone()
        };
        assert!(!exports.set_progress("one", &lost, "{}", 3).await.unwrap());
        assert!(exports.set_progress("one", &lease, "{}", 3).await.unwrap());
        let found = exports.find("one", NOW).await.unwrap().unwrap();
        assert_eq!((&*found.state, found.messages()), ("running", 3));
        assert_eq!(exports.last("a", NOW).await.unwrap(), None);
        let ready = Ended::Ready(9);
        assert!(!exports.end("one", &lost, ready, expiry).await.unwrap());
        assert!(exports.end("one", &lease, ready, expiry).await.unwrap());
        let failed = Ended::Failed("late");
        assert!(!exports.end("one", &lease, failed, expiry).await.unwrap());
        let found = exports.find("one", NOW).await.unwrap().unwrap();
        assert_eq!((&*found.state, found.size()), ("ready", Some(9)));
        assert_eq!(begin("two").await, None);
        assert_eq!(exports.ids().await.unwrap(), ["two"]);
        let newest = exports.last("a", NOW).await.unwrap();
        assert_eq!(newest.map(|newest| newest.id).as_deref(), Some("two"));
        assert_eq!(exports.find("two", expiry).await.unwrap(), None);
        directory.sweep(expiry).await.unwrap();
        assert!(exports.ids().await.unwrap().is_empty());
    }

    both!(an_account_has_one_export_and_only_the_leasing_host_changes_it);
}
