//! The migrations, which are embedded in the program. Each has one text per database.
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

/// Runs the missing migrations. The caller holds a transaction, because the migrator does not lock SQLite.
pub(super) async fn sqlite(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    run(|step| step.sqlite, connection).await
}

/// Runs the missing migrations while holding an advisory lock.
pub(super) async fn postgres(connection: &mut PgConnection) -> Result<(), MigrateError> {
    run(|step| step.postgres, connection).await
}

/// Identifies the schema, for tests that copy a database instead of running the migrations again.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn digest() -> String {
    let texts: Vec<&str> = STEPS
        .iter()
        .flat_map(|step| [step.sqlite, step.postgres])
        .collect();
    latchmail_core::secrets::sha256_hex(&texts.concat())[..16].to_owned()
}

/// Uses `run_direct`, because the future of `Migrator::run` is not `Send`.
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
