//! `[oauth]`: the authorization server for agents.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::values::{list, seconds, section};

section! {
    /// The section `[oauth]` of the configuration.
    pub struct OAuth {
        /// The address and port of a separate listener for the service's own authorization server.
        /// Requires that `auth_url` is the URL of this listener. If `None`, the authorization
        /// server uses the listener of the service.
        pub listen: Option<SocketAddr>,
        /// Additional hosts and networks from which the service may fetch client metadata
        /// documents, for example `http://127.0.0.1:8080` or `10.0.0.0/8`. Hosts in the public
        /// internet are always allowed over TLS.
        #[serde(deserialize_with = "list")]
        pub client_hosts: Vec<String>,
        /// Whether the device grant is available to clients that the operator did not add.
        pub device_grant: bool = true,
        /// The settings for an external authorization server. If `None`, the service uses its own
        /// authorization server.
        pub introspection: Option<Introspection>,
    }
}

section! {
    /// `[oauth.introspection]`: token introspection (RFC 7662).
    pub struct Introspection {
        /// The URL of the introspection endpoint: https, or http on a loopback address. The
        /// endpoint may be in a private network.
        pub url: String,
        /// The client id of the service at the authorization server.
        pub client_id: String,
        /// The path of the file with the client secret. Other users must not be able to read the
        /// file. A newline at the end of the file is ignored.
        pub client_secret_file: PathBuf,
        /// The name of the response member that contains the account's address.
        pub username_claim: String = "username".into(),
        /// Whether a missing member `email_verified` means that the server has verified the
        /// address.
        pub trust_missing_email_verified: bool,
        /// Additional audiences of tokens for this service. The URLs of the service are always
        /// accepted as audiences.
        #[serde(deserialize_with = "list")]
        pub audience: Vec<String>,
        /// Whether a token without an audience is rejected. If a token has audiences but no
        /// accepted audience, the token is always rejected.
        pub audience_required: bool = true,
        /// The required issuer of tokens. If empty, the required issuer is `auth_url`. A response
        /// without an issuer is accepted.
        pub issuer: String,
        /// The scopes that a token must have, separated by spaces.
        pub scope: String,
        /// The timeout of one request, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub timeout: Duration = Duration::from_secs(5),
    }
}
