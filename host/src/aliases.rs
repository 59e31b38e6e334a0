//! Aliases: further addresses that deliver to an account and may be sent from. Which there can be is judged here; whose they are, and that each is
//! somebody's alone, is the directory's. Mail servers read them there.
//!
//! Each is done for a caller in a mailbox, its own or one that is shared with it; there, what it was granted decides which aliases it sees and what it may do.

use crate::auth::address;
use crate::caller::{Caller, Origin};
use crate::clock::Clock;
use crate::directory::aliases::{
    Acting, Alias, Change, Guest, MOST_NEW, MOST_OWN, MOST_SHARED, Obstacle, Whose,
};
use crate::directory::{self, Directory};
use crate::error::Failure;
use crate::limits::Verdict;
use crate::teams::rights::{self, Right};

/// Why an alias was not made, or not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There can be no such address. The sentence is fit to be shown.
    #[error("{0}")]
    Invalid(&'static str),
    /// The account may have no aliases on the domain.
    #[error("You do not have permission to use this domain")]
    Denied,
    /// The address is, or was, somebody's.
    #[error("{0} is already taken")]
    Taken(String),
    /// The account has as many as it may. The sentence is fit to be shown.
    #[error("{0}")]
    Full(String),
    /// The credential has made as many new aliases as it can in a day: 429.
    #[error("{}", .0.text)]
    Spent(Failure),
    /// The mailbox has no such alias, or none that the guest may know of.
    #[error("there is no such alias")]
    Unknown,
    /// A guest may know of it, and lacks a right.
    #[error("{}", rights::lacking(*.0))]
    Lacking(Right),
    /// The credential that asked is no longer good.
    #[error("the credential that asked is no longer good")]
    CredentialOver,
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] directory::Error),
}

/// The aliases of all accounts.
#[derive(Clone, Debug)]
pub struct Aliases {
    directory: Directory,
    clock: Clock,
}

/// An address that there can be.
struct Wanted {
    address: String,
    whose: Whose,
}

impl Aliases {
    /// Those of a directory.
    #[must_use]
    pub fn new(directory: Directory, clock: Clock) -> Self {
        Self { directory, clock }
    }

    /// A mailbox's, by their addresses; those of them that a guest may read.
    ///
    /// # Errors
    /// [`Error::Lacking`], [`Error::Directory`].
    pub async fn list(&self, caller: &Caller) -> Result<Vec<Alias>, Error> {
        let acting = self.acting(caller, Right::AliasesRead)?;
        let mut aliases = self.directory.aliases(acting.account_id).await?;
        if let Some(guest) = acting.guest {
            aliases.retain(|alias| guest.over(alias).hold(Right::AliasesRead));
        }
        Ok(aliases)
    }

    /// The domains that a mailbox may have aliases on: the platform's, then its own; those of them that a guest has to do with.
    ///
    /// # Errors
    /// [`Error::Lacking`], [`Error::Directory`].
    pub async fn domains(&self, caller: &Caller) -> Result<Vec<String>, Error> {
        let acting = self.acting(caller, Right::AliasesRead)?;
        let mut domains = self.directory.alias_domains(acting.account_id).await?;
        if let Some(guest) = acting.guest {
            domains.retain(|domain| guest.grants.reach_domain(domain));
        }
        Ok(domains)
    }

    /// Makes an alias, active.
    ///
    /// # Errors
    /// Any of [`Error`] but [`Error::Unknown`]. Nothing was made then.
    pub async fn create(
        &self,
        caller: &Caller,
        name: &str,
        domain: &str,
        origin: &Origin,
    ) -> Result<Alias, Error> {
        let acting = self.acting(caller, Right::AliasesWrite)?;
        let Wanted { address, whose } = self.wanted(acting, name, domain).await?;
        self.directory
            .create_alias(acting, &address, whose, origin)
            .await?
            .map_err(|obstacle| self.in_words(obstacle, address))
    }

    /// Whether a caller could make an alias now.
    ///
    /// # Errors
    /// What making it would answer; [`Error::Lacking`] where a guest may not even ask.
    pub async fn check(&self, caller: &Caller, name: &str, domain: &str) -> Result<(), Error> {
        let acting = self.acting(caller, Right::AliasesRead)?;
        let Wanted { address, whose } = self.wanted(acting, name, domain).await?;
        let obstacle = self
            .directory
            .alias_obstacle(acting.account_id, &address, whose);
        match obstacle.await? {
            None => Ok(()),
            Some(obstacle) => Err(self.in_words(obstacle, address)),
        }
    }

    /// Switches an alias on or off.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Lacking`], [`Error::CredentialOver`], [`Error::Directory`].
    pub async fn set_active(
        &self,
        caller: &Caller,
        id: u64,
        active: bool,
        origin: &Origin,
    ) -> Result<(), Error> {
        let acting = Acting::of(caller, self.clock.now());
        let change = self.directory.set_alias_active(acting, id, active, origin);
        done(change.await?)
    }

    /// Deletes an alias.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Lacking`], [`Error::CredentialOver`], [`Error::Directory`].
    pub async fn delete(&self, caller: &Caller, id: u64, origin: &Origin) -> Result<(), Error> {
        let acting = Acting::of(caller, self.clock.now());
        done(self.directory.delete_alias(acting, id, origin).await?)
    }

    fn in_words(&self, obstacle: Obstacle, address: String) -> Error {
        match obstacle {
            Obstacle::Taken => Error::Taken(address),
            Obstacle::Foreign => Error::Denied,
            Obstacle::Full(Whose::Own) => Error::Full(format!(
                "You already have {MOST_OWN} aliases on your own domains; delete one before creating another"
            )),
            Obstacle::Full(_) => Error::Full(format!(
                "You have had {MOST_SHARED} different aliases on this service's domains; create one of them again instead"
            )),
            Obstacle::Spent(until) => {
                let wait = until.since(self.clock.now());
                Error::Spent(Verdict::spent(MOST_NEW, wait, until))
            }
            Obstacle::CredentialOver => Error::CredentialOver,
        }
    }

    /// The caller in the mailbox that it acts in, where a guest holds a right over some of its aliases.
    fn acting<'a>(&self, caller: &'a Caller, right: Right) -> Result<Acting<'a>, Error> {
        let acting = Acting::of(caller, self.clock.now());
        match acting.guest {
            Some(guest) if !guest.grants.over_some_alias().hold(right) => {
                Err(Error::Lacking(right))
            }
            _ => Ok(acting),
        }
    }

    /// The address of this name on that domain, where there can be one. Of the domain nobody is asked before it has the form of one, and one that a guest may
    /// make no alias on.
    async fn wanted(&self, acting: Acting<'_>, name: &str, domain: &str) -> Result<Wanted, Error> {
        let domain = address::fold_domain(domain).ok_or(Error::Denied)?;
        let may_make = |guest: Guest<'_>| {
            let rights = guest.grants.over_new_alias(&domain);
            rights.hold(Right::AliasesWrite)
        };
        if !acting.guest.is_none_or(may_make) {
            return Err(Error::Denied);
        }
        let whose = self
            .directory
            .whose_domain(acting.account_id, &domain)
            .await?;
        if whose == Whose::Foreign {
            return Err(Error::Denied);
        }
        address::alias_name(name, whose == Whose::Platform).map_err(Error::Invalid)?;
        let address = address::fold(&format!("{name}@{domain}"))
            .ok_or(Error::Invalid("name makes too long an address"))?;
        Ok(Wanted { address, whose })
    }
}

fn done(change: Change) -> Result<(), Error> {
    match change {
        Change::Done => Ok(()),
        Change::Unknown => Err(Error::Unknown),
        Change::Denied => Err(Error::Lacking(Right::AliasesWrite)),
        Change::CredentialOver => Err(Error::CredentialOver),
    }
}
