//! The requests and responses of the host's handlers.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use latchmail_core::caller::{Caller, Origin};
use latchmail_core::error::Failure;
use latchmail_runtime::modules::Content;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rejection::Rejection;

/// A request that was routed, authorized and read.
#[derive(Debug)]
pub struct Request {
    /// The request's id, as in the log and in `X-Request-Id`.
    pub id: String,
    /// The values of the path's named segments, decoded, in the order of the path.
    pub path: Vec<(String, String)>,
    /// The query's names and values, decoded.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The fields that were extracted from the body: the route's blob fields, decoded, in their order.
    pub fields: Vec<Bytes>,
    /// The client's IP address. Behind trusted proxies, the address that the proxies report.
    pub client: IpAddr,
    /// The caller. `None` if the route accepts no credential.
    pub caller: Option<Caller>,
}

impl Request {
    /// Parses the body as JSON.
    ///
    /// # Errors
    /// Returns 400 `Invalid JSON body` if the body is not JSON, and 400 with the name of the field if a field is invalid.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Rejection> {
        Ok(latchmail_shape::read(&self.body)?)
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
    /// Returns 401 if there is no caller because the route was declared public by mistake.
    pub fn caller(&self) -> Result<&Caller, Rejection> {
        let missing = || Failure::unauthorized("Missing or invalid Authorization header");
        Ok(self.caller.as_ref().ok_or_else(missing)?)
    }
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Content,
}

impl Reply {
    /// Creates a JSON response.
    ///
    /// # Errors
    /// Returns 500 if `value` cannot be serialized, which is a defect of the host.
    pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Self, Rejection> {
        let body = serde_json::to_vec(value).map_err(Failure::internal)?;
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        Ok(Self {
            status,
            headers,
            body: Content::Bytes(body.into()),
        })
    }

    /// Creates a response with the status 200 and the body `{"success": true}`.
    ///
    /// # Errors
    /// Returns the errors of [`Reply::json`], which do not occur in practice.
    pub fn success() -> Result<Self, Rejection> {
        Self::json(StatusCode::OK, &serde_json::json!({ "success": true }))
    }

    /// Sets a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}
