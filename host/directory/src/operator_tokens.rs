//! Operator tokens, with which programs of the operator use the admin API and SCIM, and the
//! idempotency keys of their requests. A token belongs to no account, and has no credential at the
//! mail server.

use std::time::Duration;

use latchmail_core::caller::{OperatorScope, Origin};
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};

/// The time for which an idempotency key is stored.
pub const RETENTION: Duration = Duration::from_hours(24);

/// The precision of the time of last use. Most requests then write nothing.
const USE_PRECISION: Duration = Duration::from_mins(1);

const INSERT: &str = "INSERT INTO operator_tokens (id, name, scopes, secret_hash, hint, created_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (name) DO NOTHING";
const BY_HASH: &str = "SELECT id, name, scopes, hint, created_at, expires_at, last_used_at FROM operator_tokens WHERE secret_hash = $1";
const LIST: &str = "SELECT id, name, scopes, hint, created_at, expires_at, last_used_at FROM operator_tokens ORDER BY name";
const DELETE: &str = "DELETE FROM operator_tokens WHERE name = $1 RETURNING id";
const USE: &str = "UPDATE operator_tokens SET last_used_at = $2 \
    WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)";

/// Replaces a row that was created at $6 or earlier.
const BEGIN: &str = "INSERT INTO operator_requests (token_id, key_hash, fingerprint, resource, created_at) \
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (token_id, key_hash) DO UPDATE SET \
    fingerprint = excluded.fingerprint, resource = excluded.resource, created_at = excluded.created_at \
    WHERE operator_requests.created_at <= $6";
const EARLIER: &str =
    "SELECT fingerprint, resource FROM operator_requests WHERE token_id = $1 AND key_hash = $2";
const SWEEP: &str = "DELETE FROM operator_requests WHERE created_at <= $1";

/// A token to store.
#[derive(Clone)]
pub struct NewOperatorToken {
    /// The token without its secret.
    pub token: OperatorToken,
    /// SHA-256 of the whole token, lower-case hexadecimal.
    pub secret_hash: String,
}

debug_fields!(NewOperatorToken { token });

/// An operator token without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    /// An opaque id.
    pub id: String,
    /// The name, which is unique among all tokens.
    pub name: String,
    /// The scopes, in canonical order.
    pub scopes: Vec<OperatorScope>,
    /// The last four characters of the token.
    pub hint: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time at which the token expires or expired, or `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The time of the last use, to the minute, or `None` if the token was never used.
    pub last_used_at: Option<Timestamp>,
}

/// The idempotency key of a request that creates something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    /// The id of the operator token.
    pub token: String,
    /// SHA-256 of the key, lower-case hexadecimal.
    pub hash: String,
    /// SHA-256 of the request without passwords, lower-case hexadecimal.
    pub fingerprint: String,
}

/// Whether a request with an idempotency key is the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The request is the first one with the key. The key is stored if the transaction is
    /// committed.
    First,
    /// An earlier request with the same content created the object with this id.
    Repeated(String),
    /// An earlier request with the key had another content.
    Reused,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    id: String,
    name: String,
    scopes: String,
    hint: String,
    created_at: i64,
    expires_at: Option<i64>,
    last_used_at: Option<i64>,
}

impl From<Row> for OperatorToken {
    fn from(row: Row) -> Self {
        Self {
            id: row.id,
            name: row.name,
            scopes: OperatorScope::read_list(&row.scopes),
            hint: row.hint,
            created_at: Timestamp::from_millis(row.created_at),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            last_used_at: row.last_used_at.map(Timestamp::from_millis),
        }
    }
}

/// The operator tokens.
#[derive(Clone, Debug)]
pub struct OperatorTokens {
    pub(crate) db: Db,
}

impl OperatorTokens {
    /// Stores a token. Returns `false` if a token with the same name exists.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is stored in that case.
    pub async fn create(&self, new: &NewOperatorToken, origin: &Origin) -> Result<bool, Error> {
        let token = &new.token;
        let scopes = OperatorScope::list(&token.scopes);
        let mut tx = self.db.begin().await?;
        let row = (
            &token.id,
            &token.name,
            &scopes,
            &new.secret_hash,
            &token.hint,
            token.created_at,
            token.expires_at,
        );
        if tx.execute(INSERT, row).await? == 0 {
            return Ok(false);
        }
        let detail = format!("{}: {scopes}", token.name);
        let created = Event::without_account(Kind::OperatorTokenCreated, token.created_at)
            .about(&token.id)
            .detail(&detail);
        events::commit(tx, created, origin).await?;
        Ok(true)
    }

    /// Returns the token with this hash, expired or not. Returns `None` if there is no such token.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn by_hash(&self, secret_hash: &str) -> Result<Option<OperatorToken>, Error> {
        let row: Option<Row> = self.db.optional(BY_HASH, [secret_hash]).await?;
        Ok(row.map(OperatorToken::from))
    }

    /// Returns all tokens, sorted by name. Includes expired tokens.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self) -> Result<Vec<OperatorToken>, Error> {
        let rows: Vec<Row> = self.db.all(LIST, ()).await?;
        Ok(rows.into_iter().map(OperatorToken::from).collect())
    }

    /// Deletes a token. Returns `false` if there is no token with this name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn delete(&self, name: &str, now: Timestamp, origin: &Origin) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let deleted: Option<String> = tx.optional_value(DELETE, [name]).await?;
        let Some(id) = deleted else {
            return Ok(false);
        };
        let deleted = Event::without_account(Kind::OperatorTokenDeleted, now)
            .about(&id)
            .detail(name);
        events::commit(tx, deleted, origin).await?;
        Ok(true)
    }

    /// Records a use of a token, unless a use within the last minute is recorded.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn record_use(&self, token: &OperatorToken, now: Timestamp) -> Result<(), Error> {
        let before = now.minus(USE_PRECISION);
        if token.last_used_at.is_none_or(|last| last <= before) {
            self.db.execute(USE, (&token.id, now, before)).await?;
        }
        Ok(())
    }

    /// Deletes idempotency keys that are older than [`RETENTION`].
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(SWEEP, [now.minus(RETENTION)]).await?;
        Ok(())
    }
}

/// Records in the transaction of a request that the request creates the object with the id
/// `resource`. If another request with the key is in progress, waits for its end. Without a key,
/// every request is the first one.
pub(super) async fn begin(
    tx: &mut Tx,
    key: Option<&RequestKey>,
    resource: &str,
    now: Timestamp,
) -> Result<Begun, Error> {
    let Some(key) = key else {
        return Ok(Begun::First);
    };
    let row = (
        &key.token,
        &key.hash,
        &key.fingerprint,
        resource,
        now,
        now.minus(RETENTION),
    );
    if tx.execute(BEGIN, row).await? == 1 {
        return Ok(Begun::First);
    }
    let (fingerprint, resource): (String, String) =
        tx.one(EARLIER, (&key.token, &key.hash)).await?;
    Ok(if fingerprint == key.fingerprint {
        Begun::Repeated(resource)
    } else {
        Begun::Reused
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, NOW, both};

    fn token(name: &str) -> NewOperatorToken {
        NewOperatorToken {
            token: OperatorToken {
                id: format!("id of {name}"),
                name: name.into(),
                scopes: vec![OperatorScope::AccountsRead, OperatorScope::Scim],
                hint: "wxyz".into(),
                created_at: NOW,
                expires_at: None,
                last_used_at: None,
            },
            secret_hash: format!("hash of {name}"),
        }
    }

    async fn a_token_is_found_by_its_hash_until_it_is_deleted(fresh: Fresh) {
        let tokens = &fresh.directory.operator_tokens;
        let origin = Origin::operator();
        for name in ["terraform", "entra"] {
            assert!(tokens.create(&token(name), &origin).await.unwrap());
        }
        let again = NewOperatorToken {
            secret_hash: "another".into(),
            ..token("entra")
        };
        assert!(!tokens.create(&again, &origin).await.unwrap());
        let found = tokens.by_hash("hash of entra").await.unwrap();
        assert_eq!(found, Some(token("entra").token));
        let names = tokens.list().await.unwrap();
        let names: Vec<_> = names.into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["entra", "terraform"]);
        assert!(tokens.delete("entra", NOW, &origin).await.unwrap());
        assert!(!tokens.delete("entra", NOW, &origin).await.unwrap());
        assert_eq!(tokens.by_hash("hash of entra").await.unwrap(), None);
        let events = "SELECT COUNT(*) FROM security_events WHERE kind LIKE 'operator_token_%'";
        assert_eq!(fresh.number(events).await, 3);
    }

    async fn a_use_is_recorded_once_a_minute(fresh: Fresh) {
        let tokens = &fresh.directory.operator_tokens;
        let new = token("entra");
        tokens.create(&new, &Origin::operator()).await.unwrap();
        let mut last = Vec::new();
        for seconds in [0, 59, 60] {
            let now = NOW.plus(Duration::from_secs(seconds));
            let found = tokens.by_hash(&new.secret_hash).await.unwrap().unwrap();
            tokens.record_use(&found, now).await.unwrap();
            let found = tokens.by_hash(&new.secret_hash).await.unwrap().unwrap();
            last.push(found.last_used_at.unwrap().since(NOW).as_secs());
        }
        assert_eq!(last, [0, 0, 60]);
    }

    async fn a_key_is_valid_for_one_request_and_for_a_day(fresh: Fresh) {
        let directory = &fresh.directory;
        let new = token("entra");
        let origin = Origin::operator();
        assert!(
            directory
                .operator_tokens
                .create(&new, &origin)
                .await
                .unwrap()
        );
        let key = |fingerprint: &str| RequestKey {
            token: new.token.id.clone(),
            hash: "key".into(),
            fingerprint: fingerprint.into(),
        };
        let begin = async |fingerprint: &str, resource: &str, now| {
            let mut tx = directory.db().begin().await.unwrap();
            let begun = super::begin(&mut tx, Some(&key(fingerprint)), resource, now).await;
            tx.commit().await.unwrap();
            begun.unwrap()
        };
        assert_eq!(begin("a", "ada", NOW).await, Begun::First);
        assert_eq!(begin("a", "bob", NOW).await, Begun::Repeated("ada".into()));
        assert_eq!(begin("b", "bob", NOW).await, Begun::Reused);
        let later = NOW.plus(RETENTION);
        assert_eq!(begin("b", "bob", later).await, Begun::First);
        directory.operator_tokens.sweep(later).await.unwrap();
        let rows = "SELECT COUNT(*) FROM operator_requests";
        assert_eq!(fresh.number(rows).await, 1);
    }

    both!(
        a_token_is_found_by_its_hash_until_it_is_deleted,
        a_use_is_recorded_once_a_minute,
        a_key_is_valid_for_one_request_and_for_a_day,
    );
}
