//! The columns with secrets that are encrypted (sealed) with the service's keys. Each sealed value
//! starts with the id of its key. When a new key becomes the current key, the service encrypts all
//! values again with the new key.
//!
//! The app passwords of API tokens and OAuth grants are not in these columns. These app passwords
//! are encrypted with keys that are derived from the tokens.

use latchmail_core::clock::Timestamp;

use super::Keys;
use crate::db::Error;

/// A column with sealed secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedColumn {
    /// The app passwords of web sessions. A row is identified by the session's `sid`.
    Session,
    /// The refresh tokens of the identity provider. A row is identified by the session's `sid`.
    ProviderToken,
    /// The secrets of second factors. A row is identified by the account's id.
    TwoFactor,
    /// The app passwords for the members of shared mailboxes. A row is identified by the mailbox's
    /// id.
    TeamKey,
    /// The app passwords of the search index. A row is identified by the account's id.
    IndexKey,
    /// The DKIM keys of verified domains. A row is identified by the domain.
    DkimKey,
    /// The keys of uploads.
    UploadKey,
    /// The payloads of jobs. A row is identified by the job's id.
    Job,
    /// The keys of entries in the outbox. A row is identified by the entry's id.
    OutboxEntry,
    /// The app passwords of the outbox. A row is identified by the account's id.
    OutboxKey,
    /// The settings of webhooks. A row is identified by the webhook's id.
    Webhook,
    /// The bodies of deliveries to webhooks. A row is identified by the delivery's id.
    WebhookBody,
    /// The keys of the bytes of changes that grants made.
    GrantChange,
}

/// The queries for one [`SealedColumn`].
struct Queries {
    /// Returns a page of the values that are not sealed with the current key: at most `$3` rows,
    /// after the row `$2`. `$1` is the id of the current key.
    page: &'static str,
    /// Replaces the value `$2` in the row `$1` by the value `$3`.
    reseal: &'static str,
    /// Returns the number of values that are sealed with the key with the id `$1`.
    count: &'static str,
}

macro_rules! queries {
    ($table:literal, $row:literal, $column:literal, $condition:literal) => {
        Queries {
            page: concat!(
                "SELECT ",
                $row,
                ", ",
                $column,
                " FROM ",
                $table,
                " WHERE substr(",
                $column,
                ", 1, 8) <> $1 AND ",
                $row,
                " > $2 AND ",
                $condition,
                " ORDER BY ",
                $row,
                " LIMIT $3"
            ),
            reseal: concat!(
                "UPDATE ",
                $table,
                " SET ",
                $column,
                " = $3 WHERE ",
                $row,
                " = $1 AND ",
                $column,
                " = $2"
            ),
            count: concat!(
                "SELECT COUNT(*) FROM ",
                $table,
                " WHERE substr(",
                $column,
                ", 1, 8) = $1 AND ",
                $condition
            ),
        }
    };
}

const SESSIONS: Queries = queries!("sessions", "sid", "sealed_password", "TRUE");
const PROVIDER_TOKENS: Queries = queries!("sessions", "sid", "sealed_provider_token", "TRUE");
const TWO_FACTOR: Queries = queries!("two_factor", "account_id", "sealed_secret", "TRUE");
const TEAM_KEYS: Queries = queries!("team_keys", "mailbox", "sealed_password", "TRUE");
const INDEX_KEYS: Queries = queries!("index_keys", "account_id", "sealed_password", "TRUE");
const DKIM_KEYS: Queries = queries!(
    "domains",
    "domain",
    "dkim_private_key",
    "verified_at IS NOT NULL"
);
const UPLOAD_KEYS: Queries = queries!("uploads", "id", "sealed_key", "TRUE");
const OUTBOX_ENTRIES: Queries = queries!("outbox", "id", "sealed_key", "TRUE");
const OUTBOX_KEYS: Queries = queries!("outbox_keys", "account_id", "sealed_password", "TRUE");
const JOBS: Queries = queries!("jobs", "id", "sealed_payload", "TRUE");
const WEBHOOKS: Queries = queries!("webhooks", "id", "sealed_settings", "TRUE");
const WEBHOOK_BODIES: Queries = queries!("webhook_deliveries", "id", "sealed_body", "TRUE");
const GRANT_CHANGES: Queries = queries!(
    "grant_changes",
    "key_id",
    "sealed_key",
    "sealed_key IS NOT NULL"
);

/// Returns the latest expiry of the sessions whose app passwords are sealed with the key $1.
const LAST_SESSION: &str =
    "SELECT MAX(expires_at) FROM sessions WHERE substr(sealed_password, 1, 8) = $1";
const COUNT_EXPIRED: &str =
    "SELECT COUNT(*) FROM sessions WHERE substr(sealed_password, 1, 8) = $1 AND expires_at <= $2";

impl SealedColumn {
    /// All columns except the columns of the table `sessions`.
    pub const WITHOUT_SESSIONS: [Self; 11] = [
        Self::TwoFactor,
        Self::TeamKey,
        Self::IndexKey,
        Self::DkimKey,
        Self::UploadKey,
        Self::Job,
        Self::OutboxEntry,
        Self::OutboxKey,
        Self::Webhook,
        Self::WebhookBody,
        Self::GrantChange,
    ];

    /// All columns.
    pub const ALL: [Self; 13] = [
        Self::TwoFactor,
        Self::TeamKey,
        Self::IndexKey,
        Self::DkimKey,
        Self::UploadKey,
        Self::Job,
        Self::OutboxEntry,
        Self::OutboxKey,
        Self::Webhook,
        Self::WebhookBody,
        Self::GrantChange,
        Self::Session,
        Self::ProviderToken,
    ];

    const fn queries(self) -> Queries {
        match self {
            Self::Session => SESSIONS,
            Self::ProviderToken => PROVIDER_TOKENS,
            Self::TwoFactor => TWO_FACTOR,
            Self::TeamKey => TEAM_KEYS,
            Self::IndexKey => INDEX_KEYS,
            Self::DkimKey => DKIM_KEYS,
            Self::UploadKey => UPLOAD_KEYS,
            Self::Job => JOBS,
            Self::OutboxEntry => OUTBOX_ENTRIES,
            Self::OutboxKey => OUTBOX_KEYS,
            Self::Webhook => WEBHOOKS,
            Self::WebhookBody => WEBHOOK_BODIES,
            Self::GrantChange => GRANT_CHANGES,
        }
    }
}

impl Keys {
    /// Returns up to `limit` rows whose values were sealed with other keys than the key with the id
    /// `key`, each with the sealed value. Returns only rows whose identifier is greater than
    /// `after`, sorted by identifier.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sealed(
        &self,
        column: SealedColumn,
        key: &[u8],
        after: &str,
        limit: i64,
    ) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.db
            .all(column.queries().page, (key, after, limit))
            .await
    }

    /// Replaces the sealed value `before` of a row with `after`. `after` must be the same secret,
    /// sealed again. Does nothing if a concurrent request changed the value.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn reseal(
        &self,
        column: SealedColumn,
        row: &str,
        before: &[u8],
        after: &[u8],
    ) -> Result<(), Error> {
        self.db
            .execute(column.queries().reseal, (row, before, after))
            .await?;
        Ok(())
    }

    /// Returns the number of values that the key with the id `key` sealed. Does not count expired
    /// sessions.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn count_sealed(
        &self,
        column: SealedColumn,
        key: &[u8],
        now: Timestamp,
    ) -> Result<u64, Error> {
        let mut count: i64 = self.db.value(column.queries().count, [key]).await?;
        if column == SealedColumn::Session {
            let expired: i64 = self.db.value(COUNT_EXPIRED, (key, now)).await?;
            count -= expired;
        }
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Returns the end of the last session whose app password the key with the id `key` sealed, or
    /// `None` if there is no such session.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn last_sealed_session(&self, key: &[u8]) -> Result<Option<Timestamp>, Error> {
        let last: Option<i64> = self.db.value(LAST_SESSION, [key]).await?;
        Ok(last.map(Timestamp::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, NOW, both};

    async fn values_are_listed_in_pages_counted_by_key_and_resealed_unless_they_changed(
        fresh: Fresh,
    ) {
        let directory = &fresh.directory;
        directory.with("a", "ada@example.org", &["s", "t"]).await;
        fresh.domain("a", "ada.example", true).await;
        fresh.domain("a", "pending.example", false).await;
        let page = async |column, key: &'static [u8], after| {
            let page = directory.keys.sealed(column, key, after, 10).await;
            page.unwrap()
        };
        let session = |sid: &str| (sid.to_owned(), b"sealed".to_vec());
        let sessions = SealedColumn::Session;
        assert_eq!(
            page(sessions, b"12345678", "").await,
            [session("s"), session("t")]
        );
        assert_eq!(page(sessions, b"12345678", "s").await, [session("t")]);
        assert_eq!(
            directory
                .keys
                .sealed(sessions, b"", "", 1)
                .await
                .unwrap()
                .len(),
            1
        );
        for (before, after) in [
            (b"other".as_slice(), b"x".as_slice()),
            (b"sealed", b"12345678nonce"),
        ] {
            let resealed = directory.keys.reseal(sessions, "s", before, after);
            resealed.await.unwrap();
        }
        assert_eq!(page(sessions, b"12345678", "").await, [session("t")]);
        let count = async |column, now| {
            let count = directory.keys.count_sealed(column, b"12345678", now).await;
            count.unwrap()
        };
        assert_eq!(count(sessions, NOW).await, 1);
        let last = directory
            .keys
            .last_sealed_session(b"12345678")
            .await
            .unwrap();
        assert_eq!(count(sessions, last.unwrap()).await, 0, "expired");
        assert_eq!(
            directory
                .keys
                .last_sealed_session(b"other678")
                .await
                .unwrap(),
            None
        );

        for column in SealedColumn::ALL {
            assert!(page(column, b"", "z").await.is_empty());
            if column != sessions {
                assert_eq!(count(column, NOW).await, 0);
            }
        }
        let domains = page(SealedColumn::DkimKey, b"12345678", "").await;
        assert_eq!(domains, [("ada.example".to_owned(), b"k".to_vec())]);
    }

    both!(values_are_listed_in_pages_counted_by_key_and_resealed_unless_they_changed);
}
