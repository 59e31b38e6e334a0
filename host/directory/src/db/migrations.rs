//! The migrations of the database, which are embedded in the program. Each migration has one SQL text for SQLite and one for PostgreSQL.
//!
//! `sqlx::migrate!` is not used, because it adds sqlx's query macros to every build and does not notice a new file in an incremental build.

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlStr, SqliteConnection};

struct Step {
    version: i64,
    description: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

/// A released migration is never changed, because each database stores the checksums of the migrations that it ran.
const STEPS: &[Step] = &[Step {
    version: 1,
    description: "initial",
    sqlite: include_str!("../../migrations/sqlite/0001_initial.sql"),
    postgres: include_str!("../../migrations/postgres/0001_initial.sql"),
}];

/// Runs the migrations that the database does not have yet. The caller must begin a write transaction first, because the migrator does not lock an SQLite
/// database.
pub(super) async fn sqlite(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    run(|step| step.sqlite, connection).await
}

/// Runs the migrations that the database does not have yet. The migrator takes an advisory lock.
pub(super) async fn postgres(connection: &mut PgConnection) -> Result<(), MigrateError> {
    run(|step| step.postgres, connection).await
}

/// Returns a digest of all migrations. Tests use it in the name of a template database, which they copy instead of running the migrations again.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn digest() -> String {
    let texts: Vec<&str> = STEPS
        .iter()
        .flat_map(|step| [step.sqlite, step.postgres])
        .collect();
    latchmail_core::secrets::sha256_hex(&texts.concat())[..16].to_owned()
}

/// Runs the missing migrations in one SQL dialect. Uses `run_direct`, because the future of `Migrator::run` is not `Send`.
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
