//! Creates accounts, for users who register through the API and for the operator.

use std::sync::Arc;

use latchmail_core::address;
use latchmail_core::caller::Origin;
use latchmail_core::clock::Clock;
use latchmail_core::codes;
use latchmail_core::config::{self, PasswordSource};
use latchmail_core::error::Failure;
use latchmail_core::secrets;
use latchmail_directory::Directory;
use latchmail_directory::accounts::{Creation, DEFAULT_PLAN, NewAccount, NewProfile};
use secrecy::{ExposeSecret, SecretString};

use super::sessions::{Sessions, SignedIn};
use super::verifier::Verifier;
use super::{passwords, person};

const CLOSED: &str = "Registration is currently disabled";
const TAKEN: &str = "This email address is already taken";

/// The input of a registration.
#[derive(Debug)]
pub struct Form {
    /// Requested user name.
    pub local_part: String,
    /// Domain of the address. The domain must be a registration domain.
    pub domain: String,
    /// Password.
    pub password: SecretString,
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Date of birth, `YYYY-MM-DD`.
    pub dob: String,
}

/// The result of a registration.
#[derive(Debug)]
pub struct Registered {
    /// The first session of the new account.
    pub signed_in: SignedIn,
    /// First name as stored.
    pub first_name: String,
    /// Last name as stored.
    pub last_name: String,
}

/// Whether a user name is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// The user name is available.
    Available {
        /// The account's address, on the first registration domain.
        address: String,
    },
    /// The user name is not available.
    Unavailable {
        /// The error text that a registration would return.
        reason: &'static str,
    },
}

/// Result of an account creation by the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provision {
    /// The account was created.
    Created,
    /// The account already exists with this password.
    Exists,
    /// The account already exists with another password or is not active. Nothing was changed.
    Differs,
    /// The address is reserved, or is the address of an alias or of another account.
    AddressTaken,
}

/// Creates accounts.
#[derive(Debug)]
pub struct Registration {
    pub(super) directory: Directory,
    pub(super) clock: Clock,
    pub(super) settings: config::Registration,
    pub(super) verifier: Arc<Verifier>,
    pub(super) sessions: Arc<Sessions>,
}

impl Registration {
    /// Checks that registration is enabled.
    ///
    /// # Errors
    /// Returns 403 if registration is disabled.
    pub fn registration_open(&self) -> Result<(), Failure> {
        if self.settings.enabled {
            Ok(())
        } else {
            Err(Failure::forbidden(codes::REGISTRATION_DISABLED, CLOSED))
        }
    }

    /// Checks that this service stores the passwords of users on the domain `domain`.
    fn require_own_passwords(&self, domain: &str) -> Result<(), Failure> {
        match self.verifier.users.settings().source(domain) {
            PasswordSource::Accounts => Ok(()),
            PasswordSource::Mailserver | PasswordSource::Oidc => {
                Err(Failure::forbidden(codes::REGISTRATION_DISABLED, CLOSED))
            }
        }
    }

    /// Returns the domains on which accounts can be registered. The first domain is the default for
    /// a user name without a domain.
    #[must_use]
    pub fn registration_domains(&self) -> &[String] {
        &self.settings.domains
    }

    /// Creates an account, its profile and its first session in one transaction.
    ///
    /// # Errors
    /// Returns 403 if registration is disabled on the domain, 400 if a field is invalid, or 409 if
    /// the address is in use or reserved. The error text for 400 names the first invalid field.
    /// Returns 500 for an internal error.
    pub async fn register(&self, form: Form, origin: &Origin) -> Result<Registered, Failure> {
        self.registration_open()?;
        let username = address::username(&form.local_part)
            .map_err(|(code, text)| Failure::invalid(code, text))?;
        let domain = self.registration_domain(&form.domain)?;
        self.require_own_passwords(domain)?;
        person::new_password("password", form.password.expose_secret())?;
        let profile = NewProfile {
            first_name: person::name("first_name", &form.first_name)?,
            last_name: person::name("last_name", &form.last_name)?,
            dob: form.dob,
        };
        person::date_of_birth(&profile.dob, self.clock.now().date())?;
        let password_hash = self
            .verifier
            .passwords
            .hash(form.password, origin.client)
            .await?;
        let now = self.clock.now();
        let account = NewAccount {
            id: secrets::id()?,
            address: format!("{username}@{domain}"),
            password_hash,
            profile: Some(profile.clone()),
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: now,
        };
        let (session, tokens) = self.sessions.new_session(&account.id, origin, now)?;
        let origin = Origin {
            actor: account.address.clone(),
            credential: Some(session.app_password.id.clone()),
            ..origin.clone()
        };
        match self
            .directory
            .accounts
            .create(&account, Some(&session), &origin)
            .await?
        {
            Creation::Created => Ok(Registered {
                signed_in: SignedIn {
                    tokens,
                    address: account.address,
                    admin: false,
                },
                first_name: profile.first_name,
                last_name: profile.last_name,
            }),
            Creation::AddressTaken => Err(Failure::conflict(codes::EMAIL_TAKEN, TAKEN)),
        }
    }

    /// Returns whether a user name can be registered. This check does not consider aliases. If the
    /// address is or was an alias, this function returns [`Availability::Available`], but the
    /// registration fails.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn availability(&self, username: &str) -> Result<Availability, Failure> {
        let unavailable = |reason| Ok(Availability::Unavailable { reason });
        let Some(domain) = self.settings.domains.first() else {
            return unavailable(CLOSED);
        };
        if self.registration_open().is_err() || self.require_own_passwords(domain).is_err() {
            return unavailable(CLOSED);
        }
        let username = match address::username(username) {
            Ok(username) => username,
            Err((_, reason)) => return unavailable(reason),
        };
        let address = format!("{username}@{domain}");
        if self
            .directory
            .accounts
            .by_address(&address)
            .await?
            .is_some()
        {
            return unavailable(TAKEN);
        }
        Ok(Availability::Available { address })
    }

    /// Creates an account without a profile for the operator. Accepts reserved names. The length is
    /// the only rule for the password. Does not change an existing account.
    ///
    /// # Errors
    /// Returns 400 if the address is not on a registration domain, or if the password is empty or
    /// too long. Returns 500 for an internal error.
    pub async fn create_account(
        &self,
        address: &str,
        password: SecretString,
    ) -> Result<Provision, Failure> {
        let address = address::fold(address).ok_or_else(|| {
            Failure::invalid(
                codes::INVALID_FIELD,
                format!("`{address}` is not an address"),
            )
        })?;
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        self.registration_domain(domain)?;
        if !passwords::has_valid_length(&password) {
            return Err(Failure::invalid(
                codes::INVALID_PASSWORD,
                "password must be 1 to 1024 bytes",
            ));
        }
        if let Some(account) = self.directory.accounts.by_address(&address).await? {
            let permit = self.verifier.passwords.permit(None).await?;
            let same = self
                .verifier
                .passwords
                .verify(password, Some(&account.password_hash), permit)
                .await?;
            return Ok(if same && account.active {
                Provision::Exists
            } else {
                Provision::Differs
            });
        }
        let account = NewAccount {
            id: secrets::id()?,
            address,
            password_hash: self.verifier.passwords.hash(password, None).await?,
            profile: None,
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: self.clock.now(),
        };
        Ok(
            match self
                .directory
                .accounts
                .create(&account, None, &Origin::operator())
                .await?
            {
                Creation::Created => Provision::Created,
                Creation::AddressTaken => Provision::AddressTaken,
            },
        )
    }

    fn registration_domain(&self, domain: &str) -> Result<&str, Failure> {
        let requested = domain.to_ascii_lowercase();
        self.settings
            .domains
            .iter()
            .find(|domain| **domain == requested)
            .map(String::as_str)
            .ok_or_else(|| {
                Failure::invalid(
                    codes::INVALID_REGISTRATION_DOMAIN,
                    format!(
                        "domain must be one of the registration domains: {}",
                        self.settings.domains.join(", ")
                    ),
                )
            })
    }
}
