//! HTTP client for requests to servers on the internet, used on behalf of modules and of the service itself.
//!
//! A request goes only to servers on a list of hosts, and never to an address that the list does not open. Time and size of every exchange
//! are limited. Redirects are not followed and proxies are not used, because either could lead to a server that was not checked.
//!
//! Every request uses its own connection, so no state of an earlier request is reused. This module does not depend on WIT or on modules.

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
use tokio::time::{Instant, timeout_at};

use crate::dns::Dns;
use connect::Connector;
pub use exchange::Response;
pub use hosts::Hosts;
pub use target::{Host, Target};

/// Maximum size of a body in bytes, of requests and of responses.
pub const LARGEST_BODY: usize = 4 * 1024 * 1024;

/// Timeout of a request that sets no shorter one.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Maximum number of request headers, and their maximum total size in bytes.
const MOST_HEADERS: usize = 64;
const LARGEST_HEADERS: usize = 16 * 1024;

const LONGEST_URL: usize = 8 * 1024;

/// `User-Agent` of a request that sets none.
const USER_AGENT: &str = concat!("latchmail/", env!("CARGO_PKG_VERSION"));

/// Request headers that the sender must not set, in addition to the headers of the connection.
const HOSTS_OWN: [HeaderName; 5] = [
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("http2-settings"),
];

/// A request to send.
#[derive(Default)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Absolute URL.
    pub url: String,
    /// Request headers as name and value.
    pub headers: Vec<(String, String)>,
    /// Request body.
    pub body: Bytes,
    /// Timeout of the whole exchange, at most [`PATIENCE`].
    pub timeout: Option<Duration>,
    /// Maximum size of the response body in bytes, at most [`LARGEST_BODY`].
    pub largest: Option<usize>,
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server is not on the list of hosts. The message can be shown to the sender.
    #[error("{0}")]
    Denied(String),
    /// The server's name resolves only to blocked addresses.
    #[error("{target} resolves only to blocked addresses")]
    Forbidden {
        /// The server as scheme, host and port.
        target: String,
        /// The addresses, for the log.
        found: String,
    },
    /// The request cannot be sent. The message can be shown to the sender.
    #[error("{0}")]
    Invalid(String),
    /// The request or its response exceeds a size limit. The message can be shown to the sender.
    #[error("{0}")]
    TooLarge(String),
    /// The server could not be reached or the response to a safe request is missing. The request changed nothing. The message is for the
    /// log.
    #[error("{0}")]
    Unavailable(String),
    /// The request was sent and the server may have processed it, but the response is missing. The message is for the log.
    #[error("{0}")]
    Unknown(String),
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

    /// Sends a request to a server on the list `hosts` and waits for the whole response. Dropping the future closes the connection.
    ///
    /// # Errors
    /// Returns any of [`Error`].
    pub async fn send(&self, hosts: &Hosts, request: Request) -> Result<Response, Error> {
        let end = Instant::now() + request.timeout.unwrap_or(PATIENCE).min(PATIENCE);
        let largest = request.largest.unwrap_or(LARGEST_BODY).min(LARGEST_BODY);
        let (target, request) = prepared(request)?;
        if !hosts.list(&target) {
            return Err(Error::Denied(format!("{target} is not a permitted host")));
        }
        let unavailable = |why: &str| Error::Unavailable(format!("{target}: {why}"));
        let connecting = self.connector.connect(&target, |at| hosts.open(at));
        let stream = match timeout_at(end, connecting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(connect::Error::Forbidden(found))) => {
                return Err(Error::Forbidden {
                    target: target.to_string(),
                    found,
                });
            }
            Ok(Err(connect::Error::Unreachable(why))) => return Err(unavailable(&why)),
            Err(_) => return Err(unavailable("connecting timed out")),
        };
        let reads = request.method().is_safe();
        let why = match timeout_at(end, exchange::exchange(stream, request, largest)).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(exchange::Error::TooLarge)) => {
                return Err(Error::TooLarge(format!(
                    "The response is larger than {largest} bytes"
                )));
            }
            Ok(Err(exchange::Error::Broken(why))) => why,
            Err(_) => "the response timed out".to_owned(),
        };
        if reads {
            Err(unavailable(&why))
        } else {
            Err(Error::Unknown(format!("{target}: {why}")))
        }
    }
}

/// Validates a request and returns its target and the request to send.
fn prepared(request: Request) -> Result<(Target, http::Request<Full<Bytes>>), Error> {
    let method = Method::from_bytes(request.method.as_bytes())
        .ok()
        .filter(|method| ![Method::CONNECT, Method::TRACE].contains(method))
        .ok_or_else(|| Error::Invalid("method is invalid or not allowed".into()))?;
    if request.url.len() > LONGEST_URL {
        return Err(Error::TooLarge(format!(
            "url is longer than {LONGEST_URL} bytes"
        )));
    }
    let uri = request.url.parse::<Uri>().ok();
    let target = uri.as_ref().and_then(Target::of);
    let (Some(uri), Some(target)) = (uri, target) else {
        return Err(Error::Invalid(
            "url must be an absolute http or https URL in ASCII, without user information".into(),
        ));
    };
    if request.body.len() > LARGEST_BODY {
        return Err(Error::TooLarge(format!(
            "The body is larger than {LARGEST_BODY} bytes"
        )));
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // A URL without a path may have a query only.
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
    Ok((target, prepared))
}

fn headers(given: Vec<(String, String)>) -> Result<HeaderMap, Error> {
    let bytes: usize = given
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if given.len() > MOST_HEADERS || bytes > LARGEST_HEADERS {
        return Err(Error::TooLarge(format!(
            "A request has at most {MOST_HEADERS} headers of {LARGEST_HEADERS} bytes in total"
        )));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let invalid = |why: &str| Error::Invalid(format!("header {name:?} {why}"));
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("has an invalid name"))?;
        if HOSTS_OWN.contains(&header) || exchange::OF_THE_CONNECTION.contains(&header) {
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
