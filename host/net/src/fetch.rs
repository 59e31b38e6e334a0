//! HTTP client for requests to servers on the internet. Modules and the service use this client.
//!
//! Requests are sent only to listed hosts at allowed addresses. The time and the size of every
//! exchange are limited. Redirects and proxies are not used, because either could lead to an
//! unchecked server.
//!
//! Every request uses its own connection, so no state of an earlier request is reused. This module
//! does not depend on WIT or on modules.
//!
//! The client is our own code on top of hyper. reqwest 0.12 adds an `Accept` header to requests and
//! has no limit on the size of response headers.

mod address;
mod connect;
mod exchange;
mod hosts;
mod target;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use http_body_util::Full;
use latchmail_core::error::StartError;
use latchmail_core::traces::TraceContext;
use tokio::time::{Instant, timeout_at};

use crate::dns::Dns;
use crate::endpoint::{Io, tls_connector_with};
use connect::Connector;
pub use connect::{Cause, Reason};
pub use exchange::{OpenResponse, Response};
pub use hosts::Hosts;
pub use target::{Host, Target};

/// Maximum size of a request body or response body in bytes.
pub const MAX_BODY_SIZE: usize = 4 * 1024 * 1024;

/// The maximum and default timeout of a request.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of request headers, and maximum total size of all request headers in bytes.
const MAX_HEADERS: usize = 64;
const MAX_HEADERS_SIZE: usize = 16 * 1024;

const MAX_URL_LENGTH: usize = 8 * 1024;

/// `User-Agent` of a request without this header.
const USER_AGENT: &str = concat!("latchmail/", env!("CARGO_PKG_VERSION"));

/// Request headers that the caller must not set, in addition to hop-by-hop headers.
const RESERVED_HEADERS: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("http2-settings"),
    TRACEPARENT,
    HeaderName::from_static("tracestate"),
];

/// The position in the trace of the request that caused this request (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A request to send.
#[derive(Default)]
pub struct Request {
    /// The HTTP method.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// The names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The position in a trace, for the header `traceparent`. If `None`, the request has no such
    /// header.
    pub trace: Option<TraceContext>,
    /// The body.
    pub body: Bytes,
    /// The timeout of the complete exchange. The maximum and default is [`MAX_TIMEOUT`].
    pub timeout: Option<Duration>,
    /// The maximum size of the response body in bytes. The maximum and default is
    /// [`MAX_BODY_SIZE`].
    pub max_response_size: Option<usize>,
}

/// The reason why a request has no response. In the descriptions of the variants, the caller is the
/// module or the part of the service that made the request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is not on the list of hosts. The text of the error can be returned to the caller.
    #[error("{0}")]
    Denied(String),
    /// The server's name resolves only to blocked addresses.
    #[error("{target} resolves only to blocked addresses")]
    Blocked {
        /// The scheme, host and port of the server.
        target: String,
        /// The blocked addresses, for the log.
        addresses: String,
    },
    /// The request cannot be sent. The text of the error can be returned to the caller.
    #[error("{0}")]
    Invalid(String),
    /// The request or its response exceeds a size limit. The text of the error can be returned to
    /// the caller.
    #[error("{0}")]
    TooLarge(String),
    /// The connection failed, or there is no response to a request with a safe method such as GET
    /// (RFC 9110, section 9.2.1). The request changed nothing on the server. The text of the error
    /// is for the log.
    #[error("{0}")]
    Unavailable(Reason),
    /// The request was sent but the response is missing, so the server might have processed the
    /// request. The text of the error is for the log.
    #[error("{0}")]
    OutcomeUnknown(Reason),
}

/// The HTTP client.
#[derive(Clone, Debug)]
pub struct Fetch {
    connector: Connector,
}

impl Fetch {
    /// Creates a client. Opens no connection.
    ///
    /// # Errors
    /// Returns an error if TLS is not available on this machine.
    pub fn new(dns: Arc<Dns>) -> Result<Self, StartError> {
        Ok(Self {
            connector: Connector::new(dns)?,
        })
    }

    /// Creates a client that also trusts the certificates in `pem`, in addition to those in the
    /// system's trust store. Opens no connection.
    ///
    /// # Errors
    /// Returns an error if `pem` contains no certificate, or if TLS is not available on this
    /// machine.
    pub fn with_authorities(dns: Arc<Dns>, pem: &[u8]) -> Result<Self, StartError> {
        Ok(Self {
            connector: Connector::with(dns, tls_connector_with("the configured servers", pem)?),
        })
    }

    /// Sends a request to a server on the list `hosts` and waits for the complete response.
    /// Dropping the future closes the connection.
    ///
    /// # Errors
    /// Returns an [`Error`] if there is no complete response.
    pub async fn send(&self, hosts: &Hosts, request: Request) -> Result<Response, Error> {
        let deadline = deadline(&request);
        let max_body_size = request
            .max_response_size
            .unwrap_or(MAX_BODY_SIZE)
            .min(MAX_BODY_SIZE);
        let (target, request) = prepare(request)?;
        let stream = self.connect(hosts, &target, deadline).await?;
        let is_safe = request.method().is_safe();
        let reason =
            match timeout_at(deadline, exchange::exchange(stream, request, max_body_size)).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(exchange::Error::TooLarge)) => {
                    return Err(Error::TooLarge(format!(
                        "The response is larger than {max_body_size} bytes"
                    )));
                }
                Ok(Err(exchange::Error::Failed(text))) => Reason::new(Cause::Exchange, text),
                Err(_) => Reason::new(Cause::Timeout, "the response timed out"),
            };
        Err(without_response(is_safe, reason.at(&target)))
    }

    /// Sends a request to a server on the list `hosts` and waits for the head of the response. The
    /// timeout of the request ends with the head. The size of the body has no limit, because the
    /// caller reads the body in pieces.
    ///
    /// # Errors
    /// Returns an [`Error`] if there is no response.
    pub async fn open(&self, hosts: &Hosts, request: Request) -> Result<OpenResponse, Error> {
        let deadline = deadline(&request);
        let (target, request) = prepare(request)?;
        let stream = self.connect(hosts, &target, deadline).await?;
        let is_safe = request.method().is_safe();
        let reason = match timeout_at(deadline, exchange::open(stream, request)).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => Reason::new(Cause::Exchange, error),
            Err(_) => Reason::new(Cause::Timeout, "the response timed out"),
        };
        Err(without_response(is_safe, reason.at(&target)))
    }

    /// Connects to a server, if the server is on the list `hosts`.
    async fn connect(
        &self,
        hosts: &Hosts,
        target: &Target,
        deadline: Instant,
    ) -> Result<Box<dyn Io>, Error> {
        if !hosts.allows(target) {
            return Err(Error::Denied(format!("{target} is not a permitted host")));
        }
        let connecting = self
            .connector
            .connect(target, |address| hosts.allows_address(address));
        let reason = match timeout_at(deadline, connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(connect::Error::Blocked(addresses))) => {
                return Err(Error::Blocked {
                    target: target.to_string(),
                    addresses,
                });
            }
            Ok(Err(connect::Error::Unreachable(reason))) => reason,
            Err(_) => Reason::new(Cause::Timeout, "connecting timed out"),
        };
        Err(Error::Unavailable(reason.at(target)))
    }
}

fn deadline(request: &Request) -> Instant {
    Instant::now() + request.timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT)
}

/// Returns the error of a request that was sent and has no response.
fn without_response(is_safe: bool, reason: Reason) -> Error {
    if is_safe {
        Error::Unavailable(reason)
    } else {
        Error::OutcomeUnknown(reason)
    }
}

/// Validates a request. Returns the server and the HTTP request.
fn prepare(request: Request) -> Result<(Target, http::Request<Full<Bytes>>), Error> {
    let method = Method::from_bytes(request.method.as_bytes())
        .ok()
        .filter(|method| ![Method::CONNECT, Method::TRACE].contains(method))
        .ok_or_else(|| Error::Invalid("method is invalid or not allowed".into()))?;
    if request.url.len() > MAX_URL_LENGTH {
        return Err(Error::TooLarge(format!(
            "url is longer than {MAX_URL_LENGTH} bytes"
        )));
    }
    let uri = request.url.parse::<Uri>().ok();
    let target = uri.as_ref().and_then(Target::of);
    let (Some(uri), Some(target)) = (uri, target) else {
        return Err(Error::Invalid(
            "url must be an absolute http or https URL in ASCII, without user information".into(),
        ));
    };
    if request.body.len() > MAX_BODY_SIZE {
        return Err(Error::TooLarge(format!(
            "The body is larger than {MAX_BODY_SIZE} bytes"
        )));
    }
    // hyper sends no length of an empty body, and some servers require it (RFC 9110, section 8.6).
    let needs_length =
        request.body.is_empty() && [Method::PATCH, Method::POST, Method::PUT].contains(&method);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // A URL can have a query without a path.
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let mut prepared = http::Request::builder()
        .method(method)
        .uri(path)
        .body(Full::new(request.body))
        .map_err(|_| Error::Invalid("url has an invalid path".into()))?;
    let host = HeaderValue::from_str(&target.authority())
        .map_err(|_| Error::Invalid("url has an invalid host".into()))?;
    *prepared.headers_mut() = headers(request.headers)?;
    prepared.headers_mut().insert(header::HOST, host);
    if needs_length {
        let length = HeaderValue::from_static("0");
        prepared
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length);
    }
    let trace = request.trace.map(|trace| trace.to_string());
    if let Some(Ok(trace)) = trace.map(HeaderValue::try_from) {
        prepared.headers_mut().insert(TRACEPARENT, trace);
    }
    Ok((target, prepared))
}

/// Validates the headers from the caller. Adds a missing `User-Agent`.
fn headers(given: Vec<(String, String)>) -> Result<HeaderMap, Error> {
    let bytes: usize = given
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if given.len() > MAX_HEADERS || bytes > MAX_HEADERS_SIZE {
        return Err(Error::TooLarge(format!(
            "A request can have at most {MAX_HEADERS} headers, and their total size can be at most {MAX_HEADERS_SIZE} bytes"
        )));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let invalid = |problem: &str| Error::Invalid(format!("header {name:?} {problem}"));
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("has an invalid name"))?;
        if RESERVED_HEADERS.contains(&header) || exchange::HOP_BY_HOP_HEADERS.contains(&header) {
            return Err(invalid("must not be set"));
        }
        let value = HeaderValue::from_str(&value).map_err(|_| invalid("has an invalid value"))?;
        headers.append(header, value);
    }
    headers
        .entry(header::USER_AGENT)
        .or_insert(HeaderValue::from_static(USER_AGENT));
    Ok(headers)
}

#[cfg(test)]
mod tests;
