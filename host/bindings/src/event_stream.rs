//! The host's data type for the WIT resource `event-stream`.

/// The events to which an `event-stream` handle of a module refers. The type has no values, because
/// no function of this version of the contract returns a stream.
#[derive(Debug)]
pub enum EventStream {}
