//! The embedded migrations. Each step is listed once with its SQL for both databases.
//!
//! `sqlx::migrate!` is not used: it would add sqlx's query macros to every build, and an incremental build would not notice a new file.

use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlStr, SqliteConnection};

struct Step {
    version: i64,
    description: &'static str,
    /// Empty if the step does nothing on SQLite.
    sqlite: &'static str,
    postgres: &'static str,
}

/// Released steps must never change, because databases store the digest of every applied step.
const STEPS: &[Step] = &[
    Step {
        version: 1,
        description: "initial",
        sqlite: include_str!("../../../migrations/sqlite/0001_initial.sql"),
        postgres: include_str!("../../../migrations/postgres/0001_initial.sql"),
    },
    Step {
        version: 2,
        description: "mailserver",
        sqlite: "", // a file of its own: see migrations/mailserver/sqlite/
        postgres: include_str!("../../../migrations/postgres/0002_mailserver.sql"),
    },
    Step {
        version: 3,
        description: "sendings",
        sqlite: include_str!("../../../migrations/sqlite/0003_sendings.sql"),
        postgres: include_str!("../../../migrations/postgres/0003_sendings.sql"),
    },
    Step {
        version: 4,
        description: "credentials",
        sqlite: include_str!("../../../migrations/sqlite/0004_credentials.sql"),
        postgres: include_str!("../../../migrations/postgres/0004_credentials.sql"),
    },
    Step {
        version: 5,
        description: "last logins",
        sqlite: "", // a file of its own: see migrations/mailserver/sqlite/
        postgres: include_str!("../../../migrations/postgres/0005_last_logins.sql"),
    },
    Step {
        version: 6,
        description: "ended app passwords",
        sqlite: include_str!("../../../migrations/sqlite/0006_ended_app_passwords.sql"),
        postgres: include_str!("../../../migrations/postgres/0006_ended_app_passwords.sql"),
    },
    Step {
        version: 7,
        description: "bounds",
        sqlite: include_str!("../../../migrations/sqlite/0007_bounds.sql"),
        postgres: include_str!("../../../migrations/postgres/0007_bounds.sql"),
    },
    Step {
        version: 8,
        description: "domains",
        sqlite: include_str!("../../../migrations/sqlite/0008_domains.sql"),
        postgres: include_str!("../../../migrations/postgres/0008_domains.sql"),
    },
    Step {
        version: 9,
        description: "milter",
        sqlite: "", // a file of its own: see migrations/mailserver/sqlite/
        postgres: include_str!("../../../migrations/postgres/0009_milter.sql"),
    },
    Step {
        version: 10,
        description: "owned aliases",
        sqlite: "", // a file of its own: see migrations/mailserver/sqlite/
        postgres: include_str!("../../../migrations/postgres/0010_owned_aliases.sql"),
    },
    Step {
        version: 11,
        description: "milter keys",
        sqlite: "", // a file of its own: see migrations/mailserver/sqlite/
        postgres: include_str!("../../../migrations/postgres/0011_milter_keys.sql"),
    },
    Step {
        version: 12,
        description: "modules",
        sqlite: include_str!("../../../migrations/sqlite/0012_modules.sql"),
        postgres: include_str!("../../../migrations/postgres/0012_modules.sql"),
    },
    Step {
        version: 13,
        description: "stores",
        sqlite: include_str!("../../../migrations/sqlite/0013_stores.sql"),
        postgres: include_str!("../../../migrations/postgres/0013_stores.sql"),
    },
    Step {
        version: 14,
        description: "teams",
        sqlite: include_str!("../../../migrations/sqlite/0014_teams.sql"),
        postgres: include_str!("../../../migrations/postgres/0014_teams.sql"),
    },
    Step {
        version: 15,
        description: "module components",
        sqlite: include_str!("../../../migrations/sqlite/0015_module_components.sql"),
        postgres: include_str!("../../../migrations/postgres/0015_module_components.sql"),
    },
    Step {
        version: 16,
        description: "what served before",
        sqlite: include_str!("../../../migrations/sqlite/0016_what_served_before.sql"),
        postgres: include_str!("../../../migrations/postgres/0016_what_served_before.sql"),
    },
    Step {
        version: 17,
        description: "oauth",
        sqlite: include_str!("../../../migrations/sqlite/0017_oauth.sql"),
        postgres: include_str!("../../../migrations/postgres/0017_oauth.sql"),
    },
    Step {
        version: 18,
        description: "networks",
        sqlite: include_str!("../../../migrations/sqlite/0018_networks.sql"),
        postgres: include_str!("../../../migrations/postgres/0018_networks.sql"),
    },
    Step {
        version: 19,
        description: "oauth scopes",
        sqlite: include_str!("../../../migrations/sqlite/0019_oauth_scopes.sql"),
        postgres: include_str!("../../../migrations/postgres/0019_oauth_scopes.sql"),
    },
];

/// Applies the missing steps. The caller holds a transaction, because the migrator takes no lock on SQLite.
pub(super) async fn sqlite(connection: &mut SqliteConnection) -> Result<(), MigrateError> {
    run(|step| step.sqlite, connection).await
}

/// Applies the missing steps under an advisory lock.
pub(super) async fn postgres(connection: &mut PgConnection) -> Result<(), MigrateError> {
    run(|step| step.postgres, connection).await
}

/// Names the resulting schema. Tests use the name to copy a database instead of applying the steps again.
#[cfg(any(test, feature = "testing"))]
pub(in crate::directory) fn digest() -> String {
    let texts: Vec<&str> = STEPS
        .iter()
        .flat_map(|step| [step.sqlite, step.postgres])
        .collect();
    crate::auth::secrets::sha256_hex(&texts.concat())[..16].to_owned()
}

/// Uses `run_direct`, because the future of `run` cannot be spawned: the compiler cannot prove that it is `Send`.
async fn run<C: Migrate>(
    dialect: fn(&Step) -> &'static str,
    connection: &mut C,
) -> Result<(), MigrateError> {
    migrator(dialect).run_direct(None, connection, false).await
}

fn migrator(dialect: fn(&Step) -> &'static str) -> Migrator {
    let migrations = STEPS.iter().filter(|step| !dialect(step).is_empty());
    Migrator::with_migrations(
        migrations
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
