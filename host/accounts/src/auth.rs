//! Authentication. This module identifies the caller of a request from the Authorization header,
//! manages web sessions and other credentials, and registers accounts.
//!
//! This module contains no endpoints. The crate `latchmail-http` contains the endpoints and maps a
//! [`Failure`] to a response.
//!
//! | file | what it is for |
//! |---|---|
//! | `header` | parses the Authorization header |
//! | `by_access_token` | finds the caller of a web session's token |
//! | `by_external_token` | finds the caller of an external authorization server's token |
//! | `external` | queries an external authorization server about its tokens |
//! | [`app_passwords`] | HTTP Basic authentication with app passwords |
//! | [`api_tokens`] | creates, checks and revokes personal API tokens |
//! | [`operator_tokens`] | tokens of the operator's programs, which belong to no account |
//! | [`oauth_tokens`], [`audience`] | tokens of the embedded authorization server |
//! | [`verifier`] | verification of passwords and second factors |
//! | [`sessions`] | sign-in, refresh and sign-out |
//! | [`single_sign_on`] | sign-in and sign-out of persons at the identity provider |
//! | [`grants`] | lists, suspends and ends API tokens and OAuth grants |
//! | `suspension` | the failure of requests whose grant is suspended |
//! | [`tickets`] | credentials for one request, in URLs |
//! | `mail_server_sign_in`, `recheck` | sign-in with passwords of the mail server; rechecks |
//! | [`provider_sessions`] | the supervision of sessions that began at the identity provider |
//! | [`two_factor`] | second factors |
//! | [`registration`] | creates accounts |
//! | [`provisioning`] | accounts that the operator creates and changes |
//! | [`account`] | app passwords, the list of credentials, profile and password |
//! | [`administrator`] | sessions on the operator's page |
//! | [`page_sessions`] | sessions on the owner's page, and what both pages share |
//! | [`second_factor_settings`] | the owner switches two-factor sign-in on and off |
//! | `reasons` | reasons in audit events |
//! | `uses` | times of the last use of credentials |
//! | `networks` | networks from which credentials are used |
//! | `closing` | closes accounts on request of their owners |
//! | [`person`] | validation of input |
//! | [`access_token`] | JWT access tokens |
//! | [`passwords`] | password hashing |
//! | [`user_agent`] | labels of sessions |

pub mod access_token;
pub mod account;
pub mod administrator;
pub mod api_tokens;
pub mod app_passwords;
pub mod audience;
mod by_access_token;
mod by_external_token;
mod closing;
pub mod command_line;
mod external;
pub mod grants;
mod header;
mod mail_server_sign_in;
mod networks;
pub mod oauth_tokens;
pub mod operator_tokens;
pub mod page_sessions;
pub mod passwords;
pub mod person;
pub mod provider_sessions;
pub mod provisioning;
mod reasons;
mod recheck;
pub mod registration;
pub mod second_factor_settings;
pub mod sessions;
mod shared;
pub mod single_sign_on;
mod suspension;
pub mod tickets;
pub mod two_factor;
pub mod user_agent;
mod uses;
pub mod verifier;

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use latchmail_core::caller::{Caller, Credential};
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::{self, Config};
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::{Failure, Kind, StartError};
use latchmail_core::keyring::Keyring;
use latchmail_core::limits::{Failures, Key, SharedBudgets};
use latchmail_directory::{Directory, Error};
use latchmail_net::fetch::Fetch;
use latchmail_oidc::Provider;
use quick_cache::sync::Cache;

use self::access_token::{BAD_ACCESS_TOKEN, Claims};
pub use self::account::{Credentials, Profiles};
pub use self::administrator::Administrators;
use self::api_tokens::ApiToken;
pub use self::api_tokens::ApiTokens;
use self::app_passwords::BasicCredential;
pub use self::app_passwords::has_basic_credential;
use self::audience::Audiences;
use self::external::External;
pub use self::external::OpaqueToken;
use self::grants::Grants;
use self::header::BearerCredential;
pub use self::header::bearer_credential;
pub use self::mail_server_sign_in::MailServerAccounts;
use self::networks::Networks;
pub use self::oauth_tokens::{IssuedToken, OAuthTokens, Use};
pub use self::operator_tokens::{OperatorTokens, ParsedOperatorToken};
pub use self::provisioning::Provisioning;
pub use self::registration::{Availability, Form, Provision, Registered, Registration};
pub use self::sessions::{Sessions, SignedIn, Tokens};
pub use self::single_sign_on::SingleSignOn;
use self::tickets::Tickets;
use self::uses::Uses;
pub use self::uses::to_the_minute;
pub use self::verifier::Verifier;
use crate::account_rules::AccountRules;
use crate::mail_server::MailServer;
use crate::mail_server_users::MailServerUsers;

/// Capacity of the cache for API tokens, and of the cache for OAuth tokens.
pub const CACHE_CAPACITY: usize = 10_000;

/// The parsed credential of a request. Neither the directory nor an external server has checked the
/// credential.
#[derive(Debug)]
pub enum ParsedCredential {
    /// The claims of a web session's access token. This service signed the token, and the token has
    /// not expired.
    Session(Claims),
    /// A token with the form of an API token.
    ApiToken {
        /// The token.
        token: ApiToken,
        /// The token's id, if an earlier request with the token was valid.
        known: Option<Box<str>>,
    },
    /// An address and a text with the form of an app password.
    AppPassword {
        /// The address and the app password.
        credential: BasicCredential,
        /// The app password's id, if an earlier request with the app password was valid.
        known: Option<Box<str>>,
    },
    /// A token with the form of an access token of the embedded authorization server.
    OAuth {
        /// The token.
        token: IssuedToken,
        /// The account and the grant of the token, if an earlier request with the token was valid.
        known: Option<Arc<Grantee>>,
    },
    /// A token with another form, if an external authorization server is configured.
    External {
        /// The token.
        token: OpaqueToken,
        /// The account and the grant of the token, if an earlier request with the token was valid.
        known: Option<Arc<Grantee>>,
    },
}

/// The account and the grant that an OAuth access token belongs to.
#[derive(Debug)]
pub struct Grantee {
    grant: Box<str>,
    account: Box<str>,
}

/// Identifies callers. Each field manages one kind of credentials, or one way to get them.
#[derive(Debug)]
pub struct Auth {
    directory: Directory,
    mail_server: Arc<dyn MailServer>,
    clock: Clock,
    keys: Arc<Keyring>,
    tasks: DetachedTasks,
    /// Verification of passwords and second factors.
    pub verifier: Arc<Verifier>,
    /// Web sessions.
    pub sessions: Arc<Sessions>,
    /// App passwords, and the list of all credentials.
    pub credentials: Arc<Credentials>,
    /// Profiles.
    pub profiles: Profiles,
    /// API tokens.
    pub api_tokens: ApiTokens,
    /// Tokens of the embedded authorization server.
    pub oauth_tokens: Arc<OAuthTokens>,
    /// API tokens and OAuth grants, as their owner sees them.
    pub grants: Grants,
    /// Credentials for one request, in URLs.
    pub tickets: Tickets,
    /// The tokens of the operator's programs.
    pub operator_tokens: OperatorTokens,
    /// Sign-in at the identity provider.
    pub single_sign_on: SingleSignOn,
    /// Creation of accounts.
    pub registration: Registration,
    /// Accounts that the operator creates and changes.
    pub provisioning: Provisioning,
    /// Administrators on the operator's page.
    pub administrators: Administrators,
    /// Accounts of the mail server's users.
    pub mail_server_accounts: Arc<MailServerAccounts>,
    uses: Arc<Uses>,
    networks: Networks,
    /// The external authorization server, if one is configured.
    external: Option<External>,
    /// Accounts and grants of OAuth access tokens, by the hash of the token. The account and the
    /// grant select the rate-limit budget of a request.
    known_grants: Cache<String, Arc<Grantee>>,
    /// Ids of app passwords, by the hash of the app password. The id selects the rate-limit budget
    /// of a request.
    known_app_passwords: Cache<String, Box<str>>,
}

impl Auth {
    /// Creates the authentication service. With `budgets`, shares the counts of wrong passwords and
    /// invalid signatures with other hosts.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid, or if the system provides no randomness.
    #[expect(clippy::too_many_lines, reason = "all wiring is here")]
    pub fn new(
        config: &Config,
        directory: Directory,
        mail_server: Arc<dyn MailServer>,
        clock: Clock,
        keys: Arc<Keyring>,
        budgets: Option<&Arc<dyn SharedBudgets>>,
    ) -> Result<Self, StartError> {
        let mut failures = Failures::new(clock.clone());
        if let Some(budgets) = budgets {
            failures = failures.with_shared(Arc::clone(budgets), "auth_failures");
        }
        let (failures, uses) = (Arc::new(failures), Arc::new(Uses::default()));
        let tasks = DetachedTasks::default();
        let mail_server_accounts = Arc::new(MailServerAccounts {
            directory: directory.clone(),
            mail_server: Arc::clone(&mail_server),
            clock: clock.clone(),
            keys: Arc::clone(&keys),
            tasks: tasks.clone(),
            users: Arc::new(MailServerUsers::new(config)?),
        });
        let verifier = Verifier::new(config, &mail_server_accounts, Arc::clone(&failures))?;
        let verifier = Arc::new(verifier);
        let sessions = Arc::new(Sessions::new(config, &verifier, failures));
        let credentials = Arc::new(Credentials {
            directory: directory.clone(),
            mail_server: Arc::clone(&mail_server),
            clock: clock.clone(),
            tasks: tasks.clone(),
            uses: Arc::clone(&uses),
        });
        let oauth_tokens = Arc::new(OAuthTokens {
            directory: directory.clone(),
            mail_server: Arc::clone(&mail_server),
            clock: clock.clone(),
            verifier: Arc::clone(&verifier),
            audiences: Audiences::new(&config.base_url()),
            agents_send: config.mcp.send_tool,
            default_policy: config.grants.default_policy,
            tasks: tasks.clone(),
        });
        Ok(Self {
            profiles: Profiles {
                directory: directory.clone(),
                clock: clock.clone(),
            },
            api_tokens: ApiTokens {
                directory: directory.clone(),
                mail_server: Arc::clone(&mail_server),
                clock: clock.clone(),
                tasks: tasks.clone(),
                uses: Arc::clone(&uses),
                known: Cache::new(CACHE_CAPACITY),
                default_policy: config.grants.default_policy,
            },
            grants: Grants {
                directory: directory.clone(),
                mail_server: Arc::clone(&mail_server),
                clock: clock.clone(),
                tasks: tasks.clone(),
                uses: Arc::clone(&uses),
                oauth_tokens: Arc::clone(&oauth_tokens),
            },
            tickets: Tickets::new(config, &directory, clock.clone()),
            operator_tokens: OperatorTokens::new(directory.operator_tokens.clone(), clock.clone()),
            single_sign_on: SingleSignOn {
                directory: directory.clone(),
                mail_server: Arc::clone(&mail_server),
                clock: clock.clone(),
                keys: Arc::clone(&keys),
                tasks: tasks.clone(),
                provider: None,
                mail_server_accounts: Arc::clone(&mail_server_accounts),
                sessions: Arc::clone(&sessions),
                oauth_tokens: Arc::clone(&oauth_tokens),
                recheck: config.sign_in.oidc.recheck,
            },
            registration: Registration {
                directory: directory.clone(),
                clock: clock.clone(),
                settings: config.registration.clone(),
                verifier: Arc::clone(&verifier),
                sessions: Arc::clone(&sessions),
            },
            provisioning: Provisioning {
                directory: directory.clone(),
                mail_server: Arc::clone(&mail_server),
                clock: clock.clone(),
                tasks: tasks.clone(),
                verifier: Arc::clone(&verifier),
                grace: config.accounts.grace,
                rules: AccountRules::new(config, directory.clone(), clock.clone()),
            },
            administrators: Administrators {
                directory: directory.clone(),
                clock: clock.clone(),
                verifier: Arc::clone(&verifier),
                sessions: Arc::clone(&sessions),
                credentials: Arc::clone(&credentials),
            },
            directory,
            mail_server,
            clock,
            keys,
            tasks,
            verifier,
            sessions,
            credentials,
            oauth_tokens,
            mail_server_accounts,
            uses,
            networks: Networks::default(),
            external: None,
            known_grants: Cache::new(CACHE_CAPACITY),
            known_app_passwords: Cache::new(CACHE_CAPACITY),
        })
    }

    /// Changes the limits on wrong passwords and on access tokens with wrong signatures.
    pub fn set_limits(&self, limits: &config::Limits) {
        self.sessions.wrong_signatures.set(limits.unproven);
        self.verifier.wrong_passwords.set(limits.password_change);
    }

    /// Runs a task to completion, even if the caller's future is dropped.
    pub(crate) async fn complete<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        self.tasks.complete(task).await
    }

    /// Waits until all detached tasks have completed. A detached task continues if its caller is
    /// dropped.
    pub async fn finished(&self) {
        self.tasks.finished().await;
    }

    /// Adds the external authorization server if such a server is configured. Sends no request to
    /// this server.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a setting is invalid.
    pub fn with_external(mut self, config: &Config, fetch: Fetch) -> Result<Self, StartError> {
        let (mail_server, clock) = (Arc::clone(&self.mail_server), self.clock.clone());
        self.external = External::new(config, fetch, mail_server, clock)?;
        Ok(self)
    }

    /// Adds the identity provider if the configuration has a domain whose users sign in at the
    /// provider. Sends no request to the provider.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a setting is invalid.
    pub fn with_provider(mut self, config: &Config, fetch: Fetch) -> Result<Self, StartError> {
        self.single_sign_on.provider = Provider::new(config, fetch, self.clock.clone())?;
        Ok(self)
    }

    /// Writes the collected times of the last uses of credentials to the directory.
    ///
    /// # Errors
    /// Returns an error if the database fails. The next call writes the same times.
    pub async fn write_uses(&self) -> Result<(), Error> {
        self.uses.write(&self.directory).await
    }

    /// Returns the service's keyring, with which other modules seal data.
    #[must_use]
    pub fn keys(&self) -> Arc<Keyring> {
        Arc::clone(&self.keys)
    }

    /// Returns the users of the mail server.
    #[must_use]
    pub fn mail_server_users(&self) -> Arc<MailServerUsers> {
        Arc::clone(&self.verifier.users)
    }

    /// Returns the address with which a user signs in, in lower case. Accepts a name without a
    /// domain if the configuration has a default domain. Returns `None` if the text is neither an
    /// address nor such a name.
    #[must_use]
    pub fn sign_in_address(&self, text: &str) -> Option<String> {
        self.verifier.users.settings().address(text)
    }

    /// Parses the credential of a request and checks its form, signature
    /// and expiry. Does not query the directory or another server.
    ///
    /// # Errors
    /// Returns 401 if the credential is missing or invalid. Returns
    /// 429 if the client has sent too many access tokens with an invalid signature. This limit does
    /// not affect tokens that are in the cache of verified tokens.
    pub async fn parse_credential(
        &self,
        headers: &HeaderMap,
        client: IpAddr,
    ) -> Result<ParsedCredential, Failure> {
        match header::bearer_credential(headers)? {
            BearerCredential::AccessToken(token) => {
                let claims = self.sessions.verify(token, client).await?;
                Ok(ParsedCredential::Session(claims))
            }
            BearerCredential::ApiToken(token) => {
                let token = ApiToken::parse(token).ok_or_else(|| {
                    Failure::unauthorized(codes::INVALID_API_TOKEN, "Invalid API token")
                })?;
                let known = self.api_tokens.known.get(token.hash());
                Ok(ParsedCredential::ApiToken { token, known })
            }
            // Operator tokens are not sent to an external authorization server.
            BearerCredential::OperatorToken(_) => Err(Failure::unauthorized(
                codes::INVALID_ACCESS_TOKEN,
                BAD_ACCESS_TOKEN,
            )),
            BearerCredential::Opaque(token) if self.external.is_some() => {
                let token = OpaqueToken::of(token);
                let known = self.known_grants.get(token.hash());
                Ok(ParsedCredential::External { token, known })
            }
            BearerCredential::Opaque(token) => {
                let token = IssuedToken::parse(Use::Access, token).ok_or_else(|| {
                    Failure::unauthorized(codes::INVALID_ACCESS_TOKEN, BAD_ACCESS_TOKEN)
                })?;
                let known = self.known_grants.get(token.hash());
                Ok(ParsedCredential::OAuth { token, known })
            }
        }
    }

    /// Returns the caller to whom a credential belongs. Queries the directory. For a token of an
    /// external authorization server, also queries this server.
    ///
    /// # Errors
    /// Returns 401 if the credential is expired or revoked, or 503 if
    /// the external server cannot be queried.
    pub async fn authenticate(&self, credential: ParsedCredential) -> Result<Caller, Failure> {
        let caller = match credential {
            ParsedCredential::Session(claims) => self.sessions.by_access_token(&claims).await?,
            ParsedCredential::ApiToken { token, .. } => {
                self.api_tokens.by_api_token(&token).await?
            }
            ParsedCredential::AppPassword { credential, .. } => {
                self.by_app_password(credential).await?
            }
            ParsedCredential::OAuth { token, .. } => {
                let caller = self.oauth_tokens.by_oauth_token(&token).await;
                self.remember(token.hash(), caller)?
            }
            ParsedCredential::External { token, .. } => match &self.external {
                Some(external) => {
                    let caller = self.by_external_token(external, &token).await;
                    self.remember(token.hash(), caller)?
                }
                None => {
                    return Err(Failure::unauthorized(
                        codes::INVALID_ACCESS_TOKEN,
                        BAD_ACCESS_TOKEN,
                    ));
                }
            },
        };
        if let Some(app_password) = caller.mail.app_password_id() {
            self.uses.note(app_password, self.clock.now());
        }
        Ok(caller)
    }

    /// Caches the account and the grant of a valid OAuth access token. Removes the cache entry of
    /// an invalid token. So requests with an invalid token count towards the client's rate limit
    /// and not towards the account's rate limit.
    fn remember(&self, hash: &str, caller: Result<Caller, Failure>) -> Result<Caller, Failure> {
        match &caller {
            Ok(Caller {
                account,
                credential: Credential::OAuth { id, .. },
                ..
            }) => {
                let grantee = Grantee {
                    grant: id.as_str().into(),
                    account: account.as_str().into(),
                };
                self.known_grants.insert(hash.to_owned(), Arc::new(grantee));
            }
            Err(failure) if failure.kind == Kind::Unauthorized => {
                self.known_grants.remove(hash);
            }
            Ok(_) | Err(_) => {}
        }
        caller
    }
}

impl ParsedCredential {
    /// Returns the key of the request's rate-limit budget. Returns `None` if the credential could
    /// be forged, because neither a signature nor an earlier check proves the issuer.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Session(claims) => Some(Key::Session(claims.sid.as_str().into())),
            Self::ApiToken { known, .. } => known.clone().map(Key::ApiToken),
            Self::AppPassword { known, .. } => known.clone().map(Key::AppPassword),
            Self::OAuth { known, .. } | Self::External { known, .. } => {
                known.as_ref().map(|known| Key::OAuth(known.grant.clone()))
            }
        }
    }

    /// Returns the key of the request's rate-limit budget at the agent endpoint. The result is
    /// always the key of an account. Returns `None` for credentials other than OAuth tokens.
    #[must_use]
    pub fn agent_key(&self) -> Option<Key> {
        match self {
            Self::OAuth { known, .. } | Self::External { known, .. } => known
                .as_ref()
                .map(|known| Key::Account(known.account.clone())),
            Self::Session(_) | Self::ApiToken { .. } | Self::AppPassword { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
