//! Files that clients upload for later messages, as encrypted chunks. An upload expires, and then
//! counts no longer.
//!
//! An upload counts towards the limit of its account before its chunks are stored. If a host stops
//! before an upload is complete, the upload expires after [`UNFINISHED`].

use std::time::Duration;

use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error};

/// The time after which an upload expires that is not complete.
const UNFINISHED: Duration = Duration::from_mins(5);

const USED: &str = "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM uploads \
    WHERE account_id = $1 AND expires_at > $2";
const INSERT: &str = "INSERT INTO uploads \
    (id, account_id, sealed_key, sealed_name, content_type, size, expires_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
const INSERT_CHUNK: &str =
    "INSERT INTO upload_chunks (upload_id, number, sealed) VALUES ($1, $2, $3)";
const COMPLETE: &str = "UPDATE uploads SET complete = TRUE, expires_at = $2 \
    WHERE id = $1 AND expires_at > $3";
const FIND: &str = "SELECT sealed_key, sealed_name, content_type, size FROM uploads \
    WHERE id = $1 AND account_id = $2 AND complete AND expires_at > $3";
const CHUNK: &str = "SELECT sealed FROM upload_chunks WHERE upload_id = $1 AND number = $2";
const DELETE: &str = "DELETE FROM uploads WHERE id = $1";
const SWEEP: &str = "DELETE FROM uploads WHERE expires_at <= $1";

/// An upload whose chunks are not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewUpload<'u> {
    /// The opaque id.
    pub id: &'u str,
    /// The id of the account.
    pub account: &'u str,
    /// The key of the name and of the chunks, encrypted with the service's key.
    pub sealed_key: &'u [u8],
    /// The file name, encrypted with the key of the upload.
    pub sealed_name: &'u [u8],
    /// The media type.
    pub content_type: &'u str,
    /// The size of the file in bytes.
    pub size: i64,
}

/// A complete upload.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Upload {
    /// The key of the name and of the chunks, encrypted with the service's key.
    pub sealed_key: Vec<u8>,
    /// The file name, encrypted with the key of the upload.
    pub sealed_name: Vec<u8>,
    /// The media type.
    pub content_type: String,
    /// The size of the file in bytes.
    pub size: i64,
}

/// The repository of uploads.
#[derive(Clone, Debug)]
pub struct Uploads {
    pub(crate) db: Db,
}

impl Uploads {
    /// Stores an upload without chunks. Returns `false`, and stores nothing, if the uploads of the
    /// account would have more than `limit` bytes together.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn begin(
        &self,
        upload: NewUpload<'_>,
        limit: i64,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(upload.account).await?;
        let used: i64 = tx.value(USED, (upload.account, now)).await?;
        if used.saturating_add(upload.size) > limit {
            return Ok(false);
        }
        let row = (
            upload.id,
            upload.account,
            upload.sealed_key,
            upload.sealed_name,
            upload.content_type,
            upload.size,
            now.plus(UNFINISHED),
        );
        tx.execute(INSERT, row).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Stores a chunk of an upload. Chunks are numbered from 0.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the upload was deleted.
    pub async fn add_chunk(&self, id: &str, number: u32, sealed: &[u8]) -> Result<(), Error> {
        self.db.execute(INSERT_CHUNK, (id, number, sealed)).await?;
        Ok(())
    }

    /// Completes an upload, which then expires at `expires_at`. Returns `false` if the upload is
    /// expired or was deleted.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn complete(
        &self,
        id: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<bool, Error> {
        Ok(self.db.execute(COMPLETE, (id, expires_at, now)).await? > 0)
    }

    /// Returns a complete upload of an account. Returns `None` if the upload does not exist, is
    /// expired, or belongs to another account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(
        &self,
        account: &str,
        id: &str,
        now: Timestamp,
    ) -> Result<Option<Upload>, Error> {
        self.db.optional(FIND, (id, account, now)).await
    }

    /// Returns a chunk of an upload. Returns `None` if the upload has no such chunk.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn chunk(&self, id: &str, number: u32) -> Result<Option<Vec<u8>>, Error> {
        let row: Option<(Vec<u8>,)> = self.db.optional(CHUNK, (id, number)).await?;
        Ok(row.map(|(sealed,)| sealed))
    }

    /// Deletes an upload with its chunks.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.db.execute(DELETE, [id]).await?;
        Ok(())
    }

    /// Deletes expired uploads.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(SWEEP, [now]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, NOW, both};

    fn upload<'u>(id: &'u str, account: &'u str, size: i64) -> NewUpload<'u> {
        NewUpload {
            id,
            account,
            sealed_key: b"key",
            sealed_name: b"name",
            content_type: "text/csv",
            size,
        }
    }

    async fn an_upload_counts_until_it_expires_and_belongs_to_one_account(fresh: Fresh) {
        let (directory, uploads) = (&fresh.directory, &fresh.directory.uploads);
        directory.with("a", "ada@example.org", &[]).await;
        directory.with("b", "bob@example.org", &[]).await;
        let begin = async |id, account, size, now| {
            let begun = uploads.begin(upload(id, account, size), 100, now);
            begun.await.unwrap()
        };
        assert!(begin("one", "a", 60, NOW).await);
        assert!(!begin("two", "a", 41, NOW).await);
        assert!(begin("other", "b", 100, NOW).await);
        assert_eq!(uploads.find("a", "one", NOW).await.unwrap(), None);
        uploads.add_chunk("one", 0, b"zero").await.unwrap();
        uploads.add_chunk("one", 1, b"one").await.unwrap();
        let expiry = NOW.plus(Duration::from_hours(1));
        assert!(uploads.complete("one", expiry, NOW).await.unwrap());
        let found = uploads.find("a", "one", NOW).await.unwrap().unwrap();
        assert_eq!((found.content_type.as_str(), found.size), ("text/csv", 60));
        assert_eq!(uploads.find("b", "one", NOW).await.unwrap(), None);
        assert_eq!(uploads.find("a", "one", expiry).await.unwrap(), None);
        let chunk = uploads.chunk("one", 1).await.unwrap();
        assert_eq!(chunk.as_deref(), Some(&b"one"[..]));
        assert_eq!(uploads.chunk("one", 2).await.unwrap(), None);
        // The unfinished upload of the other account is expired.
        let later = NOW.plus(UNFINISHED);
        assert!(begin("another", "b", 100, later).await);
        assert!(!begin("two", "a", 41, later).await);
        directory.sweep(expiry).await.unwrap();
        assert_eq!(fresh.number("SELECT COUNT(*) FROM uploads").await, 0);
        assert_eq!(fresh.number("SELECT COUNT(*) FROM upload_chunks").await, 0);
        assert!(!uploads.complete("one", expiry, NOW).await.unwrap());
    }

    async fn concurrent_uploads_do_not_exceed_the_limit(fresh: Fresh) {
        fresh.directory.with("a", "ada@example.org", &[]).await;
        let uploads = &fresh.directory.uploads;
        let ids: Vec<String> = (0..8).map(|n| format!("u{n}")).collect();
        let begins = ids
            .iter()
            .map(|id| uploads.begin(upload(id, "a", 40), 100, NOW));
        let begun = futures_util::future::join_all(begins).await;
        let begun = begun.into_iter().filter(|begun| *begun.as_ref().unwrap());
        assert_eq!(begun.count(), 2);
    }

    both!(
        an_upload_counts_until_it_expires_and_belongs_to_one_account,
        concurrent_uploads_do_not_exceed_the_limit,
    );
}
