//! Checks that the database can be read and that its tables match this version of the program. Runs
//! no migrations.

use latchmail_core::config::Config;
use latchmail_directory::{Error, Inspection, Schema, inspect, sqlite_files};
use tokio::time::timeout;

use super::TIMEOUT;
use super::finding::Finding;

const CHECK: &str = "database";

/// The result of the check.
pub(super) struct Checked {
    pub(super) finding: Finding,
    /// The number of accounts, or 0 if it is unknown.
    pub(super) accounts: u64,
}

/// Reads the database.
pub(super) async fn check(config: &Config) -> Checked {
    let database = config.database();
    // The URL can contain a password, so the output does not contain the URL.
    let name = match sqlite_files(&database) {
        Ok(Some(files)) => format!("SQLite, {}", files.main.display()),
        _ => "PostgreSQL".to_owned(),
    };
    let result = timeout(TIMEOUT, inspect(&database)).await;
    let accounts = match &result {
        Ok(Ok(inspection)) => inspection.accounts,
        _ => 0,
    };
    let finding = match result {
        Ok(result) => assess(&name, result),
        Err(_) => Finding::failed(
            CHECK,
            format!("{name}: no response within {} s", TIMEOUT.as_secs()),
            "check `database.url`, the network and the load of the database",
        ),
    };
    Checked { finding, accounts }
}

fn assess(name: &str, result: Result<Inspection, Error>) -> Finding {
    let schema = match result {
        Ok(inspection) => inspection.schema,
        Err(error) => {
            return Finding::failed(
                CHECK,
                format!("{name}: {error}"),
                "check `database.url`. The service creates missing tables and files at its start, so start or restart the service",
            );
        }
    };
    let (problem, remedy) = match schema {
        Schema::Current => return Finding::ok(CHECK, format!("{name}, migrations are current")),
        Schema::Outdated => (
            "migrations are missing",
            "start or restart the service with this version, which runs the migrations",
        ),
        Schema::Newer => (
            "a newer version of Latchmail has migrated the database",
            "install that version again, or restore a backup of the database",
        ),
        Schema::Different => (
            "a migration differs from the migration of this version",
            "use a released version of Latchmail, or restore a backup of the database",
        ),
    };
    Finding::failed(CHECK, format!("{name}: {problem}"), remedy)
}
