//! Who is asking: the Authorization header told apart, web sessions begun, refreshed and ended, accounts registered; and what
//! that takes: secrets, their hashes, sealing, signed tokens.
//!
//! Knows no HTTP beyond headers and [`Failure`]; the actions that clients call are in `http::auth`.
//!
//! | file | what it is for |
//! |---|---|
//! | `header` | the Authorization header told apart by shape |
//! | `by_access_token` | the caller behind a web session's token |
//! | [`api_tokens`] | personal API tokens: made, presented, revoked |
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
mod by_access_token;
mod header;
pub(crate) mod key_file;
pub mod keyring;
pub mod passwords;
pub mod person;
pub mod registration;
pub mod sealing;
pub mod secrets;
pub mod sessions;
pub mod two_factor;
pub mod user_agent;
mod uses;

use std::sync::Arc;

use http::HeaderMap;
use quick_cache::sync::Cache;
use tracing::Instrument as _;

use self::access_token::{AccessTokens, Claims};
use self::api_tokens::ApiToken;
use self::header::Presented;
use self::keyring::Keyring;
use self::passwords::Passwords;
pub use self::registration::{Availability, Form, Provision, Registered};
pub use self::sessions::{SignedIn, Tokens};
use self::uses::Uses;
pub(crate) use self::uses::to_the_minute;
use crate::caller::Caller;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::directory::Directory;
use crate::error::{Failure, StartError};
use crate::limits::Key;
use crate::mail::Mail;

/// API tokens whose ids are remembered.
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
    uses: Uses,
    /// Ids of API tokens by the tokens' hashes. They say whose budget a request counts towards and nothing else: whether a token is good is
    /// asked each time.
    known_tokens: Cache<String, Box<str>>,
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
            clock,
            registration: config.registration.clone(),
            keys: Arc::new(Keyring::load(&config.key_file)?),
            access_tokens: AccessTokens::new(&config.base_url()),
            passwords: Passwords::new()
                .map_err(|e| StartError::new(format!("cannot hash passwords: {e}")))?,
            uses: Uses::default(),
            known_tokens: Cache::new(REMEMBERED),
        })
    }

    /// The service's keys, for what else is sealed under them.
    #[must_use]
    pub fn keys(&self) -> Arc<Keyring> {
        Arc::clone(&self.keys)
    }

    /// The credential of a request with these headers (specification, section 5), as far as it proves itself: nobody is asked.
    ///
    /// # Errors
    /// 401 with the specification's text where there is no credential or none that can be used.
    pub fn recognise(&self, headers: &HeaderMap) -> Result<Recognised, Failure> {
        match header::presented(headers)? {
            Presented::AccessToken(token) => self
                .access_tokens
                .verify(&self.keys, token, self.clock.now())
                .map(Recognised::Session)
                .ok_or_else(|| Failure::unauthorized(BAD_ACCESS_TOKEN)),
            Presented::ApiToken(token) => {
                let token = ApiToken::parse(token)
                    .ok_or_else(|| Failure::unauthorized("Invalid API token"))?;
                let known = self.known_tokens.get(token.hash());
                Ok(Recognised::ApiToken { token, known })
            }
            Presented::Opaque(_) => Err(Failure::unauthorized(BAD_ACCESS_TOKEN)),
        }
    }

    /// Who presents this credential. Asks the directory.
    ///
    /// # Errors
    /// 401 with the specification's text where it is no longer any good.
    pub async fn authenticate(&self, recognised: Recognised) -> Result<Caller, Failure> {
        let caller = match recognised {
            Recognised::Session(claims) => self.by_access_token(&claims).await?,
            Recognised::ApiToken { token, .. } => self.by_api_token(&token).await?,
        };
        self.uses.note(&caller.mail.id, self.clock.now());
        Ok(caller)
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
        }
    }
}

/// Runs a change to its end on a task of its own, should the client hang up in between: what was revoked is also disconnected.
async fn detached<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(change.in_current_span())
        .await
        .map_err(Failure::internal)?
}

#[cfg(test)]
mod tests;
