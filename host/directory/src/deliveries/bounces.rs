//! Adds failed deliveries to the change logs of mailboxes. The milter only records the reports,
//! because the milter's role can write no other table.

use std::collections::HashMap;
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::event_type::EventType;
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};

use super::{Deliveries, DeliveryState, MAX_CLOCK_SKEW, READ_TIMEOUT, printable};
use crate::db::{Error, LastLogins, LastLoginsFile};
use crate::message_index::{NewEvent, append_event};

/// The age of the oldest reports that are read after a start. A service that was stopped for longer
/// does not add the reports of that time to the change log.
const RECENT: Duration = Duration::from_hours(1);
/// Maximum time after which a report becomes visible. The clock of a mail server can be slow, and a
/// report is visible when its transaction ends.
const MAX_DELAY: Duration = Duration::from_mins(5);
/// Maximum number of reports that are read at a time.
const PAGE: i64 = 2000;

/// `typeof` omits the values of other types that mail daemons can write.
const IN_FILE: &str = "SELECT envelope, recipient, substr(detail, 1, 500), reported_at \
    FROM mailserver_delivery_reports WHERE state = $1 AND reported_at BETWEEN $2 AND $3 \
    AND (reported_at, envelope, recipient) > ($2, $4, $5) AND typeof(envelope) = 'text' \
    AND length(envelope) <= 100 AND typeof(recipient) = 'text' AND length(recipient) <= 320 \
    AND typeof(detail) IN ('text', 'null') AND typeof(reported_at) = 'integer' \
    ORDER BY reported_at, envelope, recipient LIMIT $6";
const IN_TABLE: &str = "SELECT envelope, recipient, substr(detail, 1, 500), reported_at \
    FROM mailserver_delivery_reports WHERE state = $1 AND reported_at BETWEEN $2 AND $3 \
    AND (reported_at, envelope, recipient) > ($2, $4, $5) \
    ORDER BY reported_at, envelope, recipient LIMIT $6";
const MESSAGE: &str =
    "SELECT account_id, message_id, recipients FROM sent_messages WHERE envelope = $1";

/// A row of [`IN_FILE`] or [`IN_TABLE`].
type Row = (String, String, Option<String>, i64);

/// The failed deliveries that were processed.
#[derive(Debug, Default)]
pub struct ProcessedBounces {
    /// The position after which reports are read. `None` after a start.
    position: Option<Position>,
    /// The envelopes, recipients and times of the processed reports that are read again.
    processed: HashMap<(String, String), i64>,
}

/// The position of a report in the order in which reports are read.
#[derive(Debug)]
struct Position {
    seconds: i64,
    envelope: String,
    recipient: String,
}

impl Position {
    /// Returns the position before all reports of this time.
    fn at(time: Timestamp) -> Self {
        Self {
            seconds: time.seconds(),
            envelope: String::new(),
            recipient: String::new(),
        }
    }
}

impl Deliveries {
    /// Adds failed deliveries to the change logs of the senders' mailboxes, each delivery once. The
    /// first call begins with the deliveries of the last hour.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The next call adds the remaining deliveries.
    pub async fn log_bounces(&self, state: &mut ProcessedBounces) -> Result<(), Error> {
        // The milter has the clock of the system.
        let now = Clock::system().now();
        let newest = now.plus(MAX_CLOCK_SKEW);
        loop {
            let first = || Position::at(now.minus(RECENT));
            let position = state.position.get_or_insert_with(first);
            let rows = self.bounces_after(position, newest).await?;
            if rows.is_empty() {
                break;
            }
            for (envelope, recipient, detail, seconds) in rows {
                let key = (envelope, recipient);
                if !state.processed.contains_key(&key) {
                    self.log_bounce(&key, detail.as_deref(), seconds).await?;
                }
                state.position = Some(Position {
                    seconds,
                    envelope: key.0.clone(),
                    recipient: key.1.clone(),
                });
                state.processed.insert(key, seconds);
            }
        }
        // The next call reads the reports that became visible late.
        let next = Position::at(now.minus(MAX_DELAY));
        state
            .processed
            .retain(|_, seconds| *seconds >= next.seconds);
        state.position = Some(next);
        Ok(())
    }

    async fn bounces_after(
        &self,
        position: &Position,
        newest: Timestamp,
    ) -> Result<Vec<Row>, Error> {
        match &self.reports {
            LastLogins::File(file) => in_file(file, position, newest).await,
            LastLogins::Table(pool) => Ok(sqlx::query_as(IN_TABLE)
                .bind(DeliveryState::Bounced.number())
                .bind(position.seconds)
                .bind(newest.seconds())
                .bind(&position.envelope)
                .bind(&position.recipient)
                .bind(PAGE)
                .fetch_all(pool)
                .await?),
        }
    }

    async fn log_bounce(
        &self,
        (envelope, recipient): &(String, String),
        detail: Option<&str>,
        seconds: i64,
    ) -> Result<(), Error> {
        let message: Option<(String, String, String)> =
            self.db.optional(MESSAGE, [envelope]).await?;
        let Some((account, message_id, recipients)) = message else {
            return Ok(());
        };
        let recipients: Vec<String> = serde_json::from_str(&recipients).unwrap_or_default();
        let is_recipient = |address: &&String| address.to_lowercase() == *recipient;
        // A mail daemon can write any address.
        let Some(address) = recipients.iter().find(is_recipient) else {
            return Ok(());
        };
        let at = Timestamp::from_millis(seconds.saturating_mul(1000));
        let data = json!({
            "messageId": message_id,
            "address": address,
            "status": "bounced",
            "detail": detail.map(printable),
            "at": at.to_string(),
        });
        let key = format!("bounced {envelope} {recipient}");
        let event = NewEvent {
            kind: EventType::DeliveryBounced,
            data: &data,
            key: Some(&key),
        };
        let mut tx = self.db.begin_locked(&account).await?;
        append_event(&mut tx, &account, event).await?;
        tx.commit().await
    }
}

async fn in_file(
    file: &LastLoginsFile,
    position: &Position,
    newest: Timestamp,
) -> Result<Vec<Row>, Error> {
    let mut connection: SqliteConnection = file.open_to_read(READ_TIMEOUT).await?;
    let rows = sqlx::query_as(IN_FILE)
        .bind(DeliveryState::Bounced.number())
        .bind(position.seconds)
        .bind(newest.seconds())
        .bind(&position.envelope)
        .bind(&position.recipient)
        .bind(PAGE)
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliveries::{DeliveryReport, NewMessage, Submission};
    use crate::mailserver::MailServerView;
    use crate::testing::{Fresh, both};

    const EVENTS: &str = "SELECT COUNT(*) FROM mailbox_events";

    fn bounced(recipient: &str, at: Timestamp) -> DeliveryReport {
        DeliveryReport {
            recipient: recipient.into(),
            state: DeliveryState::Bounced,
            detail: Some("550 no".into()),
            at,
        }
    }

    async fn every_failed_delivery_is_an_event_once(fresh: Fresh) {
        let (directory, deliveries) = (&fresh.directory, &fresh.directory.deliveries);
        directory.with("a", "ada@example.org", &[]).await;
        fresh.execute("UPDATE mailboxes SET version = 0").await;
        let now = Clock::system().now();
        let recipients = ["eve@x.test".to_owned(), "fay@x.test".to_owned()];
        let message = NewMessage {
            account: "a",
            message_id: "<1@x>",
            envelope: "hash",
            sender: "a",
            submission: Submission::Queued,
            recipients: &recipients,
        };
        deliveries.begin(message, now).await.unwrap();
        let view = MailServerView::new(&fresh.config).unwrap();
        // The report is older than one page of reports about other messages.
        let old = [bounced("eve@x.test", now.minus(MAX_DELAY * 2))];
        view.add_delivery_reports("hash", &old).await.unwrap();
        let others = (0..PAGE).map(|number| bounced(&format!("{number}@x.test"), now));
        let others: Vec<_> = others.collect();
        view.add_delivery_reports("others", &others).await.unwrap();
        let mut state = ProcessedBounces::default();
        deliveries.log_bounces(&mut state).await.unwrap();
        assert_eq!(fresh.number(EVENTS).await, 1);
        // A report can become visible after a later one.
        let late = [bounced("fay@x.test", now.minus(MAX_DELAY / 2))];
        view.add_delivery_reports("hash", &late).await.unwrap();
        for _ in 0..2 {
            deliveries.log_bounces(&mut state).await.unwrap();
            assert_eq!(fresh.number(EVENTS).await, 2);
        }
    }

    both!(every_failed_delivery_is_an_event_once);
}
