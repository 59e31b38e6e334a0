//! The client of an identity provider (OpenID Connect Core 1.0, Discovery 1.0 and Back-Channel
//! Logout 1.0). The service sends people to the provider. The provider's ID token states who signed
//! in.
//!
//! This crate knows no accounts and no HTTP endpoints of the service. The crate `openidconnect`
//! implements the protocol, except logout tokens.
//!
//! | file | content |
//! |---|---|
//! | `settings` | the configuration of the provider |
//! | `discovery` | the provider's metadata and keys |
//! | `http_client` | requests to the provider |
//! | `sign_in` | the authorization code flow |
//! | `claims` | the claims about a person |
//! | `logout` | logout tokens |

mod claims;
mod discovery;
mod http_client;
mod logout;
mod settings;
mod sign_in;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::AtomicBool;

use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_net::fetch::Fetch;
use openidconnect::core::CoreJwsSigningAlgorithm as Algorithm;
use tokio::sync::Mutex;

pub use claims::{Mailbox, Person};
use discovery::Cache;
use http_client::HttpClient;
pub use logout::Logout;
use settings::Settings;
pub use sign_in::{Pending, Request, Response};

/// The accepted signature algorithms. A provider signs with an asymmetric key, so the service can
/// verify tokens only with the provider's published keys.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RsaSsaPkcs1V15Sha256,
    Algorithm::RsaSsaPkcs1V15Sha384,
    Algorithm::RsaSsaPkcs1V15Sha512,
    Algorithm::RsaSsaPssSha256,
    Algorithm::RsaSsaPssSha384,
    Algorithm::RsaSsaPssSha512,
    Algorithm::EcdsaP256Sha256,
    Algorithm::EcdsaP384Sha384,
    Algorithm::EdDsa,
];

/// The maximum number of seconds by which the provider's clock can be ahead of the service's clock.
const MAX_SKEW: i64 = 60;

/// The maximum length of an identifier from the provider, in bytes (OpenID Connect Core 1.0,
/// section 8).
const MAX_IDENTIFIER: usize = 255;

/// The reason why a sign-in or a logout failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The provider does not respond, or its metadata or keys are unusable. The text is for the
    /// log.
    #[error("{0}")]
    Unavailable(String),
    /// The provider rejected the sign-in, or a token is not valid. The text is for the log.
    #[error("{0}")]
    Rejected(String),
}

/// The identity provider.
pub struct Provider {
    settings: Settings,
    http: HttpClient,
    clock: Clock,
    cache: Mutex<Cache>,
    /// Whether a request to the provider failed after the latest request for the metadata. If so,
    /// the next use of the metadata requests it again.
    is_doubtful: AtomicBool,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("issuer", &self.settings.issuer.as_str())
            .finish_non_exhaustive()
    }
}

impl Provider {
    /// Creates the client of the configured provider. Sends no request. Returns `None` if no domain
    /// uses a provider.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a setting is invalid.
    pub fn new(config: &Config, fetch: Fetch, clock: Clock) -> Result<Option<Self>, StartError> {
        if !config.sign_in.uses_provider() {
            return Ok(None);
        }
        Ok(Some(Self {
            settings: Settings::read(&config.sign_in.oidc)?,
            http: HttpClient(fetch),
            clock,
            cache: Mutex::default(),
            is_doubtful: AtomicBool::default(),
        }))
    }

    /// Returns the issuer identifier.
    #[must_use]
    pub fn issuer(&self) -> &str {
        self.settings.issuer.as_str()
    }

    /// Returns the name of the claim with the address of a mailbox.
    #[must_use]
    pub fn mailbox_claim(&self) -> &str {
        &self.settings.mailbox_claim
    }
}
