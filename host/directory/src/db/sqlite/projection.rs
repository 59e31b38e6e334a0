//! Projects the directory into the file that mail servers read.
//!
//! The views `due_*` of `connection.sql` define which rows the file must contain. Code that changes a row which one of these views reads must call
//! [`Tx::project`](crate::db::Tx::project) after the change and before the commit, with the [`Source`] to which the row belongs. In this crate's tests, every
//! commit checks that no such call is missing.
//!
//! # Guarantee
//! - A rollback leaves both files unchanged. Readers of the file see either all rows of a transaction or none.
//! - A successful commit has written both files to the disk. The commit is not atomic, because SQLite commits files in WAL mode one after the other: first the
//!   main file, then the file for mail servers. If the process, the machine or the disk fails between the two commits, the directory has the change and the
//!   file for mail servers does not: mail to a new alias bounces, or a revoked app password still works at the mail server. The file for mail servers never has
//!   a change that the directory does not have.
//! - [`repair`] removes every difference. It runs at each start of the service and with every sweep, about once an hour.

use sqlx::sqlite::SqliteConnection;

use super::Error;

const REPAIR: &str = include_str!("../../../migrations/mailserver/sqlite/repair.sql");

/// $1 is the account's address.
const ACCOUNT: &str = "DELETE FROM mailserver.mailserver_users WHERE address = $1;
    DELETE FROM mailserver.projected_log_ins WHERE address = $1;
    DELETE FROM mailserver.mailserver_aliases WHERE destination = $1;
    DELETE FROM mailserver.mailserver_senders WHERE login = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_users (address, mailbox)
        SELECT address, mailbox FROM temp.due_users WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.projected_log_ins (app_password_id, address, selector, password, kind, expires_at)
        SELECT app_password_id, address, selector, password, kind, expires_at FROM temp.due_passwords WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_aliases (address, destination)
        SELECT address, destination FROM temp.due_aliases WHERE destination = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_senders (address, login)
        SELECT address, login FROM temp.due_senders WHERE login = $1";

/// $1 is the app password's id.
const APP_PASSWORD: &str = "DELETE FROM mailserver.projected_log_ins WHERE app_password_id = $1;
    INSERT INTO mailserver.projected_log_ins (app_password_id, address, selector, password, kind, expires_at)
        SELECT app_password_id, address, selector, password, kind, expires_at FROM temp.due_passwords WHERE app_password_id = $1";

/// $1 is the alias's address.
const ALIAS: &str = "DELETE FROM mailserver.mailserver_aliases WHERE address = $1;
    DELETE FROM mailserver.mailserver_senders WHERE address = $1;
    INSERT INTO mailserver.mailserver_aliases (address, destination)
        SELECT address, destination FROM temp.due_aliases WHERE address = $1;
    INSERT INTO mailserver.mailserver_senders (address, login)
        SELECT address, login FROM temp.due_senders WHERE address = $1";

/// $1 is the domain.
const DOMAIN: &str = "DELETE FROM mailserver.mailserver_domains WHERE domain = $1;
    DELETE FROM mailserver.mailserver_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias');
    DELETE FROM mailserver.mailserver_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias');
    INSERT INTO mailserver.mailserver_domains (domain) SELECT domain FROM temp.due_domains WHERE domain = $1;
    INSERT INTO mailserver.mailserver_aliases (address, destination) SELECT address, destination FROM temp.due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias');
    INSERT INTO mailserver.mailserver_senders (address, login) SELECT address, login FROM temp.due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias')";

/// A part of the directory whose data mail servers read. [`Tx::project`](crate::db::Tx::project) copies this data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// The account with this address, the account's app passwords, and its aliases. The account may have been deleted. The domains of the account are separate
    /// sources.
    Account(&'a str),
    /// The app password with this id.
    AppPassword(&'a str),
    /// The alias with this address.
    Alias(&'a str),
    /// This domain and the aliases on it.
    Domain(&'a str),
    /// The whole directory. Only for tests, which change the tables directly.
    #[cfg(any(test, feature = "testing"))]
    Everything,
}

/// Replaces the rows of `source` in the file for mail servers with the rows that the file must now contain.
pub(in crate::db) async fn project(
    connection: &mut SqliteConnection,
    source: Source<'_>,
) -> Result<(), Error> {
    let (query, key) = match source {
        Source::Account(address) => (ACCOUNT, address),
        Source::AppPassword(id) => (APP_PASSWORD, id),
        Source::Alias(address) => (ALIAS, address),
        Source::Domain(domain) => (DOMAIN, domain),
        #[cfg(any(test, feature = "testing"))]
        Source::Everything => return repair(connection).await,
    };
    sqlx::query(query).bind(key).execute(connection).await?;
    Ok(())
}

/// Corrects the file for mail servers, so that it matches the directory. The caller must have begun a write transaction.
pub(in crate::db) async fn repair(connection: &mut SqliteConnection) -> Result<(), Error> {
    sqlx::raw_sql(REPAIR).execute(connection).await?;
    Ok(())
}

/// Panics if the file does not match the directory, because a change in this transaction was not projected.
#[cfg(test)]
pub(in crate::db) async fn check(connection: &mut SqliteConnection) -> Result<(), Error> {
    const CHANGES: &str = "SELECT total_changes()";
    let before: i64 = sqlx::query_scalar(CHANGES)
        .fetch_one(&mut *connection)
        .await?;
    repair(&mut *connection).await?;
    let after: i64 = sqlx::query_scalar(CHANGES).fetch_one(connection).await?;
    assert_eq!(before, after, "a change of the directory was not projected");
    Ok(())
}
