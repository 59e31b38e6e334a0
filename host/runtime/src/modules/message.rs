//! Requests and responses, of the host's handlers and of modules.

use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use latchmail_bindings::Blob;
use latchmail_core::caller::{Caller, Origin};
use latchmail_core::error::Failure;
use latchmail_shape::ValidationError;
use serde::de::DeserializeOwned;

/// A request that was routed, authorized and read.
#[derive(Debug)]
pub struct Request {
    /// The request's id, as in the log and in `X-Request-Id`.
    pub id: String,
    /// The values of the path's named segments, decoded, in the order of the path.
    pub path: Vec<(String, String)>,
    /// The query's names and values, decoded.
    pub query: Vec<(String, String)>,
    /// All headers. A module receives only the headers of an allow-list, which do not contain the credential.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The decoded values of the route's blob fields, in their order. They are not in `body`.
    pub blobs: Vec<Bytes>,
    /// The client's IP address. Behind trusted proxies, the address that the proxies report.
    pub client: IpAddr,
    /// The caller. `None` if the route accepts no credential.
    pub caller: Option<Caller>,
}

impl Request {
    /// Returns a request of the host, for the probe of a module.
    pub(super) fn probe() -> Self {
        Self {
            id: "probe".into(),
            path: Vec::new(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            blobs: Vec::new(),
            client: Ipv4Addr::LOCALHOST.into(),
            caller: None,
        }
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

    /// Returns the origin of the request.
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
    /// Returns a failure if there is no caller. This happens only if the route is declared public by mistake.
    pub fn caller(&self) -> Result<&Caller, Failure> {
        let missing = || Failure::unauthorized("Missing or invalid Authorization header");
        self.caller.as_ref().ok_or_else(missing)
    }
}

/// The body of a response.
#[derive(Debug)]
pub enum Content {
    /// Bytes.
    Bytes(Bytes),
    /// A blob, whose bytes are not copied into the sandbox.
    Blob(Blob),
}

/// A response. The response of a module is already checked: its status is 200 to 599, and it contains only headers that a module may set.
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
