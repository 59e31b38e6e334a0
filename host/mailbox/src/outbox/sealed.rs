//! Encrypts files and messages that are in the database. A random key encrypts the values of one
//! row. The service's key encrypts the random keys.

use std::fmt::Display;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::sealing::{Purpose, SealingKey};
use latchmail_core::secrets;
use zeroize::Zeroizing;

use super::result::Error;
use crate::blocking;

/// The size of a chunk in the database, in bytes.
pub(super) const CHUNK: usize = 256 * 1024;

/// A kind of rows with encrypted values.
#[derive(Debug)]
pub(super) struct Kind {
    /// The HKDF label of the keys.
    label: &'static str,
    /// The purpose of the sealed keys.
    key: Purpose,
    /// The purpose of the sealed values.
    value: Purpose,
    /// The name for error messages.
    name: &'static str,
}

/// Uploads.
pub(super) static UPLOAD: Kind = Kind {
    label: "latchmail v1 upload XChaCha20-Poly1305",
    key: Purpose::UploadKey,
    value: Purpose::Upload,
    name: "an upload",
};

/// Entries of the outbox.
pub(super) static ENTRY: Kind = Kind {
    label: "latchmail v1 outbox XChaCha20-Poly1305",
    key: Purpose::OutboxEntry,
    value: Purpose::OutboxContent,
    name: "an entry of the outbox",
};

/// The bytes of changes that grants made.
pub(super) static CHANGE: Kind = Kind {
    label: "latchmail v1 grant change XChaCha20-Poly1305",
    key: Purpose::GrantChange,
    value: Purpose::GrantChangeContent,
    name: "a change of a grant",
};

/// The key of the values of one row.
#[derive(Clone)]
pub(super) struct RowKey {
    kind: &'static Kind,
    /// The id of the row.
    id: Arc<str>,
    key: Arc<SealingKey>,
}

impl RowKey {
    /// Generates the key of a new row. Also returns the key encrypted with the service's key.
    pub(super) fn generate(
        kind: &'static Kind,
        id: &str,
        service_keys: &Keyring,
    ) -> Result<(Self, Vec<u8>), Failure> {
        let secret = secrets::random::<32>()?;
        let sealed = service_keys.seal_bytes(kind.key, id, secret.as_slice())?;
        Ok((Self::derive(kind, id, secret.as_slice())?, sealed))
    }

    /// Decrypts the key of a row.
    pub(super) fn open(
        kind: &'static Kind,
        id: &str,
        service_keys: &Keyring,
        sealed: &[u8],
    ) -> Result<Self, Error> {
        let secret = service_keys.open_bytes(kind.key, id, sealed);
        let secret = secret.ok_or_else(|| kind.cannot_open("key"))?;
        Ok(Self::derive(kind, id, &secret)?)
    }

    fn derive(kind: &'static Kind, id: &str, secret: &[u8]) -> Result<Self, Failure> {
        Ok(Self {
            kind,
            id: id.into(),
            key: Arc::new(SealingKey::derive(secret, kind.label)?),
        })
    }

    /// Encrypts a short value of the row.
    pub(super) fn seal(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, Failure> {
        self.key
            .seal_bytes(self.kind.value, &self.bound(name), value)
    }

    /// Decrypts a short value of the row.
    pub(super) fn open_value(
        &self,
        name: &str,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let value = self
            .key
            .open_bytes(self.kind.value, &self.bound(name), sealed);
        value.ok_or_else(|| self.kind.cannot_open(name))
    }

    /// Encrypts a chunk of the row without delaying other tasks.
    pub(super) async fn seal_chunk(
        &self,
        name: impl Display,
        chunk: Bytes,
    ) -> Result<Vec<u8>, Error> {
        let (key, purpose, row) = (Arc::clone(&self.key), self.kind.value, self.bound(name));
        let size = chunk.len();
        let seal = move || key.seal_bytes(purpose, &row, &chunk);
        let sealed = blocking::run_sized(size, seal).await;
        Ok(sealed.map_err(Error::Internal)??)
    }

    /// Reads and decrypts chunks until there is no further chunk. `chunk` reads the chunk with a
    /// number, and `name` returns its name. `expected` is the expected size of all chunks.
    pub(super) async fn read<F, N: Display>(
        &self,
        expected: usize,
        name: impl Fn(u32) -> N,
        chunk: impl Fn(u32) -> F,
    ) -> Result<Bytes, Error>
    where
        F: Future<Output = Result<Option<Vec<u8>>, latchmail_directory::Error>>,
    {
        let mut all = BytesMut::with_capacity(expected);
        for number in 0.. {
            let Some(sealed) = chunk(number).await? else {
                break;
            };
            let (key, purpose) = (Arc::clone(&self.key), self.kind.value);
            let row = self.bound(name(number));
            let size = sealed.len();
            let open = move || key.open_bytes(purpose, &row, &sealed);
            let opened = blocking::run_sized(size, open).await;
            let opened = opened.map_err(Error::Internal)?;
            all.extend_from_slice(&opened.ok_or_else(|| self.kind.cannot_open("chunk"))?);
        }
        Ok(all.freeze())
    }

    /// Returns the text to which an encrypted value is bound.
    fn bound(&self, name: impl Display) -> String {
        format!("{} {name}", self.id)
    }
}

impl Kind {
    fn cannot_open(&self, what: &str) -> Error {
        Error::Internal(format!(
            "the {what} of {} cannot be opened with the service's keys",
            self.name
        ))
    }
}
