//! Sends one introspection request for a token and returns the response body (RFC 7662, section 2).
//!
//! The request is sent to the URL that the operator configured. The HTTP client limits the time and
//! the size of the response, and does not follow redirects.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use latchmail_net::fetch::{Fetch, Hosts, Request};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::token::OpaqueToken;

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 64 * 1024;

/// Characters that must be encoded in a form (`application/x-www-form-urlencoded`).
const FORM: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'*');

/// The introspection endpoint and the service's credentials.
pub(super) struct Introspection {
    fetch: Fetch,
    url: String,
    /// The hosts that requests may connect to: only the host of `url`. This host can have a private
    /// IP address, because the operator configured the host.
    hosts: Hosts,
    /// The value of the Authorization header: `Basic` with the client id and the client secret.
    authorization: SecretString,
    timeout: Duration,
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Introspection {
    pub(super) fn new(
        fetch: Fetch,
        url: &str,
        hosts: Hosts,
        client_id: &str,
        client_secret: &str,
        timeout: Duration,
    ) -> Self {
        // The client id and the client secret are form-encoded before they are joined with a colon
        // (RFC 6749, section 2.3.1).
        let pair = Zeroizing::new(format!(
            "{}:{}",
            utf8_percent_encode(client_id, FORM),
            utf8_percent_encode(client_secret, FORM)
        ));
        let authorization = Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
        Self {
            fetch,
            url: url.to_owned(),
            hosts,
            authorization: SecretString::from(authorization.as_str()),
            timeout,
        }
    }

    /// Returns the configured timeout of one introspection request.
    pub(super) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sends an introspection request and returns the body of the response.
    ///
    /// # Errors
    /// Returns an error text for the service's log if there is no response, or if the status is not
    /// 200.
    pub(super) async fn query(&self, token: &OpaqueToken) -> Result<Bytes, String> {
        let form = format!(
            "token={}&token_type_hint=access_token",
            utf8_percent_encode(token.secret().expose_secret(), FORM)
        );
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = Request {
            method: "POST".into(),
            url: self.url.clone(),
            headers: vec![
                header("authorization", self.authorization.expose_secret()),
                header("content-type", "application/x-www-form-urlencoded"),
                header("accept", "application/json"),
            ],
            body: form.into(),
            trace: None,
            timeout: Some(self.timeout),
            max_response_size: Some(MAX_RESPONSE),
        };
        let response = self.fetch.send(&self.hosts, request).await;
        let response = response.map_err(|error| error.to_string())?;
        match response.status {
            StatusCode::OK => Ok(response.body),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(format!(
                "it responded with {} to the configured client_id and client_secret",
                response.status.as_u16()
            )),
            other => Err(format!("it responded with {}", other.as_u16())),
        }
    }
}
