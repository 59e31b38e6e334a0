//! The credentials of an account: API tokens and app passwords.

use crate::capability::{
    CreatedToken, Credential, CredentialKind, Error, Revocation, Scope, Timestamp, Token,
    TokenReference,
};
use crate::scope;

const DAY: Timestamp = 24 * 60 * 60 * 1000;

/// Maximum number of app passwords of an account.
const MAX_APP_PASSWORDS: usize = 100;

/// The credentials of an account, oldest first.
#[derive(Debug, Default)]
pub(crate) struct CredentialList {
    tokens: Vec<Token>,
    app_passwords: Vec<Credential>,
    last_id: u64,
}

impl CredentialList {
    /// Adds a credential without checks.
    pub(crate) fn put(&mut self, credential: Credential) {
        self.app_passwords.push(credential);
    }

    /// Creates a token. `limit` is the maximum number of tokens.
    pub(crate) fn create_token(
        &mut self,
        label: &str,
        scopes: &[Scope],
        days: Option<u32>,
        limit: u32,
        now: Timestamp,
    ) -> Result<CreatedToken, Error> {
        check_label(label)?;
        if scopes.is_empty() {
            return Err(Error::Invalid("scopes must not be empty".into()));
        }
        if days.is_some_and(|days| !(1..=365).contains(&days)) {
            return Err(Error::Invalid("days must be from 1 to 365".into()));
        }
        if self.tokens.len() >= limit as usize {
            return Err(Error::Conflict(
                "The account has reached its limit of API tokens".into(),
            ));
        }
        let id = self.next_id();
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
        self.tokens.push(token.clone());
        Ok(CreatedToken {
            token,
            secret: format!("secret-of-{id}"),
        })
    }

    /// Returns the tokens, newest first.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        self.tokens.iter().rev().cloned().collect()
    }

    pub(crate) fn revoke_token(&mut self, id: &str) -> Result<(), Error> {
        let found = self.tokens.iter().position(|token| token.id == id);
        self.tokens.remove(found.ok_or(Error::NotFound)?);
        Ok(())
    }

    /// Creates an app password and returns its id.
    pub(crate) fn create_app_password(
        &mut self,
        label: &str,
        now: Timestamp,
    ) -> Result<String, Error> {
        check_label(label)?;
        if self.app_passwords.len() >= MAX_APP_PASSWORDS {
            return Err(Error::Conflict(format!(
                "You already have {MAX_APP_PASSWORDS} app passwords; revoke one before creating another"
            )));
        }
        let id = self.next_id();
        self.app_passwords.push(Credential {
            id: id.clone(),
            label: label.into(),
            kind: CredentialKind::AppPassword,
            created_at: now,
            last_used_at: None,
            expires_at: None,
            current: false,
        });
        Ok(id)
    }

    /// Returns all credentials, newest first.
    pub(crate) fn all(&self) -> Vec<Credential> {
        let tokens = self.tokens.iter().map(|token| Credential {
            id: app_password_of(&token.id),
            label: token.label.clone(),
            kind: CredentialKind::ApiToken(reference(token)),
            created_at: token.created_at,
            last_used_at: token.last_used_at,
            expires_at: token.expires_at,
            current: false,
        });
        let mut all: Vec<Credential> = tokens.chain(self.app_passwords.iter().cloned()).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.created_at));
        all
    }

    pub(crate) fn revoke_app_password(&mut self, id: &str) -> Result<Revocation, Error> {
        let mut tokens = self.tokens.iter();
        if let Some(token) = tokens.find(|token| app_password_of(&token.id) == id) {
            return Ok(Revocation::BacksToken(reference(token)));
        }
        let found = self.app_passwords.iter().position(|one| one.id == id);
        self.app_passwords.remove(found.ok_or(Error::NotFound)?);
        Ok(Revocation::Revoked)
    }

    fn next_id(&mut self) -> String {
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

fn app_password_of(token: &str) -> String {
    format!("app-password-of-{token}")
}

fn reference(token: &Token) -> TokenReference {
    TokenReference {
        id: token.id.clone(),
        label: token.label.clone(),
        scopes: token.scopes.clone(),
    }
}
