//! Aliases: further addresses that deliver to an account and may be sent from. Which there can be is judged here; whose they are, and that each is
//! somebody's alone, is the directory's. Mail servers read them there.

use crate::auth::address;
use crate::caller::{Caller, Origin};
use crate::clock::Clock;
use crate::directory::aliases::{Acting, Alias, Change, MOST_OWN, MOST_SHARED, Obstacle, Whose};
use crate::directory::{self, Directory};

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
    /// The account has no such alias.
    #[error("there is no such alias")]
    Unknown,
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

    /// An account's, by their addresses.
    ///
    /// # Errors
    /// [`Error::Directory`].
    pub async fn list(&self, account: &str) -> Result<Vec<Alias>, Error> {
        Ok(self.directory.aliases(account).await?)
    }

    /// The domains that an account may have aliases on: the platform's, then its own.
    ///
    /// # Errors
    /// [`Error::Directory`].
    pub async fn domains(&self, account: &str) -> Result<Vec<String>, Error> {
        Ok(self.directory.alias_domains(account).await?)
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
        let Wanted { address, whose } = self.wanted(&caller.account, name, domain).await?;
        let acting = Acting::of(caller, self.clock.now());
        self.directory
            .create_alias(acting, &address, whose, origin)
            .await?
            .map_err(|obstacle| in_words(obstacle, address))
    }

    /// Whether an account could make an alias now.
    ///
    /// # Errors
    /// What making it would answer.
    pub async fn check(&self, account: &str, name: &str, domain: &str) -> Result<(), Error> {
        let Wanted { address, whose } = self.wanted(account, name, domain).await?;
        let obstacle = self.directory.alias_obstacle(account, &address, whose);
        match obstacle.await? {
            None => Ok(()),
            Some(obstacle) => Err(in_words(obstacle, address)),
        }
    }

    /// Switches an alias on or off.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::CredentialOver`], [`Error::Directory`].
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
    /// [`Error::Unknown`], [`Error::CredentialOver`], [`Error::Directory`].
    pub async fn delete(&self, caller: &Caller, id: u64, origin: &Origin) -> Result<(), Error> {
        let acting = Acting::of(caller, self.clock.now());
        done(self.directory.delete_alias(acting, id, origin).await?)
    }

    /// The address of this name on that domain, where there can be one. Of the domain nobody is asked before it has the form of one.
    async fn wanted(&self, account: &str, name: &str, domain: &str) -> Result<Wanted, Error> {
        let domain = address::fold_domain(domain).ok_or(Error::Denied)?;
        let whose = self.directory.whose_domain(account, &domain).await?;
        if whose == Whose::Foreign {
            return Err(Error::Denied);
        }
        address::alias_name(name, whose == Whose::Platform).map_err(Error::Invalid)?;
        let address = address::fold(&format!("{name}@{domain}"))
            .ok_or(Error::Invalid("name makes too long an address"))?;
        Ok(Wanted { address, whose })
    }
}

fn in_words(obstacle: Obstacle, address: String) -> Error {
    match obstacle {
        Obstacle::Taken => Error::Taken(address),
        Obstacle::Foreign => Error::Denied,
        Obstacle::Full(Whose::Own) => Error::Full(format!(
            "You already have {MOST_OWN} aliases on your own domains; delete one before creating another"
        )),
        Obstacle::Full(_) => Error::Full(format!(
            "You have had {MOST_SHARED} different aliases on this service's domains; create one of them again instead"
        )),
        Obstacle::CredentialOver => Error::CredentialOver,
    }
}

fn done(change: Change) -> Result<(), Error> {
    match change {
        Change::Done => Ok(()),
        Change::Unknown => Err(Error::Unknown),
        Change::CredentialOver => Err(Error::CredentialOver),
    }
}
