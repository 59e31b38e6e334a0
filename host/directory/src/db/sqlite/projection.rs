//! Copies the parts of the directory that mail servers need to the file of the mail servers.
//!
//! The views `due_*` of `connection.sql` define the rows that the file must contain. After a change
//! to a table of such a view, the code must call [`Tx::project`](crate::db::Tx::project) in the
//! same transaction. The argument is the [`Source`] that contains the changed row. In this crate's
//! tests, every commit checks that no call is missing.
//!
//! # Guarantee
//! - A rollback leaves the main file and the file of the mail servers unchanged.
//! - Readers of the file see all rows of a transaction, or none of these rows.
//! - A successful commit has written the two files to the disk. The commit is not atomic. SQLite
//!   commits files in WAL mode one after the other: first the main file, then the file of the mail
//!   servers.
//! - After a failure between the two commits, only the directory contains the change. For example,
//!   mail to a new alias bounces, or the mail server accepts a revoked app password. The file of
//!   the mail servers never contains a change that the directory does not contain.
//! - [`repair`] removes every difference. The service calls [`repair`] at each start and in every
//!   sweep, about once an hour.

use sqlx::sqlite::SqliteConnection;

use super::Error;

const REPAIR: &str = include_str!("../../../migrations/mailserver/sqlite/repair.sql");

/// $1 is the account's address.
const ACCOUNT: &str = "DELETE FROM mailserver.mailserver_users WHERE address = $1;
    DELETE FROM mailserver.mailserver_login_names WHERE address = $1;
    DELETE FROM mailserver.projected_log_ins WHERE address = $1;
    DELETE FROM mailserver.projected_aliases WHERE destination = $1;
    DELETE FROM mailserver.projected_senders WHERE login = $1;
    DELETE FROM mailserver.mailserver_quotas WHERE address = $1;
    DELETE FROM mailserver.mailserver_removals WHERE address = $1;
    DELETE FROM mailserver.mailserver_addresses WHERE address = $1;
    DELETE FROM mailserver.mailserver_forwards WHERE address = $1;
    DELETE FROM mailserver.mailserver_catch_alls WHERE destination = $1;
    INSERT INTO mailserver.mailserver_removals (address, mailbox)
        SELECT address, mailbox FROM temp.due_removals WHERE address = $1;
    INSERT INTO mailserver.mailserver_addresses (address, domain)
        SELECT address, domain FROM temp.due_addresses WHERE address = $1;
    INSERT INTO mailserver.mailserver_forwards (address, destination)
        SELECT address, destination FROM temp.due_forwards WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_catch_alls (domain, destination)
        SELECT domain, destination FROM temp.due_catch_alls WHERE destination = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_quotas (address, storage)
        SELECT address, storage FROM temp.due_quotas WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_users (address, mailbox)
        SELECT address, mailbox FROM temp.due_users WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.mailserver_login_names (address, login)
        SELECT address, login FROM temp.due_login_names WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.projected_log_ins (app_password_id, address, selector, password, kind, expires_at)
        SELECT app_password_id, address, selector, password, kind, expires_at FROM temp.due_passwords WHERE address = $1;
    INSERT OR REPLACE INTO mailserver.projected_aliases (address, destination, expires_at)
        SELECT address, destination, expires_at FROM temp.due_aliases WHERE destination = $1;
    INSERT OR REPLACE INTO mailserver.projected_senders (address, login, expires_at)
        SELECT address, login, expires_at FROM temp.due_senders WHERE login = $1";

/// $1 is the app password's id.
const APP_PASSWORD: &str = "DELETE FROM mailserver.projected_log_ins WHERE app_password_id = $1;
    INSERT INTO mailserver.projected_log_ins (app_password_id, address, selector, password, kind, expires_at)
        SELECT app_password_id, address, selector, password, kind, expires_at FROM temp.due_passwords WHERE app_password_id = $1";

/// $1 is the alias's address.
const ALIAS: &str = "DELETE FROM mailserver.projected_aliases WHERE address = $1;
    DELETE FROM mailserver.projected_senders WHERE address = $1;
    DELETE FROM mailserver.mailserver_addresses WHERE address = $1;
    INSERT INTO mailserver.mailserver_addresses (address, domain)
        SELECT address, domain FROM temp.due_addresses WHERE address = $1;
    INSERT INTO mailserver.projected_aliases (address, destination, expires_at)
        SELECT address, destination, expires_at FROM temp.due_aliases WHERE address = $1;
    INSERT INTO mailserver.projected_senders (address, login, expires_at)
        SELECT address, login, expires_at FROM temp.due_senders WHERE address = $1";

/// $1 is the domain.
const DOMAIN: &str = "DELETE FROM mailserver.mailserver_domains WHERE domain = $1;
    DELETE FROM mailserver.mailserver_custom_domains WHERE domain = $1;
    DELETE FROM mailserver.projected_aliases WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias');
    DELETE FROM mailserver.projected_senders WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias');
    DELETE FROM mailserver.mailserver_addresses WHERE domain = $1;
    DELETE FROM mailserver.mailserver_separators WHERE domain = $1;
    DELETE FROM mailserver.mailserver_catch_alls WHERE domain = $1;
    INSERT INTO mailserver.mailserver_addresses (address, domain)
        SELECT address, domain FROM temp.due_addresses WHERE domain = $1;
    INSERT INTO mailserver.mailserver_separators (domain, separator)
        SELECT domain, separator FROM temp.due_separators WHERE domain = $1;
    INSERT INTO mailserver.mailserver_catch_alls (domain, destination)
        SELECT domain, destination FROM temp.due_catch_alls WHERE domain = $1;
    INSERT INTO mailserver.mailserver_domains (domain) SELECT domain FROM temp.due_domains WHERE domain = $1;
    INSERT INTO mailserver.mailserver_custom_domains (domain) SELECT domain FROM temp.due_custom_domains WHERE domain = $1;
    INSERT INTO mailserver.projected_aliases (address, destination, expires_at)
        SELECT address, destination, expires_at FROM temp.due_aliases
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias');
    INSERT INTO mailserver.projected_senders (address, login, expires_at)
        SELECT address, login, expires_at FROM temp.due_senders
        WHERE address IN (SELECT address FROM main.addresses WHERE domain = $1 AND kind = 'alias')";

const QUOTAS: &str = "DELETE FROM mailserver.mailserver_quotas;
    INSERT INTO mailserver.mailserver_quotas (address, storage)
        SELECT address, storage FROM temp.due_quotas";

/// A part of the directory that mail servers read. [`Tx::project`](crate::db::Tx::project) copies
/// this part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    /// The account with this address, the account's app passwords, and its aliases. The account may
    /// have been deleted. The account's domains are separate parts.
    Account(&'a str),
    /// The app password with this id.
    AppPassword(&'a str),
    /// The alias with this address, or the address that the operator reserves.
    Alias(&'a str),
    /// The domain with this name, and the aliases on this domain.
    Domain(&'a str),
    /// The quotas of all accounts.
    Quotas,
    /// The whole directory. Only for tests, because tests change the tables directly.
    #[cfg(any(test, feature = "testing"))]
    Everything,
}

/// Replaces the rows of `source` in the file of the mail servers with the current rows.
pub(in crate::db) async fn project(
    connection: &mut SqliteConnection,
    source: Source<'_>,
) -> Result<(), Error> {
    let (query, key) = match source {
        Source::Account(address) => (ACCOUNT, address),
        Source::AppPassword(id) => (APP_PASSWORD, id),
        Source::Alias(address) => (ALIAS, address),
        Source::Domain(domain) => (DOMAIN, domain),
        Source::Quotas => {
            sqlx::raw_sql(QUOTAS).execute(connection).await?;
            return Ok(());
        }
        #[cfg(any(test, feature = "testing"))]
        Source::Everything => return repair(connection).await,
    };
    sqlx::query(query).bind(key).execute(connection).await?;
    Ok(())
}

/// Corrects the file of the mail servers to match the directory. The caller must begin a write
/// transaction first.
pub(in crate::db) async fn repair(connection: &mut SqliteConnection) -> Result<(), Error> {
    sqlx::raw_sql(REPAIR).execute(connection).await?;
    Ok(())
}

/// Panics if the file does not match the directory. The reason is a change in this transaction
/// without a call of [`project`].
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
