//! Adds failed deliveries to the change logs of mailboxes. The milter only records the reports,
//! because the milter's role can write no other table.

use std::collections::HashSet;
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::event_type::EventType;
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};

use super::{Deliveries, DeliveryState, MAX_CLOCK_SKEW, READ_TIMEOUT, printable};
use crate::db::{Error, LastLogins, LastLoginsFile};
use crate::message_index::{NewEvent, append_event};

/// The time for which a report is looked up again. A service that was stopped for longer does not
/// add the reports of that time to the change log.
const RECENT: Duration = Duration::from_hours(1);
/// Maximum number of reports in one search.
const MAX_ROWS: i64 = 2000;

/// `typeof` omits the values of other types that mail daemons can write.
const IN_FILE: &str = "SELECT envelope, recipient, substr(detail, 1, 500), reported_at FROM mailserver_delivery_reports \
    WHERE state = $1 AND reported_at BETWEEN $2 AND $3 AND typeof(envelope) = 'text' \
    AND length(envelope) <= 100 AND typeof(recipient) = 'text' AND length(recipient) <= 320 AND typeof(detail) IN ('text', 'null') AND typeof(reported_at) = 'integer' \
    ORDER BY reported_at DESC LIMIT $4";
const IN_TABLE: &str = "SELECT envelope, recipient, substr(detail, 1, 500), reported_at FROM mailserver_delivery_reports \
    WHERE state = $1 AND reported_at BETWEEN $2 AND $3 ORDER BY reported_at DESC LIMIT $4";
const MESSAGE: &str =
    "SELECT account_id, message_id, recipients FROM sent_messages WHERE envelope = $1";

/// A row of [`IN_FILE`] or [`IN_TABLE`].
type Row = (String, String, Option<String>, i64);

/// The failed deliveries that were processed.
#[derive(Debug, Default)]
pub struct ProcessedBounces(HashSet<(String, String)>);

impl Deliveries {
    /// Adds the failed deliveries of the last hour to the change logs of the senders' mailboxes,
    /// each delivery once.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The next call adds the remaining deliveries.
    pub async fn log_bounces(&self, processed: &mut ProcessedBounces) -> Result<(), Error> {
        // The milter has the clock of the system.
        let now = Clock::system().now();
        let range = (now.minus(RECENT), now.plus(MAX_CLOCK_SKEW));
        let rows: Vec<Row> = match &self.reports {
            LastLogins::File(file) => in_file(file, range).await?,
            LastLogins::Table(pool) => {
                sqlx::query_as(IN_TABLE)
                    .bind(DeliveryState::Bounced.number())
                    .bind(range.0.seconds())
                    .bind(range.1.seconds())
                    .bind(MAX_ROWS)
                    .fetch_all(pool)
                    .await?
            }
        };
        let mut current = HashSet::with_capacity(rows.len());
        for (envelope, recipient, detail, seconds) in rows {
            let key = (envelope, recipient);
            if !processed.0.contains(&key) {
                self.log_bounce(&key, detail.as_deref(), seconds).await?;
            }
            current.insert(key);
        }
        processed.0 = current;
        Ok(())
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
    (from, to): (Timestamp, Timestamp),
) -> Result<Vec<Row>, Error> {
    let mut connection: SqliteConnection = file.open_to_read(READ_TIMEOUT).await?;
    let rows = sqlx::query_as(IN_FILE)
        .bind(DeliveryState::Bounced.number())
        .bind(from.seconds())
        .bind(to.seconds())
        .bind(MAX_ROWS)
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    Ok(rows)
}
