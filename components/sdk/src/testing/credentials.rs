//! API tokens and app passwords in memory.

use super::host::{FakeHost, Need};
use crate::capability::{
    CreatedAppPassword, CreatedToken, Credential, CredentialKind, Credentials, Error, Revocation,
    Scope, Timestamp, Token, TokenReference,
};
use crate::scope;

/// A day in milliseconds.
const DAY: Timestamp = 24 * 60 * 60 * 1000;

/// Maximum number of app passwords of an account.
const MOST_APP_PASSWORDS: usize = 100;

/// Credentials of an account, oldest first.
#[derive(Debug, Default)]
pub(super) struct CredentialList {
    tokens: Vec<Token>,
    app_passwords: Vec<Credential>,
    last_id: u64,
}

impl CredentialList {
    fn id(&mut self) -> String {
        self.last_id += 1;
        format!("credential-{}", self.last_id)
    }
}

fn check_label(label: &str) -> Result<(), Error> {
    if label.is_empty() || label.chars().count() > 64 {
        return Err(Error::Invalid("label must be 1 to 64 characters".into()));
    }
    Ok(())
}

impl FakeHost {
    /// Adds a credential of the signed-in account, for example its web session. Initially an account has none.
    ///
    /// # Panics
    /// Panics if no account is signed in.
    #[track_caller]
    pub fn put_credential(&self, credential: Credential) {
        self.with_account(|account| account.credentials.app_passwords.push(credential));
    }
}

/// The secrets are placeholders and authenticate nothing. Web sessions are only listed if [`FakeHost::put_credential`] added them.
impl Credentials for FakeHost {
    fn create_token(
        &self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        at_most: u32,
    ) -> Result<CreatedToken, Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            check_label(label)?;
            if scopes.is_empty() {
                return Err(Error::Invalid("scopes must not be empty".into()));
            }
            if days.is_some_and(|days| !(1..=365).contains(&days)) {
                return Err(Error::Invalid("days must be from 1 to 365".into()));
            }
            let held = &mut account.credentials;
            if held.tokens.len() >= at_most as usize {
                return Err(Error::Conflict(
                    "The account has reached its limit of API tokens".into(),
                ));
            }
            let id = held.id();
            let canonical = scope::ALL.map(|(scope, _)| scope);
            let token = Token {
                label: label.into(),
                scopes: canonical
                    .into_iter()
                    .filter(|one| scopes.contains(one))
                    .collect(),
                hint: "0000".into(),
                created_at: now,
                last_used_at: None,
                expires_at: days.map(|days| now + DAY * Timestamp::from(days)),
                id: id.clone(),
            };
            held.tokens.push(token.clone());
            Ok(CreatedToken {
                token,
                secret: format!("secret-of-{id}"),
            })
        })
    }

    fn list_tokens(&self) -> Result<Vec<Token>, Error> {
        self.allow(Need::Session, |account| {
            Ok(account.credentials.tokens.iter().rev().cloned().collect())
        })
    }

    fn revoke_token(&self, id: &str) -> Result<(), Error> {
        self.allow(Need::Session, |account| {
            let tokens = &mut account.credentials.tokens;
            let known = tokens.iter().any(|token| token.id == id);
            tokens.retain(|token| token.id != id);
            if known { Ok(()) } else { Err(Error::NotFound) }
        })
    }

    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            check_label(label)?;
            let held = &mut account.credentials;
            if held.app_passwords.len() >= MOST_APP_PASSWORDS {
                return Err(Error::Conflict(format!(
                    "You already have {MOST_APP_PASSWORDS} app passwords; revoke one before creating another"
                )));
            }
            let id = held.id();
            held.app_passwords.push(Credential {
                id: id.clone(),
                label: label.into(),
                kind: CredentialKind::AppPassword,
                created_at: now,
                last_used_at: None,
                expires_at: None,
                current: false,
            });
            Ok(CreatedAppPassword {
                username: account.address.clone(),
                secret: format!("secret-of-{id}"),
                id,
            })
        })
    }

    fn list_credentials(&self) -> Result<Vec<Credential>, Error> {
        self.allow(Need::Session, |account| {
            let held = &account.credentials;
            let tokens = held.tokens.iter().map(|token| Credential {
                id: backing(&token.id),
                label: token.label.clone(),
                kind: CredentialKind::ApiToken(reference(token)),
                created_at: token.created_at,
                last_used_at: token.last_used_at,
                expires_at: token.expires_at,
                current: false,
            });
            let mut all: Vec<Credential> =
                tokens.chain(held.app_passwords.iter().cloned()).collect();
            all.sort_by_key(|one| std::cmp::Reverse(one.created_at));
            Ok(all)
        })
    }

    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error> {
        self.allow(Need::Session, |account| {
            let held = &mut account.credentials;
            if let Some(token) = held.tokens.iter().find(|token| backing(&token.id) == id) {
                return Ok(Revocation::BacksToken(reference(token)));
            }
            let known = held.app_passwords.iter().any(|one| one.id == id);
            held.app_passwords.retain(|one| one.id != id);
            if known {
                Ok(Revocation::Revoked)
            } else {
                Err(Error::NotFound)
            }
        })
    }
}

/// Returns the id of the app password that belongs to a token.
fn backing(token: &str) -> String {
    format!("app-password-of-{token}")
}

fn reference(token: &Token) -> TokenReference {
    TokenReference {
        id: token.id.clone(),
        label: token.label.clone(),
        scopes: token.scopes.clone(),
    }
}
