//! The failure of requests whose grant is suspended.

use latchmail_core::codes;
use latchmail_core::error::Failure;

/// Returns the failure of a request with the API token or the OAuth access token of a suspended
/// grant.
pub(super) fn suspended() -> Failure {
    Failure::forbidden(codes::GRANT_SUSPENDED, "This grant is suspended")
}
