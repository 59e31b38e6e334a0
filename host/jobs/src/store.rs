//! Stores jobs. The service's key encrypts their payloads.

use std::sync::Arc;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_directory::jobs::{self as directory, Lease, StoredJob};
use tokio::sync::watch;
use zeroize::Zeroizing;

/// A job that is not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewJob<'j> {
    /// The name of the handler. Lower-case letters, digits and hyphens.
    pub kind: &'j str,
    /// Of the jobs with the same account, kind and key, one runs at a time, in the order of their
    /// due times.
    pub key: &'j str,
    /// The id of the account that owns the job. The job is deleted with the account.
    pub account: &'j str,
    /// The time at which the job is due.
    pub due_at: Timestamp,
    /// The data for the handler.
    pub payload: &'j [u8],
    /// Maximum number of jobs of this kind of the account.
    pub limit: u32,
}

/// A job that is due, or that waits.
#[derive(Clone, Debug)]
pub struct Job {
    /// The right of this host to do the job. `None` if the job waits.
    pub lease: Option<Lease>,
    /// The name of the handler.
    pub kind: String,
    /// The key of the job.
    pub key: String,
    /// The id of the account that owns the job.
    pub account: String,
    /// The time at which the job is due.
    pub due_at: Timestamp,
    /// The data for the handler.
    pub payload: Zeroizing<Vec<u8>>,
}

/// The jobs in the database.
#[derive(Debug)]
pub struct Jobs {
    pub(crate) stored: directory::Jobs,
    pub(crate) clock: Clock,
    keys: Arc<Keyring>,
    /// Wakes the runners of this host.
    pub(crate) changed: watch::Sender<()>,
}

impl Jobs {
    /// Creates the store. `service_keys` encrypts payloads.
    #[must_use]
    pub fn new(stored: directory::Jobs, service_keys: Arc<Keyring>, clock: Clock) -> Self {
        Self {
            stored,
            clock,
            keys: service_keys,
            changed: watch::Sender::new(()),
        }
    }

    /// Returns the time with which due times are compared: the time of the database on PostgreSQL,
    /// and the time of this host with SQLite.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn now(&self) -> Result<Timestamp, Failure> {
        Ok(self.stored.now(&self.clock).await?)
    }

    /// Stores a job. Returns `false`, and stores nothing, if the account already has
    /// [`NewJob::limit`] jobs of this kind.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn add(&self, job: NewJob<'_>) -> Result<bool, Failure> {
        let (id, sealed) = self.seal(job)?;
        let added = self.stored.add(row(job, &id, &sealed), job.limit.into());
        let added = added.await?;
        self.wake();
        Ok(added)
    }

    /// Deletes the jobs with the same account, kind and key that are not running, and stores a job.
    /// Returns `false`, and changes nothing, if the account would have more than [`NewJob::limit`]
    /// jobs of this kind.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn replace(&self, job: NewJob<'_>) -> Result<bool, Failure> {
        let (id, sealed) = self.seal(job)?;
        let row = row(job, &id, &sealed);
        let replaced = self.stored.replace(row, job.limit.into()).await?;
        self.wake();
        Ok(replaced)
    }

    /// Stores a job, unless a job with the same account, kind and key waits already. Ignores
    /// [`NewJob::limit`].
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn ensure(&self, job: NewJob<'_>) -> Result<(), Failure> {
        let (id, sealed) = self.seal(job)?;
        self.stored.ensure(row(job, &id, &sealed)).await?;
        self.wake();
        Ok(())
    }

    /// Works like [`Jobs::ensure`], and makes a job due that waits for its first or next attempt.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn ensure_due(&self, job: NewJob<'_>) -> Result<(), Failure> {
        // A job that runs at first can wait after this call.
        self.ensure(job).await?;
        let stored = &self.stored;
        stored
            .make_due(job.account, job.kind, job.key, job.due_at)
            .await?;
        self.wake();
        Ok(())
    }

    /// Ends the lease of a job that [`Jobs::ensure`] stored, until `next_at`. If
    /// [`Jobs::ensure_due`] was called since the lease began, the job runs again at once. The
    /// handler then returns [`Outcome::Done`](crate::Outcome::Done).
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn postpone(&self, job: &Job, next_at: Timestamp) -> Result<(), Failure> {
        if let Some(lease) = &job.lease {
            self.stored.postpone(lease, &job.account, next_at).await?;
        }
        Ok(())
    }

    /// Returns the jobs with a key, sorted by their due times. Omits a job whose payload cannot be
    /// decrypted.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn with_key(
        &self,
        account: &str,
        kind: &str,
        key: &str,
    ) -> Result<Vec<Job>, Failure> {
        let stored = self.stored.with_key(account, kind, key).await?;
        let jobs = stored.into_iter().filter_map(|job| self.open(None, job));
        Ok(jobs.collect())
    }

    /// Deletes the jobs with a key that are not running. Returns `false` if there are no such jobs.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn cancel(&self, account: &str, kind: &str, key: &str) -> Result<bool, Failure> {
        Ok(self.stored.cancel(account, kind, key).await?)
    }

    /// Wakes the runners of this host, which then read the due times again. The runners of other
    /// hosts read them every few seconds.
    pub fn wake(&self) {
        self.changed.send_replace(());
    }

    /// Decrypts the payload of a job. Returns `None` if no key of this host can decrypt it.
    pub(crate) fn open(&self, lease: Option<Lease>, job: StoredJob) -> Option<Job> {
        let payload = self
            .keys
            .open_bytes(Purpose::Job, &job.id, &job.sealed_payload);
        Some(Job {
            lease,
            due_at: job.due_at(),
            payload: payload?,
            kind: job.kind,
            key: job.key,
            account: job.account,
        })
    }

    fn seal(&self, job: NewJob<'_>) -> Result<(String, Vec<u8>), Failure> {
        let id = secrets::id()?;
        let sealed = self.keys.seal_bytes(Purpose::Job, &id, job.payload)?;
        Ok((id, sealed))
    }
}

fn row<'j>(job: NewJob<'j>, id: &'j str, sealed_payload: &'j [u8]) -> directory::NewJob<'j> {
    directory::NewJob {
        id,
        kind: job.kind,
        key: job.key,
        account: job.account,
        due_at: job.due_at,
        sealed_payload,
    }
}
