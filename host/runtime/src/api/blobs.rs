//! The interface `blobs`, with which a module handles data that stays in the host. A handle is
//! valid only during one request, because the table of handles is dropped at the end of the call.

use latchmail_bindings::Blob;
use latchmail_bindings::latchmail::host::blobs::{Host, HostBlob};
use latchmail_bindings::latchmail::host::types::Error;
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
    ) -> wasmtime::Result<Result<(), Error>> {
        let _span = host_call("blobs.insert-json-string");
        let invalid = |text: &str| Ok(Err(Error::Invalid(text.into())));
        let Ok(text) = self.table.delete(text)?.into_bytes() else {
            return invalid("The text is not in the host's memory");
        };
        let Ok(text) = String::from_utf8(text.into()) else {
            return invalid("The text is not UTF-8");
        };
        self.json_strings.push(JsonString { offset, text });
        Ok(Ok(()))
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
    ) -> wasmtime::Result<Result<Vec<u8>, Error>> {
        let _span = host_call("blobs.read");
        let blob = self.table.get_mut(&blob)?;
        if length > MAX_READ {
            return Ok(Err(Error::TooLarge(format!(
                "length must be at most {MAX_READ} bytes"
            ))));
        }
        match blob.read(offset, length as usize).await {
            Ok(bytes) => Ok(Ok(bytes.into())),
            Err(error) => {
                tracing::error!("failed to read a blob: {error}");
                Ok(Err(Error::Internal))
            }
        }
    }

    async fn drop(&mut self, blob: Resource<Blob>) -> wasmtime::Result<()> {
        self.table.delete(blob)?;
        Ok(())
    }
}
