//! `credentials`: the API tokens, app passwords and sessions of the caller's account.

use latchmail_accounts::auth::api_tokens::TokenRequest;
use latchmail_bindings::latchmail::host::credentials::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::{Error, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_directory::credentials::{AppPasswordKind, Credential, Revocation};
use latchmail_directory::tokens::Token;
use secrecy::ExposeSecret as _;

use super::convert::failed;
use super::{Call, Own, convert};

/// The allowed lifetime of a token, in days.
const DAYS: std::ops::RangeInclusive<u32> = 1..=365;

/// The maximum number of API tokens of an account, even if a module allows more.
const MOST: u32 = 100;

/// The maximum length of a label, in characters.
const LONGEST_LABEL: usize = 64;

impl Host for Call {
    async fn create_token(
        &mut self,
        label: String,
        scopes: Vec<Scope>,
        days: Option<u32>,
        at_most: u32,
    ) -> wasmtime::Result<Result<wit::CreatedToken, Error>> {
        let scopes = scopes.into_iter().map(convert::held).collect();
        let wanted = TokenRequest {
            label,
            scopes,
            days,
            at_most,
        };
        Ok(async move { self.own()?.new_token(wanted).await }.await)
    }

    async fn list_tokens(&mut self) -> wasmtime::Result<Result<Vec<wit::Token>, Error>> {
        Ok(async move { self.own()?.tokens().await }.await)
    }

    async fn revoke_token(&mut self, id: String) -> wasmtime::Result<Result<(), Error>> {
        Ok(async move { self.own()?.end_token(&id).await }.await)
    }

    async fn create_app_password(
        &mut self,
        label: String,
    ) -> wasmtime::Result<Result<wit::CreatedAppPassword, Error>> {
        Ok(async move { self.own()?.new_app_password(&label).await }.await)
    }

    async fn list_credentials(&mut self) -> wasmtime::Result<Result<Vec<wit::Credential>, Error>> {
        Ok(async move { self.own()?.credentials().await }.await)
    }

    async fn revoke_app_password(
        &mut self,
        id: String,
    ) -> wasmtime::Result<Result<wit::Revocation, Error>> {
        Ok(async move { self.own()?.end_app_password(&id).await }.await)
    }
}

impl Own {
    async fn new_token(&self, mut wanted: TokenRequest) -> Result<wit::CreatedToken, Error> {
        label(&wanted.label)?;
        wanted.at_most = wanted.at_most.min(MOST);
        if wanted.scopes.is_empty() {
            return Err(Error::Invalid("scopes must not be empty".into()));
        }
        if wanted.days.is_some_and(|days| !DAYS.contains(&days)) {
            return Err(Error::Invalid("days must be from 1 to 365".into()));
        }
        let made = self.auth.create_token(self.session(), wanted, &self.origin);
        let made = made.await.map_err(failed)?.ok_or_else(|| {
            Error::Conflict("The account has reached its limit of API tokens".into())
        })?;
        Ok(wit::CreatedToken {
            token: token(made.token),
            secret: made.secret.expose_secret().to_owned(),
        })
    }

    async fn tokens(&self) -> Result<Vec<wit::Token>, Error> {
        let tokens = self.auth.tokens(&self.account).await.map_err(failed)?;
        Ok(tokens.into_iter().map(token).collect())
    }

    async fn end_token(&self, id: &str) -> Result<(), Error> {
        let known = self
            .auth
            .revoke_token(&self.account, id, self.origin.clone());
        known
            .await
            .map_err(failed)?
            .then_some(())
            .ok_or(Error::NotFound)
    }

    async fn new_app_password(&self, label: &str) -> Result<wit::CreatedAppPassword, Error> {
        self::label(label)?;
        let made = self
            .auth
            .create_app_password(self.session(), label, &self.origin);
        let made = made.await.map_err(failed)?.ok_or_else(|| {
            Error::Conflict(
                "You already have 100 app passwords; revoke one before creating another".into(),
            )
        })?;
        Ok(wit::CreatedAppPassword {
            id: made.id,
            username: self.address.clone(),
            secret: made.secret.expose_secret().to_owned(),
        })
    }

    async fn credentials(&self) -> Result<Vec<wit::Credential>, Error> {
        let credentials = self.auth.credentials(&self.account).await.map_err(failed)?;
        let current = |id: &str| id == self.mail.id;
        let credential = |one: Credential| wit::Credential {
            current: current(&one.id),
            kind: kind(&one),
            id: one.id,
            label: one.label,
            created_at: one.created_at.millis(),
            last_used_at: one.last_used_at.map(Timestamp::millis),
            expires_at: one.expires_at.map(Timestamp::millis),
        };
        Ok(credentials.into_iter().map(credential).collect())
    }

    async fn end_app_password(&self, id: &str) -> Result<wit::Revocation, Error> {
        let revoked = self
            .auth
            .revoke_app_password(&self.account, id, self.origin.clone());
        match revoked.await.map_err(failed)? {
            Revocation::Revoked => Ok(wit::Revocation::Revoked),
            Revocation::BacksToken { id, label } => {
                Ok(wit::Revocation::BacksToken(wit::TokenReference {
                    id,
                    label,
                    scopes: Vec::new(),
                }))
            }
            Revocation::Unknown => Err(Error::NotFound),
        }
    }
}

/// Checks a label, even if the module did.
fn label(label: &str) -> Result<(), Error> {
    let characters = label.chars().count();
    if (1..=LONGEST_LABEL).contains(&characters) && !label.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(Error::Invalid(
            "label must be 1 to 64 characters on one line".into(),
        ))
    }
}

fn token(token: Token) -> wit::Token {
    wit::Token {
        id: token.id,
        label: token.label,
        scopes: token.scopes.into_iter().map(convert::scope).collect(),
        hint: token.hint,
        created_at: token.created_at.millis(),
        last_used_at: token.last_used_at.map(Timestamp::millis),
        expires_at: token.expires_at.map(Timestamp::millis),
    }
}

fn kind(credential: &Credential) -> wit::Kind {
    if let Some((id, scopes)) = &credential.token {
        return wit::Kind::ApiToken(wit::TokenReference {
            id: id.clone(),
            label: credential.label.clone(),
            scopes: scopes.iter().copied().map(convert::scope).collect(),
        });
    }
    match credential.kind {
        AppPasswordKind::WebSession => wit::Kind::WebSession,
        _ => wit::Kind::AppPassword,
    }
}
