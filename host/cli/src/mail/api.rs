//! The client of the API: requests with the user's credential, errors with exit statuses, and
//! repetitions. The tokens of a grant are refreshed under a lock, because a refresh token can be
//! used only once.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use latchmail_core::{codes, config};
use latchmail_net::dns::Dns;
use latchmail_net::fetch::{Error, Fetch, Hosts, OpenResponse, Request, Target};
use latchmail_terminal::output::escape;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{sleep, timeout};
use url::form_urlencoded;

use super::now;
use super::store::{Grant, Store};
use crate::exit::Status;

/// The exit statuses, see the module.
pub(super) const MISUSE: u8 = 2;
pub(super) const NOT_SIGNED_IN: u8 = 3;
const NOT_ALLOWED: u8 = 4;
const NOT_FOUND: u8 = 5;
pub(super) const UNAVAILABLE: u8 = 6;

/// The client id of the command line at the authorization server.
pub(super) const CLIENT: &str = latchmail_accounts::auth::command_line::CLIENT;
/// Maximum size of a response, in bytes.
const MAX_RESPONSE: usize = 256 * 1024 * 1024;
/// The time without data after which a connection is broken.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// Maximum number of repetitions of a request that the service refused for now, and the longest
/// wait before one.
const REPETITIONS: u32 = 4;
const MAX_WAIT: u64 = 30;
/// An access token is refreshed this many seconds before it expires.
const MARGIN: i64 = 30;

/// The API of a service.
pub(super) struct Api {
    fetch: Fetch,
    base: String,
    /// An API token, which takes precedence over a grant.
    token: Option<SecretString>,
    pub(super) store: Store,
}

/// A request to the API.
pub(super) struct Call<'c> {
    pub(super) method: &'c str,
    /// The path, with encoded segments.
    pub(super) path: String,
    /// The parameters of the query.
    pub(super) query: Vec<(&'c str, String)>,
    pub(super) body: Option<Value>,
    /// Whether the service must do the request only once, also if it is repeated.
    pub(super) once: bool,
}

impl<'c> Call<'c> {
    pub(super) fn get(path: impl Into<String>, query: Vec<(&'c str, String)>) -> Self {
        Self {
            method: "GET",
            path: path.into(),
            query,
            body: None,
            once: false,
        }
    }

    pub(super) fn post(path: impl Into<String>, body: Value) -> Self {
        Self {
            method: "POST",
            path: path.into(),
            query: Vec::new(),
            body: Some(body),
            once: false,
        }
    }
}

impl Api {
    pub(super) fn new(url: &str, token: Option<&str>, store: Store) -> anyhow::Result<Self> {
        // The name of a mail server is not used.
        let dns = Dns::new(&config::Dns::default(), "localhost")?;
        let base = url.trim_end_matches('/').to_owned();
        target(&base).map_err(|error| Status::new(MISUSE, error.to_string()))?;
        Ok(Self {
            fetch: Fetch::new(Arc::new(dns))?,
            base,
            token: token.map(SecretString::from),
            store,
        })
    }

    /// Returns the URL of the service, without a slash at the end.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Returns `true` if the credential is an OAuth token.
    pub(super) fn uses_grant(&self) -> bool {
        self.token.is_none()
    }

    /// Sends a request and returns the JSON of the response.
    pub(super) async fn json(&mut self, call: Call<'_>) -> anyhow::Result<Value> {
        let body = self.bytes(call).await?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&body).context("the response of the service is not JSON")
    }

    /// Sends a request and returns the body of the response.
    pub(super) async fn bytes(&mut self, call: Call<'_>) -> anyhow::Result<Vec<u8>> {
        let mut response = self.open(call, &[]).await?;
        read_body(&mut response).await
    }

    /// Sends a request and returns the response if it is successful. Refreshes the token, and
    /// repeats a request that the service refused for now.
    pub(super) async fn open(
        &mut self,
        call: Call<'_>,
        headers: &[(&str, String)],
    ) -> anyhow::Result<OpenResponse> {
        let key = if call.once {
            Some(latchmail_core::secrets::id().map_err(|failure| anyhow!("{failure}"))?)
        } else {
            None
        };
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &call.query {
            query.append_pair(name, value);
        }
        let query = query.finish();
        let separator = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{}{separator}{query}", self.base, call.path);
        let can_repeat = call.method == "GET" || call.once;
        let (mut bearer, mut refreshed, mut repetition) = (self.bearer(None).await?, false, 0);
        loop {
            let mut all: Vec<(String, String)> = vec![
                (
                    "accept".into(),
                    "application/json, text/event-stream".into(),
                ),
                (
                    "authorization".into(),
                    format!("Bearer {}", bearer.expose_secret()),
                ),
            ];
            if let Some(key) = &key {
                all.push(("idempotency-key".into(), key.clone()));
            }
            if call.body.is_some() {
                all.push(("content-type".into(), "application/json".into()));
            }
            let extra = headers.iter();
            all.extend(extra.map(|(name, value)| ((*name).to_owned(), value.clone())));
            let body = call.body.as_ref().map(Value::to_string).unwrap_or_default();
            let response = self.send(call.method, &url, all, body.into()).await;
            let mut response = match response {
                Ok(response) => response,
                Err(Error::Unavailable(_) | Error::OutcomeUnknown(_))
                    if can_repeat && repetition < REPETITIONS =>
                {
                    repetition += 1;
                    sleep(Duration::from_secs(1 << repetition)).await;
                    continue;
                }
                Err(error) => return Err(unreachable(&error)),
            };
            let status = response.status;
            if status.is_success() {
                return Ok(response);
            }
            if status == StatusCode::UNAUTHORIZED && self.uses_grant() && !refreshed {
                refreshed = true;
                bearer = self.bearer(Some(&bearer)).await?;
                continue;
            }
            if let Some(wait) = wait(status, &response.headers)
                && repetition < REPETITIONS
            {
                repetition += 1;
                sleep(wait).await;
                continue;
            }
            let body = read_body(&mut response).await.unwrap_or_default();
            if is_in_progress(status, &body) && repetition < REPETITIONS {
                repetition += 1;
                sleep(Duration::from_secs(1 << repetition)).await;
                continue;
            }
            return Err(refused(status, &body));
        }
    }

    /// Sends a form without a credential, and returns the status and the JSON of the response.
    pub(super) async fn form(
        &self,
        url: &str,
        fields: &[(&str, &str)],
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let headers = vec![
            ("accept".into(), "application/json".into()),
            (
                "content-type".into(),
                "application/x-www-form-urlencoded".into(),
            ),
        ];
        let response = self.send("POST", url, headers, form.finish().into()).await;
        let mut response = response.map_err(|error| unreachable(&error))?;
        let body = read_body(&mut response).await?;
        Ok((
            response.status,
            serde_json::from_slice(&body).unwrap_or_default(),
        ))
    }

    /// Returns the JSON at a URL that needs no credential.
    pub(super) async fn public(&self, url: &str) -> anyhow::Result<Value> {
        let headers = vec![("accept".into(), "application/json".into())];
        let response = self.send("GET", url, headers, Bytes::new()).await;
        let mut response = response.map_err(|error| unreachable(&error))?;
        let body = read_body(&mut response).await?;
        if !response.status.is_success() {
            return Err(refused(response.status, &body));
        }
        let not_json = "--url is not the URL of a Latchmail service";
        serde_json::from_slice(&body).context(not_json)
    }

    async fn send(
        &self,
        method: &str,
        url: &str,
        headers: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<OpenResponse, Error> {
        let target = target(url).map_err(|error| Error::Invalid(error.to_string()))?;
        let request = Request {
            method: method.to_owned(),
            url: url.to_owned(),
            headers,
            body,
            ..Request::default()
        };
        self.fetch.open(&Hosts::only(target), request).await
    }

    /// Returns the credential for a request. Refreshes the tokens of a grant that are about to
    /// expire, or if the service refused the access token `refused`.
    async fn bearer(&self, refused: Option<&SecretString>) -> anyhow::Result<SecretString> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let is_usable = |grant: &Grant| {
            grant.expires_at > now() + MARGIN
                && refused.is_none_or(|refused| refused.expose_secret() != grant.access_token)
        };
        let grant = self
            .store
            .load(&self.base)
            .await?
            .ok_or_else(not_signed_in)?;
        if is_usable(&grant) {
            return Ok(grant.access_token.as_str().into());
        }
        // Another process can have refreshed the tokens.
        let _lock = self.store.lock().await?;
        let grant = self
            .store
            .load(&self.base)
            .await?
            .ok_or_else(not_signed_in)?;
        if is_usable(&grant) {
            return Ok(grant.access_token.as_str().into());
        }
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", CLIENT),
            ("refresh_token", &*grant.refresh_token),
        ];
        let (status, response) = self.form(&grant.token_endpoint, &fields).await?;
        if status == StatusCode::BAD_REQUEST || status == StatusCode::UNAUTHORIZED {
            return Err(not_signed_in());
        }
        if !status.is_success() {
            return Err(refused_text(status, "the tokens cannot be refreshed"));
        }
        let grant = grant.refreshed(&response)?;
        self.store.save(&self.base, &grant).await?;
        Ok(grant.access_token.as_str().into())
    }
}

/// Encodes a segment of a path.
pub(super) fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn target(url: &str) -> anyhow::Result<Target> {
    let target = url.parse::<Uri>().ok().and_then(|uri| Target::of(&uri));
    target.ok_or_else(|| anyhow!("`{}` is not an http or https URL", escape(url)))
}

async fn read_body(response: &mut OpenResponse) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let chunk = match timeout(SILENCE, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(_)) | Err(_) => {
                return Err(Status::new(UNAVAILABLE, "the connection was interrupted").into());
            }
        };
        body.extend_from_slice(&chunk);
        if body.len() > MAX_RESPONSE {
            return Err(anyhow!("the response of the service is too large"));
        }
    }
}

/// Returns the wait before a request is repeated that the service refused for now (429 and 503 with
/// `Retry-After`). Such a request has changed nothing.
fn wait(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let is_temporary = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
    );
    let seconds: u64 = headers
        .get(header::RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    (is_temporary && seconds <= MAX_WAIT).then(|| Duration::from_secs(seconds.max(1)))
}

/// Returns `true` if the service is still doing an earlier attempt of the request.
fn is_in_progress(status: StatusCode, body: &[u8]) -> bool {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    status == StatusCode::CONFLICT && body["code"] == codes::IDEMPOTENCY_KEY_IN_PROGRESS.as_str()
}

/// Returns the error for an unsuccessful response.
fn refused(status: StatusCode, body: &[u8]) -> anyhow::Error {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = body["error"].as_str().map(escape).unwrap_or_default();
    refused_text(status, &text)
}

fn refused_text(status: StatusCode, text: &str) -> anyhow::Error {
    let number = status.as_u16();
    let (exit, advice) = match number {
        401 => (NOT_SIGNED_IN, "; sign in with `latchmail mail login`"),
        403 => (
            NOT_ALLOWED,
            "; sign in again, or use another token, if it lacks a scope",
        ),
        404 | 410 => (NOT_FOUND, ""),
        429 | 502..=504 => (UNAVAILABLE, "; repeat the command later"),
        _ => (1, ""),
    };
    let text = format!("the service responded with {number}: {text}{advice}");
    Status::new(exit, text).into()
}

/// Returns the error for a request without a response.
fn unreachable(error: &Error) -> anyhow::Error {
    let text = escape(&error.to_string());
    let text = match error {
        Error::OutcomeUnknown(_) => {
            format!("{text}; the service may have done the request: check before you repeat it")
        }
        Error::Unavailable(_) => format!("the service cannot be reached: {text}"),
        // The request was not sent. It fails again if it is repeated.
        _ => return anyhow!("{text}"),
    };
    Status::new(UNAVAILABLE, text).into()
}

fn not_signed_in() -> anyhow::Error {
    Status::new(
        NOT_SIGNED_IN,
        "you are not signed in; run `latchmail mail login`, or set LATCHMAIL_TOKEN",
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_of_a_path_is_encoded() {
        assert_eq!(segment("Work/\u{e4} b"), "Work%2F%C3%A4%20b");
    }

    #[test]
    fn only_a_short_refusal_for_now_is_repeated() {
        let headers = |seconds: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, seconds.parse().unwrap());
            headers
        };
        let busy = StatusCode::SERVICE_UNAVAILABLE;
        assert_eq!(wait(busy, &headers("2")), Some(Duration::from_secs(2)));
        assert_eq!(wait(busy, &headers("3600")), None);
        assert_eq!(wait(busy, &HeaderMap::new()), None);
        assert_eq!(wait(StatusCode::NOT_FOUND, &headers("2")), None);
    }

    #[test]
    fn each_kind_of_failure_has_an_exit_status() {
        for (status, exit) in [(401, 3), (403, 4), (404, 5), (429, 6), (503, 6), (400, 1)] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = refused(status, br#"{"error": "why"}"#);
            assert_eq!(error.downcast_ref::<Status>().unwrap().status, exit);
            assert!(error.to_string().contains("why"));
        }
        // A request that is too large is never sent.
        let too_large = unreachable(&Error::TooLarge("too large".into()));
        assert!(too_large.downcast_ref::<Status>().is_none());
    }

    #[test]
    fn a_request_is_repeated_while_the_service_does_an_earlier_attempt() {
        let body = br#"{"error": "why", "code": "idempotency_key_in_progress"}"#;
        assert!(is_in_progress(StatusCode::CONFLICT, body));
        let reused = br#"{"error": "why", "code": "idempotency_key_reused"}"#;
        assert!(!is_in_progress(StatusCode::CONFLICT, reused));
        assert!(!is_in_progress(StatusCode::BAD_REQUEST, body));
    }
}
