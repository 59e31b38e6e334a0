//! The embedded authorization server (OAuth 2.1). Users sign in on the pages of this server. Each
//! grant has its own credential for the mail server.
//!
//! This crate does not handle HTTP. The crate `latchmail-http` contains the endpoints, and
//! `latchmail-pages` contains the pages.
//! [`latchmail_directory::oauth`] contains the database tables.
//! [`latchmail_accounts::auth::oauth_tokens`] contains the codes and tokens.
//!
//! | file | content |
//! |---|---|
//! | [`parameters`] | the parameters of requests |
//! | [`error`] | the errors of the protocol |
//! | [`redirect`] | redirect URIs |
//! | [`clients`] | the registration and authentication of clients |
//! | `metadata` | the metadata of clients |
//! | [`document`] | client metadata documents at a URL |
//! | [`authorization`] | authorization requests |
//! | [`token`] | the exchange of codes and refresh tokens |
//! | [`revocation`] | the revocation of tokens |
//! | `scopes` | the scopes that clients request and get |
//! | [`device`] | the device grant |
//! | [`single_sign_on`] | sign-in at the identity provider |

pub mod authorization;
pub mod clients;
pub mod device;
pub mod document;
pub mod error;
mod metadata;
pub mod parameters;
mod pkce;
pub mod redirect;
pub mod revocation;
mod scopes;
pub mod single_sign_on;
pub mod token;

use std::sync::Arc;

use latchmail_accounts::auth::Auth;
use latchmail_accounts::auth::audience::Audiences;
use latchmail_core::caller::Scope;
use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_directory::Directory;
use latchmail_net::fetch::Fetch;

use document::Documents;
use error::Refusal;
use parameters::Parameters;

/// The grant type for authorization codes.
const BY_CODE: &str = "authorization_code";
/// The grant type for refresh tokens.
const BY_REFRESH_TOKEN: &str = "refresh_token";
/// The grant type for device codes (RFC 8628, section 3.4).
const BY_DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A grant type, for the OpenAPI document.
#[derive(utoipa::ToSchema)]
pub enum GrantType {
    /// An authorization code.
    #[schema(rename = "authorization_code")]
    Code,
    /// A refresh token.
    #[schema(rename = "refresh_token")]
    RefreshToken,
    /// A device code (RFC 8628).
    #[schema(rename = "urn:ietf:params:oauth:grant-type:device_code")]
    DeviceCode,
}

/// The supported grant types.
pub const GRANT_TYPES: [&str; 3] = [BY_CODE, BY_REFRESH_TOKEN, BY_DEVICE_CODE];

/// The authorization server.
#[derive(Debug)]
pub struct OAuth {
    directory: Directory,
    auth: Arc<Auth>,
    clock: Clock,
    documents: Documents,
    issuer: String,
    /// Whether the device grant is available to clients that the operator did not add.
    device_grant: bool,
    /// The URIs to which a sign-in at the identity provider is allowed to redirect, in addition to
    /// loopback URIs.
    sign_in_redirect_uris: Vec<String>,
    /// Whether a sign-in at the identity provider is allowed to redirect to any loopback URI.
    loopback_redirects: bool,
}

impl OAuth {
    /// Creates the authorization server. Does not fetch any metadata document.
    ///
    /// # Errors
    /// Returns an error if `oauth.client_hosts` or `sign_in.oidc.redirect_uris` is invalid.
    pub fn new(
        config: &Config,
        directory: Directory,
        auth: Arc<Auth>,
        fetch: Fetch,
        clock: Clock,
    ) -> Result<Self, StartError> {
        single_sign_on::check_redirect_uris(&config.sign_in.oidc)?;
        Ok(Self {
            sign_in_redirect_uris: config.sign_in.oidc.redirect_uris.clone(),
            loopback_redirects: config.sign_in.oidc.loopback_redirects,
            documents: Documents::new(fetch, &config.oauth.client_hosts, clock.clone())?,
            issuer: config.auth_url(),
            device_grant: config.oauth.device_grant,
            directory,
            auth,
            clock,
        })
    }

    /// Returns the issuer identifier: the server's URL without a trailing slash (RFC 8414, section
    /// 2).
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    fn audiences(&self) -> &Audiences {
        self.auth.oauth_tokens.audiences()
    }

    /// Returns the requested resource (RFC 8707, section 2). If the request contains several
    /// resources, returns the first resource. All resources must be URLs of this service. If the
    /// request contains no resource, returns the default resource.
    fn resource(&self, parameters: &Parameters) -> Result<String, Refusal> {
        for resource in parameters.all("resource") {
            if self.audiences().of(resource).is_none() {
                return Err(Refusal::new(
                    "invalid_target",
                    format!(
                        "The resource must be {} or another URL of this service",
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
        Scope::list(&self.auth.oauth_tokens.oauth_scopes())
    }

    /// Returns the names of all scopes that tokens can have.
    #[must_use]
    pub fn scopes(&self) -> Vec<&'static str> {
        let scopes = self.auth.oauth_tokens.oauth_scopes();
        scopes.into_iter().map(Scope::name).collect()
    }
}
