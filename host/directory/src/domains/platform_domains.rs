//! The platform domains. The service writes the configured domains to the database at every start.
//! The operator can add further domains.

use std::collections::BTreeSet;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::Domains;
use crate::db::{Error, Source, Tx};
use crate::domains::holder;
use crate::events::{self, Event, Kind};
use crate::operator_tokens::{self, Begun, RequestKey};
use crate::routes::RouteChange;
use crate::routes::domain_settings::{self, DomainSettings};

const CONFIGURED: &str = "SELECT domain FROM platform_domains WHERE added_at IS NULL";
/// Inserts a configured domain. If the operator added the domain earlier, converts the domain to a
/// configured domain.
const ADD_CONFIGURED: &str = "INSERT INTO platform_domains (domain) VALUES ($1) \
    ON CONFLICT (domain) DO UPDATE SET added_at = NULL";
const REMOVE: &str = "DELETE FROM platform_domains WHERE domain = $1";

const LIST: &str = "SELECT domain, added_at FROM platform_domains ORDER BY domain";
const ONE: &str = "SELECT domain, added_at FROM platform_domains WHERE domain = $1";
const AFTER: &str =
    "SELECT domain, added_at FROM platform_domains WHERE domain > $1 ORDER BY domain LIMIT $2";
const ADD: &str = "INSERT INTO platform_domains (domain, added_at) VALUES ($1, $2)";
const OWNER: &str = "SELECT address FROM accounts WHERE id = $1";
const VOID_CLAIMS: &str = "DELETE FROM domains WHERE domain = $1 RETURNING account_id";
const IN_USE: &str = "SELECT \
    (SELECT COUNT(*) FROM addresses WHERE domain = $1 AND live AND kind = 'account') AS accounts, \
    (SELECT COUNT(*) FROM addresses WHERE domain = $1 AND live AND kind = 'alias') AS aliases";
const RESERVED: &str =
    "SELECT address FROM addresses WHERE domain = $1 AND kind = 'held' ORDER BY address";

/// A platform domain.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PlatformDomain {
    /// The domain's name, in lower case and ASCII.
    pub domain: String,
    /// The time at which the operator added the domain, in milliseconds since the epoch. `None` for
    /// a configured domain.
    pub added_at: Option<i64>,
}

/// The numbers of live addresses on a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct InUse {
    /// The number of accounts whose address is on the domain.
    pub accounts: i64,
    /// The number of aliases on the domain, active or not.
    pub aliases: i64,
}

/// The result of adding a platform domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// The domain was added. All claims to the domain were deleted.
    Added {
        /// The number of deleted claims.
        voided: usize,
    },
    /// The domain was already a platform domain.
    Already,
    /// The account with this address has verified the domain.
    Taken(String),
}

/// The result of adding a platform domain for a program of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The domain was added.
    Added,
    /// An earlier request with the same idempotency key added the domain.
    Repeated,
    /// The domain was already a platform domain.
    Already,
    /// The account with this address has verified the domain.
    Taken(String),
    /// The idempotency key was used for another request.
    KeyReused,
    /// The settings were refused, so the domain was not added.
    Refused(RouteChange),
}

/// The result of removing a platform domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removed {
    /// The domain is no longer a platform domain.
    Removed,
    /// The domain is not a platform domain.
    Unknown,
    /// The domain is in the configuration.
    Configured,
    /// The domain has live addresses.
    InUse(InUse),
}

impl Domains {
    /// Sets the configured domains to exactly `domains`, converted to lower case. Keeps domains
    /// that the operator added. If such a domain is also in `domains`, the domain becomes a
    /// configured domain.
    ///
    /// Fails without any change if an account has verified one of `domains`. Otherwise all other
    /// accounts could create aliases on the domain of this account.
    pub(crate) async fn set_platform_domains(&self, domains: &[String]) -> Result<(), Error> {
        let wanted: BTreeSet<String> = domains.iter().map(|d| d.to_lowercase()).collect();
        let mut tx = self.db.begin().await?;
        let present: Vec<String> = tx.values(CONFIGURED, ()).await?;
        let present = BTreeSet::from_iter(present);
        // Lock domains in the order of their names. So services that start concurrently cannot
        // deadlock.
        for changed in present.symmetric_difference(&wanted) {
            tx.lock_domain(changed).await?;
        }
        for gone in present.difference(&wanted) {
            tx.execute(REMOVE, [gone]).await?;
            tx.project(Source::Domain(gone)).await?;
        }
        for new in wanted.difference(&present) {
            if let Some(account) = holder(&mut tx, new).await? {
                let owner = address_of(&mut tx, account).await?;
                return Err(Error::Unusable(format!(
                    "`registration.domains` contains {new}, which the account {owner} has verified: remove the domain from this list, or release the domain \
                     first (`latchmail domain release {new}`)"
                )));
            }
            tx.execute(ADD_CONFIGURED, [new]).await?;
            tx.project(Source::Domain(new)).await?;
        }
        tx.commit().await
    }

    /// Returns all platform domains, sorted by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn platform_domains(&self) -> Result<Vec<PlatformDomain>, Error> {
        self.db.all(LIST, ()).await
    }

    /// Returns a platform domain, or `None` if the domain is not a platform domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn platform_domain(&self, domain: &str) -> Result<Option<PlatformDomain>, Error> {
        self.db.optional(ONE, [domain]).await
    }

    /// Returns the numbers of live addresses on a domain. The domain does not need to be a platform
    /// domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn in_use(&self, domain: &str) -> Result<InUse, Error> {
        self.db.one(IN_USE, [domain]).await
    }

    /// Returns the addresses that the operator reserves on a domain, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn reserved_on(&self, domain: &str) -> Result<Vec<String>, Error> {
        self.db.values(RESERVED, [domain]).await
    }

    /// Adds a platform domain and deletes all claims to the domain. All accounts can then create
    /// aliases on the domain. The operator can then create accounts on the domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn add_platform_domain(
        &self,
        domain: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Added, Error> {
        let mut tx = self.db.begin().await?;
        let added = add(&mut tx, domain, now, origin).await?;
        tx.commit().await?;
        Ok(added)
    }

    /// Adds a platform domain with its settings for a program of the operator. The caller must have
    /// validated the separator. With `key`, a repeated request changes nothing.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn create_platform_domain(
        &self,
        domain: &str,
        settings: &DomainSettings,
        key: Option<&RequestKey>,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Created, Error> {
        let mut tx = self.db.begin().await?;
        match operator_tokens::begin(&mut tx, key, domain, now).await? {
            Begun::First => {}
            Begun::Reused => return Ok(Created::KeyReused),
            Begun::Repeated(_) => return Ok(Created::Repeated),
        }
        match add(&mut tx, domain, now, origin).await? {
            Added::Added { .. } => {}
            Added::Already => return Ok(Created::Already),
            Added::Taken(owner) => return Ok(Created::Taken(owner)),
        }
        match domain_settings::set_in(&mut tx, domain, None, settings, now, origin).await? {
            RouteChange::Changed | RouteChange::Unchanged => {}
            refused => return Ok(Created::Refused(refused)),
        }
        tx.commit().await?;
        Ok(Created::Added)
    }

    /// Returns at most `limit` platform domains whose name follows `after`, in the order of the
    /// database.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn platform_domains_after(
        &self,
        after: &str,
        limit: u32,
    ) -> Result<Vec<PlatformDomain>, Error> {
        self.db.all(AFTER, (after, limit)).await
    }

    /// Removes a platform domain. The operator must have added the domain, and the domain must have
    /// no live addresses.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn remove_platform_domain(
        &self,
        domain: &str,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Removed, Error> {
        let mut tx = self.db.begin().await?;
        tx.lock_domain(domain).await?;
        match one(&mut tx, domain).await? {
            None => return Ok(Removed::Unknown),
            Some(PlatformDomain { added_at: None, .. }) => return Ok(Removed::Configured),
            Some(_) => {}
        }
        let in_use: InUse = tx.one(IN_USE, [domain]).await?;
        if in_use != InUse::default() {
            return Ok(Removed::InUse(in_use));
        }
        tx.execute(REMOVE, [domain]).await?;
        domain_settings::forget(&mut tx, domain).await?;
        tx.project(Source::Domain(domain)).await?;
        let removed = Event::without_account(Kind::PlatformDomainRemoved, now).about(domain);
        events::commit(tx, removed, origin).await?;
        Ok(Removed::Removed)
    }
}

/// Adds a platform domain in a transaction.
async fn add(tx: &mut Tx, domain: &str, now: Timestamp, origin: &Origin) -> Result<Added, Error> {
    tx.lock_domain(domain).await?;
    if one(tx, domain).await?.is_some() {
        return Ok(Added::Already);
    }
    if let Some(account) = holder(tx, domain).await? {
        return Ok(Added::Taken(address_of(tx, account).await?));
    }
    let claimants: Vec<String> = tx.values(VOID_CLAIMS, [domain]).await?;
    for claimant in &claimants {
        let voided = Event::of(Kind::DomainClaimVoided, claimant, now)
            .about(domain)
            .detail("the domain became a platform domain");
        events::record(tx, voided, origin).await?;
    }
    tx.execute(ADD, (domain, now)).await?;
    tx.project(Source::Domain(domain)).await?;
    let added = Event::without_account(Kind::PlatformDomainAdded, now).about(domain);
    events::record(tx, added, origin).await?;
    Ok(Added::Added {
        voided: claimants.len(),
    })
}

async fn one(tx: &mut Tx, domain: &str) -> Result<Option<PlatformDomain>, Error> {
    tx.optional(ONE, [domain]).await
}

/// Returns the address of the account with the id `account`. Returns the id if there is no such
/// account.
async fn address_of(tx: &mut Tx, account: String) -> Result<String, Error> {
    let address: Option<String> = tx.optional_value(OWNER, [&account]).await?;
    Ok(address.unwrap_or(account))
}

#[cfg(test)]
mod tests;
