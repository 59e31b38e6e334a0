//! Outbound mail: checks the sender of a draft, writes and signs the message, passes the message to
//! the submission service, and stores a copy in the Sent folder.
//!
//! Also composes replies and forwards, which clients complete and send.
//!
//! This module depends neither on HTTP nor on WIT.

mod attached_file;
mod compose;
mod departures;
mod draft;
mod envelope;
mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod idempotency;
mod later;
mod login;
mod mark;
mod media_type;
mod memory;
mod original;
mod parts;
mod probe;
mod random;
mod result;
mod send;
mod smtp;
mod starttls;
mod uploads;
mod words;

pub use attached_file::{File, Source};
pub use departures::{
    Departures, REPEATED_SUBMISSION, SUBMISSION_FIELD, SenderAccess, is_submission_id,
};
pub use draft::{Draft, HeaderField};
pub use envelope::{Recipient, Sender};
#[allow(unused_imports, reason = "for messages from drafts")]
pub(crate) use later::{DraftOrigin, LaterMessage};
pub use later::{OutboxEntry, SendOptions};
pub use original::{OriginalMessage, Relation};
pub use probe::{Probe, probe};
pub use result::{Error, Scheduled, Sent};
pub use send::Outbox;
pub use smtp::submit;
pub use uploads::{MAX_UPLOAD, UploadedFile, Uploads};

#[cfg(test)]
mod tests;
