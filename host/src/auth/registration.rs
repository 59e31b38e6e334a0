//! Accounts made: by a person who registers, or by the operator.

use secrecy::{ExposeSecret, SecretString};

use super::sessions::SignedIn;
use super::{Auth, address, passwords, person, secrets};
use crate::caller::Origin;
use crate::directory::accounts::{Creation, DEFAULT_PLAN, NewAccount, NewProfile};
use crate::error::Failure;

const CLOSED: &str = "Registration is currently disabled";
const TAKEN: &str = "This email address is already taken";

/// What a person fills in (specification, section 4.2).
#[derive(Debug)]
pub struct Form {
    /// The wanted user name.
    pub local_part: String,
    /// One of the registration domains.
    pub domain: String,
    /// The password.
    pub password: SecretString,
    /// The first name.
    pub first_name: String,
    /// The last name.
    pub last_name: String,
    /// The date of birth, `YYYY-MM-DD`.
    pub dob: String,
}

/// An account registered and signed in.
#[derive(Debug)]
pub struct Registered {
    /// Its first session.
    pub signed_in: SignedIn,
    /// As it was kept.
    pub first_name: String,
    /// As it was kept.
    pub last_name: String,
}

/// Whether a user name can be registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It can, and this would be its address.
    Available {
        /// On the first registration domain.
        address: String,
    },
    /// It cannot.
    Unavailable {
        /// What registration would answer.
        reason: &'static str,
    },
}

/// What came of an account that the operator wants to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provision {
    /// It was made.
    Created,
    /// It exists, and this is its password.
    Exists,
    /// It exists with another password, or is not active. Nothing was changed.
    Differs,
    /// The address is, or was, somebody else's.
    AddressTaken,
}

impl Auth {
    /// Whether anybody may register at all.
    ///
    /// # Errors
    /// 403 where not.
    pub fn registration_open(&self) -> Result<(), Failure> {
        if self.registration.enabled {
            Ok(())
        } else {
            Err(Failure::forbidden(CLOSED))
        }
    }

    /// The domains that accounts are registered on; the first is the one that a bare user name means.
    #[must_use]
    pub fn registration_domains(&self) -> &[String] {
        &self.registration.domains
    }

    /// Makes an account with its profile and its first session, all or nothing.
    ///
    /// # Errors
    /// 403 where registration is closed, 400 naming the first field that will not do, 409 where the address is, or was,
    /// somebody's, 500.
    pub async fn register(&self, form: Form, origin: &Origin) -> Result<Registered, Failure> {
        self.registration_open()?;
        let username = address::username(&form.local_part).map_err(Failure::bad_request)?;
        let domain = self.registration_domain(&form.domain)?;
        person::new_password("password", form.password.expose_secret())?;
        let profile = NewProfile {
            first_name: person::name("first_name", &form.first_name)?,
            last_name: person::name("last_name", &form.last_name)?,
            dob: form.dob,
        };
        person::date_of_birth(&profile.dob, self.clock.now().date())?;
        let password_hash = self.passwords.hash(form.password).await?;
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
        let (session, tokens) = self.mint(&account.id, origin, now)?;
        let origin = Origin {
            actor: account.address.clone(),
            credential: Some(session.app_password.id.clone()),
            ..origin.clone()
        };
        match self
            .directory
            .create_account(&account, Some(&session), &origin)
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
            Creation::AddressTaken => Err(Failure::conflict(TAKEN)),
        }
    }

    /// Whether a user name can be registered, as far as accounts tell: an address that is or was an alias is found out by
    /// registering only.
    ///
    /// # Errors
    /// 500.
    pub async fn availability(&self, username: &str) -> Result<Availability, Failure> {
        let unavailable = |reason| Ok(Availability::Unavailable { reason });
        let Some(domain) = self.registration.domains.first() else {
            return unavailable(CLOSED);
        };
        if !self.registration.enabled {
            return unavailable(CLOSED);
        }
        let username = match address::username(username) {
            Ok(username) => username,
            Err(reason) => return unavailable(reason),
        };
        let address = format!("{username}@{domain}");
        if self.directory.account_by_address(&address).await?.is_some() {
            return unavailable(TAKEN);
        }
        Ok(Availability::Available { address })
    }

    /// Makes an account without a profile, on the operator's word: reserved names are allowed, and any password that can be
    /// hashed is. An account that exists is left as it is.
    ///
    /// # Errors
    /// 400 where the address is none of this service's or the password cannot be one; 500.
    pub async fn create_account(
        &self,
        address: &str,
        password: SecretString,
    ) -> Result<Provision, Failure> {
        let address = address::fold(address)
            .ok_or_else(|| Failure::bad_request(format!("`{address}` is not an address")))?;
        let (_, domain) = address.rsplit_once('@').unwrap_or_default();
        self.registration_domain(domain)?;
        if !passwords::can_be(&password) {
            return Err(Failure::bad_request("password must be 1 to 1024 bytes"));
        }
        if let Some(account) = self.directory.account_by_address(&address).await? {
            let same = self
                .passwords
                .verify(password, Some(&account.password_hash))
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
            password_hash: self.passwords.hash(password).await?,
            profile: None,
            plan: DEFAULT_PLAN.into(),
            admin: false,
            created_at: self.clock.now(),
        };
        Ok(
            match self
                .directory
                .create_account(&account, None, &Origin::operator())
                .await?
            {
                Creation::Created => Provision::Created,
                Creation::AddressTaken => Provision::AddressTaken,
            },
        )
    }

    fn registration_domain(&self, wanted: &str) -> Result<&str, Failure> {
        let wanted = wanted.to_ascii_lowercase();
        self.registration
            .domains
            .iter()
            .find(|domain| **domain == wanted)
            .map(String::as_str)
            .ok_or_else(|| {
                Failure::bad_request(format!(
                    "domain must be one of the registration domains: {}",
                    self.registration.domains.join(", ")
                ))
            })
    }
}
