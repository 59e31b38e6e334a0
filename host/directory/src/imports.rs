//! Imports of messages. If a client repeats an import with the same idempotency key, the service
//! does not store a second message. The repository also records which messages were imported.
//!
//! Before storing a message, the service writes a row without an outcome. The row contains the
//! state of the folder, so that another process can look for the stored message.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::MessageNumber;

use crate::db::{Db, Error, Tx};
use crate::message_index::{Identity, StoredMessage, number_stored};
use crate::sendings::Key;

/// The time for which an idempotency key is stored.
pub const RETENTION: Duration = Duration::from_hours(24);

/// Maximum number of attempts to record an import while other hosts release the same key.
const ATTEMPTS: usize = 8;

/// Replaces a row that began at $8 or earlier.
const BEGIN: &str = "INSERT INTO imports (account_id, key_hash, fingerprint, process, begun_at, uid_validity, uid_next) \
    VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (account_id, key_hash) DO UPDATE SET \
    fingerprint = excluded.fingerprint, process = excluded.process, begun_at = excluded.begun_at, \
    uid_validity = excluded.uid_validity, uid_next = excluded.uid_next, outcome = NULL, uid = NULL \
    WHERE imports.begun_at <= $8";
const FIND: &str = "SELECT fingerprint, process, begun_at, uid_validity, uid_next, outcome, uid FROM imports \
    WHERE account_id = $1 AND key_hash = $2";
/// Continues an import, unless another process has continued the import since $3 and $4 were read.
const CONTINUE: &str = "UPDATE imports SET process = $5, begun_at = $6, outcome = NULL \
    WHERE account_id = $1 AND key_hash = $2 AND process = $3 AND begun_at = $4";
const STORED: &str =
    "UPDATE imports SET outcome = 'stored', uid = $3 WHERE account_id = $1 AND key_hash = $2";
/// Another process that has continued the import records the outcome itself.
const UNKNOWN: &str = "UPDATE imports SET outcome = 'unknown' \
    WHERE account_id = $1 AND key_hash = $2 AND process = $3";
const RELEASE: &str =
    "DELETE FROM imports WHERE account_id = $1 AND key_hash = $2 AND process = $3";
const SWEEP: &str = "DELETE FROM imports WHERE begun_at <= $1";
/// Replaces the time of an earlier mark, because the sweep could delete the mark before the new
/// message is in the index.
const MARK: &str = "INSERT INTO imported_messages (account_id, identity, imported_at) \
    VALUES ($1, $2, $3) ON CONFLICT (account_id, identity) DO UPDATE SET imported_at = excluded.imported_at \
    WHERE imported_messages.imported_at < excluded.imported_at";
/// Marks a header before its message is stored. The sweep does not delete this mark, because the
/// message can exist although the outcome of the import is unknown. The time of the mark is the
/// latest time minus the number of other concurrent imports of messages with this header.
const BEGIN_MARK: &str = "INSERT INTO imported_messages (account_id, identity, imported_at) \
    VALUES ($1, $2, 9223372036854775807) ON CONFLICT (account_id, identity) DO UPDATE SET imported_at = imported_messages.imported_at - 1";
/// Ends one of several imports of messages with a header.
const COUNT_DOWN: &str = "UPDATE imported_messages SET imported_at = imported_at + 1 \
    WHERE account_id = $1 AND identity = $2 AND imported_at < 9223372036854775807";
/// Ends the only import of a message with a header.
const END_MARK: &str = "DELETE FROM imported_messages \
    WHERE account_id = $1 AND identity = $2 AND imported_at = 9223372036854775807";
/// Finds the mark of a header $3, or of the message $2.
const IS_MARKED: &str = "SELECT imported_at FROM imported_messages WHERE account_id = $1 AND (identity = $3 \
    OR identity = (SELECT identity FROM messages WHERE account_id = $1 AND uid = $2)) LIMIT 1";
/// Deletes the marks of messages that no longer exist. A mark is written before its message has a
/// number, or in the same transaction.
const SWEEP_MARKS: &str = "DELETE FROM imported_messages WHERE imported_at <= $1 AND NOT EXISTS \
    (SELECT 1 FROM messages m WHERE m.account_id = imported_messages.account_id AND m.identity = imported_messages.identity)";

/// An earlier request to import a message with a key.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Import {
    /// The SHA-256 of the request.
    pub fingerprint: Vec<u8>,
    /// The id of the host that stores the message ([`crate::hosts`]).
    pub process: String,
    begun_at: i64,
    uid_validity: i64,
    uid_next: i64,
    outcome: Option<String>,
    uid: Option<i64>,
}

impl Import {
    /// Returns the number of the message if the record states that the message was stored.
    #[must_use]
    pub fn stored(&self) -> Option<MessageNumber> {
        let uid = self.uid.and_then(|uid| u64::try_from(uid).ok());
        uid.map(MessageNumber)
    }

    /// Returns `true` if the record contains no outcome of the import yet.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.outcome.is_none()
    }

    /// Returns the time at which the import began.
    #[must_use]
    pub fn begun_at(&self) -> Timestamp {
        Timestamp::from_millis(self.begun_at)
    }

    /// Returns the UIDVALIDITY and the UIDNEXT of the folder before the import.
    #[must_use]
    pub fn folder_state(&self) -> (u32, u32) {
        let number = |n: i64| u32::try_from(n).unwrap_or(0);
        (number(self.uid_validity), number(self.uid_next))
    }
}

/// The values of a new row.
#[derive(Clone, Copy, Debug)]
pub struct NewImport<'a> {
    /// The SHA-256 of the request.
    pub fingerprint: &'a [u8],
    /// The id of this host.
    pub process: &'a str,
    /// The UIDVALIDITY and the UIDNEXT of the folder.
    pub folder_state: (u32, u32),
    /// The current time.
    pub now: Timestamp,
}

/// The imports with an idempotency key, and the marks of imported messages.
#[derive(Clone, Debug)]
pub struct Imports {
    pub(crate) db: Db,
}

impl Imports {
    /// Records that a message will be stored with a key. If the key was already used in the last 24
    /// hours, returns the earlier import and records nothing. Otherwise returns `None`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if other hosts released the key during every
    /// attempt. The caller must not store the message in that case.
    pub async fn begin(&self, key: &Key, new: NewImport<'_>) -> Result<Option<Import>, Error> {
        let over = new.now.minus(RETENTION).millis();
        let (uid_validity, uid_next) = new.folder_state;
        for _ in 0..ATTEMPTS {
            let parameters = (
                &key.account,
                &key.hash,
                new.fingerprint,
                new.process,
                new.now,
                i64::from(uid_validity),
                i64::from(uid_next),
                over,
            );
            if self.db.execute(BEGIN, parameters).await? == 1 {
                return Ok(None);
            }
            if let Some(earlier) = self.find(key).await? {
                return Ok(Some(earlier));
            }
        }
        Err(sqlx::Error::RowNotFound.into())
    }

    /// Returns the import with a key, or `None` if the key is not in use.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, key: &Key) -> Result<Option<Import>, Error> {
        self.db.optional(FIND, (&key.account, &key.hash)).await
    }

    /// Continues an import whose outcome is unknown. Returns `false` if another request has
    /// continued the import.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn resume(
        &self,
        key: &Key,
        earlier: &Import,
        process: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let parameters = (
            &key.account,
            &key.hash,
            &earlier.process,
            earlier.begun_at,
            process,
            now,
        );
        Ok(self.db.execute(CONTINUE, parameters).await? == 1)
    }

    /// Records that the message was stored and has this number.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn stored(&self, key: &Key, number: MessageNumber) -> Result<(), Error> {
        let uid = i64::try_from(number.0).unwrap_or(i64::MAX);
        self.db
            .execute(STORED, (&key.account, &key.hash, uid))
            .await?;
        Ok(())
    }

    /// Records, in one transaction, that `message` was imported, its number, and the outcome of the
    /// import with `key`. Also ends the mark of `header` ([`Imports::begin_mark`]). Returns the
    /// number, which is a new one unless a concurrent request has assigned one.
    ///
    /// Returns `None` and records nothing if the message index does not contain the folder, or if
    /// the message has no number and the index contains a message with the same identity. The
    /// caller must then call [`Imports::mark`], reconcile the index with the mail server, and call
    /// [`Imports::stored`] and [`Imports::end_mark`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn number(
        &self,
        account: &str,
        message: &StoredMessage<'_>,
        key: Option<&Key>,
        header: Option<Identity>,
        now: Timestamp,
    ) -> Result<Option<MessageNumber>, Error> {
        let mut tx = self.db.begin_locked(account).await?;
        let Some(number) = number_stored(&mut tx, account, message).await? else {
            return Ok(None);
        };
        tx.execute(MARK, (account, &message.identity[..], now))
            .await?;
        if let Some(key) = key {
            let uid = i64::try_from(number.0).unwrap_or(i64::MAX);
            tx.execute(STORED, (&key.account, &key.hash, uid)).await?;
        }
        if let Some(header) = header {
            end_mark(&mut tx, account, header).await?;
        }
        tx.commit().await?;
        Ok(Some(number))
    }

    /// Records that it is unknown whether the message was stored. Has no effect if another process
    /// has continued the import.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_unknown(&self, key: &Key, process: &str) -> Result<(), Error> {
        self.db
            .execute(UNKNOWN, (&key.account, &key.hash, process))
            .await?;
        Ok(())
    }

    /// Records that the message was not stored. A client can then use the key for another attempt.
    /// Has no effect if another process has continued the import.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn release(&self, key: &Key, process: &str) -> Result<(), Error> {
        self.db
            .execute(RELEASE, (&key.account, &key.hash, process))
            .await?;
        Ok(())
    }

    /// Records that a message with this identity was imported.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn mark(
        &self,
        account: &str,
        identity: Identity,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.db.execute(MARK, (account, &identity[..], now)).await?;
        Ok(())
    }

    /// Records that a message with this header is being stored. `header` is a hash of the header.
    /// The message has no number yet, so [`Imports::mark`] cannot record the message itself.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The caller must not store the message in that case.
    pub async fn begin_mark(&self, account: &str, header: Identity) -> Result<(), Error> {
        let parameters = (account, &header[..]);
        self.db.execute(BEGIN_MARK, parameters).await?;
        Ok(())
    }

    /// Records that the message with this header was marked, or was not stored.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn end_mark(&self, account: &str, header: Identity) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        end_mark(&mut tx, account, header).await?;
        tx.commit().await
    }

    /// Returns `true` if the message with this number was imported, or if a message with this
    /// header is being imported.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_marked(
        &self,
        account: &str,
        number: MessageNumber,
        header: Identity,
    ) -> Result<bool, Error> {
        let uid = i64::try_from(number.0).unwrap_or(i64::MAX);
        let found: Option<(i64,)> = self
            .db
            .optional(IS_MARKED, (account, uid, &header[..]))
            .await?;
        Ok(found.is_some())
    }

    /// Deletes imports that are older than [`RETENTION`], and the marks of messages that no longer
    /// exist.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        let over = now.minus(RETENTION).millis();
        self.db.execute(SWEEP, [over]).await?;
        self.db.execute(SWEEP_MARKS, [over]).await?;
        Ok(())
    }
}

async fn end_mark(tx: &mut Tx, account: &str, header: Identity) -> Result<(), Error> {
    let parameters = (account, &header[..]);
    if tx.execute(COUNT_DOWN, parameters).await? == 0 {
        tx.execute(END_MARK, parameters).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use latchmail_core::message_number::Uid;

    use super::*;
    use crate::message_index::ListedFolder;
    use crate::testing::{Fresh, both};

    async fn an_import_is_continued_by_one_request(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let key = Key {
            account: "ada".into(),
            hash: "hash".into(),
        };
        let begin = async |process, at| {
            let new = NewImport {
                fingerprint: b"one",
                process,
                folder_state: (7, 3),
                now: Timestamp::from_millis(at),
            };
            directory.imports.begin(&key, new).await.unwrap()
        };
        assert_eq!(begin("p", 1000).await, None);
        let earlier = begin("q", 2000).await.unwrap();
        assert!(earlier.is_begun() && earlier.stored().is_none());
        assert_eq!((&*earlier.process, earlier.folder_state()), ("p", (7, 3)));
        directory.imports.set_unknown(&key, "p").await.unwrap();
        let now = Timestamp::from_millis(3000);
        let resume = async |process| directory.imports.resume(&key, &earlier, process, now).await;
        assert!(resume("q").await.unwrap());
        assert!(!resume("r").await.unwrap());
        // The first process notices late that it stored nothing.
        directory.imports.release(&key, "p").await.unwrap();
        assert!(begin("s", 3500).await.unwrap().is_begun());
        directory
            .imports
            .stored(&key, MessageNumber(5))
            .await
            .unwrap();
        let stored = begin("r", 4000).await.unwrap();
        assert_eq!(
            (stored.stored(), stored.is_begun()),
            (Some(MessageNumber(5)), false)
        );
        directory.imports.release(&key, "q").await.unwrap();
        assert_eq!(begin("r", 5000).await, None);
        let day = 24 * 3_600_000;
        assert!(begin("r", 5000 + day - 1).await.is_some());
        assert_eq!(begin("r", 5000 + day).await, None);
        directory
            .imports
            .mark("ada", [1; 16], Timestamp::from_millis(0))
            .await
            .unwrap();
        let is_marked = |header| directory.imports.is_marked("ada", MessageNumber(5), header);
        let imports = &directory.imports;
        for _ in 0..2 {
            imports.begin_mark("ada", [2; 16]).await.unwrap();
        }
        let later = Timestamp::from_millis(6000 + 2 * day);
        imports.sweep(later).await.unwrap();
        assert!(is_marked([2; 16]).await.unwrap());
        assert!(!is_marked([1; 16]).await.unwrap());
        // The second message with this identity has no number yet.
        for at in [Timestamp::from_millis(0), later] {
            imports.mark("ada", [3; 16], at).await.unwrap();
        }
        imports.sweep(later).await.unwrap();
        assert!(is_marked([3; 16]).await.unwrap());
        imports.sweep(later.plus(RETENTION)).await.unwrap();
        assert!(!is_marked([3; 16]).await.unwrap());
        imports.end_mark("ada", [2; 16]).await.unwrap();
        assert!(is_marked([2; 16]).await.unwrap());
        imports.end_mark("ada", [2; 16]).await.unwrap();
        assert!(!is_marked([2; 16]).await.unwrap());
        assert_eq!(fresh.number("SELECT COUNT(*) FROM imports").await, 0);
        let marks = "SELECT COUNT(*) FROM imported_messages";
        assert_eq!(fresh.number(marks).await, 0);
    }

    async fn the_number_of_a_message_is_recorded_together_with_its_import(fresh: Fresh) {
        let directory = &fresh.directory;
        directory.with("ada", "ada@example.org", &[]).await;
        let (imports, now) = (&directory.imports, Timestamp::from_millis(1000));
        let key = Key {
            account: "ada".into(),
            hash: "hash".into(),
        };
        let new = NewImport {
            fingerprint: b"one",
            process: "p",
            folder_state: (7, 3),
            now,
        };
        assert_eq!(imports.begin(&key, new).await.unwrap(), None);
        let header = [20; 16];
        imports.begin_mark("ada", header).await.unwrap();
        let number = async |imap_uid, identity: u8, key| {
            let message = StoredMessage {
                path: "INBOX",
                uid_validity: 7,
                imap_uid: Uid(imap_uid),
                identity: [identity; 16],
            };
            let number = imports.number("ada", &message, key, Some(header), now);
            number.await.unwrap().map(|number| number.0)
        };
        let is_marked = |identity: u8| imports.is_marked("ada", MessageNumber(99), [identity; 16]);
        // The message index does not contain the folder.
        assert_eq!(number(3, 4, None).await, None);
        assert!(!is_marked(4).await.unwrap() && is_marked(20).await.unwrap());
        let inbox = ListedFolder {
            path: "INBOX",
            uid_validity: 7,
            uid_next: 3,
            object_id: None,
        };
        let index = &directory.message_index;
        index.update_folders("ada", &[inbox]).await.unwrap();
        assert_eq!(number(3, 4, Some(&key)).await, Some(1));
        assert!(is_marked(4).await.unwrap() && !is_marked(20).await.unwrap());
        let stored = imports.find(&key).await.unwrap().unwrap();
        assert_eq!(stored.stored(), Some(MessageNumber(1)));
        // Another request has numbered the message before.
        let listed = [(Uid(5), [6; 16])];
        let listed = index.assign_numbers("ada", "INBOX", 7, &listed, &[]);
        assert_eq!(listed.await.unwrap().unwrap()[&Uid(5)], MessageNumber(2));
        assert_eq!(number(5, 6, None).await, Some(2));
        assert!(is_marked(6).await.unwrap());
        // The message can be a copy of message 1, or message 1 after a move.
        assert_eq!(number(8, 4, None).await, None);
        assert_eq!(number(9, 7, None).await, Some(3));
    }

    both!(
        an_import_is_continued_by_one_request,
        the_number_of_a_message_is_recorded_together_with_its_import,
    );
}
