//! Descriptions that clients keep at an address of their own, which is their id (OAuth Client ID Metadata Document, draft-ietf-oauth-client-id-metadata-document).
//!
//! Fetched as whatever strangers name is: over TLS, never from an address that is not the public internet's, without following redirects, small and timed.
//! What was fetched is kept for a while.

use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, header};
use quick_cache::sync::Cache;
use serde_json::{Map, Value};
use url::Url;

use super::clients;
use super::error::{Error, Refusal};
use crate::clock::{Clock, Timestamp};
use crate::directory::oauth::Client;
use crate::error::StartError;
use crate::fetch::{self, Fetch, Hosts};

/// The longest address.
const LONGEST: usize = 500;
/// The largest description, in bytes.
const LARGEST: usize = 16 * 1024;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one is kept.
const KEPT: Duration = Duration::from_mins(10);
/// How many are.
const MOST: usize = 1000;

/// What fetches and keeps them.
#[derive(Debug)]
pub(super) struct Documents {
    fetch: Fetch,
    hosts: Hosts,
    clock: Clock,
    kept: Cache<String, (Timestamp, Arc<Client>)>,
}

/// Whether a client's id is an address.
#[must_use]
pub fn is_address(id: &str) -> bool {
    id.starts_with("https://") || id.starts_with("http://")
}

impl Documents {
    /// `listed` are hosts that may be reached beside those of the public internet over TLS.
    ///
    /// # Errors
    /// A sentence where one of them is none.
    pub(super) fn new(fetch: Fetch, listed: &[String], clock: Clock) -> Result<Self, StartError> {
        let hosts = Hosts::parse(listed)
            .map_err(|why| StartError::new(format!("the `oauth.client_hosts` {why}")))?;
        Ok(Self {
            fetch,
            hosts: hosts.and_public(),
            clock,
            kept: Cache::new(MOST),
        })
    }

    /// The client that is described at an address.
    pub(super) async fn client(&self, address: &str) -> Result<Client, Refusal> {
        if !is_usable(address) {
            return Err(Refusal::client(
                "A client_id that is an address has a path, and no user name, query, fragment or dot segments",
            ));
        }
        let now = self.clock.now();
        if let Some((until, client)) = self.kept.get(address)
            && now < until
        {
            return Ok(Client::clone(&client));
        }
        let client = self.fetched(address).await.map_err(|why| {
            tracing::info!(
                client_id = address,
                "a client's description is no good: {why}"
            );
            Refusal::client(format!(
                "The description at the client_id is no good: {why}"
            ))
        })?;
        let kept = (now.plus(KEPT), Arc::new(client.clone()));
        self.kept.insert(address.to_owned(), kept);
        Ok(client)
    }

    async fn fetched(&self, address: &str) -> Result<Client, String> {
        let request = fetch::Request {
            method: "GET".into(),
            url: address.to_owned(),
            headers: vec![("accept".into(), "application/json".into())],
            timeout: Some(PATIENCE),
            largest: Some(LARGEST),
            ..fetch::Request::default()
        };
        let answer = match self.fetch.send(&self.hosts, request).await {
            Ok(answer) => answer,
            Err(fetch::Error::TooLarge(_)) => {
                return Err(format!("it has more than {LARGEST} bytes"));
            }
            // Strangers learn nothing here of which names there are and where they lead.
            Err(error) => {
                tracing::info!(client_id = address, "{error}");
                return Err("it cannot be reached".into());
            }
        };
        if answer.status != StatusCode::OK {
            return Err(format!("its answer is {}", answer.status.as_u16()));
        }
        let media = answer.headers.get(header::CONTENT_TYPE);
        let media = media.and_then(|media| media.to_str().ok()).unwrap_or("");
        let media = media.split(';').next().unwrap_or("").trim();
        let media = media.to_ascii_lowercase();
        if media != "application/json" && !media.ends_with("+json") {
            return Err("it is not application/json".into());
        }
        read(address, &answer.body)
    }
}

/// What a description says, where it is one of this address.
fn read(address: &str, body: &[u8]) -> Result<Client, String> {
    let metadata: Map<String, Value> =
        serde_json::from_slice(body).map_err(|_| "it is not a JSON object".to_owned())?;
    let text = |name: &str| metadata.get(name).and_then(Value::as_str);
    if text("client_id") != Some(address) {
        return Err("its client_id is not its address".into());
    }
    if metadata.contains_key("client_secret") {
        return Err("it holds a secret".into());
    }
    if text("token_endpoint_auth_method").unwrap_or("none") != "none" {
        return Err("its token_endpoint_auth_method must be none".into());
    }
    let told = |error| match error {
        Error::Refused(refusal) => refusal.description.into_owned(),
        Error::Failed(failure) => failure.text.into_owned(),
    };
    let redirect_uris = clients::redirect_uris(&metadata).map_err(told)?;
    let grant_types = clients::grant_types(&metadata).map_err(told)?;
    Ok(Client {
        id: address.to_owned(),
        name: clients::name(text("client_name").unwrap_or("")),
        redirect_uris,
        grant_types: grant_types.iter().map(ToString::to_string).collect(),
        secret_hash: None,
    })
}

fn is_usable(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else {
        return false;
    };
    address.len() <= LONGEST
        // As it is written: no other way to write it is the same client.
        && url.as_str() == address
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

    const ADDRESS: &str = "https://app.example/client.json";

    #[test]
    fn an_address_is_an_id_as_it_is_written_alone() {
        assert!(is_usable(ADDRESS));
        assert!(is_usable("https://app.example:8443/a/b"));
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
            assert!(!is_usable(other), "{other}");
        }
    }

    #[test]
    fn a_description_is_of_its_own_address_and_holds_no_secret() {
        let good = json!({
            "client_id": ADDRESS,
            "client_name": "Agent",
            "redirect_uris": ["http://127.0.0.1/cb"],
            "token_endpoint_auth_method": "none",
            "logo_uri": "https://app.example/logo.png",
        });
        let read = |description: &Value| read(ADDRESS, description.to_string().as_bytes());
        let client = read(&good).unwrap();
        assert_eq!(
            (client.id.as_str(), client.name.as_str()),
            (ADDRESS, "Agent")
        );
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
