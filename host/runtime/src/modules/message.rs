//! The requests and responses of modules and of the host's handlers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use latchmail_bindings::{Blob, EventStream};
use latchmail_core::caller::{Caller, Origin};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_shape::ValidationError;
use serde::de::DeserializeOwned;

use super::headers;

/// A request whose route was found, whose caller was authorized, and whose body was read.
#[derive(Debug)]
pub struct Request {
    /// The id of the request, as in the log and in the header `X-Request-Id`.
    pub id: String,
    /// The URL of the request, as the client sent it.
    pub uri: Uri,
    /// The names and decoded values of the path's named segments, in the order of the path.
    pub path: Vec<(String, String)>,
    /// The decoded names and values of the query.
    pub query: Vec<(String, String)>,
    /// All headers of the request. A module receives only the headers of an allow-list, which
    /// contains no header with a credential.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The decoded values of the route's blob fields, in the order of the body. `body` does not
    /// contain these values.
    pub blobs: Vec<Bytes>,
    /// The client's IP address. If the connection comes from a trusted proxy, this is the address
    /// that the proxy reports.
    pub client: IpAddr,
    /// The caller. `None` if the route is public.
    pub caller: Option<Caller>,
    /// Whether the handler checked a credential in the body, for example a password, and the
    /// result.
    pub verified: Verified,
}

/// A flag that a handler sets if the credential in the request's body is valid. The HTTP server
/// reads the flag after the call of the handler.
#[derive(Clone, Debug, Default)]
pub struct Verified(Arc<AtomicBool>);

impl Verified {
    /// Returns whether the flag is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Request {
    /// Creates the request for the probe of a module.
    pub(super) fn probe() -> Self {
        Self {
            id: "probe".into(),
            uri: Uri::default(),
            path: Vec::new(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            blobs: Vec::new(),
            client: Ipv4Addr::LOCALHOST.into(),
            caller: None,
            verified: Verified::default(),
        }
    }

    /// Returns a copy of what the module receives. The copy has no caller, no URL, and none of the
    /// headers that modules do not receive.
    pub(super) fn copy_for_module(&self) -> Self {
        Self {
            id: self.id.clone(),
            uri: Uri::default(),
            path: self.path.clone(),
            query: self.query.clone(),
            headers: headers::without_unknown(&self.headers),
            body: self.body.clone(),
            blobs: self.blobs.clone(),
            client: self.client,
            caller: None,
            verified: Verified::default(),
        }
    }

    /// Records that the credential in the body is valid. The request then does not count as a
    /// failure of the client. See [`super::Route::verifies_body`].
    pub fn set_verified(&self) {
        self.verified.0.store(true, Ordering::Relaxed);
    }

    /// Parses the body as JSON.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or if a field is invalid.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ValidationError> {
        latchmail_shape::read(&self.body)
    }

    /// Returns the first value of a query parameter.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the origin of the request for the audit log. The origin contains the request's id,
    /// the client's IP address and the user agent.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let user_agent = self.headers.get(header::USER_AGENT);
        Origin::new(
            &self.id,
            self.client,
            self.caller.as_ref(),
            user_agent.and_then(|value| value.to_str().ok()),
        )
    }

    /// Returns the caller of a route that requires a credential.
    ///
    /// # Errors
    /// Returns a failure if the request has no caller. This happens only if the route is public by
    /// mistake.
    pub fn caller(&self) -> Result<&Caller, Failure> {
        let missing = || {
            Failure::unauthorized(
                codes::INVALID_AUTHORIZATION_HEADER,
                "Missing or invalid Authorization header",
            )
        };
        self.caller.as_ref().ok_or_else(missing)
    }
}

/// The body of a response.
#[derive(Debug)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A blob whose bytes were never copied into the sandbox.
    Blob(Blob),
    /// A stream of unknown length.
    Events(EventStream),
}

/// A response. For a response of a module, the host has checked that the status is 200 to 599 and
/// that every header is allowed.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Content,
}

impl Response {
    /// Sets a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}
