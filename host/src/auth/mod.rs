//! Who is asking: the Authorization header told apart, web sessions begun, refreshed and ended, accounts registered; and what
//! that takes: secrets, their hashes, sealing, signed tokens.
//!
//! Knows no HTTP beyond headers and [`Failure`]; the actions that clients call are in `http::auth`.
//!
//! | file | what it is for |
//! |---|---|
//! | `header` | the Authorization header told apart by shape |
//! | `by_access_token` | the caller behind a web session's token |
//! | `by_external_token` | the caller behind a token of an authorization server elsewhere |
//! | `external` | what that server says of its tokens |
//! | [`api_tokens`] | personal API tokens: made, presented, revoked |
//! | [`oauth_tokens`], [`audience`] | what the authorization server hands out, and what for |
//! | [`sessions`] | signing in, refreshing, signing out |
//! | [`two_factor`] | codes beside the password |
//! | [`registration`] | accounts made |
//! | [`account`] | app passwords, the list of credentials, profile and password |
//! | `uses` | when credentials were last used |
//! | [`address`], [`person`] | the rules of what is filled in |
//! | [`access_token`] | the JWT |
//! | [`keyring`], [`sealing`], `key_file` | the service's keys and what they seal |
//! | [`passwords`], [`secrets`] | what people know, what is random |
//! | [`user_agent`] | what a session is called |

pub mod access_token;
pub mod account;
pub mod address;
pub mod api_tokens;
pub mod audience;
mod by_access_token;
mod by_external_token;
mod external;
mod header;
pub(crate) mod key_file;
pub mod keyring;
pub mod oauth_tokens;
pub mod passwords;
pub mod person;
pub mod registration;
pub mod sealing;
pub mod secrets;
pub mod sessions;
mod shared;
pub mod two_factor;
pub mod user_agent;
mod uses;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use quick_cache::sync::Cache;
use tracing::Instrument as _;

use self::access_token::{AccessTokens, Claims};
use self::api_tokens::ApiToken;
use self::audience::Audiences;
use self::external::External;
pub use self::external::OpaqueToken;
use self::header::Presented;
pub(crate) use self::header::presented;
use self::keyring::Keyring;
use self::oauth_tokens::{Handed, Use};
use self::passwords::Passwords;
pub use self::registration::{Availability, Form, Provision, Registered};
pub use self::sessions::{SignedIn, Tokens};
use self::uses::Uses;
pub(crate) use self::uses::to_the_minute;
use crate::caller::{Caller, Credential};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::directory::Directory;
use crate::error::{Failure, StartError};
use crate::fetch::Fetch;
use crate::limits::{Failures, Key};
use crate::mail::Mail;

/// API and OAuth tokens whose ids are remembered.
const REMEMBERED: usize = 10_000;

const BAD_ACCESS_TOKEN: &str = "Invalid or expired access token";

/// A request's credential, before anybody was asked whether it is still good.
#[derive(Debug)]
pub enum Recognised {
    /// An access token that this service signed and whose time is not over.
    Session(Claims),
    /// What has the shape of an API token.
    ApiToken {
        /// As it was presented.
        token: ApiToken,
        /// Its id, where it proved good or was good once.
        known: Option<Box<str>>,
    },
    /// What has the shape of an access token of the embedded authorization server.
    OAuth {
        /// As it was presented.
        token: Handed,
        /// Whose it is, where it proved good or was good once.
        known: Option<Arc<Grantee>>,
    },
    /// What can only be a token of the authorization server elsewhere that is configured.
    External {
        /// As it was presented.
        token: OpaqueToken,
        /// Whose it is, where it was good once.
        known: Option<Arc<Grantee>>,
    },
}

/// Whose an OAuth access token is.
#[derive(Debug)]
pub struct Grantee {
    grant: Box<str>,
    account: Box<str>,
}

/// Tells who is asking, and lets people in and out.
#[derive(Debug)]
pub struct Auth {
    directory: Directory,
    mail: Arc<Mail>,
    clock: Clock,
    registration: config::Registration,
    keys: Arc<Keyring>,
    access_tokens: AccessTokens,
    passwords: Passwords,
    /// Wrong passwords by session and account, where a password confirms a change, and wrong signatures of access tokens by client.
    failures: Failures,
    /// The number of wrong passwords that one session can have a minute.
    wrong_passwords: NonZeroU32,
    /// The number of wrong signatures that one client can send a minute.
    wrong_signatures: NonZeroU32,
    uses: Uses,
    /// The authorization server for agents, where it is elsewhere.
    external: Option<External>,
    /// Ids of API tokens by the tokens' hashes. They say whose budget a request counts towards and nothing else: whether a token is good is
    /// asked each time.
    known_tokens: Cache<String, Box<str>>,
    /// Likewise, of OAuth access tokens.
    known_grants: Cache<String, Arc<Grantee>>,
    audiences: Audiences,
    /// Whether agents may send mail.
    agents_send: bool,
}

impl Auth {
    /// Reads or makes the service's key.
    ///
    /// # Errors
    /// A sentence where the key's file cannot be read, made or understood.
    pub fn new(
        config: &Config,
        directory: Directory,
        mail: Arc<Mail>,
        clock: Clock,
    ) -> Result<Self, StartError> {
        Ok(Self {
            directory,
            mail,
            clock: clock.clone(),
            registration: config.registration.clone(),
            keys: Arc::new(Keyring::load(&config.key_file)?),
            access_tokens: AccessTokens::new(&config.base_url()),
            passwords: Passwords::new()
                .map_err(|e| StartError::new(format!("cannot hash passwords: {e}")))?,
            failures: Failures::new(clock),
            wrong_signatures: NonZeroU32::new(config.limits.unproven).unwrap_or(NonZeroU32::MIN),
            wrong_passwords: NonZeroU32::new(config.limits.password_change)
                .unwrap_or(NonZeroU32::MIN),
            uses: Uses::default(),
            external: None,
            known_tokens: Cache::new(REMEMBERED),
            known_grants: Cache::new(REMEMBERED),
            audiences: Audiences::new(&config.base_url()),
            agents_send: config.mcp.send_tool,
        })
    }

    /// The same with the authorization server that the configuration names, where it is elsewhere. Nobody is asked.
    ///
    /// # Errors
    /// A sentence that names the key that cannot be used.
    pub fn with_external(mut self, config: &Config, fetch: Fetch) -> Result<Self, StartError> {
        let (mail, clock) = (Arc::clone(&self.mail), self.clock.clone());
        self.external = External::new(config, fetch, mail, clock)?;
        Ok(self)
    }

    /// The service's keys, for what else is sealed under them.
    #[must_use]
    pub fn keys(&self) -> Arc<Keyring> {
        Arc::clone(&self.keys)
    }

    /// The credential of a request with these headers (specification, section 5), as far as it proves itself: nobody is asked.
    ///
    /// # Errors
    /// 401 with the specification's text where there is no credential or none that can be used; 429 for a token that was not verified before, if the client has
    /// sent too many whose signature was wrong.
    pub fn recognise(&self, headers: &HeaderMap, client: IpAddr) -> Result<Recognised, Failure> {
        match header::presented(headers)? {
            Presented::AccessToken(token) => self
                .access_tokens
                .verify(&self.keys, token, self.clock.now(), || {
                    let limit = (Key::client(client), self.wrong_signatures);
                    self.failures.attempt([limit])
                })?
                .map(Recognised::Session)
                .ok_or_else(|| Failure::unauthorized(BAD_ACCESS_TOKEN)),
            Presented::ApiToken(token) => {
                let token = ApiToken::parse(token)
                    .ok_or_else(|| Failure::unauthorized("Invalid API token"))?;
                let known = self.known_tokens.get(token.hash());
                Ok(Recognised::ApiToken { token, known })
            }
            Presented::Opaque(token) if self.external.is_some() => {
                let token = OpaqueToken::of(token);
                let known = self.known_grants.get(token.hash());
                Ok(Recognised::External { token, known })
            }
            Presented::Opaque(token) => {
                let token = Handed::parse(Use::Access, token)
                    .ok_or_else(|| Failure::unauthorized(BAD_ACCESS_TOKEN))?;
                let known = self.known_grants.get(token.hash());
                Ok(Recognised::OAuth { token, known })
            }
        }
    }

    /// Who presents this credential. Asks the directory, and an authorization server elsewhere about its tokens.
    ///
    /// # Errors
    /// 401 with the specification's text where it is no longer any good; 503 where that server cannot be asked.
    pub async fn authenticate(&self, recognised: Recognised) -> Result<Caller, Failure> {
        let caller = match recognised {
            Recognised::Session(claims) => self.by_access_token(&claims).await?,
            Recognised::ApiToken { token, .. } => self.by_api_token(&token).await?,
            Recognised::OAuth { token, .. } => {
                let caller = self.by_oauth_token(&token).await;
                self.remember(token.hash(), caller)?
            }
            Recognised::External { token, .. } => match &self.external {
                Some(external) => {
                    let caller = self.by_external_token(external, &token).await;
                    self.remember(token.hash(), caller)?
                }
                None => return Err(Failure::unauthorized(BAD_ACCESS_TOKEN)),
            },
        };
        if let Some(app_password) = caller.mail.app_password_id() {
            self.uses.note(app_password, self.clock.now());
        }
        Ok(caller)
    }

    /// Remembers whose an OAuth access token is, as long as it is good: what is no good any more spends its client's budget, and not that of the account
    /// that it was good for.
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
            Err(failure) if failure.status == StatusCode::UNAUTHORIZED => {
                self.known_grants.remove(hash);
            }
            Ok(_) | Err(_) => {}
        }
        caller
    }
}

impl Recognised {
    /// Whose budget its requests are counted towards, where it proves by itself that this service gave it out. What would have to be
    /// looked up first proves nothing.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Session(claims) => Some(Key::Session(claims.sid.as_str().into())),
            Self::ApiToken { known, .. } => known.clone().map(Key::ApiToken),
            Self::OAuth { known, .. } | Self::External { known, .. } => {
                known.as_ref().map(|known| Key::OAuth(known.grant.clone()))
            }
        }
    }

    /// The same at the agent endpoint, which takes OAuth tokens alone and counts by the account.
    #[must_use]
    pub fn agent_key(&self) -> Option<Key> {
        match self {
            Self::OAuth { known, .. } | Self::External { known, .. } => known
                .as_ref()
                .map(|known| Key::Account(known.account.clone())),
            Self::Session(_) | Self::ApiToken { .. } => None,
        }
    }
}

/// Runs a change to its end on a task of its own, should the client hang up in between: what was revoked is also disconnected.
pub(crate) async fn detached<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(change.in_current_span())
        .await
        .map_err(Failure::internal)?
}

#[cfg(test)]
mod tests;
