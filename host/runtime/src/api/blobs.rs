//! The interface `blobs`, with which a module handles data that stays in the host. A handle is
//! valid only during one request, because the table of handles is dropped at the end of the call.

use crate::api::problem;
use latchmail_bindings::latchmail::host::blobs::{Host, HostBlob};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, HostError};
use latchmail_core::codes;
use wasmtime::component::Resource;

use super::call::{Call, JsonString};
use super::host_call::host_call;

/// The maximum number of bytes that one `read` returns.
const MAX_READ: u32 = 65_536;

impl Host for Call {
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

    async fn drop(&mut self, blob: Resource<Blob>) -> wasmtime::Result<()> {
        self.table.delete(blob)?;
        Ok(())
    }
}
