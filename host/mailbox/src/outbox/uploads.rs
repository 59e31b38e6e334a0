//! Files that clients upload for later messages. The files are in the database, encrypted, so that
//! every host can read them.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::keyring::Keyring;
use latchmail_core::secrets;
use latchmail_directory::uploads::{self as directory, NewUpload};

use super::media_type::is_media_type;
use super::result::{Error, invalid};
use super::sealed::{CHUNK, RowKey, UPLOAD};
use crate::access::Access;

/// Maximum size of an upload, in bytes.
pub const MAX_UPLOAD: u64 = 25 * 1024 * 1024;
/// Maximum size of all uploads of an account together, in bytes.
const MAX_UPLOADS: i64 = 100 * 1024 * 1024;
/// The time after which an upload expires.
const LIFETIME: Duration = Duration::from_hours(1);
/// The name of the encrypted file name.
const NAME: &str = "name";

/// Stores and reads uploads.
#[derive(Debug)]
pub struct Uploads {
    stored: directory::Uploads,
    keys: Arc<Keyring>,
    clock: Clock,
}

/// A stored upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedFile {
    /// The opaque id.
    pub id: String,
    /// The time at which the upload expires.
    pub expires_at: Timestamp,
}

/// An upload with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadContent {
    /// The file name.
    pub filename: String,
    /// The media type.
    pub content_type: String,
    /// The bytes.
    pub content: Bytes,
}

/// An upload that was found.
#[derive(Clone)]
pub(super) struct Upload {
    key: RowKey,
    pub(super) filename: String,
    pub(super) content_type: String,
    /// The size in bytes.
    pub(super) size: u64,
}

impl Uploads {
    pub(super) fn new(uploads: directory::Uploads, keys: Arc<Keyring>, clock: Clock) -> Self {
        Self {
            stored: uploads,
            keys,
            clock,
        }
    }

    /// Stores an upload of the caller. `content` must have `size` bytes.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if the name or the media type is invalid. Returns
    /// [`Error::UploadTooLarge`] or [`Error::UploadsFull`] if a limit is exceeded. Nothing is
    /// stored after an error.
    pub async fn store<E: std::fmt::Display>(
        &self,
        access: &Access,
        filename: &str,
        content_type: &str,
        size: u64,
        content: impl Stream<Item = Result<Bytes, E>> + Send + Unpin,
    ) -> Result<UploadedFile, Error> {
        if filename.is_empty() || filename.chars().any(char::is_control) {
            return Err(invalid("file name"));
        }
        if !is_media_type(content_type) {
            return Err(invalid("media type of a file"));
        }
        if size > MAX_UPLOAD {
            return Err(Error::UploadTooLarge);
        }
        let id = secrets::id()?;
        let (key, sealed_key) = RowKey::generate(&UPLOAD, &id, &self.keys)?;
        let upload = NewUpload {
            id: &id,
            account: access.caller(),
            sealed_key: &sealed_key,
            sealed_name: &key.seal(NAME, filename.as_bytes())?,
            content_type,
            size: i64::try_from(size).map_err(|_| Error::UploadTooLarge)?,
        };
        let now = self.clock.now();
        if !self.stored.begin(upload, MAX_UPLOADS, now).await? {
            return Err(Error::UploadsFull);
        }
        let stored = self.store_chunks(&id, &key, size, content).await;
        let expires_at = self.clock.now().plus(LIFETIME);
        let stored = match stored {
            Ok(()) => self
                .stored
                .complete(&id, expires_at, self.clock.now())
                .await
                .map_err(Error::from),
            Err(error) => Err(error),
        };
        match stored {
            Ok(true) => Ok(UploadedFile { id, expires_at }),
            Ok(false) => Err(Error::Unavailable("the upload took too long".into())),
            Err(error) => {
                if let Err(error) = self.stored.delete(&id).await {
                    tracing::warn!(%error, "failed to delete an incomplete upload");
                }
                Err(error)
            }
        }
    }

    async fn store_chunks<E: std::fmt::Display>(
        &self,
        id: &str,
        key: &RowKey,
        size: u64,
        mut content: impl Stream<Item = Result<Bytes, E>> + Send + Unpin,
    ) -> Result<(), Error> {
        let (mut pending, mut number, mut received) = (BytesMut::new(), 0, 0_u64);
        loop {
            let bytes = content.next().await.transpose();
            let bytes = bytes.map_err(|error| Error::Internal(error.to_string()))?;
            let is_last = bytes.is_none();
            let mut bytes = bytes.unwrap_or_default();
            received += bytes.len() as u64;
            if received > size {
                return Err(Error::Internal("an upload is longer than its size".into()));
            }
            while !bytes.is_empty() || (is_last && !pending.is_empty()) {
                let length = bytes.len().min(CHUNK - pending.len());
                pending.extend_from_slice(&bytes.split_to(length));
                if pending.len() == CHUNK || is_last {
                    let chunk = pending.split().freeze();
                    let sealed = key.seal_chunk(number, chunk).await?;
                    self.stored.add_chunk(id, number, &sealed).await?;
                    number += 1;
                }
            }
            if is_last {
                break;
            }
        }
        if received == size {
            return Ok(());
        }
        Err(Error::Internal("an upload is shorter than its size".into()))
    }

    /// Returns an upload of the caller. Returns `None` if the upload does not exist, is expired, or
    /// belongs to another account.
    pub(super) async fn find(&self, access: &Access, id: &str) -> Result<Option<Upload>, Error> {
        let found = self
            .stored
            .find(access.caller(), id, self.clock.now())
            .await?;
        let Some(found) = found else {
            return Ok(None);
        };
        let key = RowKey::open(&UPLOAD, id, &self.keys, &found.sealed_key)?;
        let filename = key.open_value(NAME, &found.sealed_name)?;
        Ok(Some(Upload {
            key,
            filename: String::from_utf8_lossy(&filename).into_owned(),
            content_type: found.content_type,
            size: u64::try_from(found.size).unwrap_or(0),
        }))
    }

    /// Returns an upload of the caller with its bytes. Returns `None` if the upload does not exist,
    /// is expired, or belongs to another account.
    ///
    /// # Errors
    /// Returns an [`Error`] if the database fails.
    pub async fn content(&self, access: &Access, id: &str) -> Result<Option<UploadContent>, Error> {
        let Some(upload) = self.find(access, id).await? else {
            return Ok(None);
        };
        let content = self.read(id, &upload).await?;
        Ok(content.map(|content| UploadContent {
            filename: upload.filename,
            content_type: upload.content_type,
            content,
        }))
    }

    /// Reads the bytes of an upload. Returns `None` if the upload was deleted.
    pub(super) async fn read(&self, id: &str, upload: &Upload) -> Result<Option<Bytes>, Error> {
        let size = usize::try_from(upload.size).map_err(|_| Error::TooLarge)?;
        let chunk = |number| self.stored.chunk(id, number);
        let all = upload.key.read(size, |number| number, chunk).await?;
        Ok((all.len() == size).then_some(all))
    }
}
