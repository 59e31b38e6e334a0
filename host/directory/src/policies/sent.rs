//! The record of provenance: which messages left an account, who sent them, to whom, and which
//! messages they answer. A policy allows mail to the people to whom a person wrote in a thread.
//!
//! The service records the messages that it submits, before it submits them. `latchmail milter`
//! records every submission, also of mail clients. A message that a grant sent has a record of the
//! service, which takes precedence over that of the milter. So mail of a grant never counts as mail
//! of a person.
//!
//! On SQLite, the milter writes to a separate file, to which mail daemons can write any data. A
//! wrong row can let a grant write to an address, but a daemon that can write the file can also
//! read and send the mail of all accounts.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::policy::person;
use sqlx::Connection as _;

use super::Policies;
use crate::db::{Changed as _, Error, LastLogins, LastLoginsFile};

/// The time for which a record is kept.
const RETENTION: Duration = Duration::from_hours(400 * 24);
/// Maximum number of records of an account. The sweep deletes the oldest ones.
const MAX_RECORDS: i64 = 50_000;
/// Maximum numbers of people and of ancestors in a record, and of messages in a thread.
const MAX_PEOPLE: usize = 500;
const MAX_ANCESTORS: usize = 100;
/// Maximum length of a Message-ID, in bytes.
const MAX_MESSAGE_ID: usize = 998;
/// Maximum number of rows that one query returns.
const MAX_ROWS: i64 = 1000;
/// Number of rows of the file that one transaction moves.
const BATCH: i64 = 200;
/// Time limits for the SQLite file.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);

const RECORD: &str = "INSERT INTO sent_records \
    (account_id, message_id, by_person, in_reply_to, ancestors, people, sent_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (account_id, message_id) DO NOTHING";
/// The log-in name of an account at the mail server.
const LOGIN: &str = "SELECT COALESCE(login_name, address) FROM accounts WHERE id = $1";
/// Finds the records of messages in the list $2, and of messages that answer one in the list.
const FIND: [&str; 2] = [
    "SELECT message_id, by_person, in_reply_to, ancestors, people FROM sent_records \
        WHERE account_id = $1 AND (message_id IN (SELECT value FROM json_each($2)) \
            OR in_reply_to IN (SELECT value FROM json_each($2))) LIMIT $3",
    "SELECT message_id, by_person, in_reply_to, ancestors, people FROM sent_records \
        WHERE account_id = $1 AND (message_id IN (SELECT jsonb_array_elements_text($2::jsonb)) \
            OR in_reply_to IN (SELECT jsonb_array_elements_text($2::jsonb))) LIMIT $3",
];
/// Finds the records of the messages in the list $2, of which each has at most one.
const FIND_MESSAGES: [&str; 2] = [
    "SELECT message_id, by_person, in_reply_to, ancestors, people FROM sent_records \
        WHERE account_id = $1 AND message_id IN (SELECT value FROM json_each($2))",
    "SELECT message_id, by_person, in_reply_to, ancestors, people FROM sent_records \
        WHERE account_id = $1 AND message_id IN (SELECT jsonb_array_elements_text($2::jsonb))",
];
/// Finds the records of the milter in the same way as [`FIND`].
const FIND_IN_FILE: &str = "SELECT message_id, TRUE, in_reply_to, ancestors, people \
    FROM mailserver_sent_mail WHERE login = $1 AND typeof(message_id) = 'text' \
        AND typeof(in_reply_to) IN ('text', 'null') \
        AND typeof(ancestors) = 'text' AND length(ancestors) <= 200000 \
        AND typeof(people) = 'text' AND length(people) <= 200000 \
        AND (message_id IN (SELECT value FROM json_each($2)) \
            OR in_reply_to IN (SELECT value FROM json_each($2))) LIMIT $3";
const FIND_IN_TABLE: &str = "SELECT message_id, TRUE, in_reply_to, ancestors, people \
    FROM mailserver_sent_mail WHERE login = $1 \
        AND (message_id IN (SELECT jsonb_array_elements_text($2::jsonb)) \
            OR in_reply_to IN (SELECT jsonb_array_elements_text($2::jsonb))) LIMIT $3";
const NEXT_IN_FILE: &str = "SELECT login, message_id, in_reply_to, ancestors, people, sent_at \
    FROM mailserver_sent_mail WHERE typeof(login) = 'text' AND typeof(message_id) = 'text' \
        AND typeof(in_reply_to) IN ('text', 'null') \
        AND typeof(ancestors) = 'text' AND length(ancestors) <= 200000 \
        AND typeof(people) = 'text' AND length(people) <= 200000 \
        AND typeof(sent_at) = 'integer' LIMIT $1";
const DELETE_IN_FILE: &str =
    "DELETE FROM mailserver_sent_mail WHERE login = $1 AND message_id = $2";
/// Deletes rows that no milter wrote.
const CLEAN_FILE: &str = "DELETE FROM mailserver_sent_mail WHERE typeof(login) <> 'text' \
    OR typeof(message_id) <> 'text' OR typeof(in_reply_to) NOT IN ('text', 'null') \
    OR typeof(ancestors) <> 'text' OR length(ancestors) > 200000 \
    OR typeof(people) <> 'text' OR length(people) > 200000 OR typeof(sent_at) <> 'integer'";
/// Moves a row of the file to the records.
const MOVE_ROW: &str = "INSERT INTO sent_records \
    (account_id, message_id, by_person, in_reply_to, ancestors, people, sent_at) \
    SELECT id, $2, TRUE, $3, $4, $5, $6 FROM accounts WHERE COALESCE(login_name, address) = $1 \
    ON CONFLICT (account_id, message_id) DO NOTHING";
const MOVE_TABLE: &str = "WITH moved AS (DELETE FROM mailserver_sent_mail RETURNING *) \
    INSERT INTO sent_records \
        (account_id, message_id, by_person, in_reply_to, ancestors, people, sent_at) \
    SELECT a.id, m.message_id, TRUE, m.in_reply_to, m.ancestors, m.people, m.sent_at * 1000 \
    FROM moved m JOIN accounts a ON COALESCE(a.login_name, a.address) = m.login \
    ON CONFLICT (account_id, message_id) DO NOTHING";
const SWEEP: &str = "DELETE FROM sent_records WHERE sent_at <= $1";
const CROWDED: &str =
    "SELECT account_id FROM sent_records GROUP BY account_id HAVING COUNT(*) > $1";
const SWEEP_ACCOUNT: &str = "DELETE FROM sent_records WHERE account_id = $1 AND sent_at <= ( \
    SELECT sent_at FROM sent_records WHERE account_id = $1 ORDER BY sent_at DESC LIMIT 1 OFFSET $2)";

/// A message that left an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRecord {
    /// The Message-ID with angle brackets.
    message_id: String,
    /// The Message-ID of the message that this message answers.
    in_reply_to: Option<String>,
    /// The Message-IDs in References, as JSON.
    ancestors: String,
    /// The recipients in To and Cc in the form of [`person`], as JSON.
    people: String,
}

impl SentRecord {
    /// Creates the record of a message with these header fields. Returns `None` if the message has
    /// no usable Message-ID.
    #[must_use]
    pub fn new<'p>(
        message_id: &str,
        in_reply_to: Option<&str>,
        references: &[String],
        people: impl Iterator<Item = &'p str>,
    ) -> Option<Self> {
        let is_usable = |id: &&str| {
            !id.is_empty() && id.len() <= MAX_MESSAGE_ID && !id.contains(char::is_control)
        };
        let first = references.len().saturating_sub(MAX_ANCESTORS);
        let ancestors = references[first..].iter().map(String::as_str);
        let ancestors: Vec<&str> = ancestors.filter(is_usable).collect();
        let people: Vec<String> = people.filter_map(person).take(MAX_PEOPLE).collect();
        Some(Self {
            message_id: Some(message_id).filter(is_usable)?.to_owned(),
            in_reply_to: in_reply_to.filter(is_usable).map(ToOwned::to_owned),
            ancestors: serde_json::Value::from(ancestors).to_string(),
            people: serde_json::Value::from(people).to_string(),
        })
    }

    /// Returns the values of a row of the milter: the Message-ID, the answered message, the
    /// ancestors and the people.
    pub(crate) fn columns(&self) -> (&str, Option<&str>, &str, &str) {
        (
            &self.message_id,
            self.in_reply_to.as_deref(),
            &self.ancestors,
            &self.people,
        )
    }
}

/// A record that was read: the Message-ID, whether a person sent the message, the answered message,
/// the ancestors and the people.
type Row = (String, bool, Option<String>, String, String);

/// Records by the id of the message.
type Records = HashMap<String, Row>;

impl Policies {
    /// Records a message before it is submitted. An earlier record of the same Message-ID remains.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The message must not be submitted in that case.
    pub async fn record_sent(
        &self,
        account: &str,
        by_person: bool,
        record: &SentRecord,
        now: Timestamp,
    ) -> Result<(), Error> {
        let (message_id, in_reply_to, ancestors, people) = record.columns();
        let row = (
            account,
            message_id,
            by_person,
            in_reply_to,
            ancestors,
            people,
            now,
        );
        self.db.execute(RECORD, row).await?;
        Ok(())
    }

    /// Returns the people to whom a person wrote in the thread of a message, in the form of
    /// [`person`]. `ancestors` are the Message-IDs that the message answers, the direct parent
    /// last.
    ///
    /// The headers of received messages only select the thread: it is that of the last ancestor
    /// that a person sent or answered. From there, only the headers of messages that a person sent
    /// count. So a sender who names several threads in References joins none of them.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn approved(
        &self,
        account: &str,
        ancestors: &[String],
    ) -> Result<HashSet<String>, Error> {
        let first = ancestors.len().saturating_sub(MAX_ANCESTORS);
        let ancestors = &ancestors[first..];
        let sent = self.sent_by_person(account, ancestors).await?;
        let in_thread = |id: &String| {
            let of = |row: &&Row| row.0 == *id || row.2.as_ref() == Some(id);
            let rows: Vec<&Row> = sent.values().filter(of).collect();
            (!rows.is_empty()).then_some(rows)
        };
        let Some(nearest) = ancestors.iter().rev().find_map(in_thread) else {
            return Ok(HashSet::new());
        };
        let list = |json: &String| serde_json::from_str::<Vec<String>>(json).unwrap_or_default();
        let mut people: HashSet<String> = nearest.iter().flat_map(|row| list(&row.4)).collect();
        let mut earlier: Vec<String> = nearest.iter().flat_map(|row| list(&row.3)).collect();
        earlier.truncate(MAX_ANCESTORS * 10);
        let earlier_sent = self.sent_by_person(account, &earlier).await?;
        let earlier = earlier_sent.values().filter(|row| earlier.contains(&row.0));
        people.extend(earlier.flat_map(|row| list(&row.4)));
        Ok(people)
    }

    /// Returns the records of messages in `ids` and of answers to them, if a person sent them.
    async fn sent_by_person(&self, account: &str, ids: &[String]) -> Result<Records, Error> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let list = |ids: Vec<&str>| serde_json::Value::from(ids).to_string();
        // PostgreSQL refuses NUL in JSON, and no record has such an id.
        let ids = ids.iter().map(String::as_str);
        let ids = list(ids.filter(|id| !id.contains('\0')).collect());
        let find = self.db.query(FIND);
        let mut own: Vec<Row> = self.db.all(find, (account, &ids, MAX_ROWS)).await?;
        let by_milter = self.milter_rows(account, &ids).await?;
        if !by_milter.is_empty() {
            // The service can have recorded the same Message-ID with another header. No record of
            // these messages may be missing, because a grant can have sent them.
            let ids = list(by_milter.iter().map(|row| row.0.as_str()).collect());
            let find = self.db.query(FIND_MESSAGES);
            let known: Vec<Row> = self.db.all(find, (account, &ids)).await?;
            own.extend(known);
        }
        let mut records: Records = HashMap::new();
        // The service's record takes precedence.
        for row in own.into_iter().chain(by_milter) {
            records.entry(row.0.clone()).or_insert(row);
        }
        records.retain(|_, row| row.1);
        Ok(records)
    }

    async fn milter_rows(&self, account: &str, ids: &str) -> Result<Vec<Row>, Error> {
        let login: Option<String> = self.db.optional_value(LOGIN, [account]).await?;
        let Some(login) = login else {
            return Ok(Vec::new());
        };
        match &self.milter {
            LastLogins::File(file) => {
                let rows = rows_in_file(file, &login, ids).await;
                // Without these rows, fewer people are approved.
                Ok(rows.unwrap_or_else(|error| {
                    tracing::warn!(%error, "failed to read what mail clients sent");
                    Vec::new()
                }))
            }
            LastLogins::Table(_) => {
                self.db
                    .all(FIND_IN_TABLE, (login.as_str(), ids, MAX_ROWS))
                    .await
            }
        }
    }

    /// Moves the records of the milter to the records of accounts, and deletes old records.
    pub(super) async fn sweep_sent(&self, now: Timestamp) -> Result<(), Error> {
        match &self.milter {
            LastLogins::File(file) => {
                if let Err(error) = self.move_file(file, now).await {
                    tracing::warn!(%error, "failed to take over what mail clients sent");
                }
            }
            LastLogins::Table(pool) => {
                sqlx::query(MOVE_TABLE).execute(pool).await.changed()?;
            }
        }
        self.db.execute(SWEEP, [now.minus(RETENTION)]).await?;
        let crowded: Vec<String> = self.db.values(CROWDED, [MAX_RECORDS]).await?;
        for account in crowded {
            self.db
                .execute(SWEEP_ACCOUNT, (&account, MAX_RECORDS))
                .await?;
        }
        Ok(())
    }

    /// Moves the rows of the file. The file is not locked while the rows are stored, because the
    /// milter must be able to write.
    async fn move_file(&self, file: &LastLoginsFile, now: Timestamp) -> Result<(), Error> {
        loop {
            let mut connection = file.open_to_read(READ_TIMEOUT).await?;
            let rows: Vec<(String, String, Option<String>, String, String, i64)> =
                sqlx::query_as(NEXT_IN_FILE)
                    .bind(BATCH)
                    .fetch_all(&mut connection)
                    .await?;
            connection.close().await?;
            let newest = Clock::system().now().max(now);
            let mut tx = self.db.begin().await?;
            for (login, message_id, in_reply_to, ancestors, people, seconds) in &rows {
                let at = Timestamp::from_millis(seconds.saturating_mul(1000)).min(newest);
                let row = (login, message_id, in_reply_to, ancestors, people, at);
                tx.execute(MOVE_ROW, row).await?;
            }
            tx.commit().await?;
            let mut connection = file.open_writable(MOVE_TIMEOUT).await?;
            for (login, message_id, ..) in &rows {
                let delete = sqlx::query(DELETE_IN_FILE).bind(login).bind(message_id);
                delete.execute(&mut connection).await?;
            }
            if rows.is_empty() {
                sqlx::query(CLEAN_FILE).execute(&mut connection).await?;
            }
            sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
            connection.close().await?;
            if rows.is_empty() {
                return Ok(());
            }
        }
    }
}

async fn rows_in_file(file: &LastLoginsFile, login: &str, ids: &str) -> Result<Vec<Row>, Error> {
    let mut connection = file.open_to_read(READ_TIMEOUT).await?;
    let rows = sqlx::query_as(FIND_IN_FILE)
        .bind(login)
        .bind(ids)
        .bind(MAX_ROWS)
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    Ok(rows)
}
