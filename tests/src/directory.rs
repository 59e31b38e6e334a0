//! The service's directory, changed behind its back: what no route changes yet.

use latchmail::config::Database;
use latchmail::directory::{Db, Directory};

use crate::Person;

const DOMAINS: &str = "SELECT domain FROM platform_domains";
const ADD_ALIAS: &str = "INSERT INTO addresses (address, kind, account_id, active) \
     VALUES ($1, 'alias', (SELECT id FROM accounts WHERE address = $2), $3)";

/// The directory in that database. Its domains stay those that the service wrote: opening sets them, and without them no more mail is taken.
pub(crate) async fn open(database: &Database) -> Directory {
    let db = Db::open(database).await.unwrap();
    let domains: Vec<String> = match &db {
        Db::Sqlite(pool) => sqlx::query_scalar(DOMAINS).fetch_all(pool).await,
        Db::Postgres(pool) => sqlx::query_scalar(DOMAINS).fetch_all(pool).await,
    }
    .unwrap();
    db.close().await;
    Directory::open(database, &domains).await.unwrap()
}

/// Gives a person one more address, which delivers and may be sent from where it is active.
pub async fn alias(person: &Person<'_>, address: &str, active: bool) {
    let directory = open(person.service.database()).await;
    match directory.db() {
        Db::Sqlite(pool) => sqlx::query(ADD_ALIAS)
            .bind(address)
            .bind(&person.address)
            .bind(active)
            .execute(pool)
            .await
            .map(drop),
        Db::Postgres(pool) => sqlx::query(ADD_ALIAS)
            .bind(address)
            .bind(&person.address)
            .bind(active)
            .execute(pool)
            .await
            .map(drop),
    }
    .unwrap();
    directory.db().close().await;
}
