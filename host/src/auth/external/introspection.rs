//! One question about a token, and its answer as it came (RFC 7662, section 2). It is asked by the client that keeps to bounds of time and size, at
//! the one address that the operator named; redirects are not followed.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::token::OpaqueToken;
use crate::fetch::{Fetch, Hosts, Request};

/// The largest answer, in bytes.
const LARGEST_ANSWER: usize = 64 * 1024;

/// What stands for itself in a form (`application/x-www-form-urlencoded`).
const FORM: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'*');

/// The endpoint, and who asks.
pub(super) struct Introspection {
    fetch: Fetch,
    url: String,
    /// The endpoint's server alone, wherever it is: it is the operator's.
    hosts: Hosts,
    /// `Basic` and what follows.
    authorization: SecretString,
    patience: Duration,
}

/// Never shows the secret.
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
        patience: Duration,
    ) -> Self {
        // RFC 6749, section 2.3.1: both in the form's encoding first.
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
            patience,
        }
    }

    /// How long a question may take.
    pub(super) const fn patience(&self) -> Duration {
        self.patience
    }

    /// The body of the answer.
    ///
    /// # Errors
    /// What is wrong, for the log.
    pub(super) async fn ask(&self, token: &OpaqueToken) -> Result<Bytes, String> {
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
            timeout: Some(self.patience),
            largest: Some(LARGEST_ANSWER),
        };
        let answer = self.fetch.send(&self.hosts, request).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(format!(
                "it answered {} to the service's own client_id and secret",
                answer.status.as_u16()
            )),
            other => Err(format!("it answered {}", other.as_u16())),
        }
    }
}
