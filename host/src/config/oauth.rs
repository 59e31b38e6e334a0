//! `[oauth]`: the authorization server for agents, where something is to be said of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{list, seconds};

/// `[oauth]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OAuth {
    /// Where the service's own authorization server listens, on an address that it has alone and that `auth_url` names. None: where the service does.
    pub listen: Option<SocketAddr>,
    /// Hosts at which clients may be described beside those of the public internet over TLS: `http://127.0.0.1:8080`, `10.0.0.0/8`.
    #[serde(deserialize_with = "list")]
    pub client_hosts: Vec<String>,
    /// Whether clients that the operator did not add may use the device grant.
    pub device_grant: bool,
    /// How an authorization server elsewhere is asked about its tokens. None: there is none elsewhere.
    pub introspection: Option<Introspection>,
}

impl Default for OAuth {
    fn default() -> Self {
        Self {
            listen: None,
            client_hosts: Vec::new(),
            device_grant: true,
            introspection: None,
        }
    }
}

/// `[oauth.introspection]`: the question whether an access token is good (RFC 7662).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Introspection {
    /// The whole address of the endpoint: https, or http on a loopback address. It may be in a private network.
    pub url: String,
    /// Who the service is to the authorization server.
    pub client_id: String,
    /// The file of its secret there, which nobody else may read. A line's end at the end is not part of it.
    pub client_secret_file: PathBuf,
    /// The member of the answer that holds the account's address.
    pub username_claim: String,
    /// Further names of this service that a token may be meant for, besides its addresses.
    #[serde(deserialize_with = "list")]
    pub audience: Vec<String>,
    /// Whether a token has to say whom it is meant for. One that does has to name this service either way.
    pub audience_required: bool,
    /// Who has to have issued a token that says who did. Empty: `auth_url`.
    pub issuer: String,
    /// Scopes that a token must have, separated by blanks.
    pub scope: String,
    /// How long one question may take, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
}

impl Default for Introspection {
    fn default() -> Self {
        Self {
            url: String::new(),
            client_id: String::new(),
            client_secret_file: PathBuf::new(),
            username_claim: "username".into(),
            audience: Vec::new(),
            audience_required: true,
            issuer: String::new(),
            scope: String::new(),
            timeout: Duration::from_secs(5),
        }
    }
}
