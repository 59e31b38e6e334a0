//! Records of messages that clients send with an idempotency key. If a client repeats a request
//! with the same key, the service does not send a second message.
//!
//! Before sending a message, the service writes a row with the state `begun`. A process may end
//! without changing this state. In that case, it is unknown whether the message was sent.

use std::time::Duration;

use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error};

/// The time for which an idempotency key is stored.
pub const RETENTION: Duration = Duration::from_hours(24);

/// Maximum number of attempts to record a sending while other hosts release the same key.
const ATTEMPTS: usize = 8;

/// Replaces a row that began at $7 or earlier.
const BEGIN: &str = "INSERT INTO sendings (account_id, key_hash, fingerprint, process, state, begun_at, message_id) \
    VALUES ($1, $2, $3, $4, 'begun', $5, $6) ON CONFLICT (account_id, key_hash) DO UPDATE SET \
    fingerprint = excluded.fingerprint, process = excluded.process, state = excluded.state, \
    begun_at = excluded.begun_at, message_id = excluded.message_id, saved_to = NULL \
    WHERE sendings.begun_at <= $7";
const FIND: &str = "SELECT fingerprint, process, state, begun_at, message_id, saved_to FROM sendings \
    WHERE account_id = $1 AND key_hash = $2";
const SENT: &str = "UPDATE sendings SET state = 'sent', saved_to = $3 \
    WHERE account_id = $1 AND key_hash = $2";
const UNKNOWN: &str =
    "UPDATE sendings SET state = 'unknown' WHERE account_id = $1 AND key_hash = $2";
const RELEASE: &str = "DELETE FROM sendings WHERE account_id = $1 AND key_hash = $2";
const ABANDON: &str = "UPDATE sendings SET state = 'unknown' WHERE state = 'begun'";
const SWEEP: &str = "DELETE FROM sendings WHERE begun_at <= $1";

/// The idempotency key that a client chose for one message. A key is unique within an account.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The account's id.
    pub account: String,
    /// SHA-256 of the key, lower-case hexadecimal.
    pub hash: String,
}

/// An earlier request to send a message with a key.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Sending {
    /// The SHA-256 of the request.
    pub fingerprint: Vec<u8>,
    /// The id of the host that began the sending ([`crate::hosts`]).
    pub process: String,
    state: String,
    begun_at: i64,
    /// The Message-ID, including angle brackets.
    pub message_id: String,
    /// The folder that contains a copy of the message.
    pub saved_to: Option<String>,
}

impl Sending {
    /// Returns `true` if the record states that the message was sent.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.state == "sent"
    }

    /// Returns `true` if the record contains no outcome of the sending yet.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.state == "begun"
    }

    /// Returns the time at which the sending began.
    #[must_use]
    pub fn begun_at(&self) -> Timestamp {
        Timestamp::from_millis(self.begun_at)
    }
}

/// The sendings with an idempotency key.
#[derive(Clone, Debug)]
pub struct Sendings {
    pub(crate) db: Db,
}

impl Sendings {
    /// Records that a message will be sent with a key. If the key was already used in the last 24
    /// hours, returns the earlier sending and records nothing. Otherwise returns `None`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if other hosts released the key during every
    /// attempt. The caller must not send the message in that case.
    pub async fn begin(
        &self,
        key: &Key,
        fingerprint: &[u8],
        process: &str,
        message_id: &str,
        now: Timestamp,
    ) -> Result<Option<Sending>, Error> {
        let over = now.millis() - i64::try_from(RETENTION.as_millis()).unwrap_or(i64::MAX);
        for _ in 0..ATTEMPTS {
            let begun = self
                .db
                .execute(
                    BEGIN,
                    (
                        &key.account,
                        &key.hash,
                        fingerprint,
                        process,
                        now,
                        message_id,
                        over,
                    ),
                )
                .await?;
            if begun == 1 {
                return Ok(None);
            }
            // If there is no row, another host has released the key after the INSERT. In that case,
            // try the INSERT again, because this request can send the message only after the
            // request has inserted its own row.
            if let Some(earlier) = self.find(key).await? {
                return Ok(Some(earlier));
            }
        }
        Err(sqlx::Error::RowNotFound.into())
    }

    /// Returns the sending with a key, or `None` if the key is not in use.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, key: &Key) -> Result<Option<Sending>, Error> {
        self.db.optional(FIND, (&key.account, &key.hash)).await
    }

    /// Records that the message was sent, for all of its keys. `saved_to` is the folder in which a
    /// copy of the message was stored.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sent(&self, keys: &[&Key], saved_to: Option<&str>) -> Result<(), Error> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        for key in keys {
            tx.execute(SENT, (&key.account, &key.hash, saved_to))
                .await?;
        }
        tx.commit().await
    }

    /// Records that it is unknown whether the message was sent.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_unknown(&self, key: &Key) -> Result<(), Error> {
        self.set_state(UNKNOWN, key).await
    }

    /// Records that the message was not sent. A client can then use the key for another attempt.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn release(&self, key: &Key) -> Result<(), Error> {
        self.set_state(RELEASE, key).await
    }

    async fn set_state(&self, change: &'static str, key: &Key) -> Result<(), Error> {
        self.db.execute(change, (&key.account, &key.hash)).await?;
        Ok(())
    }

    /// Records an unknown outcome for all unfinished sendings of earlier processes. The service
    /// calls this function at its start. Does nothing on PostgreSQL, because other processes may be
    /// sending these messages.
    pub(super) async fn abandon(&self) -> Result<(), Error> {
        if let Db::Sqlite(..) = &self.db {
            self.db.execute(ABANDON, ()).await?;
        }
        Ok(())
    }

    /// Deletes sendings that are older than [`RETENTION`].
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        let over = now.millis() - i64::try_from(RETENTION.as_millis()).unwrap_or(i64::MAX);
        self.db.execute(SWEEP, [over]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, both};

    fn key(account: &str) -> Key {
        Key {
            account: account.into(),
            hash: "hash".into(),
        }
    }

    async fn a_key_is_taken_until_it_is_released_or_a_day_is_over(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        directory.with("bob", "bob@example.org", &[]).await;
        let begin = async |account, print: &[u8], at| {
            let now = Timestamp::from_millis(at);
            let key = key(account);
            let begun = directory.sendings.begin(&key, print, "p", "<1@x>", now);
            begun.await.unwrap()
        };
        assert_eq!(begin("ada", b"one", 1000).await, None);
        assert_eq!(begin("bob", b"one", 1000).await, None);
        let before = begin("ada", b"two", 2000).await.unwrap();
        assert!(before.is_begun() && before.fingerprint == b"one");
        assert_eq!((before.begun_at().millis(), &*before.process), (1000, "p"));
        directory.sendings.release(&key("ada")).await.unwrap();
        assert_eq!(begin("ada", b"two", 3000).await, None);
        for saved_to in [None, Some("Sent")] {
            let ada = key("ada");
            let recorded = directory.sendings.sent(&[&ada], saved_to).await;
            recorded.unwrap();
        }
        let sent = begin("ada", b"two", 4000).await.unwrap();
        assert!(sent.is_sent());
        assert_eq!(sent.saved_to.as_deref(), Some("Sent"));
        directory.sendings.set_unknown(&key("bob")).await.unwrap();
        let unknown = begin("bob", b"one", 4000).await.unwrap();
        assert!(!unknown.is_sent() && !unknown.is_begun());
        let day = 24 * 3_600_000;
        assert!(begin("ada", b"x", 3000 + day - 1).await.is_some());
        assert_eq!(begin("ada", b"x", 3000 + day).await, None);
        let replaced = begin("ada", b"x", 3001 + day).await.unwrap();
        assert!(replaced.is_begun() && replaced.saved_to.is_none());
        assert_eq!(replaced.begun_at().millis(), 3000 + day);
        directory
            .sendings
            .sweep(Timestamp::from_millis(5000 + day))
            .await
            .unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM sendings").await, 1);
    }

    async fn a_request_that_begins_has_a_row_while_another_host_releases_the_key(fresh: Fresh) {
        const SENDS: usize = 100;
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let begin = async |process| {
            let now = Timestamp::from_millis(1000);
            let key = key("ada");
            let begun = directory
                .sendings
                .begin(&key, b"one", process, "<1@x>", now);
            begun.await
        };
        let other = async {
            loop {
                if matches!(begin("other").await, Ok(None)) {
                    directory.sendings.release(&key("ada")).await.unwrap();
                }
            }
        };
        let this = async {
            let mut sends = 0;
            while sends < SENDS {
                if matches!(begin("this").await, Ok(None)) {
                    let row = directory.sendings.find(&key("ada")).await.unwrap();
                    assert_eq!(row.map(|row| row.process).as_deref(), Some("this"));
                    directory.sendings.release(&key("ada")).await.unwrap();
                    sends += 1;
                }
            }
        };
        tokio::select! {
            () = other => {}
            () = this => {}
        }
    }

    both!(
        a_key_is_taken_until_it_is_released_or_a_day_is_over,
        a_request_that_begins_has_a_row_while_another_host_releases_the_key,
    );
}
