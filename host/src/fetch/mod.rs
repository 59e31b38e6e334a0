//! HTTP requests to the world on somebody's behalf: to servers that are listed, never to an address that is not meant to be reached, bounded in
//! time and in size. Redirects are not followed and no proxy is used, since either would lead where nobody looked.
//!
//! Every request has a connection of its own: none carries what is left of another's. Knows neither WIT nor modules.

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
use tokio::time::{Instant, timeout_at};

use crate::dns::Dns;
use crate::error::StartError;
use connect::Connector;
pub use exchange::Response;
pub use hosts::Hosts;
pub(crate) use target::{Host, Target};

/// The largest body, in either direction.
pub const LARGEST_BODY: usize = 4 * 1024 * 1024;

/// How long a request may take where it does not ask for less.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Headers of a request, and their bytes in all.
const MOST_HEADERS: usize = 64;
const LARGEST_HEADERS: usize = 16 * 1024;

const LONGEST_URL: usize = 8 * 1024;

/// What a request says of itself where it says nothing.
const USER_AGENT: &str = concat!("latchmail/", env!("CARGO_PKG_VERSION"));

/// Headers of a request that are not its sender's to set, besides those of the connection.
const HOSTS_OWN: [HeaderName; 5] = [
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("http2-settings"),
];

/// A request, as somebody wants it sent.
#[derive(Debug, Default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The whole address.
    pub url: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// How long it may take; [`PATIENCE`] at most.
    pub timeout: Option<Duration>,
    /// The largest body of its answer; [`LARGEST_BODY`] at most.
    pub largest: Option<usize>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It may not be sent there. The sentence is fit to be shown.
    #[error("{0}")]
    Denied(String),
    /// Its server is at none but addresses that may not be reached.
    #[error("{target} is at an address that may not be reached")]
    Forbidden {
        /// The server.
        target: String,
        /// The addresses, for the log.
        found: String,
    },
    /// It is no request that can be sent. The sentence is fit to be shown.
    #[error("{0}")]
    Invalid(String),
    /// It or its answer is larger than may be. The sentence is fit to be shown.
    #[error("{0}")]
    TooLarge(String),
    /// Nothing was changed by it. For the log.
    #[error("{0}")]
    Unavailable(String),
    /// It was begun, and may have been served. For the log.
    #[error("{0}")]
    Unknown(String),
}

/// What sends.
#[derive(Clone, Debug)]
pub struct Fetch {
    connector: Connector,
}

impl Fetch {
    /// Nothing is connected.
    ///
    /// # Errors
    /// A sentence where TLS cannot be used on this machine.
    pub fn new(dns: Arc<Dns>) -> Result<Self, StartError> {
        Ok(Self {
            connector: Connector::new(dns)?,
        })
    }

    /// Sends a request, where its server is one of `hosts`, and waits for the whole answer. Dropped, it gives the request up.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub async fn send(&self, hosts: &Hosts, request: Request) -> Result<Response, Error> {
        let end = Instant::now() + request.timeout.unwrap_or(PATIENCE).min(PATIENCE);
        let largest = request.largest.unwrap_or(LARGEST_BODY).min(LARGEST_BODY);
        let (target, request) = prepared(request)?;
        if !hosts.list(&target) {
            return Err(Error::Denied(format!(
                "{target} is not among the hosts that may be reached"
            )));
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
            Err(_) => return Err(unavailable("no connection in time")),
        };
        let reads = request.method().is_safe();
        let why = match timeout_at(end, exchange::exchange(stream, request, largest)).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(exchange::Error::TooLarge)) => {
                return Err(Error::TooLarge(format!(
                    "An answer has at most {largest} bytes"
                )));
            }
            Ok(Err(exchange::Error::Broken(why))) => why,
            Err(_) => "no answer in time".to_owned(),
        };
        if reads {
            Err(unavailable(&why))
        } else {
            Err(Error::Unknown(format!("{target}: {why}")))
        }
    }
}

/// The request as it goes over the wire, and where it goes.
fn prepared(request: Request) -> Result<(Target, http::Request<Full<Bytes>>), Error> {
    let method = Method::from_bytes(request.method.as_bytes())
        .ok()
        .filter(|method| ![Method::CONNECT, Method::TRACE].contains(method))
        .ok_or_else(|| Error::Invalid("method is none that can be sent".into()))?;
    if request.url.len() > LONGEST_URL {
        return Err(Error::TooLarge(format!(
            "A url has at most {LONGEST_URL} bytes"
        )));
    }
    let uri = request.url.parse::<Uri>().ok();
    let target = uri.as_ref().and_then(Target::of);
    let (Some(uri), Some(target)) = (uri, target) else {
        return Err(Error::Invalid(
            "url must be a whole http or https address in ASCII, without a user".into(),
        ));
    };
    if request.body.len() > LARGEST_BODY {
        return Err(Error::TooLarge(format!(
            "A body has at most {LARGEST_BODY} bytes"
        )));
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    // Of an address without a path the query alone may be left.
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let mut prepared = http::Request::builder()
        .method(method)
        .uri(path)
        .body(Full::new(request.body))
        .map_err(|_| Error::Invalid("url has a path that cannot be sent".into()))?;
    let host = HeaderValue::from_str(&target.authority())
        .map_err(|_| Error::Invalid("url has a host that cannot be sent".into()))?;
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
            "A request has at most {MOST_HEADERS} headers of {LARGEST_HEADERS} bytes"
        )));
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let invalid = |why: &str| Error::Invalid(format!("header {name:?} {why}"));
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid("has no name"))?;
        if HOSTS_OWN.contains(&header) || exchange::OF_THE_CONNECTION.contains(&header) {
            return Err(invalid("is not a request's to set"));
        }
        let value = HeaderValue::from_str(&value).map_err(|_| invalid("has no value"))?;
        headers.append(header, value);
    }
    headers
        .entry(header::USER_AGENT)
        .or_insert(HeaderValue::from_static(USER_AGENT));
    Ok(headers)
}

#[cfg(test)]
mod tests;
