//! Reads the tables for mail servers on behalf of a milter, and records the mail of aliases,
//! submissions, sent mail and delivery reports. The tables contain the domains for which the mail
//! server receives mail, and the addresses from which each log-in name is allowed to send.

/// Returns the query that records one state of a delivery.
macro_rules! add_report {
    ($envelope:expr, $report:expr) => {
        sqlx::query(ADD_REPORT)
            .bind($envelope)
            .bind(&$report.recipient)
            .bind($report.state.number())
            .bind(&$report.detail)
            .bind($report.at.seconds())
            .bind(MAX_REPORTED)
    };
}

/// Returns the query that records a sent message.
macro_rules! add_sent_mail {
    ($login:expr, $record:expr, $sent_at:expr) => {{
        let (message_id, in_reply_to, ancestors, people) = $record.columns();
        sqlx::query(ADD_SENT_MAIL)
            .bind($login)
            .bind(message_id)
            .bind(in_reply_to)
            .bind(ancestors)
            .bind(people)
            .bind($sent_at)
    }};
}

mod writes;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::config;
use sqlx::Connection as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use zeroize::Zeroizing;

use crate::db;
use crate::db::{Db, Error, LastLoginsFile, on};
use crate::deliveries::DeliveryReport;
use crate::policies::SentRecord;
use writes::{Write, Writes};

const IS_LOCAL: &str = "SELECT COUNT(*) FROM mailserver_domains WHERE domain = $1";

/// Counts the rows that allow a log-in to send from an address. The log-in name of a mail client is
/// the account's address, a slash and the id of the app password. The log-in name of the service is
/// the account's address.
const MAY_SEND: &str = "SELECT COUNT(*) FROM mailserver_senders WHERE address = $1 AND (login = $2 OR login || '/' = substr($2, 1, length(login) + 1))";

const RESULTS_KEY: &str = "SELECT secret FROM mailserver_results_key";

/// Counts the rows that show that an address has an extension: its domain allows extensions, and
/// the address itself belongs to no account.
const HAS_EXTENSION: &str = "SELECT COUNT(*) FROM mailserver_separators s WHERE s.domain = $1 AND s.separator = '+' \
    AND NOT EXISTS (SELECT 1 FROM mailserver_addresses a WHERE a.address = $2)";
const IS_ALIAS: &str = "SELECT COUNT(*) FROM mailserver_aliases WHERE address = $1";
/// Adds to the receipts of an address. On PostgreSQL, the address must be an alias.
const ADD_IN_FILE: &str = "INSERT INTO mailserver_alias_receipts (address, received, last_received_at) VALUES ($1, $2, $3) \
    ON CONFLICT (address) DO UPDATE SET received = received + EXCLUDED.received, \
        last_received_at = max(last_received_at, EXCLUDED.last_received_at)";
const ADD_IN_TABLE: &str = "INSERT INTO mailserver_alias_receipts AS r (address, received, last_received_at) \
    SELECT address, $2, $3 FROM mailserver_aliases WHERE address = $1 \
    ON CONFLICT (address) DO UPDATE SET received = r.received + EXCLUDED.received, \
        last_received_at = greatest(r.last_received_at, EXCLUDED.last_received_at)";

/// Records a submission. Has no effect if the submission is recorded already.
const ADD_SUBMISSION: &str = "INSERT INTO mailserver_submissions (id, accepted_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";

/// Records the state of a recipient, if the report has a later state than the recorded one.
/// `$6` is the maximum number of recipients of one envelope.
const ADD_REPORT: &str = "INSERT INTO mailserver_delivery_reports AS r \
    (envelope, recipient, state, detail, reported_at) SELECT $1, $2, $3, $4, $5 \
    WHERE (SELECT COUNT(*) FROM mailserver_delivery_reports o WHERE o.envelope = $1) < $6 \
    ON CONFLICT (envelope, recipient) DO UPDATE SET state = EXCLUDED.state, \
        detail = EXCLUDED.detail, reported_at = EXCLUDED.reported_at \
    WHERE EXCLUDED.state > r.state \
        OR (EXCLUDED.state = r.state AND EXCLUDED.reported_at > r.reported_at)";
/// Records a submitted message. A later message with the same Message-ID changes nothing.
const ADD_SENT_MAIL: &str = "INSERT INTO mailserver_sent_mail \
    (login, message_id, in_reply_to, ancestors, people, sent_at) VALUES ($1, $2, $3, $4, $5, $6) \
    ON CONFLICT (login, message_id) DO NOTHING";
/// The size of the SQLite file in bytes.
const FILE_SIZE: &str =
    "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";

/// Maximum number of recipients of one envelope that reports can name.
const MAX_REPORTED: i64 = 2000;
/// Maximum size of the SQLite file to which reports are added, in bytes. The service refuses a file
/// of twice the size, which also has the last log-ins.
const MAX_FILE: i64 = 32 * 1024 * 1024;

const CONNECTIONS: u32 = 4;

/// Timeout for the database. This timeout is shorter than the time that Postfix waits for a milter.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for a transaction that changes the SQLite file.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// The messages that one address received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipts {
    /// The number of messages.
    pub count: i64,
    /// The time of the last message, in seconds since the Unix epoch.
    pub last: i64,
}

/// The access of a mail server to the directory. The first query opens the connection.
#[derive(Clone, Debug)]
pub struct MailServerView {
    db: Db,
    /// The SQLite file that mail servers read. Empty for PostgreSQL.
    file: PathBuf,
    writes: Arc<Writes>,
}

impl MailServerView {
    /// Prepares the access to the configured database. Does not connect to the database.
    ///
    /// # Errors
    /// Returns [`Error::Unusable`] if the configuration is not valid.
    pub fn new(config: &config::Database) -> Result<Self, Error> {
        if config.url.starts_with("postgres") {
            let pool = PgPoolOptions::new()
                .max_connections(CONNECTIONS)
                .acquire_timeout(TIMEOUT);
            // A restore of a backup is refused while services or commands are connected. A milter
            // only reads, so its connections have another application name.
            let options = db::postgres_options(config)?.application_name("latchmail-milter");
            return Ok(Self {
                db: Db::Postgres(pool.connect_lazy_with(options)),
                file: PathBuf::new(),
                writes: Arc::default(),
            });
        }
        // The connections are read-only. If the last connection could write, closing this
        // connection would delete the `-wal` file. Mail daemons cannot create this file.
        let file = db::mailserver_file(config)?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .read_only(true)
            .busy_timeout(TIMEOUT);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(TIMEOUT);
        Ok(Self {
            db: Db::Sqlite(pool.connect_lazy_with(options), None),
            file,
            writes: Arc::default(),
        })
    }

    /// Returns `true` if the mail server receives mail for a domain. `domain` must be in lower case
    /// and ASCII.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_local(&self, domain: &str) -> Result<bool, Error> {
        let count: i64 = self.db.value(IS_LOCAL, [domain]).await?;
        Ok(count > 0)
    }

    /// Adds the receipts of addresses to the receipts of aliases. Ignores addresses that are not
    /// active aliases. Removes the stored and the ignored addresses from `receipts`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. `receipts` then contains the addresses that must be
    /// added again.
    pub async fn add_receipts(
        &self,
        receipts: &mut HashMap<String, Receipts>,
    ) -> Result<(), Error> {
        self.remove_extensions(receipts).await?;
        match &self.db {
            Db::Postgres(pool) => {
                let addresses: Vec<String> = receipts.keys().cloned().collect();
                for address in addresses {
                    let Some(added) = receipts.get(&address) else {
                        continue;
                    };
                    let add = sqlx::query(ADD_IN_TABLE)
                        .bind(&address)
                        .bind(added.count)
                        .bind(added.last);
                    add.execute(pool).await?;
                    receipts.remove(&address);
                }
            }
            Db::Sqlite(..) => {
                let addresses: Vec<String> = receipts.keys().cloned().collect();
                for address in addresses {
                    let aliases: i64 = self.db.value(IS_ALIAS, [&address]).await?;
                    if aliases == 0 {
                        receipts.remove(&address);
                    }
                }
                if receipts.is_empty() {
                    return Ok(());
                }
                let mut connection =
                    LastLoginsFile::open_for_milter(&self.file, WRITE_TIMEOUT).await?;
                for (address, added) in &*receipts {
                    let add = sqlx::query(ADD_IN_FILE)
                        .bind(address)
                        .bind(added.count)
                        .bind(added.last);
                    add.execute(&mut connection).await?;
                }
                sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
                receipts.clear();
                connection.close().await?;
            }
        }
        Ok(())
    }

    /// Adds the receipts of addresses with an extension to those of the addresses without it.
    async fn remove_extensions(
        &self,
        receipts: &mut HashMap<String, Receipts>,
    ) -> Result<(), Error> {
        let extended: Vec<String> = receipts
            .keys()
            .filter(|address| address.contains('+'))
            .cloned()
            .collect();
        for address in extended {
            let Some((name, domain)) = address.rsplit_once('@') else {
                continue;
            };
            let Some((name, _)) = name.split_once('+') else {
                continue;
            };
            let count: i64 = self
                .db
                .value(HAS_EXTENSION, [domain, address.as_str()])
                .await?;
            if count == 0 {
                continue;
            }
            if let Some(added) = receipts.remove(&address) {
                let known = receipts
                    .entry(format!("{name}@{domain}"))
                    .or_insert(Receipts { count: 0, last: 0 });
                known.count = known.count.saturating_add(added.count);
                known.last = known.last.max(added.last);
            }
        }
        Ok(())
    }

    /// Records that the milter accepts a submission from the outbox. Returns `false` if the
    /// submission is recorded already. The record is on the disk when this function returns,
    /// because the mail server can then accept the message.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_submission(&self, id: &str, now: Timestamp) -> Result<bool, Error> {
        let done = match &self.db {
            Db::Postgres(pool) => {
                let add = sqlx::query(ADD_SUBMISSION).bind(id).bind(now.seconds());
                add.execute(pool).await?.rows_affected()
            }
            Db::Sqlite(..) => {
                let submission = Write::Submission {
                    id: id.to_owned(),
                    accepted_at: now.seconds(),
                };
                self.writes.write(&self.file, submission).await?
            }
        };
        Ok(done == 1)
    }

    /// Records who sent a message to whom. `login` is the log-in name, with or without the id of an
    /// app password. Records nothing if the SQLite file is full.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_sent_mail(
        &self,
        login: &str,
        record: &SentRecord,
        now: Timestamp,
    ) -> Result<(), Error> {
        let login = login.rsplit_once('/').map_or(login, |(login, _)| login);
        match &self.db {
            Db::Postgres(pool) => {
                let add = add_sent_mail!(login, record, now.seconds());
                add.execute(pool).await?;
            }
            Db::Sqlite(..) => {
                let mail = Write::SentMail {
                    login: login.to_owned(),
                    record: record.clone(),
                    sent_at: now.seconds(),
                };
                self.writes.write(&self.file, mail).await?;
            }
        }
        Ok(())
    }

    /// Records the states that a delivery report has for the recipients of a message. `envelope` is
    /// the hash of the envelope id.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is recorded in that case.
    pub async fn add_delivery_reports(
        &self,
        envelope: &str,
        reports: &[DeliveryReport],
    ) -> Result<(), Error> {
        match &self.db {
            Db::Postgres(pool) => {
                let mut tx = pool.begin().await?;
                for report in reports {
                    add_report!(envelope, report).execute(&mut *tx).await?;
                }
                tx.commit().await?;
            }
            Db::Sqlite(..) => {
                let reports = Write::Reports {
                    envelope: envelope.to_owned(),
                    reports: reports.to_vec(),
                };
                self.writes.write(&self.file, reports).await?;
            }
        }
        Ok(())
    }

    /// Returns the key with which the milter marks its authentication results. Returns `None` if no
    /// service of this version has created the key. In an upgrade, the milter can start before the
    /// first service.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn results_key(&self) -> Result<Option<Zeroizing<String>>, Error> {
        let key: Result<Option<String>, _> =
            on!(&self.db, pool => sqlx::query_scalar(RESULTS_KEY).fetch_optional(pool).await);
        match key {
            Err(error) if db::is_missing_table(&error) => Ok(None),
            key => Ok(key?.map(Zeroizing::new)),
        }
    }

    /// Returns `true` if a log-in is allowed to send from an address. `address` must be in lower
    /// case and ASCII.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn may_send(&self, login: &str, address: &str) -> Result<bool, Error> {
        let count: i64 = self.db.value(MAY_SEND, (address, login)).await?;
        Ok(count > 0)
    }
}
