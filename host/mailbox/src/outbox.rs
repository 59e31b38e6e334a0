//! Outbound mail: checks the sender of a draft, writes and signs the message, passes the message to
//! the submission service, and stores a copy in the Sent folder.
//!
//! This module depends neither on HTTP nor on WIT.

mod deliveries;
mod draft;
mod envelope;
mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod idempotency;
mod login;
mod memory;
mod parts;
mod probe;
mod random;
mod result;
mod send;
mod smtp;
mod starttls;
mod uploads;
mod words;

pub use deliveries::{Delivery, DeliveryRecipient, delivery_report};
pub use draft::{Draft, HeaderField, Recipient};
pub use envelope::Sender;
pub use files::{File, Source};
pub use probe::{Probe, probe};
pub use result::{Error, Sent};
pub use send::Outbox;
pub use smtp::submit;
pub use uploads::{MAX_UPLOAD, UploadedFile, Uploads};

#[cfg(test)]
mod tests;
