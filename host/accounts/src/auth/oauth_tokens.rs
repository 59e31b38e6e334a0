//! The grants of the authorization server, and its codes, access tokens, refresh tokens and device codes. Each of them consists of a prefix that tells its type
//! and 43 letters and digits, 256 random bits. The database stores only their hashes.
//!
//! The app password of a grant is sealed with keys that are derived from the grant's tokens, and is sealed again whenever the tokens rotate. So the database
//! alone opens no mailbox, not even with the service's key. The protocol is in [`latchmail_oauth`].

use std::time::Duration;

use latchmail_core::caller::{Audience, Caller, Credential, MailCredential, Origin, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::sealing::{Purpose, SealingKey};
use latchmail_core::secrets::{self, AppPassword, Prefixed};
use latchmail_directory::credentials::{AppPasswordKind, NewAppPassword};
use latchmail_directory::oauth::{
    Approval, ApprovalOutcome, Exchange, NewGrant, NewToken, NewTokens, Rotation,
};
use latchmail_directory::two_factor::Person;
use secrecy::{ExposeSecret as _, SecretString};

use super::audience::Audiences;
use super::sessions::{ACCOUNT_CHANGED, CODE_USED};
use super::{Auth, BAD_ACCESS_TOKEN};

/// Lifetime of an access token.
pub const ACCESS_LIFETIME: Duration = Duration::from_hours(1);
/// Lifetime of a grant after its last refresh.
pub const REFRESH_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Label under which the sealing key is derived from a token.
const SEALING: &str = "latchmail v1 oauth token XChaCha20-Poly1305";

/// Type of a secret of the authorization server.
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
}

impl Use {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Code => "lmc_",
            Self::Access => "lma_",
            Self::Refresh => "lmr_",
            Self::Device => "lmd_",
            Self::Client => "lms_",
        }
    }
}

/// A secret that the authorization server issued, or a text with the form of one.
#[derive(Clone, Debug)]
pub struct Handed(Prefixed);

/// The tokens that a client receives for a grant.
#[derive(Debug)]
pub struct GrantTokens {
    /// Access token, valid for one hour.
    pub access: SecretString,
    /// Refresh token, valid once and for 30 days.
    pub refresh: SecretString,
    /// The scopes of the access token, separated by spaces.
    pub scope: String,
}

/// Parameters of a new grant.
#[derive(Clone, Copy, Debug)]
pub struct Granting<'a> {
    /// Id of the account.
    pub account: &'a str,
    /// The client's id.
    pub client_id: &'a str,
    /// The client's name.
    pub client_name: &'a str,
    /// The resource that the tokens are for.
    pub resource: &'a str,
    /// The scopes of the grant, separated by spaces.
    pub scope: &'a str,
}

/// A client's request to refresh a grant.
#[derive(Clone, Copy)]
pub struct Refreshing<'a> {
    /// The client's id.
    pub client_id: &'a str,
    /// The audience that the tokens must have, if the client requests one.
    pub audience: Option<Audience>,
    /// The scopes of the next access token, if the client requests scopes.
    pub scopes: Option<&'a [Scope]>,
    /// Counts the request towards the rate limit of the grant with this id, before anything changes.
    pub count: &'a (dyn Fn(&str) -> Result<(), Failure> + Sync),
}

/// The error for an invalid code or token: the grant has ended, belongs to another client, or was ended now because the code or token was reused.
#[derive(Debug)]
pub struct Over;

/// The error of a refresh.
#[derive(Debug)]
pub enum Unrefreshed {
    /// The refresh token is invalid, see [`Over`].
    Over,
    /// The client requested another audience than that of the grant. The token remains valid.
    Elsewhere,
    /// The client requested scopes that the grant does not have. The token remains valid.
    Wider,
}

impl Handed {
    /// Generates a secret.
    ///
    /// # Errors
    /// Returns 500 if the operating system provides no randomness.
    pub fn generate(what: Use) -> Result<Self, Failure> {
        Prefixed::generate(what.prefix()).map(Self)
    }

    /// Parses a presented secret. Returns `None` if it does not have the form of a secret of this type.
    #[must_use]
    pub fn parse(what: Use, presented: &str) -> Option<Self> {
        Prefixed::parse(what.prefix(), presented).map(Self)
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

impl Auth {
    /// Returns the caller that an access token of the embedded authorization server belongs to, with the token's audience.
    ///
    /// # Errors
    /// Returns 401 if the token is unknown or expired, if it is not for this service, or if its app password cannot be opened, and 500.
    pub(super) async fn by_oauth_token(&self, token: &Handed) -> Result<Caller, Failure> {
        let refused = || Failure::unauthorized(BAD_ACCESS_TOKEN);
        let found = self
            .directory
            .access_token(token.hash(), self.clock.now())
            .await?
            .ok_or_else(refused)?;
        let audience = self
            .audiences
            .of(&found.grant.resource)
            .ok_or_else(refused)?;
        let sealed = found.sealed_password.ok_or_else(refused)?;
        let grant = found.grant;
        let password = token.open(&grant.id, &sealed)?.ok_or_else(refused)?;
        Ok(Caller {
            account: grant.account_id,
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
                scopes: self.in_force(&grant.scope),
            },
            shared: None,
        })
    }

    /// Returns the scopes of a list that OAuth tokens can have now: the operator may have turned off sending since the list was stored.
    fn in_force(&self, list: &str) -> Vec<Scope> {
        let mut scopes = self.oauth_scopes();
        let granted = Scope::read_list(list);
        scopes.retain(|scope| granted.contains(scope));
        scopes
    }

    /// Returns all scopes that OAuth tokens can have.
    #[must_use]
    pub fn oauth_scopes(&self) -> Vec<Scope> {
        let opens = |scope: &Scope| scope.opens_to_oauth(self.agents_send);
        Scope::ALL.into_iter().filter(opens).collect()
    }

    /// Returns the URLs that name this service.
    #[must_use]
    pub fn audiences(&self) -> &Audiences {
        &self.audiences
    }

    /// Verifies the credentials of the account `address` and stores the authorization. On error nothing is stored.
    ///
    /// # Errors
    /// Returns the errors of [`Auth::sign_in`] except 503, because the mail server is not queried, and 404 if the device code is no longer valid.
    pub async fn agree(
        &self,
        address: &str,
        password: SecretString,
        code: Option<&SecretString>,
        agreement: Approval<'_>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let identified = self.identify(address, password, code, origin).await?;
        let person = Person {
            account_id: &identified.account.id,
            password_hash: &identified.account.password_hash,
            factor: &identified.factor,
            at: self.clock.now(),
        };
        let owner = identified.origin(origin, None);
        let reason = match self.directory.approve(person, agreement, &owner).await? {
            ApprovalOutcome::Approved => return Ok(()),
            ApprovalOutcome::NoDevice => {
                return Err(Failure::not_found("The code is no longer valid"));
            }
            ApprovalOutcome::CodeUsed => CODE_USED,
            ApprovalOutcome::AccountChanged => ACCOUNT_CHANGED,
        };
        Err(self.too_late(&identified.account, reason, origin).await?)
    }

    /// Exchanges a code for the first tokens of a grant. A second use of a code ends the grant.
    ///
    /// # Errors
    /// Returns [`Over`] if the code is no longer valid, and 500.
    pub async fn exchange_code(
        &self,
        code: &Handed,
        granting: Granting<'_>,
        origin: &Origin,
    ) -> Result<Result<GrantTokens, Over>, Failure> {
        let (grant, tokens) = self.grant(granting)?;
        let exchange = self
            .directory
            .exchange_code(code.hash(), &grant, origin)
            .await?;
        Ok(match exchange {
            Exchange::Granted { ended } => {
                self.mail.end(&ended).await;
                Ok(tokens)
            }
            Exchange::Gone => Err(Over),
            Exchange::Replayed { ended } => {
                tracing::warn!(
                    app_password_id = ended,
                    "authorization code reused, grant ended"
                );
                self.mail.end(&[ended]).await;
                Err(Over)
            }
        })
    }

    /// Exchanges a device code after the user has authorized the device.
    ///
    /// # Errors
    /// Returns [`Over`] if the code is no longer valid, and 500.
    pub async fn exchange_device(
        &self,
        device: &Handed,
        granting: Granting<'_>,
        origin: &Origin,
    ) -> Result<Result<GrantTokens, Over>, Failure> {
        let (grant, tokens) = self.grant(granting)?;
        let granted = self
            .directory
            .exchange_device(device.hash(), &grant, origin)
            .await?;
        let Some(ended) = granted else {
            return Ok(Err(Over));
        };
        self.mail.end(&ended).await;
        Ok(Ok(tokens))
    }

    /// Exchanges a refresh token for the next tokens of its grant. A second use of a refresh token ends the grant. If scopes are requested, the access token
    /// has only these. The next refresh token has the scopes of the grant (RFC 6749, section 6).
    ///
    /// # Errors
    /// Returns [`Unrefreshed`] if the token or the grant does not match the request, the error of `count`, and 500.
    pub async fn refresh_grant(
        &self,
        token: &Handed,
        request: Refreshing<'_>,
        origin: &Origin,
    ) -> Result<Result<GrantTokens, Unrefreshed>, Failure> {
        use Unrefreshed::{Elsewhere, Over, Wider};
        let Refreshing {
            client_id,
            audience,
            scopes,
            count,
        } = request;
        let now = self.clock.now();
        let found = self.directory.refresh_token(token.hash(), now).await?;
        let Some(found) = found.filter(|found| found.grant.client_id == client_id) else {
            return Ok(Err(Over));
        };
        count(&found.grant.id)?;
        let is_for = self.audiences.of(&found.grant.resource);
        if audience.is_some_and(|asked| Some(asked) != is_for) {
            return Ok(Err(Elsewhere));
        }
        let grant = found.grant;
        let granted = Scope::read_list(&grant.scope);
        if scopes.is_some_and(|scopes| scopes.iter().any(|scope| !granted.contains(scope))) {
            return Ok(Err(Wider));
        }
        let narrowed = scopes.map(Scope::list);
        let in_force = self.in_force(narrowed.as_deref().unwrap_or(&grant.scope));
        if scopes.is_some() && in_force.is_empty() {
            return Ok(Err(Wider));
        }
        let password = match &found.sealed_password {
            Some(sealed) => match token.open(&grant.id, sealed)? {
                Some(password) => password,
                None => return Ok(Err(Over)),
            },
            // Used before: what is put in its place is never kept.
            None => SecretString::default(),
        };
        let (mut next, tokens) = new_tokens(&grant.id, &password, &in_force, now)?;
        next.narrowed = narrowed;
        let origin = Origin {
            actor: grant.address.clone(),
            credential: Some(grant.app_password_id.clone()),
            ..origin.clone()
        };
        let rotation = self
            .directory
            .rotate_grant(token.hash(), &grant, &next, now, &origin)
            .await?;
        Ok(match rotation {
            Rotation::Rotated => Ok(tokens),
            Rotation::Unknown => Err(Over),
            Rotation::Reused => {
                tracing::warn!(
                    app_password_id = grant.app_password_id,
                    "refresh token of an OAuth grant reused, grant ended"
                );
                self.mail.end(&[grant.app_password_id]).await;
                Err(Over)
            }
        })
    }

    /// Generates a grant and its tokens. Stores nothing.
    fn grant(&self, granting: Granting<'_>) -> Result<(NewGrant, GrantTokens), Failure> {
        let now = self.clock.now();
        let id = secrets::id()?;
        let password = AppPassword::generate()?;
        let in_force = self.in_force(granting.scope);
        let (tokens, handed) = new_tokens(&id, password.secret(), &in_force, now)?;
        // The operator needs the id to distinguish clients with the same name.
        let label = match granting.client_name {
            "" => granting.client_id.to_owned(),
            name => format!("{name} ({})", granting.client_id),
        };
        let grant = NewGrant {
            account_id: granting.account.to_owned(),
            client_id: granting.client_id.to_owned(),
            resource: granting.resource.to_owned(),
            scope: granting.scope.to_owned(),
            app_password: NewAppPassword {
                id: secrets::id()?,
                kind: AppPasswordKind::OAuthGrant,
                label,
                selector: password.selector().to_owned(),
                secret_hash: password.hash(),
                expires_at: Some(tokens.refresh.expires_at),
            },
            tokens,
            at: now,
            id,
        };
        Ok((grant, handed))
    }
}

/// The tokens of a grant as they are stored and as they are issued, with the scopes of the access token.
fn new_tokens(
    grant: &str,
    password: &SecretString,
    scopes: &[Scope],
    now: Timestamp,
) -> Result<(NewTokens, GrantTokens), Failure> {
    let access = Handed::generate(Use::Access)?;
    let refresh = Handed::generate(Use::Refresh)?;
    let kept = NewTokens {
        access: access.seal(grant, password, now.plus(ACCESS_LIFETIME))?,
        refresh: refresh.seal(grant, password, now.plus(REFRESH_LIFETIME))?,
        narrowed: None,
    };
    let handed = GrantTokens {
        access: access.secret().clone(),
        refresh: refresh.secret().clone(),
        scope: Scope::list(scopes),
    };
    Ok((kept, handed))
}
