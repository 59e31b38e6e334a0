//! Direct access of tests to the database of a service.

use latchmail_directory::Db;
use latchmail_directory::testing::{execute, number};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::Service;

impl Service {
    /// Changes the database directly.
    pub async fn execute(&self, query: &'static str) {
        let db = self.app().directory.db();
        execute(db, query).await.unwrap();
    }

    /// Returns the number in the single row of a query.
    pub async fn number(&self, query: &'static str) -> i64 {
        let db = self.app().directory.db();
        number(db, query).await.unwrap()
    }

    /// Removes the database of the stopped service. The file of the mail servers remains.
    pub async fn lose_database(&self) {
        let url = self.database().url;
        let Some(file) = url.strip_prefix("sqlite:") else {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let query = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
            sqlx::raw_sql(query).execute(&mut connection).await.unwrap();
            return connection.close().await.unwrap();
        };
        for suffix in ["", "-wal", "-shm"] {
            // Stopping the service removes the write-ahead log.
            let _ = std::fs::remove_file(format!("{file}{suffix}"));
        }
    }

    /// Returns all rows of all tables, as text.
    pub async fn dump(&self) -> Vec<String> {
        match self.app().directory.db() {
            Db::Sqlite(pool, _) => {
                let tables = "SELECT name, (SELECT group_concat('quote(' || name || ')', ' || '' '' || ') FROM pragma_table_info(t.name)) \
                     FROM main.sqlite_master t WHERE type = 'table'";
                let tables: Vec<(String, String)> =
                    sqlx::query_as(tables).fetch_all(pool).await.unwrap();
                let mut rows: Vec<String> = Vec::new();
                for (table, columns) in tables {
                    let query = AssertSqlSafe(format!("SELECT {columns} FROM main.{table}"));
                    rows.extend(
                        sqlx::query_scalar::<_, String>(query)
                            .fetch_all(pool)
                            .await
                            .unwrap(),
                    );
                }
                rows
            }
            Db::Postgres(pool) => {
                let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
                let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(pool).await.unwrap();
                let mut rows: Vec<String> = Vec::new();
                for table in tables {
                    let query = AssertSqlSafe(format!("SELECT t::text FROM {table} t"));
                    rows.extend(
                        sqlx::query_scalar::<_, String>(query)
                            .fetch_all(pool)
                            .await
                            .unwrap(),
                    );
                }
                rows
            }
        }
    }

    /// Returns the account and the id of an active web session.
    pub async fn any_session(&self) -> (String, String) {
        let query = "SELECT account_id, sid FROM sessions";
        match self.app().directory.db() {
            Db::Sqlite(pool, _) => sqlx::query_as(query).fetch_one(pool).await,
            Db::Postgres(pool) => sqlx::query_as(query).fetch_one(pool).await,
        }
        .unwrap()
    }
}
