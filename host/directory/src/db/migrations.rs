//! The database migrations, which are embedded in the program. Each migration has one SQL text for SQLite and one for PostgreSQL.
//!
//! `sqlx::migrate!` is not used. The macro adds sqlx's query macros to every build, and an incremental build does not notice a new migration file.

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlStr, SqliteConnection};

struct Step {
    version: i64,
    description: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// Do not change a released migration, because each database stores the checksums of its migrations.
const STEPS: &[Step] = &[
    Step {
        version: 1,
        description: "initial",
        sqlite: include_str!("../../migrations/sqlite/0001_initial.sql"),
        postgres: include_str!("../../migrations/postgres/0001_initial.sql"),
    },
    Step {
        version: 2,
        description: "hosts",
        sqlite: include_str!("../../migrations/sqlite/0002_hosts.sql"),
        postgres: include_str!("../../migrations/postgres/0002_hosts.sql"),
    },
];

/// Runs the missing migrations. The caller must begin a write transaction first, because the migrator does not lock an SQLite database.
pub(super) async fn sqlite(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    run(|step| step.sqlite, connection).await
}

/// Runs the missing migrations. The migrator takes an advisory lock.
pub(super) async fn postgres(connection: &mut PgConnection) -> Result<(), MigrateError> {
    run(|step| step.postgres, connection).await
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

/// Returns a digest of all migrations. Tests copy a template database instead of running the migrations. The name of the template database contains this
/// digest.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn digest() -> String {
    let texts: Vec<&str> = STEPS
        .iter()
        .flat_map(|step| [step.sqlite, step.postgres])
        .collect();
    latchmail_core::secrets::sha256_hex(&texts.concat())[..16].to_owned()
}

/// Runs the missing migrations in one SQL dialect. `Migrator::run` is not used, because its future is not `Send`.
async fn run<C: Migrate>(
    dialect: fn(&Step) -> &'static str,
    connection: &mut C,
) -> Result<(), MigrateError> {
    migrator(dialect).run_direct(None, connection, false).await
}

fn migrator(dialect: fn(&Step) -> &'static str) -> Migrator {
    Migrator::with_migrations(
        STEPS
            .iter()
            .map(|step| {
                Migration::new(
                    step.version,
                    step.description.into(),
                    MigrationType::Simple,
                    SqlStr::from_static(dialect(step)),
                    false,
                )
            })
            .collect(),
    )
}
