//! Routes for tests.

use std::time::Duration;

use super::manifest::{Access, BodyForm, Route};

/// Returns a public route without a rate limit and without a body.
///
/// # Panics
/// Panics if `method` is not a valid method.
#[must_use]
#[allow(clippy::unwrap_used, reason = "only tests call this")]
pub fn route(method: &str, path: &str) -> Route {
    Route {
        method: method.parse().unwrap(),
        path: path.into(),
        operation: format!("{method} {path}"),
        access: Access::Public,
        bucket: String::new(),
        max_body: 0,
        body: BodyForm::Bytes,
        blob_fields: Vec::new(),
        deadline: Duration::from_secs(5),
        is_page: false,
        verifies_body: false,
    }
}
