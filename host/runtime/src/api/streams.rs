//! The interface `streams`. No function returns a stream yet.

use latchmail_bindings::EventStream;
use latchmail_bindings::latchmail::host::streams::{Host, HostEventStream};
use wasmtime::component::Resource;

use super::call::Call;

impl Host for Call {}

impl HostEventStream for Call {
    async fn drop(&mut self, stream: Resource<EventStream>) -> wasmtime::Result<()> {
        match self.table.delete(stream)? {}
    }
}
