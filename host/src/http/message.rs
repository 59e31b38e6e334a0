//! A request as a handler of the host sees it, and its answer.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::caller::{Caller, Origin};
use crate::error::Failure;
use crate::modules::Content;

/// A request: routed, admitted and read.
#[derive(Debug)]
pub struct Request {
    /// The request's id, as in the log and in `X-Request-Id`.
    pub id: String,
    /// The path's named segments, decoded, in the path's order.
    pub path: Vec<(String, String)>,
    /// The query's names and values, decoded.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What was set aside of it: the route's blob fields, decoded, in their order.
    pub fields: Vec<Bytes>,
    /// The client's address, behind trusted proxies the one they name.
    pub client: IpAddr,
    /// Who asks; none where the route takes no credential.
    pub caller: Option<Caller>,
}

impl Request {
    /// The body as a JSON object.
    ///
    /// # Errors
    /// 400 `Invalid JSON body` where it is not JSON; 400 with a text that names the field where it is of another shape.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        Ok(latchmail_shape::read(&self.body)?)
    }

    /// The first value of a query parameter.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Where it comes from.
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

    /// The caller of a route that needs one.
    ///
    /// # Errors
    /// 401 where there is none: the route was declared public by mistake.
    pub fn caller(&self) -> Result<&Caller, Failure> {
        self.caller
            .as_ref()
            .ok_or_else(|| Failure::unauthorized("Missing or invalid Authorization header"))
    }
}

/// An answer.
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
    /// A JSON answer.
    ///
    /// # Errors
    /// 500 where `value` cannot be written as JSON, which is the host's fault.
    pub fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Self, Failure> {
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

    /// `{"success": true}` with 200.
    ///
    /// # Errors
    /// None in practice; see [`Reply::json`].
    pub fn success() -> Result<Self, Failure> {
        Self::json(StatusCode::OK, &serde_json::json!({ "success": true }))
    }

    /// The same with a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}
