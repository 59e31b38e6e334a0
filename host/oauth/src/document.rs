//! Fetches the metadata document of a client whose id is a URL
//! (draft-ietf-oauth-client-id-metadata-document). Caches valid documents.
//!
//! Clients can send any URL, so fetches are restricted. Only TLS and public IP addresses are
//! allowed, except for hosts in `oauth.client_hosts`. Redirects are not followed, and size and time
//! are limited.

use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::error::StartError;
use latchmail_directory::oauth::Client;
use latchmail_net::fetch::{self, Fetch, Hosts};
use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use url::Url;

use super::error::{Error, Refusal};
use super::metadata;

/// The maximum length of a client's URL, in bytes.
const MAX_URL: usize = 500;
/// The maximum size of a document, in bytes.
const MAX_DOCUMENT: usize = 16 * 1024;
/// The timeout for fetching a document.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The lifetime of a cached document.
const CACHE_LIFETIME: Duration = Duration::from_mins(10);
/// The maximum number of cached documents.
const CACHE_CAPACITY: usize = 1000;

/// Fetches and caches metadata documents.
#[derive(Debug)]
pub(crate) struct Documents {
    fetch: Fetch,
    hosts: Hosts,
    clock: Clock,
    cache: Cache<String, (Timestamp, Arc<Client>)>,
}

/// Returns `true` if a client's id is a URL.
#[must_use]
pub fn is_url(id: &str) -> bool {
    id.starts_with("https://") || id.starts_with("http://")
}

impl Documents {
    /// Creates an empty cache. `allowed` contains hosts that are allowed in addition to public
    /// hosts over TLS.
    ///
    /// # Errors
    /// Returns an error if an entry of `allowed` is invalid.
    pub(crate) fn new(fetch: Fetch, allowed: &[String], clock: Clock) -> Result<Self, StartError> {
        let hosts = Hosts::parse(allowed)
            .map_err(|why| StartError::new(format!("the `oauth.client_hosts` {why}")))?;
        Ok(Self {
            fetch,
            hosts: hosts.with_public_hosts(),
            clock,
            cache: Cache::new(CACHE_CAPACITY),
        })
    }

    /// Returns the client that the metadata document at `url` describes. Fetches the document if
    /// the cache does not contain the document.
    pub(crate) async fn client(&self, url: &str) -> Result<Client, Refusal> {
        if !is_valid(url) {
            return Err(Refusal::client(
                "A client_id that is a URL must have a path, and must not have a user name, a query, a fragment or dot segments",
            ));
        }
        let now = self.clock.now();
        if let Some((until, client)) = self.cache.get(url)
            && now < until
        {
            return Ok(Client::clone(&client));
        }
        let client = self.fetched(url).await.map_err(|why| {
            tracing::info!(client_id = url, "invalid client metadata document: {why}");
            Refusal::client(format!(
                "The client metadata document at the URL in client_id is invalid: {why}"
            ))
        })?;
        let entry = (now.plus(CACHE_LIFETIME), Arc::new(client.clone()));
        self.cache.insert(url.to_owned(), entry);
        Ok(client)
    }

    async fn fetched(&self, url: &str) -> Result<Client, String> {
        let request = fetch::Request {
            method: "GET".into(),
            url: url.to_owned(),
            headers: vec![("accept".into(), "application/json".into())],
            timeout: Some(TIMEOUT),
            max_response_size: Some(MAX_DOCUMENT),
            ..fetch::Request::default()
        };
        let answer = match self.fetch.send(&self.hosts, request).await {
            Ok(answer) => answer,
            Err(fetch::Error::TooLarge(_)) => {
                return Err(format!("it exceeds {MAX_DOCUMENT} bytes"));
            }
            // The details are only logged. In a response, they would reveal which host names exist
            // in the network of the service, and their IP addresses.
            Err(error) => {
                tracing::info!(client_id = url, "{error}");
                return Err("it cannot be fetched".into());
            }
        };
        if answer.status != StatusCode::OK {
            return Err(format!("the response status is {}", answer.status.as_u16()));
        }
        let media = answer.headers.get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok()).unwrap_or("");
        let media = media.split(';').next().unwrap_or("").trim();
        let media = media.to_ascii_lowercase();
        if media != "application/json" && !media.ends_with("+json") {
            return Err("its media type is not application/json".into());
        }
        read(url, &answer.body)
    }
}

/// Parses the metadata document of the client with the id `url`.
fn read(url: &str, body: &[u8]) -> Result<Client, String> {
    let document: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| "it is not a JSON object".to_owned())?;
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    if text("client_id") != Some(url) {
        return Err("its client_id is not its URL".into());
    }
    if document.contains_key("client_secret") {
        return Err("it contains a client_secret".into());
    }
    if text("token_endpoint_auth_method").unwrap_or("none") != "none" {
        return Err("its token_endpoint_auth_method must be `none`".into());
    }
    let description = |error| match error {
        Error::Refused(refusal) => refusal.description.into_owned(),
        Error::Failed(failure) => failure.text.into_owned(),
    };
    let redirect_uris = metadata::redirect_uris(&document).map_err(description)?;
    let grant_types = metadata::grant_types(&document).map_err(description)?;
    Ok(Client {
        id: url.to_owned(),
        name: metadata::client_name(text("client_name").unwrap_or("")),
        redirect_uris,
        grant_types: grant_types.iter().map(ToString::to_string).collect(),
        secret_hash: None,
    })
}

fn is_valid(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    text.len() <= MAX_URL
        // Only the normalized form of a URL is accepted, so that a client has exactly one id.
        && url.as_str() == text
        && url.host().is_some()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none()
        && url.path().len() > 1
        && !url.path().to_ascii_lowercase().contains("%2e")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const URL: &str = "https://app.example/client.json";

    #[test]
    fn only_the_normalized_form_of_a_url_is_an_id() {
        assert!(is_valid(URL));
        assert!(is_valid("https://app.example:8443/a/b"));
        for other in [
            "https://app.example",
            "https://app.example/",
            "https://app.example:443/client.json",
            "https://APP.example/client.json",
            "https://app.example/a/../client.json",
            "https://app.example/a/%2e%2e/client.json",
            "https://user@app.example/client.json",
            "https://app.example/client.json?x",
            "https://app.example/client.json#x",
            "https://app.example\\client.json",
            "https:///client.json",
        ] {
            assert!(!is_valid(other), "{other}");
        }
    }

    #[test]
    fn a_document_names_its_own_url_and_contains_no_secret() {
        let good = json!({
            "client_id": URL,
            "client_name": "Agent",
            "redirect_uris": ["http://127.0.0.1/cb"],
            "token_endpoint_auth_method": "none",
            "logo_uri": "https://app.example/logo.png",
        });
        let read = |description: &Value| read(URL, description.to_string().as_bytes());
        let client = read(&good).unwrap();
        assert_eq!((client.id.as_str(), client.name.as_str()), (URL, "Agent"));
        assert_eq!(client.redirect_uris, ["http://127.0.0.1/cb"]);
        for (member, value) in [
            ("client_id", json!("https://other.example/client.json")),
            ("client_id", json!(null)),
            ("client_secret", json!("x")),
            ("token_endpoint_auth_method", json!("client_secret_post")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
            ("redirect_uris", json!(["http://localhost/cb"])),
            ("redirect_uris", json!("https://app.example/cb")),
        ] {
            let mut bad = good.clone();
            bad[member] = value;
            assert!(read(&bad).is_err(), "{bad}");
        }
        assert!(read(&json!([])).is_err());
    }
}
