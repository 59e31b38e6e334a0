//! Contains the host bindings for the WIT package `latchmail:host`, the data types for
//! handles, and the error type of host functions.
//!
//! The expansion of `bindgen!` is slow. Because this is a separate crate, the expansion is not
//! repeated after a change in another crate.

mod blob;
mod event_stream;
mod host_error;

pub use blob::{Blob, BlobSource, ByteStream, range_of};
pub use event_stream::EventStream;
pub use host_error::HostError;

/// The version of the WIT package in `wit/`: `major.minor.patch`.
pub const VERSION: &str = version(include_str!("../../../wit/types.wit"));

/// Returns the text between the first `@` and the following `;`. In a WIT file, the first `@` is in
/// the line with the name and version of the package.
const fn version(wit: &str) -> &str {
    let bytes = wit.as_bytes();
    let mut start = 0;
    while bytes[start] != b'@' {
        start += 1;
    }
    let (_, rest) = wit.split_at(start + 1);
    let bytes = rest.as_bytes();
    let mut end = 0;
    while bytes[end] != b';' {
        end += 1;
    }
    let (version, _) = rest.split_at(end);
    version
}

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "everything",
    imports: { default: async | trappable },
    exports: { default: async },
    with: {
        "latchmail:host/blobs.blob": Blob,
        "latchmail:host/streams.event-stream": EventStream,
    },
    trappable_error_type: {
        "latchmail:host/types.error" => crate::HostError<crate::latchmail::host::types::Error>,
        "latchmail:host/mailbox.search-error" =>
            crate::HostError<crate::latchmail::host::mailbox::SearchError>,
        "latchmail:host/mailbox.threads-error" =>
            crate::HostError<crate::latchmail::host::mailbox::ThreadsError>,
        "latchmail:host/mailbox.changes-error" =>
            crate::HostError<crate::latchmail::host::mailbox::ChangesError>,
        "latchmail:host/mailbox.stream-error" =>
            crate::HostError<crate::latchmail::host::mailbox::StreamError>,
        "latchmail:host/mailbox.conditional-error" =>
            crate::HostError<crate::latchmail::host::mailbox::ConditionalError>,
        "latchmail:host/queries.query-error" =>
            crate::HostError<crate::latchmail::host::queries::QueryError>,
        "latchmail:host/outbox.send-error" =>
            crate::HostError<crate::latchmail::host::outbox::SendError>,
        "latchmail:host/drafts.draft-error" =>
            crate::HostError<crate::latchmail::host::drafts::DraftError>,
        "latchmail:host/filters.filter-error" =>
            crate::HostError<crate::latchmail::host::filters::FilterError>,
        "latchmail:host/subscriptions.subscribe-error" =>
            crate::HostError<crate::latchmail::host::subscriptions::SubscribeError>,
        "latchmail:host/teams.refused" => crate::HostError<crate::latchmail::host::teams::Refused>,
    },
});

/// The bindings of the interface `handlers`. They are separate, because a component can export
/// `module` without `handlers`, and `handlers` without `module`.
pub mod handlers {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "event-handlers",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "latchmail:host/types": crate::latchmail::host::types,
        },
    });
}
