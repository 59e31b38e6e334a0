//! Grants and secrets of the embedded authorization server. The secrets are codes, access tokens,
//! refresh tokens and device codes. Each secret consists of a prefix for its type, and 43 letters
//! and digits (256 random bits). The database stores only the hashes of the secrets.
//!
//! The app password of a grant is sealed with keys that are derived from the grant's tokens. Each
//! rotation of the tokens seals the app password with new keys. So an attacker with the database
//! and the service's key file cannot open a mailbox. The crate `latchmail-oauth` implements the
//! protocol.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::{Audience, Caller, Credential, MailCredential, Origin, Scope};
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::codes;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::limits::BoxFuture;
use latchmail_core::metrics;
use latchmail_core::policy::{ActingGrant, Preset};
use latchmail_core::sealing::{Purpose, SealingKey};
use latchmail_core::secrets::{self, AppPassword, Prefixed};
use latchmail_directory::Directory;
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::oauth::{
    Approval, ApprovalOutcome, Exchange, NewGrant, NewToken, NewTokens, Rotation,
};
use latchmail_directory::two_factor::Person;
use secrecy::{ExposeSecret as _, SecretString};

use super::access_token::BAD_ACCESS_TOKEN;
use super::audience::Audiences;
use super::reasons::{ACCOUNT_CHANGED, CODE_USED};
use super::suspension::{current_policy, suspended};
use super::verifier::{Identified, Verifier};
use crate::mail_server::MailServer;

/// Lifetime of an access token.
pub const ACCESS_LIFETIME: Duration = Duration::from_hours(1);
/// Lifetime of a grant after the last refresh of its tokens.
pub const REFRESH_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Marks a stored list of scopes without `aliases:write`. A list with `aliases:read` and without
/// this mark is from an earlier version, whose grants with `aliases:read` can create aliases.
const NO_ALIASES_WRITE: &str = "no-aliases:write";

/// HKDF label for the derivation of the sealing key from a token.
const SEALING: &str = "latchmail v1 oauth token XChaCha20-Poly1305";

/// Type of a secret that the authorization server issues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// An authorization code.
    Code,
    /// An access token.
    Access,
    /// A refresh token.
    Refresh,
    /// A device code.
    Device,
    /// The secret of a client that the operator created.
    Client,
    /// The code of a sign-in at the identity provider, for a web session.
    SignIn,
}

impl Use {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Code => "lmc_",
            Self::Access => "lma_",
            Self::Refresh => "lmr_",
            Self::Device => "lmd_",
            Self::Client => "lms_",
            Self::SignIn => "lmi_",
        }
    }
}

/// Returns the form in which the directory stores the scopes of an authorization, a grant or a
/// token.
#[must_use]
pub fn stored_scopes(scopes: &[Scope]) -> String {
    let list = Scope::list(scopes);
    if scopes.contains(&Scope::AliasesRead) && !scopes.contains(&Scope::AliasesWrite) {
        return format!("{list} {NO_ALIASES_WRITE}");
    }
    list
}

/// Parses a list of scopes from the directory.
#[must_use]
pub fn read_stored_scopes(list: &str) -> Vec<Scope> {
    let mut scopes = Scope::read_list(list);
    let is_marked = list.split(' ').any(|name| name == NO_ALIASES_WRITE);
    if !is_marked && scopes.contains(&Scope::AliasesRead) {
        scopes.push(Scope::AliasesWrite);
        scopes.sort_unstable();
        scopes.dedup();
    }
    scopes
}

/// A text with the form of a secret of the authorization server. The server did not necessarily
/// issue this text.
#[derive(Clone, Debug)]
pub struct IssuedToken(Prefixed);

/// The tokens that a client receives for a grant.
#[derive(Debug)]
pub struct GrantTokens {
    /// Access token, valid for one hour.
    pub access: SecretString,
    /// Refresh token. The client can use the refresh token once, within 30 days.
    pub refresh: SecretString,
    /// The scopes of the access token, separated by spaces.
    pub scope: String,
}

/// Parameters of a new grant.
#[derive(Clone, Copy, Debug)]
pub struct GrantRequest<'a> {
    /// Id of the account.
    pub account: &'a str,
    /// The client's id.
    pub client_id: &'a str,
    /// The client's name.
    pub client_name: &'a str,
    /// The URL of the resource for which the tokens are issued.
    pub resource: &'a str,
    /// The scopes of the grant, in the form of [`stored_scopes`].
    pub scope: &'a str,
}

/// A function that counts a request towards the rate limit of a grant, code or device. The argument
/// is the grant's id, or the hash of the authorization code or device code. The function is called
/// only if the grant, code or device exists, and is called before any change.
pub type Count<'a> = &'a (dyn Fn(&str) -> BoxFuture<'a, Result<(), Failure>> + Sync);

/// A client's request to refresh a grant.
#[derive(Clone, Copy)]
pub struct RefreshRequest<'a, 'c> {
    /// The client's id.
    pub client_id: &'a str,
    /// The requested audience, or `None` if the client requests no audience.
    pub audience: Option<Audience>,
    /// The requested scopes of the next access token, or `None` if the client requests no scopes.
    pub scopes: Option<&'a [Scope]>,
    /// A function that counts the request towards the rate limit of the grant with the given id.
    /// The function is called before any change.
    pub count: Count<'c>,
}

/// The error for an invalid code or token. For example, the grant of the code or token has ended or
/// belongs to another client. If a client used the code or token a second time, this second request
/// ended the grant.
#[derive(Debug)]
pub struct InvalidGrant;

/// The error of a refresh.
#[derive(Debug)]
pub enum RefreshError {
    /// The refresh token is invalid. See [`InvalidGrant`].
    InvalidGrant,
    /// The client requested an audience that differs from the grant's audience. The refresh token
    /// remains valid.
    WrongAudience,
    /// The client requested a scope that OAuth tokens can have but that the grant does not have, or
    /// requested none of the grant's current scopes. The refresh token remains valid.
    ExcessiveScope,
    /// The owner suspended the grant. The refresh token remains valid.
    Suspended,
}

impl IssuedToken {
    /// Generates a secret of this type.
    ///
    /// # Errors
    /// Returns 500 if the operating system provides no randomness.
    pub fn generate(what: Use) -> Result<Self, Failure> {
        Prefixed::generate(what.prefix()).map(Self)
    }

    /// Parses a secret that a client sent. Returns `None` if `text` does not have the form of a
    /// secret of this type.
    #[must_use]
    pub fn parse(what: Use, text: &str) -> Option<Self> {
        Prefixed::parse(what.prefix(), text).map(Self)
    }

    /// Returns the hash that the directory stores.
    #[must_use]
    pub fn hash(&self) -> &str {
        self.0.hash()
    }

    /// Returns the secret itself.
    #[must_use]
    pub fn secret(&self) -> &SecretString {
        self.0.secret()
    }

    fn key(&self) -> Result<SealingKey, Failure> {
        SealingKey::derive(self.secret().expose_secret().as_bytes(), SEALING)
    }

    fn seal(
        &self,
        grant: &str,
        password: &SecretString,
        expires_at: Timestamp,
    ) -> Result<NewToken, Failure> {
        Ok(NewToken {
            hash: self.hash().to_owned(),
            sealed_password: self.key()?.seal(Purpose::OAuthGrant, grant, password)?,
            expires_at,
        })
    }

    fn open(&self, grant: &str, sealed: &[u8]) -> Result<Option<SecretString>, Failure> {
        Ok(self.key()?.open(Purpose::OAuthGrant, grant, sealed))
    }
}

/// The grants and tokens of the embedded authorization server.
#[derive(Debug)]
pub struct OAuthTokens {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) verifier: Arc<Verifier>,
    pub(super) audiences: Audiences,
    /// Whether agents are allowed to send mail (`mcp.send_tool`).
    pub(super) agents_send: bool,
    /// The policy of new grants.
    pub(super) default_policy: Option<Preset>,
    pub(super) tasks: DetachedTasks,
}

impl OAuthTokens {
    /// Returns the caller to whom an access token of the embedded authorization server belongs.
    ///
    /// # Errors
    /// Returns 401 if the token is unknown or expired, or if its audience is not this service.
    /// Returns 401 if the token's app password cannot be decrypted. Returns 403 if the owner
    /// suspended the grant. Returns 500 for an internal error.
    pub(super) async fn by_oauth_token(&self, token: &IssuedToken) -> Result<Caller, Failure> {
        let refused = || Failure::unauthorized(codes::INVALID_ACCESS_TOKEN, BAD_ACCESS_TOKEN);
        let found = self
            .directory
            .oauth
            .access_token(token.hash(), self.clock.now())
            .await?
            .ok_or_else(refused)?;
        let audience = self
            .audiences
            .of(&found.grant.resource)
            .ok_or_else(refused)?;
        let sealed = found.sealed_password.ok_or_else(refused)?;
        let grant = found.grant;
        if grant.suspended {
            return Err(suspended());
        }
        let policy = current_policy(grant.policy.as_deref(), self.clock.now())?;
        let password = token.open(&grant.id, &sealed)?.ok_or_else(refused)?;
        Ok(Caller {
            account: grant.account_id,
            grant: Some(Arc::new(ActingGrant {
                id: grant.id.clone(),
                app_password_id: grant.app_password_id.clone(),
                policy,
            })),
            mail: MailCredential::app_password(
                grant.app_password_id,
                grant.address.clone(),
                password,
            ),
            address: grant.address,
            admin: grant.admin,
            credential: Credential::OAuth {
                id: grant.id,
                audience,
                scopes: self.effective_scopes(&grant.client_id, &grant.scope),
            },
            shared: None,
        })
    }

    /// Returns the scopes in `list` that the OAuth tokens of a client can currently have. The list
    /// is from the directory. `mail:send` is omitted if the operator has disabled `mail:send` since
    /// the grant.
    pub(super) fn effective_scopes(&self, client_id: &str, list: &str) -> Vec<Scope> {
        let mut scopes = self.client_scopes(client_id);
        let granted = read_stored_scopes(list);
        scopes.retain(|scope| granted.contains(scope));
        scopes
    }

    /// Returns all scopes that OAuth tokens can have.
    #[must_use]
    pub fn oauth_scopes(&self) -> Vec<Scope> {
        let opens = |scope: &Scope| scope.allowed_for_oauth(self.agents_send);
        Scope::ALL.into_iter().filter(opens).collect()
    }

    /// Returns the URLs that identify this service as an audience.
    #[must_use]
    pub fn audiences(&self) -> &Audiences {
        &self.audiences
    }

    /// Verifies the password and second factor of the account `address` and stores the
    /// authorization. On error, the authorization is not stored.
    ///
    /// # Errors
    /// Returns the errors of [`super::Sessions::sign_in`] under the same conditions. However, an
    /// unavailable mail server causes 503 only if the mail server verifies the password. Returns
    /// 404 if the device code is expired or already used.
    pub async fn agree(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        agreement: Approval<'_>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let permit = self.verifier.password_permit(address, origin).await?;
        let identified = self
            .verifier
            .identify(address, password, code, origin, permit)
            .await?;
        self.approve(&identified, agreement, origin).await
    }

    /// Stores the authorization that an identified user gives to a client or a device.
    pub(super) async fn approve(
        &self,
        identified: &Identified,
        agreement: Approval<'_>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let person = Person {
            account_id: &identified.account.id,
            password_hash: &identified.account.password_hash,
            factor: &identified.factor,
            at: self.clock.now(),
        };
        let owner = identified.origin(origin, None);
        let reason = match self
            .directory
            .oauth
            .approve(person, agreement, &owner)
            .await?
        {
            ApprovalOutcome::Approved => {
                metrics::SIGN_INS.increment(["success"]);
                return Ok(());
            }
            ApprovalOutcome::NoDevice => {
                return Err(Failure::not_found(
                    codes::DEVICE_CODE_EXPIRED,
                    "The code is no longer valid",
                ));
            }
            ApprovalOutcome::CodeUsed => CODE_USED,
            ApprovalOutcome::AccountChanged => ACCOUNT_CHANGED,
        };
        Err(self
            .verifier
            .reject_changed(&identified.account, reason, origin)
            .await?)
    }

    /// Exchanges an authorization code for the first tokens of a grant. A second use of the code
    /// ends the grant.
    ///
    /// # Errors
    /// Returns [`InvalidGrant`] if the code is invalid, expired or already used, or 500 for an
    /// internal error.
    pub async fn exchange_code(
        &self,
        code: &IssuedToken,
        request: GrantRequest<'_>,
        origin: &Origin,
    ) -> Result<Result<GrantTokens, InvalidGrant>, Failure> {
        let (grant, tokens) = self.grant(request)?;
        let exchange = self
            .directory
            .oauth
            .exchange_code(code.hash(), &grant, origin)
            .await?;
        Ok(match exchange {
            Exchange::Granted { ended } => {
                self.mail_server.end_sessions(&ended).await;
                Ok(tokens)
            }
            Exchange::Gone => Err(InvalidGrant),
            Exchange::Replayed { ended } => {
                tracing::warn!(
                    app_password_id = ended,
                    "authorization code reused, grant ended"
                );
                self.mail_server.end_sessions(&[ended]).await;
                Err(InvalidGrant)
            }
        })
    }

    /// Exchanges a device code for the first tokens of a grant, after the user has authorized the
    /// device.
    ///
    /// # Errors
    /// Returns [`InvalidGrant`] if the code is invalid, expired or already used, or 500 for an
    /// internal error.
    pub async fn exchange_device(
        &self,
        device: &IssuedToken,
        request: GrantRequest<'_>,
        origin: &Origin,
    ) -> Result<Result<GrantTokens, InvalidGrant>, Failure> {
        let (grant, tokens) = self.grant(request)?;
        let granted = self
            .directory
            .oauth
            .exchange_device(device.hash(), &grant, origin)
            .await?;
        let Some(ended) = granted else {
            return Ok(Err(InvalidGrant));
        };
        self.mail_server.end_sessions(&ended).await;
        Ok(Ok(tokens))
    }

    /// Exchanges a refresh token for new tokens of its grant. A second use of the refresh token
    /// ends the grant.
    ///
    /// If the client requests scopes, the new access token has only these scopes. The new refresh
    /// token has the scopes of the grant (RFC 6749, section 6).
    ///
    /// # Errors
    /// Returns [`RefreshError`] if the token or the grant does not match the request. Returns the
    /// error of `count` if `count` fails. Returns 500 for an internal error.
    pub async fn refresh_grant(
        &self,
        token: &IssuedToken,
        request: RefreshRequest<'_, '_>,
        origin: &Origin,
    ) -> Result<Result<GrantTokens, RefreshError>, Failure> {
        use RefreshError::{ExcessiveScope, InvalidGrant, Suspended, WrongAudience};
        let RefreshRequest {
            client_id,
            audience,
            scopes,
            count,
        } = request;
        let now = self.clock.now();
        let found = self
            .directory
            .oauth
            .refresh_token(token.hash(), now)
            .await?;
        let Some(found) = found.filter(|found| found.grant.client_id == client_id) else {
            return Ok(Err(InvalidGrant));
        };
        count(&found.grant.id).await?;
        let granted_audience = self.audiences.of(&found.grant.resource);
        if audience.is_some_and(|audience| Some(audience) != granted_audience) {
            return Ok(Err(WrongAudience));
        }
        let grant = found.grant;
        let granted = read_stored_scopes(&grant.scope);
        let grantable = self.client_scopes(&grant.client_id);
        let is_excessive = |scope| grantable.contains(scope) && !granted.contains(scope);
        if scopes.is_some_and(|scopes| scopes.iter().any(is_excessive)) {
            return Ok(Err(ExcessiveScope));
        }
        let narrowed = scopes.map(|scopes| {
            let granted = scopes.iter().filter(|scope| granted.contains(scope));
            stored_scopes(&granted.copied().collect::<Vec<_>>())
        });
        let effective_scopes = self.effective_scopes(
            &grant.client_id,
            narrowed.as_deref().unwrap_or(&grant.scope),
        );
        if scopes.is_some() && effective_scopes.is_empty() {
            return Ok(Err(ExcessiveScope));
        }
        let password = match &found.sealed_password {
            Some(sealed) => match token.open(&grant.id, sealed)? {
                Some(password) => password,
                None => return Ok(Err(InvalidGrant)),
            },
            // The refresh token was used before. The directory ends the grant and does not store
            // the new tokens.
            None => SecretString::default(),
        };
        let (mut next, tokens) = new_tokens(&grant.id, &password, &effective_scopes, now)?;
        next.narrowed = narrowed;
        let origin = Origin {
            actor: grant.address.clone(),
            credential: Some(grant.app_password_id.clone()),
            ..origin.clone()
        };
        let rotation = self
            .directory
            .oauth
            .rotate_grant(token.hash(), &grant, &next, now, &origin)
            .await?;
        Ok(match rotation {
            Rotation::Rotated => Ok(tokens),
            Rotation::Unknown => Err(InvalidGrant),
            Rotation::Suspended => Err(Suspended),
            Rotation::Reused => {
                tracing::warn!(
                    app_password_id = grant.app_password_id,
                    "refresh token of an OAuth grant was reused; the grant was ended"
                );
                self.mail_server
                    .end_sessions(&[grant.app_password_id])
                    .await;
                Err(InvalidGrant)
            }
        })
    }

    /// Generates a grant and its tokens. Stores nothing.
    fn grant(&self, request: GrantRequest<'_>) -> Result<(NewGrant, GrantTokens), Failure> {
        let now = self.clock.now();
        let id = secrets::id()?;
        let password = AppPassword::generate()?;
        let effective_scopes = self.effective_scopes(request.client_id, request.scope);
        let (tokens, issued) = new_tokens(&id, password.secret(), &effective_scopes, now)?;
        // Several clients can have the same name, so the label also contains the client's id.
        let label = match request.client_name {
            "" => request.client_id.to_owned(),
            name => format!("{name} ({})", request.client_id),
        };
        let grant = NewGrant {
            account_id: request.account.to_owned(),
            client_id: request.client_id.to_owned(),
            resource: request.resource.to_owned(),
            scope: request.scope.to_owned(),
            app_password: NewAppPassword {
                policy: self.default_policy.map(|preset| preset.policy().to_json()),
                ..NewAppPassword::of(&password, AppPasswordKind::OAuthGrant, label)?
            },
            tokens,
            at: now,
            id,
        };
        Ok((grant, issued))
    }
}

/// Generates the tokens of a grant. Returns the values for the directory and the tokens for the
/// client.
fn new_tokens(
    grant: &str,
    password: &SecretString,
    scopes: &[Scope],
    now: Timestamp,
) -> Result<(NewTokens, GrantTokens), Failure> {
    let access = IssuedToken::generate(Use::Access)?;
    let refresh = IssuedToken::generate(Use::Refresh)?;
    let stored = NewTokens {
        access: access.seal(grant, password, now.plus(ACCESS_LIFETIME))?,
        refresh: refresh.seal(grant, password, now.plus(REFRESH_LIFETIME))?,
        narrowed: None,
    };
    let issued = GrantTokens {
        access: access.secret().clone(),
        refresh: refresh.secret().clone(),
        scope: Scope::list(scopes),
    };
    Ok((stored, issued))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_list_of_an_earlier_version_can_create_aliases() {
        let reading = vec![Scope::MailRead, Scope::MailWrite, Scope::AliasesRead];
        let writing = [&reading[..], &[Scope::AliasesWrite]].concat();
        assert_eq!(
            read_stored_scopes("mail:read mail:write aliases:read"),
            writing
        );
        assert_eq!(read_stored_scopes("mail:read"), [Scope::MailRead]);
        for scopes in [reading, writing, vec![Scope::AliasesWrite], Vec::new()] {
            assert_eq!(read_stored_scopes(&stored_scopes(&scopes)), scopes);
        }
    }
}
