//! Who is asking: the Authorization header told apart, web sessions begun, refreshed and ended, accounts registered; and what
//! that takes: secrets, their hashes, sealing, signed tokens.
//!
//! Knows no HTTP beyond headers and [`Failure`]; the actions that clients call are in `http::auth`.
//!
//! | file | what it is for |
//! |---|---|
//! | `header` | the Authorization header told apart by shape |
//! | `by_access_token` | the caller behind a web session's token; other kinds of credential get a file each |
//! | [`sessions`] | signing in, refreshing, signing out |
//! | [`registration`] | accounts made |
//! | [`address`], [`person`] | the rules of what is filled in |
//! | [`access_token`] | the JWT |
//! | [`keyring`], [`sealing`], `key_file` | the service's keys and what they seal |
//! | [`passwords`], [`secrets`] | what people know, what is random |
//! | [`user_agent`] | what a session is called |

pub mod access_token;
pub mod address;
mod by_access_token;
mod header;
mod key_file;
pub mod keyring;
pub mod passwords;
pub mod person;
pub mod registration;
pub mod sealing;
pub mod secrets;
pub mod sessions;
pub mod user_agent;

use std::sync::Arc;

use http::HeaderMap;

use self::access_token::{AccessTokens, Claims};
use self::header::Presented;
use self::keyring::Keyring;
use self::passwords::Passwords;
pub use self::registration::{Availability, Form, Provision, Registered};
pub use self::sessions::{SignedIn, Tokens};
use crate::caller::Caller;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::directory::Directory;
use crate::error::{Failure, StartError};
use crate::limits::Key;
use crate::mail::Mail;

const BAD_ACCESS_TOKEN: &str = "Invalid or expired access token";

/// A request's credential, before anybody was asked whether it is still good.
#[derive(Debug)]
pub enum Recognised {
    /// An access token that this service signed and whose time is not over.
    Session(Claims),
}

/// Tells who is asking, and lets people in and out.
#[derive(Debug)]
pub struct Auth {
    directory: Directory,
    mail: Arc<Mail>,
    clock: Clock,
    registration: config::Registration,
    keys: Keyring,
    access_tokens: AccessTokens,
    passwords: Passwords,
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
            keys: Keyring::load(&config.key_file)?,
            access_tokens: AccessTokens::new(&config.base_url()),
            passwords: Passwords::new()
                .map_err(|e| StartError::new(format!("cannot hash passwords: {e}")))?,
        })
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
            Presented::ApiToken(_) => Err(Failure::unauthorized("Invalid API token")),
            Presented::Opaque(_) => Err(Failure::unauthorized(BAD_ACCESS_TOKEN)),
        }
    }

    /// Who presents this credential. Asks the directory.
    ///
    /// # Errors
    /// 401 with the specification's text where it is no longer any good.
    pub async fn authenticate(&self, recognised: Recognised) -> Result<Caller, Failure> {
        match recognised {
            Recognised::Session(claims) => self.by_access_token(&claims).await,
        }
    }
}

impl Recognised {
    /// Whose budget its requests are counted towards, where it proves by itself that this service gave it out. What would have to be
    /// looked up first proves nothing.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        match self {
            Self::Session(claims) => Some(Key::Session(claims.sid.as_str().into())),
        }
    }
}

#[cfg(test)]
mod tests;
