//! Requests to the provider, over the service's HTTP client. The size and the time of each exchange
//! are limited, and redirects are not followed.
//!
//! All URLs come from the configuration or from the metadata that the configured issuer publishes.
//! So the servers can have any IP address. Requests to other machines use TLS.

use std::pin::Pin;
use std::time::Duration;

use http::Uri;
use latchmail_net::fetch::{Error, Fetch, Host, Hosts, Request, Target};
use openidconnect::{AsyncHttpClient, HttpRequest, HttpResponse};

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 256 * 1024;

/// Timeout of one request. A sign-in needs up to four requests.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The HTTP client for the provider.
pub(crate) struct HttpClient(pub(crate) Fetch);

impl HttpClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let denied = || Error::Denied(format!("{url} is neither an https URL nor a loopback URL"));
        let server = target(&url).filter(is_safe_server).ok_or_else(denied)?;
        let hosts = Hosts::only(server);
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            let value = value.to_str().ok()?;
            Some((name.as_str().to_owned(), value.to_owned()))
        };
        let request = Request {
            method: parts.method.to_string(),
            headers: parts.headers.iter().filter_map(header).collect(),
            body: body.into(),
            trace: None,
            timeout: Some(TIMEOUT),
            max_response_size: Some(MAX_RESPONSE),
            url,
        };
        let response = self.0.send(&hosts, request).await?;
        let mut converted = HttpResponse::new(response.body.to_vec());
        *converted.status_mut() = response.status;
        *converted.headers_mut() = response.headers;
        Ok(converted)
    }
}

impl<'c> AsyncHttpClient<'c> for HttpClient {
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, Error>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(self.send(request))
    }
}

/// Returns `true` if no other machine can read a request on the way to this URL. The connection
/// must use TLS or a loopback address.
pub(crate) fn is_safe(url: &str) -> bool {
    target(url).is_some_and(|server| is_safe_server(&server))
}

fn target(url: &str) -> Option<Target> {
    Target::of(&url.parse::<Uri>().ok()?)
}

fn is_safe_server(server: &Target) -> bool {
    server.tls
        || match &server.host {
            Host::Address(address) => address.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
}
