//! Jobs: work that the service does without a request. A host leases a job for some seconds, and
//! extends the lease while the job runs. If a host stops without ending its lease, another host
//! leases the job when the lease is over.
//!
//! The outcome of a job belongs into the transaction that ends the lease ([`Lease::end_in`]). A
//! host that has lost its lease cannot end the lease, so the outcome of this host is not recorded.
//! The effect of a job outside of the database can still happen twice. Therefore the effect needs a
//! key of its own.
//!
//! All times are times of the database ([`Jobs::now`]), because the clocks of hosts differ and can
//! jump. SQLite has no clock of its own. With SQLite, only one host does jobs, so a lease does not
//! end with time: [`Jobs::abandon`] ends the leases of the previous process.

use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};

use crate::db::{Db, Error, Tx};

const NOW: &str = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
const COUNT: &str = "SELECT COUNT(*) FROM jobs WHERE account_id = $1 AND kind = $2";
const INSERT: &str = "INSERT INTO jobs (id, kind, key, account_id, due_at, next_at, sealed_payload) \
    VALUES ($1, $2, $3, $4, $5, $5, $6)";
const WAITING: &str = "SELECT id, kind, key, account_id, due_at, sealed_payload FROM jobs \
    WHERE account_id = $1 AND kind = $2 AND key = $3 ORDER BY due_at, id";
const IS_WAITING: &str = "SELECT 1 FROM jobs \
    WHERE account_id = $1 AND kind = $2 AND key = $3 AND host IS NULL";
/// Finds a waiting job with the same account, kind and key as the job $1.
const HAS_SUCCESSOR: &str = "SELECT 1 FROM jobs j JOIN jobs s ON s.account_id = j.account_id \
    AND s.kind = j.kind AND s.key = j.key AND s.id <> j.id WHERE j.id = $1 AND s.host IS NULL";
const MAKE_DUE: &str = "UPDATE jobs SET next_at = $4 \
    WHERE account_id = $1 AND kind = $2 AND key = $3 AND host IS NULL AND next_at > $4";
const RESCHEDULE: &str = "UPDATE jobs SET due_at = $2, next_at = $2, host = NULL, leased_until = NULL \
    WHERE id = $1";
const DELETE: &str = "DELETE FROM jobs WHERE id = $1";
const CANCEL: &str =
    "DELETE FROM jobs WHERE account_id = $1 AND kind = $2 AND key = $3 AND host IS NULL";

/// Defines the query that leases a job, for SQLite and for PostgreSQL. Only PostgreSQL has several
/// writers, and skips jobs that another host is leasing.
///
/// A job whose host has stopped goes before other jobs with the same key. `$5` contains the kinds.
macro_rules! lease {
    ($lock:literal) => {
        concat!(
            "UPDATE jobs SET host = $1, leased_until = $2, attempts = attempts + 1 WHERE id = (\
                SELECT j.id FROM jobs j WHERE j.next_at <= $3 \
                AND (j.host IS NULL OR (j.leased_until <= $4 AND j.host <> $1)) \
                AND $5 LIKE '%,' || j.kind || ',%' \
                AND NOT EXISTS (SELECT 1 FROM jobs o WHERE o.account_id = j.account_id \
                    AND o.kind = j.kind AND o.key = j.key AND o.id <> j.id AND (o.host IS NOT NULL \
                    OR (j.host IS NULL AND (o.due_at < j.due_at OR (o.due_at = j.due_at AND o.id < j.id))))) \
                AND (SELECT COUNT(*) FROM jobs r WHERE r.account_id = j.account_id \
                    AND $5 LIKE '%,' || r.kind || ',%' \
                    AND r.host IS NOT NULL AND r.leased_until > $4) < $6 \
                ORDER BY j.next_at LIMIT 1",
            $lock,
            ") RETURNING id, kind, key, account_id, due_at, attempts, sealed_payload"
        )
    };
}

const LEASE: [&str; 2] = [lease!(""), lease!(" FOR UPDATE SKIP LOCKED")];
const NEXT: &str = "SELECT MIN(next_at) FROM jobs WHERE next_at > $1";
const EXTEND: &str =
    "UPDATE jobs SET leased_until = $4 WHERE id = $1 AND host = $2 AND attempts = $3";
const END: &str = "DELETE FROM jobs WHERE id = $1 AND host = $2 AND attempts = $3";
const RETRY: &str = "UPDATE jobs SET host = NULL, leased_until = NULL, next_at = $4 \
    WHERE id = $1 AND host = $2 AND attempts = $3";
const ABANDON: &str = "UPDATE jobs SET host = NULL, leased_until = NULL WHERE host IS NOT NULL";
const FORGET_DELAYS: &str = "UPDATE jobs SET next_at = due_at WHERE next_at > $1 AND due_at < $1";

/// A job that is not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewJob<'j> {
    /// The opaque id.
    pub id: &'j str,
    /// The name of the handler.
    pub kind: &'j str,
    /// Of the jobs with the same account, kind and key, one runs at a time, in the order of their
    /// due times.
    pub key: &'j str,
    /// The id of the account that owns the job.
    pub account: &'j str,
    /// The time at which the job is due.
    pub due_at: Timestamp,
    /// The payload, encrypted with the service's key.
    pub sealed_payload: &'j [u8],
}

/// A stored job.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct StoredJob {
    /// The opaque id.
    pub id: String,
    /// The name of the handler.
    pub kind: String,
    /// The key of the job.
    pub key: String,
    /// The id of the account that owns the job.
    #[sqlx(rename = "account_id")]
    pub account: String,
    due_at: i64,
    /// The payload, encrypted with the service's key.
    pub sealed_payload: Vec<u8>,
}

impl StoredJob {
    /// Returns the time at which the job is due.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        Timestamp::from_millis(self.due_at)
    }
}

/// The right of a host to do a job. A later lease of the same job ends this right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The id of the job.
    pub job: String,
    /// The id of the host.
    pub host: String,
    /// The number of leases of the job so far, with this lease.
    pub attempt: i64,
}

impl Lease {
    fn parameters(&self) -> (&str, &str, i64) {
        (&self.job, &self.host, self.attempt)
    }

    /// Ends the lease and deletes the job, in the transaction that records the outcome. Returns
    /// `false` if the lease is lost or the job was deleted. In that case, the caller must not
    /// commit the outcome.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub(crate) async fn end_in(&self, tx: &mut Tx) -> Result<bool, Error> {
        Ok(tx.execute(END, self.parameters()).await? == 1)
    }
}

#[derive(sqlx_macros::FromRow)]
struct LeasedRow {
    attempts: i64,
    #[sqlx(flatten)]
    job: StoredJob,
}

/// The values of a new lease.
#[derive(Clone, Copy, Debug)]
pub struct NewLease<'l> {
    /// The id of the host.
    pub host: &'l str,
    /// The kinds of jobs that the host can do. Each kind is between commas: `,one,two,`.
    pub kinds: &'l str,
    /// The current time, see [`Jobs::now`].
    pub now: Timestamp,
    /// The duration of the lease.
    pub duration: Duration,
    /// Maximum number of concurrent jobs of these kinds of one account.
    pub account_limit: u32,
}

/// The repository of jobs.
#[derive(Clone, Debug)]
pub struct Jobs {
    pub(crate) db: Db,
}

impl Jobs {
    /// Returns the time of the database. Returns the time of `clock` with SQLite.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn now(&self, clock: &Clock) -> Result<Timestamp, Error> {
        match &self.db {
            Db::Sqlite(..) => Ok(clock.now()),
            Db::Postgres(_) => Ok(Timestamp::from_millis(self.db.value(NOW, ()).await?)),
        }
    }

    /// Stores a job. Returns `false`, and stores nothing, if the account already has `limit` jobs
    /// of this kind.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the account does not exist.
    pub async fn add(&self, job: NewJob<'_>, limit: i64) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(job.account).await?;
        let added = add_in(&mut tx, job, limit).await?;
        tx.commit().await?;
        Ok(added)
    }

    /// Deletes the jobs with the same account, kind and key that no host does, and stores a job.
    /// Returns `false`, and changes nothing, if the account would have more than `limit` jobs of
    /// this kind.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the account does not exist.
    pub async fn replace(&self, job: NewJob<'_>, limit: i64) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(job.account).await?;
        tx.execute(CANCEL, (job.account, job.kind, job.key)).await?;
        if !add_in(&mut tx, job, limit).await? {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Stores a job, unless a job with the same account, kind and key waits already.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the account does not exist.
    pub async fn ensure(&self, job: NewJob<'_>) -> Result<(), Error> {
        let key = (job.account, job.kind, job.key);
        if self.db.exists(IS_WAITING, key).await? {
            return Ok(());
        }
        let mut tx = self.db.begin_locked(job.account).await?;
        if !tx.exists(IS_WAITING, key).await? {
            add_in(&mut tx, job, i64::MAX).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// Makes the jobs with a key due that wait for their first or next attempt.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn make_due(
        &self,
        account: &str,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.db.execute(MAKE_DUE, (account, kind, key, now)).await?;
        Ok(())
    }

    /// Returns the jobs with a key, sorted by their due times.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn with_key(
        &self,
        account: &str,
        kind: &str,
        key: &str,
    ) -> Result<Vec<StoredJob>, Error> {
        self.db.all(WAITING, (account, kind, key)).await
    }

    /// Deletes the jobs with a key that no host does. Returns `false` if there are no such jobs.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn cancel(&self, account: &str, kind: &str, key: &str) -> Result<bool, Error> {
        Ok(self.db.execute(CANCEL, (account, kind, key)).await? > 0)
    }

    /// Leases the due job that has waited longest. Returns `None` if no job can be leased.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn lease(&self, new: NewLease<'_>) -> Result<Option<(Lease, StoredJob)>, Error> {
        let expired_at = match &self.db {
            Db::Sqlite(..) => Timestamp::from_millis(i64::MIN),
            Db::Postgres(_) => new.now,
        };
        let parameters = (
            new.host,
            new.now.plus(new.duration),
            new.now,
            expired_at,
            new.kinds,
            new.account_limit,
        );
        let row = self.db.returning(self.db.query(LEASE), parameters).await;
        let row: Option<LeasedRow> = match row {
            // Another host has leased a job with the same key at the same time.
            Err(Error::Database(error)) if is_unique_violation(&error) => return Ok(None),
            row => row?,
        };
        Ok(row.map(|row| {
            let lease = Lease {
                job: row.job.id.clone(),
                host: new.host.to_owned(),
                attempt: row.attempts,
            };
            (lease, row.job)
        }))
    }

    /// Returns the earliest time after `now` at which a job is due.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn next_after(&self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let next: Option<i64> = self.db.value(NEXT, [now]).await?;
        Ok(next.map(Timestamp::from_millis))
    }

    /// Sets the end of a lease. Returns `false` if the lease is lost or the job was deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn extend(&self, lease: &Lease, until: Timestamp) -> Result<bool, Error> {
        let (job, host, attempt) = lease.parameters();
        let changed = self.db.execute(EXTEND, (job, host, attempt, until));
        Ok(changed.await? == 1)
    }

    /// Ends a lease and deletes the job. Returns `false` if the lease is lost or the job was
    /// deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn end(&self, lease: &Lease) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let ended = lease.end_in(&mut tx).await?;
        tx.commit().await?;
        Ok(ended)
    }

    /// Ends a lease. The job is due again at `next_at`. Returns `false` if the lease is lost or the
    /// job was deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn retry(&self, lease: &Lease, next_at: Timestamp) -> Result<bool, Error> {
        let (job, host, attempt) = lease.parameters();
        let changed = self.db.execute(RETRY, (job, host, attempt, next_at));
        Ok(changed.await? == 1)
    }

    /// Ends a lease of a job that [`Jobs::ensure`] stored. The job is due again at `next_at`.
    /// Deletes the job if another job with the same account, kind and key waits, because that job
    /// was stored to run before `next_at`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the account does not exist.
    pub async fn postpone(
        &self,
        lease: &Lease,
        account: &str,
        next_at: Timestamp,
    ) -> Result<(), Error> {
        // The lock of `ensure`: a job that is stored later finds this job waiting.
        let mut tx = self.db.begin_locked(account).await?;
        if tx.exists(HAS_SUCCESSOR, [&lease.job]).await? {
            lease.end_in(&mut tx).await?;
        } else {
            let (job, host, attempt) = lease.parameters();
            tx.execute(RETRY, (job, host, attempt, next_at)).await?;
        }
        tx.commit().await
    }

    /// Makes jobs due that wait longer than until `latest` for another attempt. Called after the
    /// clock was set back.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn forget_delays(&self, latest: Timestamp) -> Result<(), Error> {
        self.db.execute(FORGET_DELAYS, [latest]).await?;
        Ok(())
    }

    /// Ends the leases of earlier processes. The service calls this function at its start. Does
    /// nothing on PostgreSQL, because other hosts may be doing these jobs.
    pub(super) async fn abandon(&self) -> Result<(), Error> {
        if let Db::Sqlite(..) = &self.db {
            self.db.execute(ABANDON, ()).await?;
        }
        Ok(())
    }
}

/// Stores a job in a transaction that has locked the account. Returns `false`, and stores nothing,
/// if the account already has `limit` jobs of this kind.
pub(crate) async fn add_in(tx: &mut Tx, job: NewJob<'_>, limit: i64) -> Result<bool, Error> {
    let count: i64 = tx.value(COUNT, (job.account, job.kind)).await?;
    if count >= limit {
        return Ok(false);
    }
    let row = (
        job.id,
        job.kind,
        job.key,
        job.account,
        job.due_at,
        job.sealed_payload,
    );
    tx.execute(INSERT, row).await?;
    Ok(true)
}

/// Changes the due time of a job, and ends the lease of a host that has leased the job.
pub(crate) async fn reschedule_in(tx: &mut Tx, id: &str, due_at: Timestamp) -> Result<(), Error> {
    tx.execute(RESCHEDULE, (id, due_at)).await?;
    Ok(())
}

/// Deletes a job. A host that has leased the job loses its lease.
pub(crate) async fn delete_in(tx: &mut Tx, id: &str) -> Result<(), Error> {
    tx.execute(DELETE, [id]).await?;
    Ok(())
}

fn is_unique_violation(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    error.is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

#[cfg(test)]
mod tests;
