//! Converts errors of the host to error responses of the domain routes.

use latchmail_sdk::Failure;
use latchmail_sdk::capability::{Caller, Error};

pub(crate) const INVALID: &str = "Enter a valid domain you own (e.g. example.com)";
pub(crate) const TAKEN: &str = "This domain has already been claimed by another user";

pub(crate) fn failure_of(error: Error, host: &impl Caller) -> Failure {
    match error {
        Error::Invalid(_) => Failure::bad_request(INVALID),
        // The domain routes depend on the DNS and not on the mail server. So the text says that the
        // DNS is unavailable.
        Error::Unavailable => Failure {
            retry_after: Some(5),
            ..Failure::new(503, "Couldn't read DNS right now, try again shortly")
        },
        error => Failure::of(error, "Domain not found", host),
    }
}
