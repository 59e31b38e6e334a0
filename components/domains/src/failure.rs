//! What the host's errors mean to the client of a domain's routes (specification, section 7).

use latchmail_sdk::Failure;
use latchmail_sdk::capability::{Caller, Error};

pub(crate) const INVALID: &str = "Enter a valid domain you own (e.g. example.com)";
pub(crate) const TAKEN: &str = "This domain has already been claimed by another user";

/// The failure that a client sees.
pub(crate) fn told(error: Error, host: &impl Caller) -> Failure {
    match error {
        Error::Invalid(_) => Failure::bad_request(INVALID),
        // It is the DNS that cannot be reached here, never the mail server.
        Error::Unavailable => Failure {
            retry_after: Some(5),
            ..Failure::new(503, "Couldn't read DNS right now, try again shortly")
        },
        error => Failure::of(error, "Domain not found", host),
    }
}
