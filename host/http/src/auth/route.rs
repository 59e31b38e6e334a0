//! The properties that all routes under `/api/v1/auth` have.

use http::Method;
use latchmail_runtime::modules::{Access, Route};

use crate::route_group::host_route;

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// Creates a route that counts towards the rate limit `bucket`. Only `POST` routes accept a body.
pub(super) fn auth_route(
    method: Method,
    path: &str,
    operation: &str,
    access: Access,
    bucket: &str,
) -> Route {
    Route {
        access,
        bucket: bucket.to_owned(),
        max_body: if method == Method::POST { MAX_BODY } else { 0 },
        ..host_route(method, path, operation)
    }
}
