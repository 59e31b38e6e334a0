//! Sign-in of persons at the identity provider. This module finds the accounts of these persons,
//! and starts and ends their web sessions.
//!
//! The crate `latchmail-oidc` verifies the provider's tokens. The crate `latchmail-oauth` redirects
//! clients and issues codes.

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::address;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::detached_tasks::DetachedTasks;
use latchmail_core::error::Failure;
use latchmail_core::keyring::Keyring;
use latchmail_core::metrics;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_directory::accounts::Account;
use latchmail_directory::events::{Event, Kind};
use latchmail_directory::oauth::Approval;
use latchmail_directory::sessions::ProviderSession;
use latchmail_directory::single_sign_on::{
    Linked, NewIdentity, NewSignInCode, ProviderLogout, SignInCode,
};
use latchmail_directory::two_factor::{Factor, SignIn};
use latchmail_oidc::{Logout, Person, Provider};
use secrecy::SecretString;

use super::mail_server_sign_in::MailServerAccounts;
use super::oauth_tokens::{IssuedToken, OAuthTokens, Use};
use super::sessions::{Sessions, SignedIn};
use super::verifier::Identified;
use crate::mail_server::MailServer;
use crate::mail_server_users::LookupError;

/// Lifetime of a sign-in code.
const CODE_LIFETIME: Duration = Duration::from_mins(1);

const INVALID_CODE: &str = "The code is invalid, has expired or was already used";

/// A person who signed in at the identity provider and has an account.
#[derive(Debug)]
pub struct Owner {
    pub(super) account: Account,
    pub(super) identity_id: String,
    pub(super) sid: Option<String>,
    /// The refresh token that the provider issued for this sign-in.
    pub(super) refresh_token: Option<SecretString>,
}

/// The reason why a person cannot sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoMailbox {
    /// The provider returned no value of the claim that is configured to contain the address.
    MissingClaim,
    /// The provider does not report that the person's address is verified.
    Unverified(String),
    /// No account has this address, or the address is not on a domain whose users sign in at the
    /// provider.
    NotFound(String),
    /// The account with this address is disabled.
    Disabled(String),
}

impl NoMailbox {
    /// Returns the address from the provider's claim, or an empty text if the claim is missing.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::MissingClaim => "",
            Self::Unverified(address) | Self::NotFound(address) | Self::Disabled(address) => {
                address
            }
        }
    }

    const fn reason(&self) -> &'static str {
        match self {
            Self::MissingClaim => "the identity provider returned no mailbox",
            Self::Unverified(_) => "the identity provider has not verified the address",
            Self::NotFound(_) => "no mailbox for the person at the identity provider",
            Self::Disabled(_) => "the account is disabled",
        }
    }
}

/// The sign-in at the identity provider.
#[derive(Debug)]
pub struct SingleSignOn {
    pub(super) directory: Directory,
    pub(super) mail_server: Arc<dyn MailServer>,
    pub(super) clock: Clock,
    pub(super) keys: Arc<Keyring>,
    pub(super) tasks: DetachedTasks,
    /// The identity provider, or `None` if the configuration has no domain whose users sign in at a
    /// provider.
    pub(super) provider: Option<Provider>,
    pub(super) mail_server_accounts: Arc<MailServerAccounts>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) oauth_tokens: Arc<OAuthTokens>,
    /// The interval between two uses of the provider's refresh token of the same session.
    pub(super) recheck: Duration,
}

impl SingleSignOn {
    /// Returns the identity provider, or `None` if no user signs in at a provider.
    #[must_use]
    pub fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    /// Returns `true` if the user with this address signs in at the identity provider.
    #[must_use]
    pub fn is_at_provider(&self, address: &str) -> bool {
        self.mail_server_accounts
            .users
            .settings()
            .is_at_provider(address)
    }

    /// Returns the mailbox of a person who signed in at the provider. The first sign-in of a user
    /// of the mail server creates the account. If an earlier sign-in of the person led to another
    /// mailbox, ends the person's web sessions in that mailbox.
    ///
    /// # Errors
    /// Returns 503 if the mail server cannot look up the user, or 500 for an internal error.
    pub async fn owner(
        &self,
        person: Person,
        origin: &Origin,
    ) -> Result<Result<Owner, NoMailbox>, Failure> {
        let account = match self.account_of(&person, origin).await? {
            Ok(account) => account,
            Err(reason) => {
                self.reject_person(&person, &reason, origin).await?;
                return Ok(Err(reason));
            }
        };
        let issuer = self.provider.as_ref().map_or("", Provider::issuer);
        let identity = NewIdentity {
            id: &secrets::id()?,
            issuer,
            subject: &person.subject,
            account_id: &account.id,
            address: &account.address,
            at: self.clock.now(),
        };
        let Linked { identity_id, ended } = self
            .directory
            .single_sign_on
            .link_identity(identity, &Origin::service())
            .await?;
        if !ended.is_empty() {
            self.mail_server.end_sessions(&ended).await;
        }
        Ok(Ok(Owner {
            account,
            identity_id,
            sid: person.sid,
            refresh_token: person.refresh_token,
        }))
    }

    async fn account_of(
        &self,
        person: &Person,
        origin: &Origin,
    ) -> Result<Result<Account, NoMailbox>, Failure> {
        let Some(mailbox) = &person.mailbox else {
            return Ok(Err(NoMailbox::MissingClaim));
        };
        let claimed = mailbox.address.clone();
        if mailbox.is_verified != Some(true) {
            return Ok(Err(NoMailbox::Unverified(claimed)));
        }
        // The provider must not authenticate users of a domain with another source of passwords.
        let Some(address) = address::fold(&claimed).filter(|address| self.is_at_provider(address))
        else {
            return Ok(Err(NoMailbox::NotFound(claimed)));
        };
        if !self
            .mail_server_accounts
            .is_on_platform_domain(&address)
            .await?
        {
            return Ok(Err(NoMailbox::NotFound(claimed)));
        }
        let account = match self.directory.accounts.by_address(&address).await? {
            Some(account) => Some(account),
            None => self.account_of_mail_server_user(address, origin).await?,
        };
        Ok(match account {
            None => Err(NoMailbox::NotFound(claimed)),
            Some(account) if !account.active => Err(NoMailbox::Disabled(claimed)),
            Some(account) => Ok(account),
        })
    }

    /// Creates the account of a user of the mail server. Returns `None` if the mail server has no
    /// such user, or if the address is not available.
    async fn account_of_mail_server_user(
        &self,
        address: String,
        origin: &Origin,
    ) -> Result<Option<Account>, Failure> {
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        let unknown = format!("{}@{domain}", secrets::id()?.to_ascii_lowercase());
        let name = match self
            .mail_server_accounts
            .users
            .canonical_name(&address, &unknown)
            .await
        {
            Ok(Some(name)) => name,
            Ok(None) | Err(LookupError::NotConfigured) => return Ok(None),
            Err(error) => return Err(Failure::mail_unavailable().because(error)),
        };
        let account = self
            .mail_server_accounts
            .create_mail_server_account(address, origin)
            .await?;
        let Some(account) = account else {
            return Ok(None);
        };
        if name != account.address {
            let stored = self
                .directory
                .accounts
                .set_login_name(&account.id, Some(&name));
            stored.await?;
        }
        Ok(Some(account))
    }

    /// Records an audit event for a person who cannot sign in.
    async fn reject_person(
        &self,
        person: &Person,
        reason: &NoMailbox,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let address = address::fold(reason.address()).unwrap_or_default();
        let account = self.directory.accounts.by_address(&address).await?;
        // Do not assign the event to an account whose users sign in elsewhere, because the provider
        // must not cause events of such accounts.
        let account = account.filter(|account| self.is_at_provider(&account.address));
        let detail = format!("{}; subject {}", reason.reason(), person.subject);
        let failed = Event {
            account: account.as_ref().map(|account| account.id.as_str()),
            address: &address,
            ..Event::of(Kind::SignInFailed, "", self.clock.now()).detail(&detail)
        };
        metrics::SIGN_INS.increment(["refused"]);
        Ok(self.directory.events.record(failed, origin).await?)
    }

    /// Creates a code with which a client can begin a web session of the person. The client must
    /// also have the code verifier of `challenge` (RFC 7636).
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn create_sign_in_code(
        &self,
        owner: &Owner,
        challenge: &str,
    ) -> Result<IssuedToken, Failure> {
        let code = IssuedToken::generate(Use::SignIn)?;
        let token = owner.refresh_token.as_ref();
        let sealed = token.map(|token| self.keys.seal(Purpose::ProviderToken, code.hash(), token));
        let stored = NewSignInCode {
            hash: code.hash().to_owned(),
            expires_at: self.clock.now().plus(CODE_LIFETIME),
            content: SignInCode {
                account_id: owner.account.id.clone(),
                identity_id: owner.identity_id.clone(),
                provider_sid: owner.sid.clone(),
                challenge: challenge.to_owned(),
                sealed_provider_token: sealed.transpose()?,
            },
        };
        self.directory
            .single_sign_on
            .add_sign_in_code(&stored)
            .await?;
        Ok(code)
    }

    /// Exchanges a sign-in code for a web session. `verifies` returns `true` if the client's code
    /// verifier matches the given challenge. A wrong code verifier consumes the code.
    ///
    /// # Errors
    /// Returns 400 if the code or the code verifier is wrong. Returns 503 if the mail server is
    /// unavailable, and the code remains valid. Returns 500 for an internal error.
    pub async fn exchange_sign_in_code(
        &self,
        code: &IssuedToken,
        verifies: impl Fn(&str) -> bool,
        origin: &Origin,
    ) -> Result<SignedIn, Failure> {
        let invalid = || Failure::invalid(codes::INVALID_SIGN_IN_CODE, INVALID_CODE);
        let now = self.clock.now();
        let found = self
            .directory
            .single_sign_on
            .sign_in_code(code.hash(), now)
            .await?;
        let found = found.ok_or_else(invalid)?;
        if !verifies(&found.challenge) {
            self.directory
                .single_sign_on
                .delete_sign_in_code(code.hash())
                .await?;
            return Err(Failure::invalid(
                codes::INVALID_CODE_VERIFIER,
                "codeVerifier is wrong",
            ));
        }
        let pinged = self.mail_server.ping().await;
        pinged.map_err(|error| Failure::mail_unavailable().because(error))?;
        let account = self.directory.accounts.active(&found.account_id).await?;
        let account = account.ok_or_else(invalid)?;
        let (mut session, tokens) = self.sessions.new_session(&account.id, origin, now)?;
        session.expires_at = session
            .expires_at
            .min(now.plus(self.sessions.provider_max_age));
        let sealed = found.sealed_provider_token.as_deref();
        let token = sealed
            .and_then(|sealed| self.keys.open(Purpose::ProviderToken, code.hash(), sealed))
            .map(|token| self.keys.seal(Purpose::ProviderToken, &session.sid, &token));
        session.provider = Some(ProviderSession {
            identity_id: found.identity_id,
            sid: found.provider_sid,
            sealed_token: token.transpose()?,
        });
        let identified = Identified {
            account,
            factor: Factor::Provider {
                code: Some(code.hash().to_owned()),
            },
        };
        let actor = identified.origin(origin, Some(&session.app_password.id));
        let Identified { account, factor } = identified;
        let begun = self
            .directory
            .second_factors
            .sign_in(&session, &account.password_hash, &factor, &actor)
            .await?;
        match begun {
            SignIn::Begun => {
                metrics::SIGN_INS.increment(["success"]);
                Ok(SignedIn {
                    tokens,
                    address: account.address,
                    admin: account.admin,
                })
            }
            SignIn::CodeUsed | SignIn::AccountChanged => Err(invalid()),
        }
    }

    /// Stores the authorization of a client by a person who signed in at the provider. On error,
    /// the authorization is not stored.
    ///
    /// # Errors
    /// Returns 404 if the device code is expired or already used. Returns 401 if the account was
    /// changed concurrently. Returns 500 for an internal error.
    pub async fn agree_by_provider(
        &self,
        owner: Owner,
        agreement: Approval<'_>,
        origin: &Origin,
    ) -> Result<(), Failure> {
        let identified = Identified {
            account: owner.account,
            factor: Factor::Provider { code: None },
        };
        self.oauth_tokens
            .approve(&identified, agreement, origin)
            .await
    }

    /// Ends the web sessions that a logout token of the provider names. Returns `false` if the
    /// token was accepted before.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn sign_out_by_provider(
        &self,
        logout: Logout,
        origin: Origin,
    ) -> Result<bool, Failure> {
        let (directory, mail_server) = (self.directory.clone(), Arc::clone(&self.mail_server));
        let issuer = self.provider.as_ref().map_or("", Provider::issuer);
        let (issuer, at) = (issuer.to_owned(), self.clock.now());
        self.tasks
            .complete(async move {
                let request = ProviderLogout {
                    token_hash: &logout.token_hash,
                    expires_at: logout.expires_at,
                    issuer: &issuer,
                    subject: logout.subject.as_deref(),
                    sid: logout.sid.as_deref(),
                    at,
                };
                let ended = directory
                    .single_sign_on
                    .end_provider_sessions(request, &origin)
                    .await?;
                let Some(ended) = ended else {
                    return Ok(false);
                };
                if !ended.is_empty() {
                    mail_server.end_sessions(&ended).await;
                }
                Ok(true)
            })
            .await
    }
}
