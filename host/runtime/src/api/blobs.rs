//! The interface `blobs`, with which a module handles data that stays in the host. A handle is
//! valid only during one request, because the table of handles is dropped at the end of the call.

use crate::api::problem;
use bytes::BytesMut;
use futures_util::StreamExt as _;
use latchmail_bindings::latchmail::host::blobs::{Host, HostBlob};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_core::codes;
use latchmail_mailbox::{Decoder, Encoding};
use wasmtime::component::Resource;

use super::call::{Call, JsonString};
use super::convert::unknown;
use super::host_call::host_call;

/// The maximum number of bytes that one `read` returns.
const MAX_READ: u32 = 65_536;

/// The maximum total size of the blobs that the host keeps in memory for a module in one request,
/// in bytes.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Counts bytes that the module receives as a blob in memory.
///
/// # Errors
/// Returns an error if such blobs have more than [`MAX_BYTES`] in total.
pub(super) fn count_bytes(call: &mut Call, bytes: usize) -> Result<(), Error> {
    call.text_bytes = call.text_bytes.saturating_add(bytes);
    if call.text_bytes <= MAX_BYTES {
        return Ok(());
    }
    let text = format!("Blobs in memory must not exceed {MAX_BYTES} bytes in one request");
    Err(problem::too_large(codes::MESSAGE_TOO_LARGE, text))
}

impl Host for Call {
    async fn create(&mut self, bytes: Vec<u8>) -> Result<Resource<Blob>, HostError<Error>> {
        let _span = host_call("blobs.create");
        count_bytes(self, bytes.len())?;
        self.table
            .push(Blob::new(bytes.into()))
            .map_err(HostError::trap)
    }

    async fn decode(
        &mut self,
        encoded: Resource<Blob>,
        encoding: String,
    ) -> Result<Resource<Blob>, HostError<Error>> {
        let _span = host_call("blobs.decode");
        let encoded = self.table.delete(encoded).map_err(HostError::trap)?;
        let encoding = match encoding.as_str() {
            "base64" => Encoding::Base64,
            "quoted-printable" => Encoding::QuotedPrintable,
            other => return Err(unknown("encoding", other).into()),
        };
        let (mut decoder, mut decoded) = (Decoder::new(encoding), BytesMut::new());
        let mut chunks = encoded.into_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| {
                tracing::error!("failed to read a blob: {error}");
                Error::Internal
            })?;
            let bytes = decoder.decode(&chunk, false);
            count_bytes(self, bytes.len())?;
            decoded.extend_from_slice(&bytes);
        }
        decoded.extend_from_slice(&decoder.decode(b"", true));
        self.table
            .push(Blob::new(decoded.freeze()))
            .map_err(HostError::trap)
    }

    async fn insert_json_string(
        &mut self,
        offset: u32,
        text: Resource<Blob>,
    ) -> Result<(), HostError<Error>> {
        let _span = host_call("blobs.insert-json-string");
        let invalid = |text: &str| problem::invalid(codes::BLOB_INVALID, text);
        let text = self.table.delete(text).map_err(HostError::trap)?;
        let text = text.into_bytes();
        let text = text.map_err(|_| invalid("The text is a stream, and not a blob in memory"))?;
        let text = String::from_utf8(text.into()).map_err(|_| invalid("The text is not UTF-8"))?;
        self.json_strings.push(JsonString { offset, text });
        Ok(())
    }
}

impl HostBlob for Call {
    async fn size(&mut self, blob: Resource<Blob>) -> wasmtime::Result<u64> {
        let _span = host_call("blobs.size");
        Ok(self.table.get(&blob)?.size())
    }

    async fn read(
        &mut self,
        blob: Resource<Blob>,
        offset: u64,
        length: u32,
    ) -> Result<Vec<u8>, HostError<Error>> {
        let _span = host_call("blobs.read");
        let blob = self.table.get_mut(&blob).map_err(HostError::trap)?;
        if length > MAX_READ {
            let text = format!("length must be at most {MAX_READ} bytes");
            return Err(problem::too_large(codes::READ_TOO_LARGE, text).into());
        }
        let read = blob.read(offset, length as usize).await;
        let bytes = read.map_err(|error| {
            tracing::error!("failed to read a blob: {error}");
            Error::Internal
        })?;
        Ok(bytes.into())
    }

    async fn slice(
        &mut self,
        blob: Resource<Blob>,
        offset: u64,
        length: u64,
    ) -> wasmtime::Result<Resource<Blob>> {
        let _span = host_call("blobs.slice");
        let slice = self.table.get(&blob)?.slice(offset, length);
        Ok(self.table.push(slice)?)
    }

    async fn drop(&mut self, blob: Resource<Blob>) -> wasmtime::Result<()> {
        self.table.delete(blob)?;
        Ok(())
    }
}
