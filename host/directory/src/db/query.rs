//! Runs queries, in a transaction ([`Tx`]) or without one ([`Db`]). The text of a query is the same
//! for SQLite and PostgreSQL. A list of parameters is an array, or a tuple if the types differ.

use std::borrow::Cow;

use latchmail_core::clock::Timestamp;
use sqlx::FromRow;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::{Changed as _, Db, Error, Tx, on, on_tx};

/// A parameter of a query.
#[derive(Clone, Debug)]
pub(crate) enum Parameter<'p> {
    Text(Option<Cow<'p, str>>),
    Number(Option<i64>),
    Boolean(bool),
    Bytes(Option<&'p [u8]>),
}

macro_rules! parameter {
    ($($from:ty: $value:ident => $variant:ident($inner:expr);)+) => {
        $(impl<'p> From<$from> for Parameter<'p> {
            fn from($value: $from) -> Self {
                Self::$variant($inner)
            }
        })+
    };
}

parameter! {
    &'p str: text => Text(Some(text.into()));
    &'p &'p str: text => Text(Some((*text).into()));
    &'p String: text => Text(Some(text.into()));
    String: text => Text(Some(text.into()));
    Option<&'p str>: text => Text(text.map(Cow::from));
    Option<&'p String>: text => Text(text.map(Cow::from));
    &'p Option<String>: text => Text(text.as_ref().map(Cow::from));
    Option<String>: text => Text(text.map(Cow::from));
    i64: number => Number(Some(number));
    u32: number => Number(Some(number.into()));
    Option<i64>: number => Number(number);
    Timestamp: time => Number(Some(time.millis()));
    Option<Timestamp>: time => Number(time.map(Timestamp::millis));
    bool: value => Boolean(value);
    &'p [u8]: bytes => Bytes(Some(bytes));
    &'p Vec<u8>: bytes => Bytes(Some(bytes));
    Option<&'p Vec<u8>>: bytes => Bytes(bytes.map(Vec::as_slice));
    &'p Option<Vec<u8>>: bytes => Bytes(bytes.as_deref());
}

/// A list of parameters.
pub(crate) trait Parameters<'p> {
    fn list(self) -> Vec<Parameter<'p>>;
}

impl<'p, T: Into<Parameter<'p>>, const N: usize> Parameters<'p> for [T; N] {
    fn list(self) -> Vec<Parameter<'p>> {
        self.into_iter().map(Into::into).collect()
    }
}

macro_rules! tuples {
    ($($($type:ident)*;)+) => {
        $(impl<'p, $($type: Into<Parameter<'p>>),*> Parameters<'p> for ($($type,)*) {
            #[expect(non_snake_case, reason = "the variables have the names of their types")]
            fn list(self) -> Vec<Parameter<'p>> {
                let ($($type,)*) = self;
                vec![$($type.into()),*]
            }
        })+
    };
}

tuples! {
    P1 P2;
    P1 P2 P3;
    P1 P2 P3 P4;
    P1 P2 P3 P4 P5;
    P1 P2 P3 P4 P5 P6;
    P1 P2 P3 P4 P5 P6 P7;
    P1 P2 P3 P4 P5 P6 P7 P8;
    P1 P2 P3 P4 P5 P6 P7 P8 P9;
    P1 P2 P3 P4 P5 P6 P7 P8 P9 P10;
    P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11;
    P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P13 P14;
}

impl<'p> Parameters<'p> for () {
    fn list(self) -> Vec<Parameter<'p>> {
        Vec::new()
    }
}

impl<'p, const N: usize> Parameters<'p> for &[Parameter<'p>; N] {
    fn list(self) -> Vec<Parameter<'p>> {
        self.to_vec()
    }
}

/// A type that can be read from a row of SQLite and of PostgreSQL.
pub(crate) trait Fetch:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<T> Fetch for T where
    T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

macro_rules! bind {
    ($query:expr, $parameters:expr) => {
        $parameters
            .list()
            .into_iter()
            .fold($query, |query, parameter| match parameter {
                Parameter::Text(text) => query.bind(text),
                Parameter::Number(number) => query.bind(number),
                Parameter::Boolean(value) => query.bind(value),
                Parameter::Bytes(bytes) => query.bind(bytes),
            })
    };
}

pub(super) use bind;

impl Db {
    /// Runs a statement that changes rows, in a transaction of its own. Returns the number of
    /// changed rows.
    pub(crate) async fn execute<'p>(
        &self,
        query: &'static str,
        parameters: impl Parameters<'p>,
    ) -> Result<u64, Error> {
        match self {
            Self::Sqlite(..) => {
                let mut tx = self.begin().await?;
                let changed = tx.execute(query, parameters).await?;
                tx.end().await?;
                Ok(changed)
            }
            Self::Postgres(pool) => {
                let done = bind!(sqlx::query(query), parameters).execute(pool).await;
                done.changed().map(|done| done.rows_affected())
            }
        }
    }

    /// Runs a statement that changes rows and returns one of them, in a transaction of its own.
    /// Returns the first row, or `None` if there is no row.
    pub(crate) async fn returning<'p, T: Fetch>(
        &self,
        query: &'static str,
        parameters: impl Parameters<'p>,
    ) -> Result<Option<T>, Error> {
        match self {
            Self::Sqlite(..) => {
                let mut tx = self.begin().await?;
                let row = tx.optional(query, parameters).await?;
                tx.end().await?;
                Ok(row)
            }
            Self::Postgres(_) => self.optional(query, parameters).await,
        }
    }
}

impl Tx {
    /// Runs a statement that changes rows. Returns the number of changed rows.
    pub(crate) async fn execute<'p>(
        &mut self,
        query: &'static str,
        parameters: impl Parameters<'p>,
    ) -> Result<u64, Error> {
        Ok(on_tx!(self, db => bind!(sqlx::query(query), parameters)
            .execute(db).await.map(|done| done.rows_affected()))?)
    }
}

/// Defines the functions that read rows. `$self` is the receiver, and `$on` the macro that runs an
/// expression on both databases.
macro_rules! reads {
    ($database:ty, [$($receiver:tt)+], $self:ident, $on:ident) => {
        impl $database {
            /// Returns all rows.
            pub(crate) async fn all<'p, T: Fetch>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<Vec<T>, Error> {
                Ok($on!($self, db => bind!(sqlx::query_as(query), parameters).fetch_all(db).await)?)
            }

            /// Returns the first row, or `None` if there is no row.
            pub(crate) async fn optional<'p, T: Fetch>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<Option<T>, Error> {
                let found = $on!($self, db => bind!(sqlx::query_as(query), parameters)
                    .fetch_optional(db).await);
                Ok(found?)
            }

            /// Returns the first row. Fails if there is no row.
            pub(crate) async fn one<'p, T: Fetch>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<T, Error> {
                let found = $self.optional(query, parameters).await?;
                found.ok_or_else(|| sqlx::Error::RowNotFound.into())
            }

            /// Returns the first column of all rows.
            pub(crate) async fn values<'p, T>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<Vec<T>, Error>
            where
                (T,): Fetch,
            {
                let rows: Vec<(T,)> = $self.all(query, parameters).await?;
                Ok(rows.into_iter().map(|(value,)| value).collect())
            }

            /// Returns the first column of the first row, or `None` if there is no row.
            pub(crate) async fn optional_value<'p, T>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<Option<T>, Error>
            where
                (T,): Fetch,
            {
                let row: Option<(T,)> = $self.optional(query, parameters).await?;
                Ok(row.map(|(value,)| value))
            }

            /// Returns the first column of the first row. Fails if there is no row.
            pub(crate) async fn value<'p, T>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<T, Error>
            where
                (T,): Fetch,
            {
                let (value,): (T,) = $self.one(query, parameters).await?;
                Ok(value)
            }

            /// Returns `true` if the query returns a row. The query must select the number 1.
            pub(crate) async fn exists<'p>(
                $($receiver)+,
                query: &'static str,
                parameters: impl Parameters<'p>,
            ) -> Result<bool, Error> {
                let found: Option<(i32,)> = $self.optional(query, parameters).await?;
                Ok(found.is_some())
            }
        }
    };
}

reads!(Db, [&self], self, on);
reads!(Tx, [&mut self], self, on_tx);
