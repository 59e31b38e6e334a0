//! The interface `credentials`, for the API tokens, app passwords and sessions of the caller's
//! account.

use crate::api::problem;
use latchmail_accounts::auth::api_tokens::TokenRequest;
use latchmail_accounts::auth::grants::Grant;
use latchmail_accounts::auth::person;
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::credentials::{self as wit, Host};
use latchmail_bindings::latchmail::host::types::{Error, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_directory::credentials::{AppPasswordKind, Credential, Revocation};
use latchmail_directory::tokens::Token;
use latchmail_shape::{API_TOKEN, APP_PASSWORD, SESSION};
use secrecy::ExposeSecret as _;

use super::call::Call;
use super::convert::{self, account_error};
use super::host_call::host_call;
use super::session::SessionAccount;

/// The allowed lifetimes of a token, in days.
const TOKEN_DAYS: std::ops::RangeInclusive<u32> = 1..=365;

/// The maximum number of API tokens of an account. A module can choose only a lower maximum.
const MAX_TOKENS: u32 = 100;

impl Host for Call {
    async fn create_token(
        &mut self,
        label: String,
        scopes: Vec<Scope>,
        days: Option<u32>,
        at_most: u32,
    ) -> Result<wit::CreatedToken, HostError<Error>> {
        let _span = host_call("credentials.create-token");
        let account = self.require_session()?;
        check_label(&label)?;
        if scopes.is_empty() {
            return Err(problem::invalid(codes::SCOPE_REQUIRED, "scopes must not be empty").into());
        }
        if days.is_some_and(|days| !TOKEN_DAYS.contains(&days)) {
            return Err(
                problem::invalid(codes::INVALID_EXPIRY, "days must be from 1 to 365").into(),
            );
        }
        let request = TokenRequest {
            label,
            scopes: convert::scopes_from_wit(&scopes)?,
            days,
            at_most: at_most.min(MAX_TOKENS),
        };
        let tokens = &account.auth.api_tokens;
        let created = tokens.create_token(account.session(), request, &account.origin);
        let created = created.await.map_err(account_error)?.ok_or_else(|| {
            problem::conflict(
                codes::TOO_MANY_TOKENS,
                "The account has reached its limit of API tokens",
            )
        })?;
        Ok(wit::CreatedToken {
            token: token(created.token),
            secret: created.secret.expose_secret().to_owned(),
        })
    }

    async fn list_tokens(&mut self) -> Result<Vec<wit::Token>, HostError<Error>> {
        let _span = host_call("credentials.list-tokens");
        Ok(tokens(&self.require_session()?).await?)
    }

    async fn revoke_token(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("credentials.revoke-token");
        let account = self.require_session()?;
        let tokens = &account.auth.api_tokens;
        let revoked = tokens.revoke_token(&account.id, &id, account.origin.clone());
        let exists = revoked.await.map_err(account_error)?;
        Ok(exists.then_some(()).ok_or(Error::NotFound)?)
    }

    async fn create_app_password(
        &mut self,
        label: String,
    ) -> Result<wit::CreatedAppPassword, HostError<Error>> {
        let _span = host_call("credentials.create-app-password");
        let account = self.require_session()?;
        check_label(&label)?;
        let credentials = &account.auth.credentials;
        let created = credentials.create_app_password(account.session(), &label, &account.origin);
        let created = created.await.map_err(account_error)?.ok_or_else(|| {
            problem::conflict(
                codes::TOO_MANY_APP_PASSWORDS,
                "You already have 100 app passwords; revoke one before creating another",
            )
        })?;
        Ok(wit::CreatedAppPassword {
            id: created.id,
            username: account.address,
            secret: created.secret.expose_secret().to_owned(),
        })
    }

    async fn list_credentials(&mut self) -> Result<Vec<wit::Credential>, HostError<Error>> {
        let _span = host_call("credentials.list-credentials");
        let account = self.require_session()?;
        let credentials = account.auth.credentials.credentials(&account.id).await;
        let credential = |one: Credential| wit::Credential {
            current: one.id == account.mail.id,
            kind: kind(&one).into(),
            token: one.token.map(|(id, scopes)| wit::TokenReference {
                id,
                label: one.label.clone(),
                scopes: convert::scopes_to_wit(scopes),
            }),
            id: one.id,
            label: one.label,
            created_at: one.created_at.millis(),
            last_used_at: one.last_used_at.map(Timestamp::millis),
            expires_at: one.expires_at.map(Timestamp::millis),
        };
        let credentials = credentials.map_err(account_error)?;
        Ok(credentials.into_iter().map(credential).collect())
    }

    async fn revoke_app_password(
        &mut self,
        id: String,
    ) -> Result<wit::Revocation, HostError<Error>> {
        let _span = host_call("credentials.revoke-app-password");
        let account = self.require_session()?;
        let credentials = &account.auth.credentials;
        let revoked = credentials.revoke_app_password(&account.id, &id, account.origin.clone());
        match revoked.await.map_err(account_error)? {
            Revocation::Revoked(_) => Ok(wit::Revocation::Revoked),
            Revocation::BacksToken { id, label } => {
                let tokens = tokens(&account).await?;
                let token = tokens.into_iter().find(|token| token.id == id);
                Ok(wit::Revocation::BacksToken(wit::TokenReference {
                    id,
                    label,
                    scopes: token.map(|token| token.scopes).unwrap_or_default(),
                }))
            }
            Revocation::Unknown => Err(Error::NotFound.into()),
        }
    }

    async fn list_grants(&mut self) -> Result<Vec<wit::Grant>, HostError<Error>> {
        let _span = host_call("credentials.list-grants");
        let account = self.require_session()?;
        let grants = account.auth.grants.list(&account.id).await;
        let grants = grants.map_err(account_error)?;
        Ok(grants.into_iter().map(grant).collect())
    }

    async fn list_grant_policies(&mut self) -> Result<Vec<wit::GrantPolicy>, HostError<Error>> {
        let _span = host_call("credentials.list-grant-policies");
        let account = self.require_session()?;
        let grants = account.auth.grants.list(&account.id).await;
        let policies = grants.map_err(account_error)?.into_iter();
        let policies = policies.filter_map(|grant| {
            Some(wit::GrantPolicy {
                policy: grant.policy?.to_json(),
                grant: grant.id,
            })
        });
        Ok(policies.collect())
    }

    async fn end_grant(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("credentials.end-grant");
        let account = self.require_session()?;
        let grants = &account.auth.grants;
        let ended = grants.end(&account.id, &id, account.origin.clone()).await;
        let exists = ended.map_err(account_error)?;
        Ok(exists.then_some(()).ok_or(Error::NotFound)?)
    }

    async fn suspend_grant(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("credentials.suspend-grant");
        let account = self.require_session()?;
        Ok(set_suspended(&account, &id, true).await?)
    }

    async fn resume_grant(&mut self, id: String) -> Result<(), HostError<Error>> {
        let _span = host_call("credentials.resume-grant");
        let account = self.require_session()?;
        Ok(set_suspended(&account, &id, false).await?)
    }
}

async fn set_suspended(account: &SessionAccount, id: &str, suspended: bool) -> Result<(), Error> {
    let origin = account.origin.clone();
    let grants = &account.auth.grants;
    let changed = grants.set_suspended(account.session(), id, suspended, origin);
    let exists = changed.await.map_err(account_error)?;
    exists.then_some(()).ok_or(Error::NotFound)
}

fn grant(grant: Grant) -> wit::Grant {
    let kind = if grant.client_id.is_some() {
        "oauth"
    } else {
        "token"
    };
    wit::Grant {
        id: grant.id,
        kind: kind.into(),
        name: grant.name,
        client_id: grant.client_id,
        scopes: convert::scopes_to_wit(grant.scopes),
        created_at: grant.created_at.millis(),
        last_used_at: grant.last_used_at.map(Timestamp::millis),
        expires_at: grant.expires_at.map(Timestamp::millis),
        suspended_at: grant.suspended_at.map(Timestamp::millis),
    }
}

async fn tokens(account: &SessionAccount) -> Result<Vec<wit::Token>, Error> {
    let tokens = account.auth.api_tokens.tokens(&account.id).await;
    let tokens = tokens.map_err(account_error)?;
    Ok(tokens.into_iter().map(token).collect())
}

/// Checks the label of a credential. The host does not rely on a check by the module.
fn check_label(label: &str) -> Result<(), Error> {
    person::label(label).map_err(account_error)
}

fn token(token: Token) -> wit::Token {
    wit::Token {
        id: token.id,
        label: token.label,
        scopes: convert::scopes_to_wit(token.scopes),
        hint: token.hint,
        created_at: token.created_at.millis(),
        last_used_at: token.last_used_at.map(Timestamp::millis),
        expires_at: token.expires_at.map(Timestamp::millis),
    }
}

fn kind(credential: &Credential) -> &'static str {
    match credential.kind {
        _ if credential.token.is_some() => API_TOKEN,
        AppPasswordKind::WebSession => SESSION,
        _ => APP_PASSWORD,
    }
}
