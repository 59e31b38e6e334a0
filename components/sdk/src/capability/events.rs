//! Streams of events that the host sends.

pub use crate::bindings::latchmail::host::mailbox::{EventFilter, StreamError};
use crate::bindings::latchmail::host::streams::EventStream;

/// A stream that the host sends as the body of a response, after the handler has returned. The
/// module never sees the events.
#[derive(Debug)]
pub enum Events {
    /// A stream of the host, referenced by a handle.
    Host(EventStream),
    /// The complete body in memory, for tests without the real host.
    Bytes(Vec<u8>),
}
