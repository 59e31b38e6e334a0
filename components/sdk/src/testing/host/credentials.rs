//! API tokens and app passwords of the fake host.

use super::{FakeHost, Need, grants};
use crate::capability::{
    AccountGrant, CreatedAppPassword, CreatedToken, Credential, Credentials, Error, GrantPolicy,
    Kind, Revocation, Scope, Timestamp, Token, TokenReference,
};
use crate::scope;
use latchmail_shape::codes;

const DAY: Timestamp = 24 * 60 * 60 * 1000;

/// Maximum number of app passwords of an account.
const MAX_APP_PASSWORDS: usize = 100;

impl FakeHost {
    /// Adds a credential of the signed-in account, for example an app password that was used. A new
    /// account has only the web session with which it was created.
    #[track_caller]
    pub fn put_credential(&self, credential: Credential) {
        self.with_account(|account| account.credentials.push(credential));
    }
}

/// Returns a credential that was just created.
pub(super) fn credential(id: &str, label: &str, kind: Kind, now: Timestamp) -> Credential {
    Credential {
        id: id.into(),
        label: label.into(),
        current: kind == Kind::Session,
        kind: kind.name().into(),
        token: None,
        created_at: now,
        last_used_at: None,
        expires_at: None,
    }
}

/// Secrets are placeholders and not usable for authentication.
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
                return Err(Error::invalid(
                    codes::SCOPE_REQUIRED,
                    "scopes must not be empty",
                ));
            }
            if days.is_some_and(|days| !(1..=365).contains(&days)) {
                return Err(Error::invalid(
                    codes::INVALID_EXPIRY,
                    "days must be from 1 to 365",
                ));
            }
            if account.tokens.len() >= at_most as usize {
                let text = "The account has reached its limit of API tokens";
                return Err(Error::conflict(codes::TOO_MANY_TOKENS, text));
            }
            let id = format!("credential-{}", self.next_number("credential"));
            if let Some(Scope::Other(name)) = scopes
                .iter()
                .find(|one| scope::named(scope::name(**one)).is_none())
            {
                let text = format!("There is no scope {name:?}");
                return Err(Error::invalid(codes::INVALID_FIELD, text));
            }
            let canonical = scope::ALL.iter().map(|(scope, _)| *scope);
            let scopes: Vec<Scope> = canonical.filter(|one| scopes.contains(one)).collect();
            let token = Token {
                label: label.into(),
                scopes: scope::names(&scopes),
                hint: "0000".into(),
                created_at: now,
                last_used_at: None,
                expires_at: days.map(|days| now + DAY * Timestamp::from(days)),
                id: id.clone(),
            };
            let app_password = format!("app-password-of-{id}");
            account.credentials.push(Credential {
                expires_at: token.expires_at,
                token: Some(TokenReference {
                    id: id.clone(),
                    label: label.into(),
                    scopes: token.scopes.clone(),
                }),
                ..credential(&app_password, label, Kind::ApiToken, now)
            });
            account.tokens.push(token.clone());
            let secret = format!("secret-of-{id}");
            Ok(CreatedToken { token, secret })
        })
    }

    fn list_tokens(&self) -> Result<Vec<Token>, Error> {
        self.allow(Need::Session, |account| {
            Ok(account.tokens.iter().rev().cloned().collect())
        })
    }

    fn revoke_token(&self, id: &str) -> Result<(), Error> {
        self.allow(Need::Session, |account| {
            let revoked = account.revoked_tokens.iter().any(|one| one == id);
            let found = account.tokens.iter().position(|token| token.id == id);
            match found {
                Some(index) => drop(account.tokens.remove(index)),
                None if revoked => return Ok(()),
                None => return Err(Error::NotFound),
            }
            account.suspended_tokens.remove(id);
            account.revoked_tokens.push(id.into());
            let backs = |one: &Credential| one.token.as_ref().is_some_and(|token| token.id == id);
            account.credentials.retain(|one| !backs(one));
            Ok(())
        })
    }

    fn create_app_password(&self, label: &str) -> Result<CreatedAppPassword, Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            check_label(label)?;
            let kind = |one: &&Credential| Kind::of(&one.kind) == Kind::AppPassword;
            if account.credentials.iter().filter(kind).count() >= MAX_APP_PASSWORDS {
                return Err(Error::conflict(codes::TOO_MANY_APP_PASSWORDS, format!(
                    "You already have {MAX_APP_PASSWORDS} app passwords; revoke one before creating another"
                )));
            }
            let id = format!("credential-{}", self.next_number("credential"));
            let created = credential(&id, label, Kind::AppPassword, now);
            account.credentials.push(created);
            Ok(CreatedAppPassword {
                username: account.address.clone(),
                secret: format!("secret-of-{id}"),
                id,
            })
        })
    }

    fn list_credentials(&self) -> Result<Vec<Credential>, Error> {
        self.allow(Need::Session, |account| {
            Ok(account.credentials.iter().rev().cloned().collect())
        })
    }

    fn revoke_app_password(&self, id: &str) -> Result<Revocation, Error> {
        self.allow(Need::Session, |account| {
            let found = account.credentials.iter().position(|one| one.id == id);
            let found = found.ok_or(Error::NotFound)?;
            if let Some(token) = &account.credentials[found].token {
                return Ok(Revocation::BacksToken(token.clone()));
            }
            account.credentials.remove(found);
            Ok(Revocation::Revoked)
        })
    }

    fn list_grants(&self) -> Result<Vec<AccountGrant>, Error> {
        self.allow(Need::Session, |account| Ok(grants::list(account)))
    }

    fn list_grant_policies(&self) -> Result<Vec<GrantPolicy>, Error> {
        self.allow(Need::Session, |account| Ok(account.grant_policies.clone()))
    }

    fn end_grant(&self, id: &str) -> Result<(), Error> {
        let is_token = self.allow(Need::Session, |account| {
            let is_token = account.tokens.iter().any(|token| token.id == id);
            if is_token || grants::end(account, id) {
                Ok(is_token)
            } else {
                Err(Error::NotFound)
            }
        })?;
        if is_token {
            self.revoke_token(id)?;
        }
        Ok(())
    }

    fn suspend_grant(&self, id: &str) -> Result<(), Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            grants::suspend(account, id, Some(now))
        })
    }

    fn resume_grant(&self, id: &str) -> Result<(), Error> {
        self.allow(Need::Session, |account| grants::suspend(account, id, None))
    }
}

fn check_label(label: &str) -> Result<(), Error> {
    if label.is_empty() || label.chars().count() > 64 {
        return Err(Error::invalid(
            codes::INVALID_LABEL,
            "label must be 1 to 64 characters",
        ));
    }
    Ok(())
}
