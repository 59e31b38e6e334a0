//! The settings of a domain for addresses that are no account and no alias: the account that
//! receives their mail, and the character before the extension of an address.
//!
//! On a custom domain, only the account that has verified the domain can receive such mail. No
//! catch-all receives mail for an address that an account has or had.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use super::{HOLDER, RouteChange, has_loop, lock};
use crate::db::{Error, Source, Tx};
use crate::domains::{Domains, holder};
use crate::events::{self, Event, Kind};

/// Finds the settings of a domain that belong to its present owner.
const FIND: &str = "SELECT s.catch_all, s.catch_all_account, s.separator FROM domain_settings s \
    WHERE s.domain = $1 AND ((s.owner IS NULL AND $2 = '') OR s.owner = $2)";
/// Reads the settings of a domain that exists. Without settings, the columns are NULL.
const READ: &str = "SELECT s.catch_all, s.catch_all_account, s.separator FROM ( \
        SELECT NULL AS owner WHERE EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) \
        UNION ALL SELECT account_id FROM domains WHERE domain = $1 AND verified_at IS NOT NULL \
            AND NOT EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1)) o \
    LEFT JOIN domain_settings s ON s.domain = $1 AND s.owner IS NOT DISTINCT FROM o.owner";
const IS_PLATFORM: &str = "SELECT 1 FROM platform_domains WHERE domain = $1";
const IS_ACTIVE: &str = "SELECT 1 FROM accounts WHERE id = $1 AND active";
const SET: &str = "INSERT INTO domain_settings (domain, owner, catch_all, catch_all_account, separator) \
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT (domain) DO UPDATE SET owner = EXCLUDED.owner, \
        catch_all = EXCLUDED.catch_all, catch_all_account = EXCLUDED.catch_all_account, \
        separator = EXCLUDED.separator";
/// Finds the accounts whose mail is forwarded to addresses with an extension.
const FORWARD_TO_EXTENSIONS: &str = "SELECT id FROM accounts WHERE forward_to LIKE $1 ORDER BY id";
const FORGET: &str = "DELETE FROM domain_settings WHERE domain = $1";

/// The settings of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainSettings {
    /// An address of the account that receives mail for unknown addresses, in lower case. `None` if
    /// mail for unknown addresses is refused.
    pub catch_all: Option<String>,
    /// The character before the extension of an address, for example `+`. `None` if addresses have
    /// no extensions.
    pub separator: Option<String>,
}

/// The owner of a domain.
#[derive(Debug)]
enum Owner {
    Platform,
    /// The id of the account that has verified the domain.
    Account(String),
}

impl Owner {
    fn account(&self) -> Option<&str> {
        match self {
            Self::Platform => None,
            Self::Account(id) => Some(id),
        }
    }
}

/// The columns of [`FIND`].
type Row = (Option<String>, Option<String>, Option<String>);

/// Returns the settings. The catch-all of a deleted account has no effect any longer.
fn settings((catch_all, account, separator): Row) -> DomainSettings {
    DomainSettings {
        catch_all: catch_all.filter(|_| account.is_some()),
        separator,
    }
}

impl Domains {
    /// Returns the settings of a platform domain or of a verified domain. Returns `None` if there
    /// is no such domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn settings(&self, domain: &str) -> Result<Option<DomainSettings>, Error> {
        let row: Option<Row> = self.db.optional(READ, [domain]).await?;
        Ok(row.map(settings))
    }

    /// Replaces the settings of a domain. The caller must have validated the separator.
    ///
    /// Returns [`RouteChange::NoSuchAddress`] if the catch-all is not an address of an active
    /// account, or if the domain belongs to another account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_settings(
        &self,
        domain: &str,
        new: &DomainSettings,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<RouteChange, Error> {
        self.set_settings_if(domain, None, new, now, origin).await
    }

    /// Replaces the settings of a domain, like [`Self::set_settings`], if its current settings are
    /// `expected`. Otherwise returns [`RouteChange::Outdated`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_settings_if(
        &self,
        domain: &str,
        expected: Option<&DomainSettings>,
        new: &DomainSettings,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<RouteChange, Error> {
        let mut tx = self.db.begin().await?;
        let changed = set_in(&mut tx, domain, expected, new, now, origin).await?;
        if changed == RouteChange::Changed {
            tx.commit().await?;
        }
        Ok(changed)
    }
}

/// Replaces the settings of a domain in a transaction, like [`Domains::set_settings_if`]. The
/// caller must roll back the transaction if the settings are refused.
pub(crate) async fn set_in(
    tx: &mut Tx,
    domain: &str,
    expected: Option<&DomainSettings>,
    new: &DomainSettings,
    now: Timestamp,
    origin: &Origin,
) -> Result<RouteChange, Error> {
    tx.lock_domain(domain).await?;
    lock(tx).await?;
    let Some(owner) = owner(tx, domain).await? else {
        return Ok(RouteChange::Unknown);
    };
    let row: Option<Row> = tx
        .optional(FIND, (domain, owner.account().unwrap_or("")))
        .await?;
    let current_account = row.as_ref().and_then(|(_, account, _)| account.clone());
    let current = row.map(settings).unwrap_or_default();
    if expected.is_some_and(|expected| *expected != current) {
        return Ok(RouteChange::Outdated);
    }
    if current == *new {
        return Ok(RouteChange::Unchanged);
    }
    let account = match &new.catch_all {
        None => None,
        // The account can have been disabled since the catch-all was set.
        Some(_) if new.catch_all == current.catch_all => current_account,
        Some(catch_all) => {
            let found: Option<String> = tx.optional_value(HOLDER, [catch_all]).await?;
            let is_active = match &found {
                Some(found) => tx.exists(IS_ACTIVE, [found]).await?,
                None => false,
            };
            let is_foreign = owner.account().is_some() && owner.account() != found.as_deref();
            if !is_active || is_foreign {
                return Ok(RouteChange::NoSuchAddress);
            }
            found
        }
    };
    let row = (
        domain,
        owner.account(),
        &new.catch_all,
        &account,
        &new.separator,
    );
    tx.execute(SET, row).await?;
    // A loop that the change causes leads over the catch-all or over an address with an extension.
    let mut changed: Vec<String> = account.into_iter().collect();
    if let Some(separator) = &new.separator
        && new.separator != current.separator
    {
        let pattern = format!("%{separator}%@{domain}");
        let forwarding: Vec<String> = tx.values(FORWARD_TO_EXTENSIONS, [&pattern]).await?;
        changed.extend(forwarding);
    }
    for account in &changed {
        if has_loop(tx, account).await? {
            return Ok(RouteChange::Loop);
        }
    }
    tx.project(Source::Domain(domain)).await?;
    let detail = format!(
        "catch-all {}, separator {}",
        new.catch_all.as_deref().unwrap_or("none"),
        new.separator.as_deref().unwrap_or("none")
    );
    let changed = match owner.account() {
        Some(owner) => Event::of(Kind::DomainChanged, owner, now),
        None => Event::without_account(Kind::DomainChanged, now),
    };
    let changed = changed.about(domain).detail(&detail);
    events::record(tx, changed, origin).await?;
    Ok(RouteChange::Changed)
}

/// Returns the owner of a domain. Returns `None` if there is no such domain.
async fn owner(tx: &mut Tx, domain: &str) -> Result<Option<Owner>, Error> {
    if tx.exists(IS_PLATFORM, [domain]).await? {
        return Ok(Some(Owner::Platform));
    }
    Ok(holder(tx, domain).await?.map(Owner::Account))
}

/// Deletes the settings of a domain that is released or removed. The caller copies the domain for
/// the mail servers afterwards.
pub(crate) async fn forget(tx: &mut Tx, domain: &str) -> Result<(), Error> {
    tx.execute(FORGET, [domain]).await?;
    Ok(())
}
