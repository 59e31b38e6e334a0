//! The routes of mail: the addresses to which accounts forward copies of their mail, and the
//! accounts that receive mail for unknown addresses of a domain. A change that would lead mail back
//! to an account that has already received it is refused.
//!
//! The mail server applies the routes (`mailserver_forwards`, `mailserver_separators` and
//! `mailserver_catch_alls`). It expands no address twice, so a loop that arises otherwise, such as
//! from an imported alias, repeats no mail.

pub mod domain_settings;
pub mod forwarding;

use crate::aliases::domain_of;
use crate::db::{Error, Tx};

/// The name of the lock for changes of routes. No domain has this name.
const LOCK: &str = ".";
/// Maximum number of accounts through which one message is forwarded.
const MAX_STEPS: usize = 10;

/// Finds the account of an address, also if the account or the alias is disabled. A disabled
/// account can be enabled later.
const HOLDER: &str = "SELECT account_id FROM addresses \
    WHERE address = $1 AND live AND kind IN ('account', 'alias') AND account_id IS NOT NULL";
const IS_KNOWN: &str = "SELECT 1 FROM addresses WHERE address = $1";
const IS_LOCAL: &str = "SELECT 1 WHERE EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) \
    OR EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND verified_at IS NOT NULL)";
const SETTINGS: &str = "SELECT separator, catch_all_account FROM domain_settings WHERE domain = $1";
const FORWARD_TO: &str = "SELECT forward_to FROM accounts WHERE id = $1 AND forward_to IS NOT NULL";

/// The result of a change of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteChange {
    /// The route was changed.
    Changed,
    /// The route was already as requested.
    Unchanged,
    /// The account or the domain does not exist.
    Unknown,
    /// The destination is on a local domain, and receives no mail there. Or the destination of a
    /// catch-all does not belong to an active account that can receive mail of the domain.
    NoSuchAddress,
    /// The change would lead mail back to an account that has already received it.
    Loop,
    /// The domain does not have the settings on which the change depends.
    Outdated,
}

/// The destination of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Destination {
    /// The account with this id.
    Account(String),
    /// Another mail server.
    Elsewhere,
    /// A local domain that has no such address.
    Nowhere,
}

/// Locks all routes until the end of the transaction. The caller must lock accounts and domains
/// before this call.
async fn lock(tx: &mut Tx) -> Result<(), Error> {
    tx.lock_domain(LOCK).await
}

/// Returns the destination of an address, which must be in lower case.
async fn destination(tx: &mut Tx, address: &str) -> Result<Destination, Error> {
    let domain = domain_of(address);
    if let Some(known) = known(tx, address).await? {
        return Ok(known);
    }
    if !tx.exists(IS_LOCAL, [domain]).await? {
        return Ok(Destination::Elsewhere);
    }
    let settings: Option<(Option<String>, Option<String>)> =
        tx.optional(SETTINGS, [domain]).await?;
    let (separator, catch_all) = settings.unwrap_or_default();
    let name = address.split('@').next().unwrap_or_default();
    if let Some((name, _)) = separator.and_then(|at| name.split_once(&*at))
        && let Some(known) = known(tx, &format!("{name}@{domain}")).await?
    {
        return Ok(known);
    }
    Ok(catch_all.map_or(Destination::Nowhere, Destination::Account))
}

/// Returns the destination of an address that an account has or had, or that the operator reserves.
async fn known(tx: &mut Tx, address: &str) -> Result<Option<Destination>, Error> {
    let holder: Option<String> = tx.optional_value(HOLDER, [address]).await?;
    if let Some(account) = holder {
        return Ok(Some(Destination::Account(account)));
    }
    let is_known = tx.exists(IS_KNOWN, [address]).await?;
    Ok(is_known.then_some(Destination::Nowhere))
}

/// Returns `true` if mail for an account is forwarded back to an account that has received it, or
/// through too many accounts. The transaction contains the change.
async fn has_loop(tx: &mut Tx, account_id: &str) -> Result<bool, Error> {
    let mut passed = vec![account_id.to_owned()];
    while let Some(account) = passed.last().filter(|_| passed.len() <= MAX_STEPS) {
        let forward: Option<String> = tx.optional_value(FORWARD_TO, [account]).await?;
        let Some(address) = forward else {
            return Ok(false);
        };
        let Destination::Account(next) = destination(tx, &address).await? else {
            return Ok(false);
        };
        if passed.contains(&next) {
            return Ok(true);
        }
        passed.push(next);
    }
    Ok(true)
}

/// Returns `true` if a new address or alias of an account causes a loop. The transaction contains
/// the new address, and has locked the account and the domain.
pub(crate) async fn causes_loop(tx: &mut Tx, account_id: &str) -> Result<bool, Error> {
    // The new address is a part of a loop only if its account forwards mail.
    let forward: Option<String> = tx.optional_value(FORWARD_TO, [account_id]).await?;
    if forward.is_none() {
        return Ok(false);
    }
    lock(tx).await?;
    has_loop(tx, account_id).await
}

#[cfg(test)]
mod tests;
