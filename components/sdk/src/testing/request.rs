//! Calls a handler directly, without routes and credentials.

use serde_json::Value;

use super::Response;
use crate::failure::Failure;
use crate::message::{Reply, Request};

/// Returns a request with these path segments, query parameters and body.
#[must_use]
pub fn request(path: &[(&str, &str)], query: &[(&str, &str)], body: &str) -> Request {
    let pairs = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect()
    };
    Request {
        path: pairs(path),
        query: pairs(query),
        body: body.into(),
        ..Request::default()
    }
}

/// Returns the body of a response as JSON.
///
/// # Panics
/// Panics if the handler failed or if the body is not JSON.
#[must_use]
#[track_caller]
pub fn json(reply: Result<Reply, Failure>) -> Value {
    match reply {
        Ok(reply) => Response::from(reply).json(),
        Err(failure) => panic!("the handler failed: {failure:?}"),
    }
}
