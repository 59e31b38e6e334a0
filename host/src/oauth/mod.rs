//! The embedded authorization server (specification, section 5; OAuth 2.1): what clients may ask for, and what they are told. People sign in on its pages,
//! and what an agent is granted is a mail credential of its own.
//!
//! Knows no HTTP: its endpoints and pages are in `http::oauth`, its tables in [`crate::directory::oauth`], its codes and tokens in
//! [`crate::auth::oauth_tokens`].
//!
//! | file | what it is for |
//! |---|---|
//! | [`parameters`] | what a client sends, each at most once |
//! | [`error`] | what a client is told that is refused |
//! | [`redirect`] | where people may be sent back to |
//! | [`clients`] | who a client is: registered, made by the operator, or described at an address of its own |
//! | [`document`] | that description, fetched |
//! | [`authorization`] | what a client asks a person to agree to |
//! | [`token`] | codes and refresh tokens exchanged |
//! | `scopes` | the scopes that clients request and get |
//! | [`device`] | devices without a browser |

pub mod authorization;
pub mod clients;
pub mod device;
pub mod document;
pub mod error;
pub mod parameters;
mod pkce;
pub mod redirect;
mod scopes;
pub mod token;

use std::sync::Arc;

use crate::auth::Auth;
use crate::auth::audience::Audiences;
use crate::caller::Scope;
use crate::clock::Clock;
use crate::config::Config;
use crate::directory::Directory;
use crate::error::StartError;
use crate::fetch::Fetch;
use document::Documents;
use error::Refusal;
use parameters::Parameters;

/// The grant that a code is exchanged under.
const BY_CODE: &str = "authorization_code";
/// The grant that a refresh token is exchanged under.
const BY_REFRESH_TOKEN: &str = "refresh_token";
/// The grant that a device code is exchanged under (RFC 8628, section 3.4).
const BY_DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A grant of the token endpoint, for the API description.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "only described")]
pub(crate) enum GrantType {
    /// A code of the authorization endpoint.
    #[schema(rename = "authorization_code")]
    Code,
    /// A refresh token.
    #[schema(rename = "refresh_token")]
    RefreshToken,
    /// The code of a device (RFC 8628).
    #[schema(rename = "urn:ietf:params:oauth:grant-type:device_code")]
    DeviceCode,
}

/// The grants that there are.
pub const GRANT_TYPES: [&str; 3] = [BY_CODE, BY_REFRESH_TOKEN, BY_DEVICE_CODE];

/// The authorization server.
#[derive(Debug)]
pub struct OAuth {
    directory: Directory,
    auth: Arc<Auth>,
    clock: Clock,
    documents: Documents,
    issuer: String,
    /// Whether clients that the operator did not add may use the device grant.
    device_grant: bool,
}

impl OAuth {
    /// Nothing is fetched yet.
    ///
    /// # Errors
    /// A sentence where `oauth.client_hosts` cannot be used.
    pub fn new(
        config: &Config,
        directory: Directory,
        auth: Arc<Auth>,
        fetch: Fetch,
        clock: Clock,
    ) -> Result<Self, StartError> {
        Ok(Self {
            documents: Documents::new(fetch, &config.oauth.client_hosts, clock.clone())?,
            issuer: config.auth_url(),
            device_grant: config.oauth.device_grant,
            directory,
            auth,
            clock,
        })
    }

    /// What it calls itself: its address, without a trailing slash (RFC 8414, section 2).
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    fn audiences(&self) -> &Audiences {
        self.auth.audiences()
    }

    /// What tokens are to be for (RFC 8707, section 2): this service where nobody says what. Several addresses of it are one, the first.
    fn resource(&self, parameters: &Parameters) -> Result<String, Refusal> {
        for resource in parameters.all("resource") {
            if self.audiences().of(resource).is_none() {
                return Err(Refusal::new(
                    "invalid_target",
                    format!(
                        "The resource must be {} or another address of this service",
                        self.audiences().agent_endpoint()
                    ),
                ));
            }
        }
        let first = parameters.all("resource").next();
        Ok(first.unwrap_or(self.audiences().usual()).to_owned())
    }

    /// Returns all scopes that tokens can have, separated by spaces.
    #[must_use]
    pub fn scope(&self) -> String {
        Scope::list(&self.auth.oauth_scopes())
    }

    /// Returns the names of all scopes that tokens can have.
    #[must_use]
    pub fn scopes(&self) -> Vec<&'static str> {
        let scopes = self.auth.oauth_scopes();
        scopes.into_iter().map(Scope::name).collect()
    }
}
