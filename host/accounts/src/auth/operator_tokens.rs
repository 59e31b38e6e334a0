//! Operator tokens: `lmo_` and 43 letters and digits (256 random bits). Programs of the operator
//! use them for the admin API and SCIM. The operator sees a token only once.
//!
//! A token belongs to no account and has no credential at the mail server, so it cannot open a
//! mailbox. The service accepts it only on the listeners for operators.

use std::time::Duration;

use http::HeaderMap;
use latchmail_core::caller::{Caller, Credential, MailCredential, OperatorScope, Origin};
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::limits::Key;
use latchmail_core::secrets::{self, Prefixed};
use latchmail_directory::operator_tokens::{
    NewOperatorToken, OperatorToken, OperatorTokens as Repository,
};
use quick_cache::sync::Cache;
use secrecy::{ExposeSecret as _, SecretString};

use super::CACHE_CAPACITY;
use super::header::{BearerCredential, OPERATOR_TOKEN_PREFIX, bearer_credential};

/// Length of the hint. The hint is the end of a token, with which operators identify the token.
const HINT: usize = 4;

/// Maximum length of a name, in characters.
const MAX_NAME: usize = 64;

const INVALID_NAME: &str =
    "the name of a token must be 1 to 64 letters, digits, dots, hyphens and underscores";

/// A string with the form of an operator token.
#[derive(Debug)]
pub struct ParsedOperatorToken {
    token: Prefixed,
    /// The token's id, if an earlier request with the token was valid.
    known: Option<Box<str>>,
}

impl ParsedOperatorToken {
    /// Returns the key of the request's rate-limit budget. Returns `None` if the token could be
    /// forged.
    #[must_use]
    pub fn key(&self) -> Option<Key> {
        self.known.clone().map(Key::Operator)
    }
}

/// A new token.
#[derive(Debug)]
pub struct CreatedOperatorToken {
    /// The token's entry in the list of tokens.
    pub token: OperatorToken,
    /// The token itself.
    pub secret: SecretString,
}

/// The operator tokens.
#[derive(Debug)]
pub struct OperatorTokens {
    repository: Repository,
    clock: Clock,
    /// Ids of tokens, by the hash of the token. The id selects the rate-limit budget of a request.
    /// Each request also checks whether the token is valid.
    known: Cache<String, Box<str>>,
}

impl OperatorTokens {
    /// Creates the operations on the tokens in `repository`.
    #[must_use]
    pub fn new(repository: Repository, clock: Clock) -> Self {
        Self {
            repository,
            clock,
            known: Cache::new(CACHE_CAPACITY),
        }
    }

    /// Parses the token of a request. Does not query the directory.
    ///
    /// # Errors
    /// Returns 401 if the request has no token, or another credential.
    pub fn parse(&self, headers: &HeaderMap) -> Result<ParsedOperatorToken, Failure> {
        let BearerCredential::OperatorToken(text) = bearer_credential(headers)? else {
            return Err(invalid());
        };
        let token = Prefixed::parse(OPERATOR_TOKEN_PREFIX, text).ok_or_else(invalid)?;
        let known = self.known.get(token.hash());
        Ok(ParsedOperatorToken { token, known })
    }

    /// Returns the caller of a request, and records the use of the token.
    ///
    /// # Errors
    /// Returns 401 if the token is unknown, deleted or expired, or 500 for an internal error.
    pub async fn authenticate(&self, parsed: &ParsedOperatorToken) -> Result<Caller, Failure> {
        let now = self.clock.now();
        let hash = parsed.token.hash();
        let Some(found) = self.repository.by_hash(hash).await? else {
            self.known.remove(hash);
            return Err(invalid());
        };
        if found.expires_at.is_some_and(|end| end <= now) {
            self.known.remove(hash);
            return Err(Failure::unauthorized(
                codes::OPERATOR_TOKEN_EXPIRED,
                "This operator token has expired",
            ));
        }
        self.known.insert(hash.to_owned(), found.id.as_str().into());
        self.repository.record_use(&found, now).await?;
        Ok(Caller {
            account: found.id.clone(),
            address: format!("operator token {}", found.name),
            admin: false,
            mail: MailCredential::app_password(
                found.id.clone(),
                String::new(),
                SecretString::default(),
            ),
            credential: Credential::Operator {
                id: found.id,
                scopes: found.scopes,
            },
            grant: None,
            shared: None,
        })
    }

    /// Creates a token. Returns `None` if a token with this name exists.
    ///
    /// # Errors
    /// Returns 400 if the name is invalid or there is no scope, or 500 for an internal error. On
    /// error, no token is created.
    pub async fn create(
        &self,
        name: &str,
        scopes: &[OperatorScope],
        lifetime: Option<Duration>,
        origin: &Origin,
    ) -> Result<Option<CreatedOperatorToken>, Failure> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            return Err(Failure::invalid(codes::INVALID_FIELD, INVALID_NAME));
        }
        let requested = |scope: &OperatorScope| scopes.contains(scope);
        let scopes: Vec<_> = OperatorScope::ALL.into_iter().filter(requested).collect();
        if scopes.is_empty() {
            let text = "At least one scope is required";
            return Err(Failure::invalid(codes::SCOPE_REQUIRED, text));
        }
        let now = self.clock.now();
        let secret = Prefixed::generate(OPERATOR_TOKEN_PREFIX)?;
        let text = secret.secret().expose_secret();
        let hint = text.get(text.len() - HINT..).unwrap_or_default();
        let new = NewOperatorToken {
            token: OperatorToken {
                id: secrets::id()?,
                name: name.to_owned(),
                scopes,
                hint: hint.to_owned(),
                created_at: now,
                expires_at: lifetime.map(|lifetime| now.plus(lifetime)),
                last_used_at: None,
            },
            secret_hash: secret.hash().to_owned(),
        };
        let created = self.repository.create(&new, origin).await?;
        Ok(created.then(|| CreatedOperatorToken {
            token: new.token,
            secret: secret.secret().clone(),
        }))
    }
}

fn invalid() -> Failure {
    Failure::unauthorized(codes::INVALID_OPERATOR_TOKEN, "Invalid operator token")
}
