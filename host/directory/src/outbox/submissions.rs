//! The submissions that the milter accepted. If a host was killed while it submitted a message,
//! another host learns here whether the mail server has the message.
//!
//! On SQLite, mail daemons can write any data to the file of this table. A wrong row only changes
//! the state that an entry gets.

use std::time::Duration;

use latchmail_core::clock::Clock;
use sqlx::Connection as _;

use super::{Outbox, RETENTION};
use crate::db::{Changed as _, Error, LastLogins};

/// Time limits for reading from the SQLite file and for deleting rows.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

const FIND: &str = "SELECT COUNT(*) FROM mailserver_submissions WHERE id = $1";
const ANY: &str = "SELECT COUNT(*) FROM (SELECT 1 FROM mailserver_submissions LIMIT 1) one";
const SWEEP: &str = "DELETE FROM mailserver_submissions WHERE accepted_at <= $1";

/// The milter's record of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The milter accepted the submission.
    Accepted,
    /// The milter did not accept the submission. It has accepted others.
    NotAccepted,
    /// The milter has accepted no submission yet, so it may not be in use.
    NoRecords,
}

impl Outbox {
    /// Returns the milter's record of a submission.
    ///
    /// # Errors
    /// Returns [`Error`] if the database or the file fails.
    pub async fn submission(&self, id: &str) -> Result<Submission, Error> {
        let (found, any): (i64, i64) = match &self.submissions {
            LastLogins::File(file) => {
                let mut connection = file.open_to_read(READ_TIMEOUT).await?;
                let found = sqlx::query_scalar(FIND).bind(id);
                let found = found.fetch_one(&mut connection).await?;
                let any = sqlx::query_scalar(ANY).fetch_one(&mut connection).await?;
                connection.close().await?;
                (found, any)
            }
            LastLogins::Table(_) => (
                self.db.value(FIND, [id]).await?,
                self.db.value(ANY, ()).await?,
            ),
        };
        Ok(match (found, any) {
            (0, 0) => Submission::NoRecords,
            (0, _) => Submission::NotAccepted,
            _ => Submission::Accepted,
        })
    }

    /// Deletes records that no entry needs any longer. Twice the retention of entries, because the
    /// clock of the mail server can differ.
    pub(super) async fn sweep_submissions(&self) -> Result<(), Error> {
        let over = Clock::system().now().minus(RETENTION * 2).seconds();
        match &self.submissions {
            LastLogins::File(file) => {
                let swept = async {
                    let mut connection = file.open_writable(DELETE_TIMEOUT).await?;
                    let sweep = sqlx::query(SWEEP).bind(over);
                    sweep.execute(&mut connection).await?;
                    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
                    connection.close().await?;
                    Ok::<_, Error>(())
                };
                if let Err(error) = swept.await {
                    tracing::warn!(%error, "failed to delete old records of submissions");
                }
            }
            LastLogins::Table(pool) => {
                sqlx::query(SWEEP)
                    .bind(over)
                    .execute(pool)
                    .await
                    .changed()?;
            }
        }
        Ok(())
    }
}
