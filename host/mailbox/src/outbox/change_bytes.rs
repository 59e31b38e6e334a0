//! Encrypts and decrypts the bytes of drafts that grants replaced or deleted.

use bytes::Bytes;
use latchmail_core::secrets;
use latchmail_directory::grant_changes::{GrantChanges, SealedBytes};

use super::result::Error;
use super::sealed::{CHANGE, CHUNK, RowKey};
use super::send::Outbox;

/// Encrypts the bytes of a message.
pub(crate) async fn seal_bytes(outbox: &Outbox, bytes: Bytes) -> Result<SealedBytes, Error> {
    let key_id = secrets::id()?;
    let (key, sealed_key) = RowKey::generate(&CHANGE, &key_id, &outbox.service_keys)?;
    let mut chunks = Vec::new();
    for (number, at) in (0_u32..).zip((0..bytes.len()).step_by(CHUNK)) {
        let chunk = bytes.slice(at..bytes.len().min(at + CHUNK));
        chunks.push(key.seal_chunk(number, chunk).await?);
    }
    Ok(SealedBytes {
        key_id,
        sealed_key,
        size: i64::try_from(bytes.len()).map_err(|_| Error::TooLarge)?,
        chunks,
    })
}

/// Decrypts the bytes of a change.
pub(crate) async fn open_bytes(
    outbox: &Outbox,
    changes: &GrantChanges,
    (key_id, sealed_key): (&str, &[u8]),
) -> Result<Bytes, Error> {
    let key = RowKey::open(&CHANGE, key_id, &outbox.service_keys, sealed_key)?;
    let chunk = |number| changes.chunk(key_id, number);
    key.read(0, |number| number, chunk).await
}
