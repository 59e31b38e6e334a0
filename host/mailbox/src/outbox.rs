//! Outbound mail: checks the sender of a draft, writes and signs the message, passes the message to
//! the submission service, and stores a copy in the Sent folder.
//!
//! Also composes replies and forwards, which clients complete and send.
//!
//! This module depends neither on HTTP nor on WIT.

pub(crate) mod attached_file;
mod compose;
mod deliveries;
mod departures;
pub(crate) mod draft;
pub(crate) mod envelope;
pub(crate) mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub(crate) mod idempotency;
mod later;
mod login;
mod mark;
mod media_type;
pub(crate) mod memory;
pub(crate) mod notice;
mod options;
mod original;
pub(crate) mod parts;
mod probe;
mod random;
pub(crate) mod result;
mod sealed;
mod send;
mod smtp;
mod starttls;
mod tracker;
mod uploads;
pub(crate) mod words;

pub use attached_file::{File, Source};
pub use deliveries::{Delivery, DeliveryRecipient, delivery_report};
pub use departures::{
    Departures, REPEATED_SUBMISSION, SUBMISSION_FIELD, SenderAccess, is_submission_id,
};
pub use draft::{Draft, HeaderField};
pub use envelope::{Recipient, Sender};
pub use later::OutboxEntry;
pub(crate) use later::{DraftOrigin, LaterMessage};
pub use options::SendOptions;
pub use original::{Original, OriginalMessage, Relation};
pub use probe::{Probe, probe};
pub use result::{Error, Scheduled, Sent};
pub use send::Outbox;
pub(crate) use send::{UploadResult, store_copy};
pub use smtp::submit;
pub use uploads::{MAX_UPLOAD, UploadContent, UploadedFile, Uploads};

#[cfg(test)]
mod tests;
