//! The milter's writes to the SQLite file for the records of mail servers. Callers that wait are
//! served together, with one connection, one transaction and one fsync.
//!
//! Postfix checks new messages and reports deliveries through many connections to the milter. If
//! each of them opened and locked the file, they would wait for each other with growing pauses, and
//! some of them would fail.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sqlx::Connection as _;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{
    ADD_REPORT, ADD_SENT_MAIL, ADD_SUBMISSION, FILE_SIZE, MAX_FILE, MAX_REPORTED, WRITE_TIMEOUT,
};
use crate::db::{Error, LastLoginsFile};
use crate::deliveries::DeliveryReport;
use crate::policies::SentRecord;

/// Maximum number of writes in one transaction.
const MAX_GROUP: usize = 64;

/// A write to the file.
#[derive(Debug)]
pub(super) enum Write {
    /// Records a submission. Changes no row if the submission is recorded already.
    Submission {
        id: String,
        /// In seconds since the Unix epoch.
        accepted_at: i64,
    },
    /// Records the states of deliveries. Changes no row if the file is full.
    Reports {
        envelope: String,
        reports: Vec<DeliveryReport>,
    },
    /// Records a sent message. Changes no row if the message is recorded already or the file is
    /// full.
    SentMail {
        login: String,
        record: SentRecord,
        /// In seconds since the Unix epoch.
        sent_at: i64,
    },
}

/// A write, and its caller. The result is the number of changed rows, or the reason of a failure.
#[derive(Debug)]
struct Waiting {
    write: Write,
    done: oneshot::Sender<Result<u64, String>>,
}

/// The writes that wait.
#[derive(Debug, Default)]
pub(super) struct Writes {
    waiting: Mutex<Vec<Waiting>>,
    /// The caller that has this lock writes for the others.
    turn: tokio::sync::Mutex<()>,
}

impl Writes {
    /// Writes to the file, together with other callers. Returns the number of changed rows. The
    /// change is on the disk when this function returns.
    ///
    /// # Errors
    /// Returns [`Error`] if the file cannot be written. Nothing is changed in that case.
    pub(super) async fn write(&self, file: &Path, write: Write) -> Result<u64, Error> {
        let (done, mut outcome) = oneshot::channel();
        self.waiting().push(Waiting { write, done });
        let _turn = self.turn.lock().await;
        loop {
            // Another caller may have done this write.
            match outcome.try_recv() {
                Ok(changed) => return changed.map_err(Error::Unusable),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Closed) => {
                    return Err(Error::Unusable("a write was interrupted".into()));
                }
            }
            let group = self.take_group();
            let written = write_group(file, &group).await;
            let failed = written.as_ref().err().map(ToString::to_string);
            let changed = written.unwrap_or_default();
            for (index, one) in group.into_iter().enumerate() {
                let changed = changed.get(index).copied().unwrap_or_default();
                let result = failed.clone().map_or(Ok(changed), Err);
                // The caller may have been dropped.
                let _ = one.done.send(result);
            }
        }
    }

    /// Takes the next writes, without those of callers that were dropped: the mail server will
    /// repeat these messages.
    fn take_group(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        let count = waiting.len().min(MAX_GROUP);
        let group = waiting.drain(..count);
        group.filter(|one| !one.done.is_closed()).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does all writes in one transaction. Returns the number of changed rows of each write.
async fn write_group(file: &Path, group: &[Waiting]) -> Result<Vec<u64>, Error> {
    let mut connection = LastLoginsFile::open_for_milter(file, WRITE_TIMEOUT).await?;
    let size: i64 = sqlx::query_scalar(FILE_SIZE)
        .fetch_one(&mut connection)
        .await?;
    let mut changed = Vec::with_capacity(group.len());
    for one in group {
        let mut rows = 0;
        match &one.write {
            Write::Submission { id, accepted_at } => {
                let add = sqlx::query(ADD_SUBMISSION).bind(id).bind(accepted_at);
                rows += add.execute(&mut connection).await?.rows_affected();
            }
            Write::Reports { .. } if size > MAX_FILE => {
                tracing::warn!(
                    size,
                    "discarded a delivery report, because the file is full"
                );
            }
            Write::SentMail { .. } if size > MAX_FILE => {
                tracing::warn!(
                    size,
                    "discarded a record of sent mail, because the file is full"
                );
            }
            Write::SentMail {
                login,
                record,
                sent_at,
            } => {
                let add = add_sent_mail!(login, record, sent_at);
                rows += add.execute(&mut connection).await?.rows_affected();
            }
            Write::Reports { envelope, reports } => {
                for report in reports {
                    let add = add_report!(envelope, report);
                    rows += add.execute(&mut connection).await?.rows_affected();
                }
            }
        }
        changed.push(rows);
    }
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    // The changes are on the disk. An error here would make the mail server repeat a submission,
    // which would then be discarded as a repetition.
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "failed to close the file for the records of mail servers");
    }
    Ok(changed)
}
