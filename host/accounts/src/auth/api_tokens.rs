//! Creates, authenticates and revokes personal API tokens. A token consists of `lmk_` and 43
//! letters and digits (256 random bits). The user sees the token only once.
//!
//! For each token, the directory stores a public selector, a hash of the complete token, and a
//! sealed app password. The sealing key is derived from the complete token. So an attacker with the
//! database and the service's key file cannot open a mailbox.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::{Caller, Credential, MailCredential, Origin, Scope};
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::policy::{ActingGrant, Preset};
use latchmail_core::sealing::{Purpose, SealingKey};
use latchmail_core::secrets::{self, AppPassword, Prefixed};
use latchmail_directory::Directory;
use latchmail_directory::credentials::{AppPasswordKind, CredentialCreation, NewAppPassword};
use latchmail_directory::tokens::{NewToken, Revocation, Token};
use quick_cache::sync::Cache;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::account::{Session, session_over};
use super::header::API_TOKEN_PREFIX;
use super::suspension::{current_policy, suspended};
use super::uses::Uses;
use crate::mail_server::MailServer;

/// Length of the selector, which follows the prefix. The directory finds a token by the selector.
/// The 29 characters between the selector and the hint are secret (172 bits).
const SELECTOR: usize = 10;
/// Length of the hint. The hint is the end of a token, with which users identify the token.
const HINT: usize = 4;

/// HKDF label for the derivation of the sealing key from a token.
const SEALING: &str = "latchmail v1 api token XChaCha20-Poly1305";

/// Hash with which the hash of an unknown token is compared. With this comparison, the check of an
/// unknown token takes the same time as the check of a known token.
const DUMMY_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const DAY: Duration = Duration::from_hours(24);

/// A string with the form of an API token. The characters between the
/// selector and the hint are secret.
#[derive(Clone, Debug)]
pub struct ApiToken(Prefixed);

/// A new token.
#[derive(Debug)]
pub struct CreatedToken {
    /// The token's entry in the list of tokens.
    pub token: Token,
    /// The token itself. The user sees the token only once.
    pub secret: SecretString,
}

/// Parameters of a new token.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// Label that the user chose.
    pub label: String,
    /// Scopes, in any order and possibly with duplicates.
    pub scopes: Vec<Scope>,
    /// Days until the token expires, or `None` if the token does not expire.
    pub days: Option<u32>,
    /// Maximum number of tokens of the account, including the new token.
    pub at_most: u32,
}

impl ApiToken {
    fn generate() -> Result<Self, Failure> {
        Prefixed::generate(API_TOKEN_PREFIX).map(Self)
    }

    /// Parses a credential that a client sent. Returns `None` if `text` does not have the form of
    /// an API token.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Prefixed::parse(API_TOKEN_PREFIX, text).map(Self)
    }

    fn text(&self) -> &str {
        self.0.secret().expose_secret()
    }

    fn selector(&self) -> &str {
        let from = API_TOKEN_PREFIX.len();
        self.text().get(from..from + SELECTOR).unwrap_or_default()
    }

    fn hint(&self) -> &str {
        let text = self.text();
        text.get(text.len() - HINT..).unwrap_or_default()
    }

    /// Returns the hash that the directory stores, as lower-case hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.0.hash()
    }

    fn key(&self) -> Result<SealingKey, Failure> {
        SealingKey::derive(self.text().as_bytes(), SEALING)
    }
}

/// The API tokens of all accounts.
#[derive(Debug)]
pub struct ApiTokens {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) tasks: DetachedTasks,
    pub(super) uses: Arc<Uses>,
    /// Ids of tokens, by the hash of the token. The id selects the rate-limit budget of a request.
    /// Each request also checks whether the token is valid.
    pub(super) known: Cache<String, Box<str>>,
    /// The policy of new tokens.
    pub(super) default_policy: Option<Preset>,
}

impl ApiTokens {
    /// Returns the caller to whom a token belongs. Known and unknown tokens take the same time, so
    /// the response time does not reveal existing selectors.
    ///
    /// # Errors
    /// Returns 401 if the token is unknown, revoked or expired, or if the token's app password
    /// cannot be decrypted. Returns 403 if the owner suspended the token. Returns 500 for an
    /// internal error.
    pub(super) async fn by_api_token(&self, token: &ApiToken) -> Result<Caller, Failure> {
        let now = self.clock.now();
        let found = self.directory.tokens.by_selector(token.selector()).await?;
        let expected = found
            .as_ref()
            .map_or(DUMMY_HASH, |found| &found.secret_hash);
        let same = bool::from(token.hash().as_bytes().ct_eq(expected.as_bytes()));
        let key = token.key()?;
        let Some(found) = found.filter(|_| same) else {
            return Err(Failure::unauthorized(
                codes::INVALID_API_TOKEN,
                "Invalid API token",
            ));
        };
        self.known
            .insert(token.hash().to_owned(), found.id.as_str().into());
        if found.revoked {
            return Err(Failure::unauthorized(
                codes::API_TOKEN_REVOKED,
                "This API token has been revoked",
            ));
        }
        if found.expires_at.is_some_and(|end| end <= now) {
            return Err(Failure::unauthorized(
                codes::API_TOKEN_EXPIRED,
                "This API token has expired",
            ));
        }
        if found.suspended {
            return Err(suspended());
        }
        let policy = current_policy(found.policy.as_deref(), now)?;
        let opened = found.app_password.and_then(|(id, sealed)| {
            let password = key.open(Purpose::ApiToken, &found.id, &sealed)?;
            Some((id, password))
        });
        let Some((id, password)) = opened else {
            return Err(Failure::unauthorized(
                codes::API_TOKEN_UNUSABLE,
                "This API token's mail credential is no longer usable, please create a new token",
            ));
        };
        Ok(Caller {
            account: found.account_id,
            grant: Some(Arc::new(ActingGrant {
                id: found.id.clone(),
                app_password_id: id.clone(),
                policy,
            })),
            mail: MailCredential::app_password(id, found.address.clone(), password),
            address: found.address,
            admin: found.admin,
            credential: Credential::ApiToken {
                id: found.id,
                scopes: found.scopes,
            },
            shared: None,
        })
    }

    /// Creates a token for the session's account. Returns `None` if the account has the maximum
    /// number of tokens.
    ///
    /// # Errors
    /// Returns 401 if the session ended concurrently, or 500 for an internal error. On error, no
    /// token is created.
    pub async fn create_token(
        &self,
        session: Session<'_>,
        request: TokenRequest,
        origin: &Origin,
    ) -> Result<Option<CreatedToken>, Failure> {
        let now = self.clock.now();
        let secret = ApiToken::generate()?;
        let id = secrets::id()?;
        let password = AppPassword::generate()?;
        let expires_at = request.days.map(|days| now.plus(DAY.saturating_mul(days)));
        let requested = |scope: &Scope| request.scopes.contains(scope);
        let token = NewToken {
            account_id: session.account.to_owned(),
            scopes: Scope::ALL.into_iter().filter(requested).collect(),
            selector: secret.selector().to_owned(),
            secret_hash: secret.hash().to_owned(),
            hint: secret.hint().to_owned(),
            app_password: NewAppPassword {
                policy: self.default_policy.map(|preset| preset.policy().to_json()),
                ..NewAppPassword::of(&password, AppPasswordKind::ApiToken, request.label.clone())?
            },
            sealed_password: secret
                .key()?
                .seal(Purpose::ApiToken, &id, password.secret())?,
            id,
            label: request.label,
            created_at: now,
            expires_at,
        };
        let created = self
            .directory
            .tokens
            .create(session.sid, &token, request.at_most, origin);
        match created.await? {
            CredentialCreation::Created => {}
            CredentialCreation::Full => return Ok(None),
            CredentialCreation::SessionOver => return Err(session_over()),
        }
        Ok(Some(CreatedToken {
            token: Token {
                id: token.id,
                label: token.label,
                scopes: token.scopes,
                hint: token.hint,
                created_at: now,
                expires_at,
                last_used_at: None,
                app_password_id: Some(token.app_password.id),
            },
            secret: secret.0.secret().clone(),
        }))
    }

    /// Returns the tokens of an account, newest first. For the time of last use, also considers
    /// uses that are recorded only in memory.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn tokens(&self, account: &str) -> Result<Vec<Token>, Failure> {
        let mut tokens = self.directory.tokens.list(account).await?;
        for token in &mut tokens {
            let noted = token.app_password_id.as_deref();
            let noted = noted.and_then(|id| self.uses.latest(id));
            token.last_used_at = token.last_used_at.max(noted);
        }
        Ok(tokens)
    }

    /// Revokes a token of an account. Returns `true` if the token is revoked, even if the token was
    /// revoked before this call. Returns `false` if the account has no such token.
    ///
    /// # Errors
    /// Returns 500 for an internal error. On error, nothing is changed.
    pub async fn revoke_token(
        &self,
        account: &str,
        id: &str,
        origin: Origin,
    ) -> Result<bool, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let (account, id) = (account.to_owned(), id.to_owned());
        let now = self.clock.now();
        self.tasks
            .complete(async move {
                let revoked = directory.tokens.revoke(&account, &id, now, &origin).await?;
                match revoked {
                    Revocation::Revoked { app_password_id } => {
                        if let Some(id) = app_password_id {
                            mail_server.end_sessions(&[id]).await;
                        }
                        Ok(true)
                    }
                    Revocation::Already => Ok(true),
                    Revocation::Unknown => Ok(false),
                }
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_token_is_its_prefix_and_43_letters_and_digits() {
        let token = ApiToken::generate().unwrap();
        let text = token.text();
        assert!(ApiToken::parse(text).is_some(), "{text}");
        assert_eq!(text.len(), 47);
        assert!(text.ends_with(token.hint()) && token.hint().len() == 4);
        assert!(text[4..].starts_with(token.selector()) && token.selector().len() == 10);
        assert_ne!(text, ApiToken::generate().unwrap().text());
        assert!(!format!("{token:?}").contains(text));
    }

    #[test]
    fn every_letter_and_digit_comes_and_none_more_often_than_chance_would_have_it() {
        let mut counts: BTreeMap<char, u32> = BTreeMap::new();
        for _ in 0..2000 {
            let token = ApiToken::generate().unwrap();
            for symbol in token.text()[4..].chars() {
                *counts.entry(symbol).or_default() += 1;
            }
        }
        // There are 86,000 symbols, so 1387 of each are expected; the bounds are seven standard
        // deviations. A byte modulo 62 would give 1680 of eight of the symbols.
        assert_eq!(counts.len(), 62);
        for (symbol, count) in counts {
            assert!((1130..1650).contains(&count), "{symbol}: {count}");
        }
    }

    #[test]
    fn what_has_another_shape_is_no_token() {
        let good = format!("lmk_{}", "a".repeat(43));
        assert!(ApiToken::parse(&good).is_some());
        for bad in [
            String::new(),
            "lmk_".into(),
            good[..46].into(),
            format!("{good}a"),
            good.replace("lmk_", "LMK_"),
            good.replacen("aa", "a-", 1),
            good.replacen("aa", "ä", 1),
        ] {
            assert!(ApiToken::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn what_a_token_seals_no_other_token_opens() {
        let (one, other) = (ApiToken::generate().unwrap(), ApiToken::generate().unwrap());
        let secret = SecretString::from("app password");
        let sealed = one.key().unwrap();
        let sealed = sealed.seal(Purpose::ApiToken, "row", &secret).unwrap();
        let open = |token: &ApiToken, row: &str| {
            let opened = token.key().unwrap().open(Purpose::ApiToken, row, &sealed);
            opened.map(|secret| secret.expose_secret().to_owned())
        };
        assert_eq!(open(&one, "row").as_deref(), Some("app password"));
        assert_eq!(open(&one, "another row"), None);
        assert_eq!(open(&other, "row"), None);
    }
}
