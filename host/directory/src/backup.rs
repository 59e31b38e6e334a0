//! Copies a database for a backup, and changes a restored database so that clients of the lost
//! database notice the restore. For `PostgreSQL`, the operator's commands run `pg_dump` and
//! `pg_restore`.
//!
//! After a restore, clients can know message numbers and cursors that the service assigned after
//! the backup. [`RESTORED`] sets the next message number of each mailbox to the time of the
//! restore, in microseconds since the Unix epoch. All message numbers that were assigned before are
//! lower, because no mailbox gets a million messages per second. So two messages never get the same
//! message number, even if a backup is restored several times. All message numbers remain below
//! 2^53. The versions of the change logs are set in the same way. The change logs become empty, so
//! all earlier cursors are expired.

mod app_passwords;
mod postgres;
mod sqlite;

pub use app_passwords::{ClientPassword, replaced_client_passwords};
pub use postgres::{PostgresState, postgres_script, postgres_state};
pub use sqlite::{
    copy_sqlite, current_key_of_copy, last_logins_of_copy, restore_sqlite, set_owner,
};

use latchmail_core::clock::Timestamp;

use crate::credentials::Credentials;
use crate::db::{Error, LastLogins, Schema, migrations_of_program};

/// Records the restore, sets the next message numbers and the versions of the change logs, and
/// removes the hosts that ran at the time of the backup. Messages whose time in the outbox has
/// passed may have been sent after the backup, so they are not sent.
///
/// `{…}` are placeholders for integers. If an earlier restore has an equal or higher
/// `first_number`, for example because the clock was set back, the new `first_number` is a billion
/// higher than the earlier one.
const RESTORED: &str = "
INSERT INTO restores (restored_at, backed_up_at, first_number)
    SELECT {restored_at}, {backed_up_at},
        CASE WHEN MAX(first_number) >= {first_number} THEN MAX(first_number) + 1000000000 ELSE {first_number} END FROM restores;
UPDATE mailboxes SET next_uid = (SELECT MAX(first_number) FROM restores);
UPDATE mailboxes SET version = next_uid, pruned_version = next_uid WHERE version IS NOT NULL;
DELETE FROM mailbox_changes;
DELETE FROM mailbox_events;
DELETE FROM watched_mailboxes;
DELETE FROM hosts;
DELETE FROM host_events;
UPDATE jobs SET host = NULL, leased_until = NULL;
UPDATE outbox SET state = 'unknown', size = 0, ended_at = {restored_at},
        error = 'The database was restored from a backup, and the message may have been sent before'
    WHERE state = 'sending' OR (state = 'scheduled' AND send_at <= {restored_at});
DELETE FROM jobs WHERE EXISTS (SELECT 1 FROM outbox o WHERE o.id = jobs.id AND o.state = 'unknown');
DELETE FROM outbox_chunks WHERE EXISTS
    (SELECT 1 FROM outbox o WHERE o.id = outbox_chunks.entry_id AND o.state = 'unknown');
";
/// Ends all web sessions, OAuth grants and API tokens.
const END_SESSIONS: &str = "
DELETE FROM oauth_codes;
DELETE FROM oauth_devices;
DELETE FROM app_passwords WHERE kind IN ('web_session', 'oauth_grant', 'api_token');
";

/// Ends all app passwords of mail clients.
const END_APP_PASSWORDS: &str = "DELETE FROM app_passwords WHERE kind = 'app_password';";

/// A restore of a backup.
#[derive(Clone, Copy, Debug)]
pub struct Restore {
    /// The time of the restore.
    pub restored_at: Timestamp,
    /// The time of the backup.
    pub backed_up_at: Timestamp,
    /// Whether to end all web sessions, OAuth grants and API tokens.
    pub end_sessions: bool,
    /// Whether to end all app passwords of mail clients.
    pub end_app_passwords: bool,
}

impl Restore {
    /// Returns the SQL text that changes the restored database.
    fn script(&self) -> String {
        let first_number = self.restored_at.millis().saturating_mul(1000);
        let mut script = RESTORED
            .replace("{restored_at}", &self.restored_at.millis().to_string())
            .replace("{backed_up_at}", &self.backed_up_at.millis().to_string())
            .replace("{first_number}", &first_number.to_string());
        if self.end_sessions {
            script.push_str(END_SESSIONS);
        }
        if self.end_app_passwords {
            script.push_str(END_APP_PASSWORDS);
        }
        script
    }
}

/// Returns the version of the last migration of this program.
#[must_use]
pub fn schema_version() -> i64 {
    let migrations = migrations_of_program();
    migrations.into_iter().max().unwrap_or(0)
}

/// Returns an error if the schema of a database is not the schema of this program.
fn require_current(schema: Schema) -> Result<(), Error> {
    Err(Error::Unusable(
        match schema {
            Schema::Current => return Ok(()),
            Schema::Outdated => {
                "the database has the tables of an earlier version of Latchmail; start the service with this version first, or back up with the earlier version"
            }
            Schema::Newer | Schema::Different => {
                "another version of Latchmail has migrated the database; back up with that version"
            }
        }
        .into(),
    ))
}

/// Returns the error for a database that contains data.
fn not_empty() -> Error {
    Error::Unusable(
        "the database contains accounts or addresses; a backup is only restored to an empty database".into(),
    )
}

/// Returns the error for a database that another process uses.
fn in_use() -> Error {
    Error::Unusable("another process uses the database; stop the service and all commands".into())
}

impl Credentials {
    /// Stores last log-ins of mail clients that are not recorded yet. `logins` contains the id of
    /// each app password and the time in seconds since the Unix epoch.
    ///
    /// # Errors
    /// Returns [`Error`] if the file of the mail server cannot be used.
    pub async fn restore_last_logins(&self, logins: &[(String, i64)]) -> Result<(), Error> {
        match &self.last_logins {
            LastLogins::File(file) => sqlite::restore_last_logins(file, logins).await,
            // The table is part of the database, so the restored database already contains the
            // log-ins.
            LastLogins::Table(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
