//! Aliases: additional addresses of an account, for incoming mail and as sender addresses. This
//! module validates new aliases.
//!
//! The directory stores aliases and ensures that each address has only one owner. Mail servers read
//! aliases from the directory.
//!
//! Each operation applies to the caller's own mailbox or to a mailbox that is shared with the
//! caller. In a shared mailbox, the caller's grants limit the visible and the changeable aliases.

mod operator;

use std::sync::Arc;

use latchmail_core::address;
use latchmail_core::caller::{Caller, Origin};
use latchmail_core::clock::Clock;
use latchmail_core::error::Failure;
use latchmail_core::permissions::{self, Right};
pub use latchmail_directory::aliases::AliasUpdate;
use latchmail_directory::aliases::{
    Alias, AliasCaller, DomainOwner, MAX_NEW, MAX_ON_OWN_DOMAINS, MAX_ON_PLATFORM_DOMAINS,
    MemberAccess, Obstacle, Refusal,
};

use crate::mail_server_users::{LookupError, MailServerUsers};

/// Maximum length of a note, in characters.
const MAX_NOTE: usize = 200;
const NOTE_INVALID: &str = "note must be at most 200 characters without control characters";

/// The reason why an alias was not created or not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not valid. The error text can be shown to users.
    #[error("{0}")]
    Invalid(&'static str),
    /// The note is not valid. The error text can be shown to users.
    #[error("{0}")]
    InvalidNote(&'static str),
    /// The account cannot have aliases on the requested domain.
    #[error("You do not have permission to use this domain")]
    Denied,
    /// The address is taken or reserved.
    #[error("{0} is already taken")]
    Taken(String),
    /// The mail server manages the users of the domain, and `sign_in.mailserver.lookup_socket` is
    /// not set. So the service cannot check whether the address belongs to a user.
    #[error("Aliases on this domain are managed by the mail server's administrator")]
    Managed,
    /// The mail server could not look up the address. The text is for the service's log.
    #[error("{0}")]
    Unavailable(String),
    /// The account has the maximum number of aliases on its own domains or on platform domains. The
    /// error text can be shown to users.
    #[error("{0}")]
    Full(String),
    /// The credential has created the maximum number of new aliases per day (status 429).
    #[error("{}", .0.text)]
    Spent(Failure),
    /// The mailbox has no such alias, or the alias is not visible to the member.
    #[error("there is no such alias")]
    Unknown,
    /// The alias is visible to the member, but the member does not have this right over the alias.
    #[error("{}", permissions::lacking(*.0))]
    Lacking(Right),
    /// The caller's credential expired or was revoked during the request.
    #[error("credential expired or revoked")]
    CredentialOver,
    /// The directory's database failed.
    #[error(transparent)]
    Directory(#[from] latchmail_directory::Error),
}

/// The operations on aliases of all accounts.
#[derive(Clone, Debug)]
pub struct Aliases {
    repository: latchmail_directory::aliases::Aliases,
    users: Arc<MailServerUsers>,
    clock: Clock,
}

/// A valid address for a new alias, and the owner of the address's domain.
struct NewAlias {
    address: String,
    whose: DomainOwner,
}

impl Aliases {
    /// Creates the operations on the aliases in `repository`.
    #[must_use]
    pub fn new(
        repository: latchmail_directory::aliases::Aliases,
        users: Arc<MailServerUsers>,
        clock: Clock,
    ) -> Self {
        Self {
            repository,
            users,
            clock,
        }
    }

    /// Returns the aliases of the mailbox, sorted by address. For a member, the result contains
    /// only the aliases that the member can read.
    ///
    /// # Errors
    /// Returns [`Error::Lacking`] if the caller is a member who cannot read any alias, or
    /// [`Error::Directory`] if the directory fails.
    pub async fn list(&self, caller: &Caller) -> Result<Vec<Alias>, Error> {
        let acting = self.acting(caller, Right::AliasesRead)?;
        let mut aliases = self.repository.list(acting.account_id).await?;
        if let Some(guest) = acting.member {
            aliases.retain(|alias| guest.over(alias).hold(Right::AliasesRead));
        }
        Ok(aliases)
    }

    /// Returns the domains on which the mailbox can have aliases. Platform domains precede the
    /// owner's own domains. For a member, omits domains on which the member has no right over
    /// aliases.
    ///
    /// # Errors
    /// Returns [`Error::Lacking`] if the caller is a member who cannot read any alias, or
    /// [`Error::Directory`] if the directory fails.
    pub async fn domains(&self, caller: &Caller) -> Result<Vec<String>, Error> {
        let acting = self.acting(caller, Right::AliasesRead)?;
        let mut domains = self.repository.domains(acting.account_id).await?;
        if let Some(guest) = acting.member {
            domains.retain(|domain| guest.grants.apply_to_domain(domain));
        }
        Ok(domains)
    }

    /// Creates an active alias.
    ///
    /// # Errors
    /// Returns any [`Error`] except [`Error::Unknown`]. On error, no alias is created.
    pub async fn create(
        &self,
        caller: &Caller,
        name: &str,
        domain: &str,
        origin: &Origin,
    ) -> Result<Alias, Error> {
        let acting = self.acting(caller, Right::AliasesWrite)?;
        let NewAlias { address, whose } = self.new_alias(acting, name, domain).await?;
        self.repository
            .create(acting, &address, whose, origin)
            .await?
            .map_err(|obstacle| self.error(obstacle, address))
    }

    /// Checks whether [`Aliases::create`] would currently succeed.
    ///
    /// # Errors
    /// Returns the error that [`Aliases::create`] would return. Returns [`Error::Lacking`] if the
    /// caller is a member who cannot read any alias.
    pub async fn check(&self, caller: &Caller, name: &str, domain: &str) -> Result<(), Error> {
        let acting = self.acting(caller, Right::AliasesRead)?;
        let NewAlias { address, whose } = self.new_alias(acting, name, domain).await?;
        let obstacle = self.repository.obstacle(acting.account_id, &address, whose);
        match obstacle.await? {
            None => Ok(()),
            Some(obstacle) => Err(self.error(obstacle, address)),
        }
    }

    /// Changes an alias, and returns its new state.
    ///
    /// # Errors
    /// Returns [`Error::InvalidNote`], [`Error::Unknown`], [`Error::Lacking`],
    /// [`Error::CredentialOver`] or [`Error::Directory`]. On error, nothing is changed.
    pub async fn update(
        &self,
        caller: &Caller,
        id: u64,
        update: &AliasUpdate,
        origin: &Origin,
    ) -> Result<Alias, Error> {
        check_note(update)?;
        let acting = AliasCaller::new(caller, self.clock.now());
        let change = self.repository.update(acting, id, update, origin).await?;
        change.map_err(refused)
    }

    /// Deletes an alias.
    ///
    /// # Errors
    /// Returns [`Error::Unknown`], [`Error::Lacking`], [`Error::CredentialOver`] or
    /// [`Error::Directory`].
    pub async fn delete(&self, caller: &Caller, id: u64, origin: &Origin) -> Result<(), Error> {
        let acting = AliasCaller::new(caller, self.clock.now());
        let change = self.repository.delete(acting, id, origin).await?;
        change.map_err(refused)
    }

    fn error(&self, obstacle: Obstacle, address: String) -> Error {
        match obstacle {
            Obstacle::Taken => Error::Taken(address),
            Obstacle::Foreign => Error::Denied,
            Obstacle::Full(DomainOwner::Own) => Error::Full(format!(
                "You already have {MAX_ON_OWN_DOMAINS} aliases on your own domains; delete one before creating another"
            )),
            Obstacle::Full(_) => Error::Full(format!(
                "You have had {MAX_ON_PLATFORM_DOMAINS} different aliases on this service's domains; create one of them again instead"
            )),
            Obstacle::Spent(until) => {
                let wait = until.since(self.clock.now());
                Error::Spent(Failure::spent(MAX_NEW, wait, until))
            }
            Obstacle::CredentialOver => Error::CredentialOver,
        }
    }

    /// Returns the mailbox, the credential and the member of an operation. Returns
    /// [`Error::Lacking`] if the caller is a member who does not have `right` over any alias.
    fn acting<'a>(&self, caller: &'a Caller, right: Right) -> Result<AliasCaller<'a>, Error> {
        let acting = AliasCaller::new(caller, self.clock.now());
        match acting.member {
            Some(guest) if !guest.grants.over_some_alias().hold(right) => {
                Err(Error::Lacking(right))
            }
            _ => Ok(acting),
        }
    }

    /// Returns the address `name@domain` and the owner of the domain, if the address is valid for a
    /// new alias. Checks the domain's syntax and the caller's rights before the lookup of the
    /// domain's owner, and checks `name` after this lookup.
    async fn new_alias(
        &self,
        acting: AliasCaller<'_>,
        name: &str,
        domain: &str,
    ) -> Result<NewAlias, Error> {
        let domain = address::fold_domain(domain).ok_or(Error::Denied)?;
        let may_make = |guest: MemberAccess<'_>| {
            let rights = guest.grants.over_new_alias(&domain);
            rights.hold(Right::AliasesWrite)
        };
        if !acting.member.is_none_or(may_make) {
            return Err(Error::Denied);
        }
        let whose = self
            .repository
            .domain_owner(acting.account_id, &domain)
            .await?;
        if whose == DomainOwner::Foreign {
            return Err(Error::Denied);
        }
        address::alias_name(name, whose == DomainOwner::Platform).map_err(Error::Invalid)?;
        let address = address::fold(&format!("{name}@{domain}"))
            .ok_or(Error::Invalid("name makes the address too long"))?;
        if whose == DomainOwner::Platform && self.users.settings().can_be_mail_server_user(&address)
        {
            self.require_no_user(&address).await?;
        }
        Ok(NewAlias { address, whose })
    }
}

impl Aliases {
    /// Checks that the mail server has no user with this address, because an alias with the address
    /// of a user would divert the user's mail.
    async fn require_no_user(&self, address: &str) -> Result<(), Error> {
        match self.users.exists(address).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(Error::Taken(address.to_owned())),
            Err(LookupError::NotConfigured) => Err(Error::Managed),
            Err(error) => Err(Error::Unavailable(error.to_string())),
        }
    }
}

fn check_note(update: &AliasUpdate) -> Result<(), Error> {
    match &update.note {
        Some(note) if note.chars().count() > MAX_NOTE || note.chars().any(char::is_control) => {
            Err(Error::InvalidNote(NOTE_INVALID))
        }
        _ => Ok(()),
    }
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Unknown => Error::Unknown,
        Refusal::Denied => Error::Lacking(Right::AliasesWrite),
        Refusal::CredentialOver => Error::CredentialOver,
    }
}
