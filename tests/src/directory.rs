//! Changes the service's database directly, to create states that no route can create.

use latchmail_core::config::Database;
use latchmail_directory::Directory;
use latchmail_directory::db::Tx;

use crate::{Person, Service};

const ADD_ALIAS: &str = "INSERT INTO addresses (address, kind, account_id, active) \
     VALUES ($1, 'alias', (SELECT id FROM accounts WHERE address = $2), $3)";

const ADD_PROFILE: &str = "INSERT INTO profiles (account_id, first_name, last_name, dob, created_at) \
     VALUES ((SELECT id FROM accounts WHERE address = $1), 'Ada', 'Lovelace', '1990-12-10', $2)";

/// Removes the outcome of all imports, as if the host had stopped before it stored the outcome.
const FORGET_IMPORTS: &str = "UPDATE imports SET outcome = NULL, uid = NULL, process = 'stopped'";

/// Opens the database while the service uses it.
pub(crate) async fn open(database: &Database) -> Directory {
    Directory::open_beside_service(database).await.unwrap()
}

/// Adds an alias to a person's account.
pub async fn add_alias(person: &Person<'_>, address: &str, active: bool) {
    let directory = open(&person.service.database()).await;
    let mut tx = directory.db().begin().await.unwrap();
    match &mut tx {
        Tx::Sqlite(tx) => sqlx::query(ADD_ALIAS)
            .bind(address)
            .bind(&person.address)
            .bind(active)
            .execute(&mut **tx)
            .await
            .map(drop),
        Tx::Postgres(tx) => sqlx::query(ADD_ALIAS)
            .bind(address)
            .bind(&person.address)
            .bind(active)
            .execute(&mut **tx)
            .await
            .map(drop),
    }
    .unwrap();
    tx.commit().await.unwrap();
    directory.db().repair_mailserver().await.unwrap();
    directory.close().await;
}

/// Adds the profile of a registration to a person's account.
pub(crate) async fn add_profile(person: &Person<'_>) {
    let created_at = person.service.clock.now().millis();
    let directory = open(&person.service.database()).await;
    let mut tx = directory.db().begin().await.unwrap();
    match &mut tx {
        Tx::Sqlite(tx) => sqlx::query(ADD_PROFILE)
            .bind(&person.address)
            .bind(created_at)
            .execute(&mut **tx)
            .await
            .map(drop),
        Tx::Postgres(tx) => sqlx::query(ADD_PROFILE)
            .bind(&person.address)
            .bind(created_at)
            .execute(&mut **tx)
            .await
            .map(drop),
    }
    .unwrap();
    tx.commit().await.unwrap();
    directory.close().await;
}

/// Makes the outcome of all imports with an idempotency key unknown.
pub async fn forget_imports(service: &Service) {
    let directory = open(&service.database()).await;
    let mut tx = directory.db().begin().await.unwrap();
    match &mut tx {
        Tx::Sqlite(tx) => sqlx::query(FORGET_IMPORTS)
            .execute(&mut **tx)
            .await
            .map(drop),
        Tx::Postgres(tx) => sqlx::query(FORGET_IMPORTS)
            .execute(&mut **tx)
            .await
            .map(drop),
    }
    .unwrap();
    tx.commit().await.unwrap();
    directory.close().await;
}
