//! Converts errors of the host to error responses of the domain routes.

use latchmail_sdk::capability::{Caller, Error};
use latchmail_sdk::{Failure, codes};

pub(crate) const INVALID: &str = "Enter a valid domain you own (e.g. example.com)";
pub(crate) const TAKEN: &str = "This domain has already been claimed by another user";

pub(crate) fn failure_of(error: Error, host: &impl Caller) -> Failure {
    match error {
        Error::Invalid(_) => Failure::bad_request(codes::INVALID_DOMAIN, INVALID),
        // The domain routes depend on the DNS and not on the mail server. So the text says that the
        // DNS is unavailable.
        Error::Unavailable => Failure {
            retry_after: Some(5),
            ..Failure::new(
                503,
                codes::DNS_UNAVAILABLE,
                "Couldn't read DNS right now, try again shortly",
            )
        },
        error => Failure::of(error, (codes::DOMAIN_NOT_FOUND, "Domain not found"), host),
    }
}
