//! The database migrations, which are embedded in the program. Each migration has one SQL text for
//! SQLite and one for PostgreSQL.
//!
//! `sqlx::migrate!` is not used. The macro adds sqlx's query macros to every build, and an
//! incremental build does not notice a new migration file.

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlStr, SqliteConnection};

use super::Error;

/// Returns the migrations in the database whose version is greater than $1.
const LATER: &str = "SELECT version, description FROM _sqlx_migrations WHERE version > $1";
/// The text between a description and [`Step::oldest`].
const COMPATIBLE: &str = ", compatible with migration ";

/// A migration runs while hosts with the previous version use the database, and these hosts must
/// continue to work. So a migration only adds objects, such as tables and columns. A later
/// migration removes the objects that the new version does not use any longer. A test enforces
/// these two phases.
struct Step {
    version: i64,
    description: &'static str,
    /// The version of the oldest migration that a program must contain to use the migrated
    /// database. The database stores this version together with the description, so that such a
    /// program accepts later migrations that the program does not contain.
    oldest: i64,
    sqlite: &'static str,
    postgres: &'static str,
}

/// Do not change a released migration, because each database stores the checksums of its
/// migrations.
const STEPS: &[Step] = &[
    Step {
        version: 1,
        description: "initial",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0001_initial.sql"),
        postgres: include_str!("../../migrations/postgres/0001_initial.sql"),
    },
    Step {
        version: 2,
        description: "hosts",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0002_hosts.sql"),
        postgres: include_str!("../../migrations/postgres/0002_hosts.sql"),
    },
    Step {
        version: 3,
        description: "single sign-on",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0003_single_sign_on.sql"),
        postgres: include_str!("../../migrations/postgres/0003_single_sign_on.sql"),
    },
    Step {
        version: 4,
        description: "results key",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0004_results_key.sql"),
        postgres: include_str!("../../migrations/postgres/0004_results_key.sql"),
    },
    Step {
        version: 5,
        description: "paused hosts",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0005_paused_hosts.sql"),
        postgres: include_str!("../../migrations/postgres/0005_paused_hosts.sql"),
    },
    Step {
        version: 6,
        description: "plan quotas",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0006_plan_quotas.sql"),
        postgres: include_str!("../../migrations/postgres/0006_plan_quotas.sql"),
    },
    Step {
        version: 7,
        description: "imports",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0007_imports.sql"),
        postgres: include_str!("../../migrations/postgres/0007_imports.sql"),
    },
    Step {
        version: 8,
        description: "previous folder",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0008_previous_folder.sql"),
        postgres: include_str!("../../migrations/postgres/0008_previous_folder.sql"),
    },
    Step {
        version: 9,
        description: "grants and aliases",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0009_grants_and_aliases.sql"),
        postgres: include_str!("../../migrations/postgres/0009_grants_and_aliases.sql"),
    },
    Step {
        version: 10,
        description: "uploads",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0010_uploads.sql"),
        postgres: include_str!("../../migrations/postgres/0010_uploads.sql"),
    },
    Step {
        version: 11,
        description: "jobs",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0011_jobs.sql"),
        postgres: include_str!("../../migrations/postgres/0011_jobs.sql"),
    },
    Step {
        version: 12,
        description: "deliveries",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0012_deliveries.sql"),
        postgres: include_str!("../../migrations/postgres/0012_deliveries.sql"),
    },
    Step {
        version: 13,
        description: "forward addresses",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0013_forward_addresses.sql"),
        postgres: include_str!("../../migrations/postgres/0013_forward_addresses.sql"),
    },
    Step {
        version: 14,
        description: "events",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0014_events.sql"),
        postgres: include_str!("../../migrations/postgres/0014_events.sql"),
    },
    Step {
        version: 15,
        description: "webhooks",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0015_webhooks.sql"),
        postgres: include_str!("../../migrations/postgres/0015_webhooks.sql"),
    },
    Step {
        version: 16,
        description: "module handlers",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0016_module_handlers.sql"),
        postgres: include_str!("../../migrations/postgres/0016_module_handlers.sql"),
    },
    Step {
        version: 17,
        description: "module sources",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0017_module_sources.sql"),
        postgres: include_str!("../../migrations/postgres/0017_module_sources.sql"),
    },
    Step {
        version: 18,
        description: "policies",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0018_policies.sql"),
        postgres: include_str!("../../migrations/postgres/0018_policies.sql"),
    },
    Step {
        version: 19,
        description: "holds",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0019_holds.sql"),
        postgres: include_str!("../../migrations/postgres/0019_holds.sql"),
    },
    Step {
        version: 20,
        description: "grant changes",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0020_grant_changes.sql"),
        postgres: include_str!("../../migrations/postgres/0020_grant_changes.sql"),
    },
    Step {
        version: 21,
        description: "tickets",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0021_tickets.sql"),
        postgres: include_str!("../../migrations/postgres/0021_tickets.sql"),
    },
    Step {
        version: 22,
        description: "operator tokens",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0022_operator_tokens.sql"),
        postgres: include_str!("../../migrations/postgres/0022_operator_tokens.sql"),
    },
    Step {
        version: 23,
        description: "routes and deletions",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0023_routes_and_deletions.sql"),
        postgres: include_str!("../../migrations/postgres/0023_routes_and_deletions.sql"),
    },
    Step {
        version: 24,
        description: "credential networks",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0024_credential_networks.sql"),
        postgres: include_str!("../../migrations/postgres/0024_credential_networks.sql"),
    },
    Step {
        version: 25,
        description: "exports",
        oldest: 1,
        sqlite: include_str!("../../migrations/sqlite/0025_exports.sql"),
        postgres: include_str!("../../migrations/postgres/0025_exports.sql"),
    },
];

/// Runs the missing migrations. The caller must begin a write transaction first, because the
/// migrator does not lock an SQLite database.
///
/// # Errors
/// Returns [`Error`] if a migration fails, or if a later version of the program has migrated the
/// database and this version is not compatible with the migrated database.
pub(super) async fn sqlite(connection: &mut SqliteConnection) -> Result<(), Error> {
    run(|step| step.sqlite, connection).await?;
    let later = sqlx::query_as(LATER).bind(newest());
    check_compatible(&later.fetch_all(connection).await?)
}

/// Runs the missing migrations. The migrator takes an advisory lock.
///
/// # Errors
/// Returns [`Error`] under the same conditions as [`sqlite`].
pub(super) async fn postgres(connection: &mut PgConnection) -> Result<(), Error> {
    run(|step| step.postgres, connection).await?;
    let later = sqlx::query_as(LATER).bind(newest());
    check_compatible(&later.fetch_all(connection).await?)
}

/// Returns the version of the newest migration of this program.
pub(super) fn newest() -> i64 {
    STEPS.iter().map(|step| step.version).max().unwrap_or(0)
}

/// Returns `true` if this program can use a database with the migration `version`. `description` is
/// the description of the migration in the database. The program must contain the migration, or the
/// migration must be compatible with the program.
pub(super) fn is_compatible(version: i64, description: &str) -> bool {
    let oldest = description.rsplit_once(COMPATIBLE);
    let oldest = oldest.and_then(|(_, oldest)| oldest.parse::<i64>().ok());
    version <= newest() || oldest.is_some_and(|oldest| oldest <= newest())
}

fn check_compatible(later: &[(i64, String)]) -> Result<(), Error> {
    let mut later = later.iter();
    match later.find(|(version, description)| !is_compatible(*version, description)) {
        None => Ok(()),
        Some((version, _)) => Err(Error::Unusable(format!(
            "a later version of Latchmail has migrated the database (migration {version}), and this version is not compatible with it; install that version again, \
             or restore a backup of the database"
        ))),
    }
}

/// Returns the version and the checksum of each migration for SQLite.
pub(super) fn sqlite_checksums() -> Vec<(i64, Vec<u8>)> {
    checksums(|step| step.sqlite)
}

/// Returns the version and the checksum of each migration for `PostgreSQL`.
pub(super) fn postgres_checksums() -> Vec<(i64, Vec<u8>)> {
    checksums(|step| step.postgres)
}

fn checksums(dialect: fn(&Step) -> &'static str) -> Vec<(i64, Vec<u8>)> {
    let migrator = migrator(dialect);
    let migrations = migrator.iter();
    migrations
        .map(|one| (one.version, one.checksum.to_vec()))
        .collect()
}

/// Returns a digest of all migrations. Tests copy a template database instead of running the
/// migrations. The name of the template database contains this digest.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn digest() -> String {
    let texts: Vec<String> = STEPS
        .iter()
        .map(|step| format!("{}{}{}", step.oldest, step.sqlite, step.postgres))
        .collect();
    latchmail_core::secrets::sha256_hex(&texts.concat())[..16].to_owned()
}

/// Runs the missing migrations in one SQL dialect. `Migrator::run` is not used, because its future
/// is not `Send`.
async fn run<C: Migrate>(
    dialect: fn(&Step) -> &'static str,
    connection: &mut C,
) -> Result<(), MigrateError> {
    migrator(dialect).run_direct(None, connection, false).await
}

fn migrator(dialect: fn(&Step) -> &'static str) -> Migrator {
    let mut migrator = Migrator::with_migrations(
        STEPS
            .iter()
            .map(|step| {
                Migration::new(
                    step.version,
                    format!("{}{COMPATIBLE}{}", step.description, step.oldest).into(),
                    MigrationType::Simple,
                    SqlStr::from_static(dialect(step)),
                    false,
                )
            })
            .collect(),
    );
    // After the run, `check_compatible` checks the migrations of later versions.
    migrator.set_ignore_missing(true);
    migrator
}

#[cfg(test)]
mod tests;
