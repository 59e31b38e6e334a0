//! The host's data type for the WIT resource `event-stream`.

use std::fmt;

use crate::ByteStream;

/// The stream to which an `event-stream` handle of a module refers. The stream itself ends when the
/// rights of its caller end.
pub struct EventStream(ByteStream);

impl EventStream {
    /// Creates the stream of a response.
    #[must_use]
    pub fn new(bytes: ByteStream) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn into_stream(self) -> ByteStream {
        self.0
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}
