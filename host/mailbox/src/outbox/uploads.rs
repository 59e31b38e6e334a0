//! Files that clients upload for later messages. The files are in the database, so that every host
//! can read them. A random key encrypts each file. The service's key encrypts the random keys.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::{Purpose, SealingKey};
use latchmail_core::secrets;
use latchmail_directory::uploads::{self as directory, NewUpload};

use super::media_type::is_media_type;
use super::result::{Error, invalid};
use crate::access::Access;
use crate::blocking;

/// Maximum size of an upload, in bytes.
pub const MAX_UPLOAD: u64 = 25 * 1024 * 1024;
/// Maximum size of all uploads of an account together, in bytes.
const MAX_UPLOADS: i64 = 100 * 1024 * 1024;
/// The time after which an upload expires.
const LIFETIME: Duration = Duration::from_hours(1);
/// The size of a chunk in the database, in bytes.
const CHUNK: usize = 256 * 1024;
/// The HKDF label of the key that encrypts the name and the chunks of an upload.
const LABEL: &str = "latchmail v1 upload XChaCha20-Poly1305";

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

/// An upload that was found.
#[derive(Clone)]
pub(super) struct Upload {
    key: Arc<SealingKey>,
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
        let id = secrets::id().map_err(internal)?;
        let secret = secrets::random::<32>().map_err(internal)?;
        let key = SealingKey::derive(secret.as_slice(), LABEL).map_err(internal)?;
        let sealed_key = self
            .keys
            .seal_bytes(Purpose::UploadKey, &id, secret.as_slice());
        let sealed_name = key.seal_bytes(Purpose::Upload, &name_row(&id), filename.as_bytes());
        let upload = NewUpload {
            id: &id,
            account: access.caller(),
            sealed_key: &sealed_key.map_err(internal)?,
            sealed_name: &sealed_name.map_err(internal)?,
            content_type,
            size: i64::try_from(size).map_err(|_| Error::UploadTooLarge)?,
        };
        let now = self.clock.now();
        if !self.stored.begin(upload, MAX_UPLOADS, now).await? {
            return Err(Error::UploadsFull);
        }
        let stored = self.store_chunks(&id, Arc::new(key), size, content).await;
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
        key: Arc<SealingKey>,
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
                    let sealed = seal(Arc::clone(&key), chunk_row(id, number), chunk).await?;
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
        let secret = self
            .keys
            .open_bytes(Purpose::UploadKey, id, &found.sealed_key);
        let secret = secret.ok_or_else(|| cannot_open("key"))?;
        let key = SealingKey::derive(&secret, LABEL).map_err(internal)?;
        let filename = key.open_bytes(Purpose::Upload, &name_row(id), &found.sealed_name);
        let filename = filename.ok_or_else(|| cannot_open("name"))?;
        Ok(Some(Upload {
            key: Arc::new(key),
            filename: String::from_utf8_lossy(&filename).into_owned(),
            content_type: found.content_type,
            size: u64::try_from(found.size).unwrap_or(0),
        }))
    }

    /// Reads the bytes of an upload. Returns `None` if the upload was deleted.
    pub(super) async fn read(&self, id: &str, upload: &Upload) -> Result<Option<Bytes>, Error> {
        let size = usize::try_from(upload.size).map_err(|_| Error::TooLarge)?;
        let mut all = BytesMut::with_capacity(size);
        for number in 0.. {
            if all.len() >= size {
                break;
            }
            let Some(sealed) = self.stored.chunk(id, number).await? else {
                return Ok(None);
            };
            let (key, row) = (Arc::clone(&upload.key), chunk_row(id, number));
            let chunk = blocking::run_sized(sealed.len(), move || {
                key.open_bytes(Purpose::Upload, &row, &sealed)
            });
            let chunk = chunk.await.map_err(Error::Internal)?;
            all.extend_from_slice(&chunk.ok_or_else(|| cannot_open("chunk"))?);
        }
        Ok(Some(all.freeze()))
    }
}

/// Encrypts a chunk on a blocking thread.
async fn seal(key: Arc<SealingKey>, row: String, chunk: Bytes) -> Result<Vec<u8>, Error> {
    blocking::run_sized(chunk.len(), move || {
        key.seal_bytes(Purpose::Upload, &row, &chunk)
    })
    .await
    .map_err(Error::Internal)?
    .map_err(internal)
}

fn name_row(id: &str) -> String {
    format!("{id} name")
}

fn chunk_row(id: &str, number: u32) -> String {
    format!("{id} {number}")
}

fn cannot_open(what: &str) -> Error {
    Error::Internal(format!(
        "the {what} of an upload cannot be opened with the service's keys"
    ))
}

fn internal(failure: Failure) -> Error {
    let cause = failure.cause.map(|cause| cause.to_string());
    Error::Internal(cause.unwrap_or_else(|| failure.text.into_owned()))
}
