//! The interface `streams`: the handles of streams. The functions that return streams are in
//! [`super::mailbox`].

use latchmail_bindings::EventStream;
use latchmail_bindings::latchmail::host::streams::{Host, HostEventStream};
use wasmtime::component::Resource;

use super::call::Call;

impl Host for Call {}

impl HostEventStream for Call {
    async fn drop(&mut self, stream: Resource<EventStream>) -> wasmtime::Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}
