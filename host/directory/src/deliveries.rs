//! Messages that the service sent in the last 30 days, and the states of their deliveries. The
//! milter records the states that delivery reports have in the table that mail servers can write.
//!
//! A report names the envelope of a message by the hash of its secret id. So a mail daemon that can
//! write the table cannot change the state of a message whose id the daemon does not know. The
//! results contain only plausible values, because mail daemons can write any data to the file of
//! this table on SQLite. If the file cannot be read, there are no reports and a warning is logged.

mod bounces;

use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use sqlx::{Connection as _, SqliteConnection};

use crate::db::{Changed as _, Db, Error, LastLogins, LastLoginsFile};

pub use bounces::ProcessedBounces;

/// The time for which sent messages and reports are stored.
pub const RETENTION: Duration = Duration::from_hours(30 * 24);

/// Maximum number of sent messages of an account. The sweep deletes the oldest ones.
const MAX_MESSAGES: i64 = 20_000;

/// Time limits for reading rows from the SQLite file and for deleting rows. The limits are
/// necessary, because other programs write to the file.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time by which the milter's clock can be ahead of the service's clock.
const MAX_CLOCK_SKEW: Duration = Duration::from_mins(1);

/// Maximum number of reports that are read for one message.
const MAX_ROWS: i64 = 2000;

const BEGIN: &str = "INSERT INTO sent_messages \
    (account_id, message_id, envelope, sender, outcome, recipients, sent_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (account_id, message_id) DO UPDATE SET \
    envelope = EXCLUDED.envelope, sender = EXCLUDED.sender, outcome = EXCLUDED.outcome, \
    recipients = EXCLUDED.recipients, sent_at = EXCLUDED.sent_at";
const FIND: &str = "SELECT envelope, sender, outcome, recipients, sent_at FROM sent_messages \
    WHERE account_id = $1 AND message_id = $2 AND sent_at > $3";
const SET_OUTCOME: &str = "UPDATE sent_messages SET outcome = $3 \
    WHERE account_id = $1 AND message_id = $2";
const FORGET: &str = "DELETE FROM sent_messages WHERE account_id = $1 AND message_id = $2";
const SWEEP: &str = "DELETE FROM sent_messages WHERE sent_at <= $1";
const CROWDED: &str =
    "SELECT account_id FROM sent_messages GROUP BY account_id HAVING COUNT(*) > $1";
const SWEEP_ACCOUNT: &str = "DELETE FROM sent_messages WHERE account_id = $1 AND sent_at <= ( \
    SELECT sent_at FROM sent_messages WHERE account_id = $1 ORDER BY sent_at DESC LIMIT 1 OFFSET $2)";

const IN_FILE: &str = "SELECT recipient, state, substr(detail, 1, 500), reported_at \
    FROM mailserver_delivery_reports WHERE envelope = $1 AND typeof(recipient) = 'text' \
        AND length(recipient) <= 320 AND typeof(state) = 'integer' \
        AND typeof(reported_at) = 'integer' AND typeof(detail) IN ('text', 'null') LIMIT $2";
const IN_TABLE: &str = "SELECT recipient, state, substr(detail, 1, 500), reported_at \
    FROM mailserver_delivery_reports WHERE envelope = $1 LIMIT $2";
const SWEEP_REPORTS: &str =
    "DELETE FROM mailserver_delivery_reports WHERE reported_at NOT BETWEEN $1 AND $2";

/// A row of [`IN_FILE`] or [`IN_TABLE`].
type Row = (String, i64, Option<String>, i64);

/// The state of a delivery that a report has. A later state replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryState {
    /// A server tries again later.
    Delayed,
    /// Another server has accepted the message, and reports nothing further.
    Sent,
    /// The message is in the mailbox of the recipient.
    Delivered,
    /// The message was not delivered.
    Bounced,
}

impl DeliveryState {
    const ALL: [Self; 4] = [Self::Delayed, Self::Sent, Self::Delivered, Self::Bounced];

    /// Returns the number in the database.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Delayed => 1,
            Self::Sent => 2,
            Self::Delivered => 3,
            Self::Bounced => 4,
        }
    }
}

/// The state of one recipient in a delivery report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The address of the recipient in lower case.
    pub recipient: String,
    /// The state.
    pub state: DeliveryState,
    /// The reason of a delay or of a failure, at most 500 characters.
    pub detail: Option<String>,
    /// The time at which the report arrived, in whole seconds.
    pub at: Timestamp,
}

/// The outcome of passing a message to the mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// The mail server has accepted the message and reports its deliveries.
    Queued,
    /// The mail server has accepted the message and reports nothing.
    Unreported,
    /// It is unknown whether the mail server has accepted the message.
    Unknown,
}

impl Submission {
    const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Unreported => "unreported",
            Self::Unknown => "unknown",
        }
    }
}

/// A message that is about to be passed to the mail server.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'m> {
    /// The id of the account whose mailbox sends the message.
    pub account: &'m str,
    /// The Message-ID with angle brackets.
    pub message_id: &'m str,
    /// The hash of the envelope id.
    pub envelope: &'m str,
    /// The id of the account that sends the message: the mailbox's own account, or a member's.
    pub sender: &'m str,
    /// The outcome if the mail server accepts the message.
    pub submission: Submission,
    /// The addresses of the recipients.
    pub recipients: &'m [String],
}

/// A message that was passed to the mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentMessage {
    /// The id of the account that sent the message.
    pub sender: String,
    /// The outcome at the mail server.
    pub submission: Submission,
    /// The addresses of the recipients.
    pub recipients: Vec<String>,
    /// The time of the submission.
    pub sent_at: Timestamp,
    /// The states that delivery reports have.
    pub reports: Vec<DeliveryReport>,
}

/// The repository of sent messages.
#[derive(Clone, Debug)]
pub struct Deliveries {
    pub(crate) db: Db,
    pub(crate) reports: LastLogins,
}

impl Deliveries {
    /// Records a message before it is passed to the mail server, because a report can arrive before
    /// the mail server has responded. Replaces the record of an earlier attempt to send the
    /// message.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn begin(&self, message: NewMessage<'_>, now: Timestamp) -> Result<(), Error> {
        let recipients = serde_json::Value::from(message.recipients).to_string();
        let row = (
            message.account,
            message.message_id,
            message.envelope,
            message.sender,
            message.submission.name(),
            recipients,
            now,
        );
        self.db.execute(BEGIN, row).await?;
        Ok(())
    }

    /// Records the outcome at the mail server, if it is not the outcome of [`Deliveries::begin`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_submission(
        &self,
        account: &str,
        message_id: &str,
        submission: Submission,
    ) -> Result<(), Error> {
        let parameters = (account, message_id, submission.name());
        self.db.execute(SET_OUTCOME, parameters).await?;
        Ok(())
    }

    /// Deletes the record of a message that was not sent.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn forget(&self, account: &str, message_id: &str) -> Result<(), Error> {
        self.db.execute(FORGET, (account, message_id)).await?;
        Ok(())
    }

    /// Returns a message of an account. Returns `None` if the account sent no such message in the
    /// last 30 days.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(
        &self,
        account: &str,
        message_id: &str,
        now: Timestamp,
    ) -> Result<Option<SentMessage>, Error> {
        let oldest = now.minus(RETENTION);
        let row: Option<(String, String, String, String, i64)> = self
            .db
            .optional(FIND, (account, message_id, oldest))
            .await?;
        let Some((envelope, sender, outcome, recipients, sent_at)) = row else {
            return Ok(None);
        };
        let submissions = [Submission::Queued, Submission::Unreported];
        let submission = submissions.into_iter().find(|one| one.name() == outcome);
        Ok(Some(SentMessage {
            sender,
            submission: submission.unwrap_or(Submission::Unknown),
            recipients: serde_json::from_str(&recipients).unwrap_or_default(),
            sent_at: Timestamp::from_millis(sent_at),
            reports: self.reports(&envelope).await?,
        }))
    }

    async fn reports(&self, envelope: &str) -> Result<Vec<DeliveryReport>, Error> {
        let rows: Vec<Row> = match &self.reports {
            LastLogins::File(file) => in_file(file, envelope).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "failed to read the delivery reports of a message");
                Vec::new()
            }),
            LastLogins::Table(pool) => {
                let rows = sqlx::query_as(IN_TABLE).bind(envelope).bind(MAX_ROWS);
                rows.fetch_all(pool).await?
            }
        };
        // The milter has the clock of the system.
        let now = Clock::system().now();
        let report = |(recipient, number, detail, seconds): Row| {
            let state = DeliveryState::ALL.into_iter();
            let at = Timestamp::from_millis(seconds.checked_mul(1000)?);
            Some(DeliveryReport {
                recipient,
                state: state.into_iter().find(|one| one.number() == number)?,
                detail: detail.map(|text| printable(&text)),
                at: (at <= now.plus(MAX_CLOCK_SKEW)).then(|| at.min(now))?,
            })
        };
        Ok(rows.into_iter().filter_map(report).collect())
    }

    /// Deletes messages and reports that are older than [`RETENTION`], and the oldest messages of
    /// accounts with more than [`MAX_MESSAGES`].
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        let oldest = now.minus(RETENTION);
        self.db.execute(SWEEP, [oldest]).await?;
        let crowded: Vec<String> = self.db.values(CROWDED, [MAX_MESSAGES]).await?;
        for account in crowded {
            self.db
                .execute(SWEEP_ACCOUNT, (&account, MAX_MESSAGES))
                .await?;
        }
        let newest = Clock::system().now().max(now).plus(MAX_CLOCK_SKEW);
        let kept = (oldest.seconds(), newest.seconds());
        match &self.reports {
            LastLogins::File(file) => {
                if let Err(error) = sweep_file(file, kept).await {
                    tracing::warn!(%error, "failed to delete old delivery reports");
                }
            }
            LastLogins::Table(pool) => {
                let sweep = sqlx::query(SWEEP_REPORTS).bind(kept.0).bind(kept.1);
                sweep.execute(pool).await.changed()?;
            }
        }
        Ok(())
    }
}

/// Replaces control characters, because mail daemons can write any text.
fn printable(text: &str) -> String {
    let one = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(one).collect()
}

async fn in_file(file: &LastLoginsFile, envelope: &str) -> Result<Vec<Row>, Error> {
    let mut connection: SqliteConnection = file.open_to_read(READ_TIMEOUT).await?;
    let rows = sqlx::query_as(IN_FILE)
        .bind(envelope)
        .bind(MAX_ROWS)
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    Ok(rows)
}

async fn sweep_file(file: &LastLoginsFile, kept: (i64, i64)) -> Result<(), Error> {
    let mut connection: SqliteConnection = file.open_writable(DELETE_TIMEOUT).await?;
    sqlx::query(SWEEP_REPORTS)
        .bind(kept.0)
        .bind(kept.1)
        .execute(&mut connection)
        .await?;
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailserver::MailServerView;
    use crate::testing::{Fresh, both};

    /// Returns a time before now in whole seconds, because the milter has the clock of the system.
    fn start() -> Timestamp {
        let seconds = Clock::system().now().seconds() - 1000;
        Timestamp::from_millis(seconds * 1000)
    }

    fn message<'m>(account: &'m str, recipients: &'m [String]) -> NewMessage<'m> {
        NewMessage {
            account,
            message_id: "<1@x>",
            envelope: "hash",
            sender: account,
            submission: Submission::Queued,
            recipients,
        }
    }

    fn report(recipient: &str, state: DeliveryState, at: Timestamp) -> DeliveryReport {
        DeliveryReport {
            recipient: recipient.into(),
            state,
            detail: (state == DeliveryState::Bounced).then(|| "550 no".into()),
            at,
        }
    }

    async fn a_later_state_replaces_an_earlier_one(fresh: Fresh) {
        use DeliveryState::{Bounced, Delayed, Delivered, Sent};
        let (directory, deliveries) = (&fresh.directory, &fresh.directory.deliveries);
        directory.with("a", "ada@example.org", &[]).await;
        directory.with("b", "bob@example.org", &[]).await;
        let start = start();
        let at = |seconds| start.plus(Duration::from_secs(seconds));
        let recipients = ["eve@x.test".to_owned(), "fay@x.test".to_owned()];
        let begun = deliveries.begin(message("a", &recipients), start).await;
        begun.unwrap();
        let view = MailServerView::new(&fresh.config).unwrap();
        for reports in [
            vec![
                report("eve@x.test", Delivered, at(2)),
                report("fay@x.test", Delayed, at(1)),
            ],
            vec![
                report("eve@x.test", Sent, at(3)),
                report("fay@x.test", Delayed, at(4)),
            ],
            vec![report("fay@x.test", Bounced, at(5))],
        ] {
            view.add_delivery_reports("hash", &reports).await.unwrap();
        }
        let other = [report("eve@x.test", Bounced, at(6))];
        view.add_delivery_reports("other", &other).await.unwrap();
        let later = start.plus(Duration::from_mins(1));
        let mut found = deliveries.find("a", "<1@x>", later).await.unwrap().unwrap();
        found.reports.sort_by(|a, b| a.recipient.cmp(&b.recipient));
        assert_eq!(found.submission, Submission::Queued);
        assert_eq!(found.recipients, recipients);
        let expected = [
            report("eve@x.test", Delivered, at(2)),
            report("fay@x.test", Bounced, at(5)),
        ];
        assert_eq!(found.reports, expected);
        assert_eq!(deliveries.find("b", "<1@x>", later).await.unwrap(), None);
        assert_eq!(deliveries.find("a", "<2@x>", later).await.unwrap(), None);
    }

    async fn concurrent_reports_are_all_recorded(fresh: Fresh) {
        let deliveries = &fresh.directory.deliveries;
        let view = MailServerView::new(&fresh.config).unwrap();
        let reports = [report("eve@x.test", DeliveryState::Sent, start())];
        let envelopes: Vec<String> = (0..100).map(|number| format!("hash{number}")).collect();
        let added = envelopes
            .iter()
            .map(|envelope| view.add_delivery_reports(envelope, &reports));
        for added in futures_util::future::join_all(added).await {
            added.unwrap();
        }
        for envelope in &envelopes {
            assert_eq!(deliveries.reports(envelope).await.unwrap(), reports);
        }
    }

    async fn messages_and_reports_are_deleted_after_30_days(fresh: Fresh) {
        let (directory, deliveries) = (&fresh.directory, &fresh.directory.deliveries);
        directory.with("a", "ada@example.org", &[]).await;
        let start = start();
        let recipients = ["eve@x.test".to_owned()];
        deliveries
            .begin(message("a", &recipients), start)
            .await
            .unwrap();
        let set = deliveries.set_submission("a", "<1@x>", Submission::Unknown);
        set.await.unwrap();
        let view = MailServerView::new(&fresh.config).unwrap();
        let reports = [report("eve@x.test", DeliveryState::Sent, start)];
        view.add_delivery_reports("hash", &reports).await.unwrap();
        let last = start.plus(RETENTION.checked_sub(Duration::from_secs(1)).unwrap());
        directory.sweep(last).await.unwrap();
        let found = deliveries.find("a", "<1@x>", last).await.unwrap().unwrap();
        assert_eq!(found.submission, Submission::Unknown);
        assert_eq!(found.reports.len(), 1);
        let over = start.plus(RETENTION + Duration::from_secs(1));
        assert_eq!(deliveries.find("a", "<1@x>", over).await.unwrap(), None);
        directory.sweep(over).await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM sent_messages").await, 0);
        assert!(deliveries.reports("hash").await.unwrap().is_empty());
    }

    async fn a_message_that_was_not_sent_is_forgotten(fresh: Fresh) {
        let (deliveries, start) = (&fresh.directory.deliveries, start());
        fresh.directory.with("a", "ada@example.org", &[]).await;
        deliveries.begin(message("a", &[]), start).await.unwrap();
        deliveries.begin(message("a", &[]), start).await.unwrap();
        deliveries.forget("a", "<1@x>").await.unwrap();
        assert_eq!(deliveries.find("a", "<1@x>", start).await.unwrap(), None);
    }

    both!(
        a_later_state_replaces_an_earlier_one,
        concurrent_reports_are_all_recorded,
        messages_and_reports_are_deleted_after_30_days,
        a_message_that_was_not_sent_is_forgotten,
    );
}
