//! Custom domains of accounts, and the accounts' claims to domains. A claim is pending until the
//! account has verified the domain. Several accounts can claim the same domain, but only one
//! account can verify it.
//!
//! Callers pass domain names in lower case and ASCII (`dns::name`). Callers also check that the DNS
//! contains the challenge of the claim. The domain's row contains the keys that sign mail of the
//! domain. Deleting the row also deletes the keys.

pub mod platform_domains;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error, Source, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};
use crate::routes::domain_settings;
use crate::session_caller::SessionCaller;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT domain AS name, challenge, created_at, verified_at, dkim_selector, dkim_public_key FROM domains ",
            $rest
        )
    };
}
const OWN: &str = select!("WHERE account_id = $1 AND domain = $2");
const LIST: &str = select!("WHERE account_id = $1 ORDER BY created_at DESC, domain");
const COUNT: &str = "SELECT COUNT(*) FROM domains WHERE account_id = $1";
const HOLDER: &str = "SELECT account_id FROM domains WHERE domain = $1 AND verified_at IS NOT NULL";
/// Returns a row if the domain is a platform domain. Also returns a row for a former platform
/// domain if an account has its own address on the domain, or if an account other than $2 has an
/// alias on the domain without having verified the domain.
const PLATFORM: &str = "SELECT 1 WHERE EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) \
    OR EXISTS (SELECT 1 FROM addresses WHERE domain = $1 AND live AND kind = 'account') \
    OR EXISTS (SELECT 1 FROM addresses a WHERE a.domain = $1 AND a.live AND a.kind = 'alias' AND a.account_id <> $2 \
        AND NOT EXISTS (SELECT 1 FROM domains d WHERE d.domain = $1 AND d.account_id = a.account_id AND d.verified_at IS NOT NULL))";
/// Lists the claims to one domain, or to all domains if $1 is empty. Verified domains come before
/// pending claims.
const CLAIMS: &str = "SELECT d.domain AS name, d.challenge, d.created_at, d.verified_at, d.dkim_selector, d.dkim_public_key, \
        a.id AS account_id, a.address AS owner \
    FROM domains d JOIN accounts a ON a.id = d.account_id WHERE ($1 = '' OR d.domain = $1) \
    ORDER BY d.domain, d.verified_at IS NULL, d.created_at, a.address";
const INSERT: &str =
    "INSERT INTO domains (account_id, domain, challenge, created_at) VALUES ($1, $2, $3, $4)";
const ACTIVATE: &str = "UPDATE domains SET verified_at = $3, dkim_selector = $4, dkim_public_key = $5, dkim_private_key = $6 \
    WHERE account_id = $1 AND domain = $2";
/// Deletes the pending claims of other accounts. No other account can have verified the domain,
/// because a unique index allows one verified owner.
const VOID_OTHERS: &str = "DELETE FROM domains \
    WHERE domain = $1 AND account_id <> $2 AND verified_at IS NULL RETURNING account_id";
const DELETE: &str = "DELETE FROM domains WHERE account_id = $1 AND domain = $2";
const LIVE_ALIASES: &str = "SELECT COUNT(*) FROM addresses \
    WHERE domain = $1 AND account_id = $2 AND kind = 'alias' AND live";
const END_ALIASES: &str = "UPDATE addresses SET live = FALSE, note = NULL, expires_at = NULL, \
    changed_at = $3 \
    WHERE domain = $1 AND account_id = $2 AND kind = 'alias' AND live RETURNING address";
/// Deletes the rows of the account's deleted aliases on a domain. The next owner of the domain can
/// then create these aliases. Keeps the addresses that the operator reserves, and the addresses of
/// other accounts.
const FORGET_ALIASES: &str = "DELETE FROM addresses \
    WHERE domain = $1 AND account_id = $2 AND kind = 'alias' AND NOT live \
    AND NOT EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1)";
const FORGET_ALIASES_OF_OTHERS: &str = "DELETE FROM addresses \
    WHERE domain = $1 AND kind = 'alias' AND NOT live AND (account_id IS NULL OR account_id <> $2)";

/// A verified domain of an account, or a pending claim of an account to a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The domain's name, in lower case and ASCII.
    pub name: String,
    /// The token that the account must publish in the DNS.
    pub challenge: String,
    /// The time of the claim.
    pub created_at: Timestamp,
    /// The time of the verification, or `None` while the claim is pending.
    pub verified_at: Option<Timestamp>,
    /// The public half of the domain's signing key, or `None` while the claim is pending.
    pub dkim: Option<PublicKey>,
}

/// The public half of a domain's signing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// The selector of the DKIM record.
    pub selector: String,
    /// The public key as `SubjectPublicKeyInfo` in DER, encoded in base64.
    pub key: String,
}

/// A domain or a claim, with its account. For the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The domain.
    pub domain: Domain,
    /// The account's id.
    pub account_id: String,
    /// The account's address.
    pub owner: String,
}

/// The new key pair of a domain.
#[derive(Clone)]
pub struct NewKeys {
    /// The public key, which is published in the DNS.
    pub public: PublicKey,
    /// The private key, encrypted with the service's key.
    pub sealed_private_key: Vec<u8>,
}

debug_fields!(NewKeys { public });

/// The caller of a change to domains: a session of the account, or the operator.
#[derive(Clone, Copy, Debug)]
pub struct DomainCaller<'a> {
    /// The account's id.
    pub account_id: &'a str,
    /// The id of the caller's session, which must be live. `None` if the operator makes the change.
    pub sid: Option<&'a str>,
    /// The current time.
    pub at: Timestamp,
}

/// The action for an account's aliases on a domain that is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// The domain is not released if the account has aliases on the domain.
    Keep,
    /// The aliases are deleted together with the domain.
    Delete,
}

/// The result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claim is new and pending.
    New(Domain),
    /// The account already had the domain or a claim to the domain. Nothing was changed.
    Existing(Domain),
    /// The domain belongs to the platform.
    Platform,
    /// Another account has verified the domain.
    Taken,
    /// The account has reached its limit of domains and claims.
    Full,
    /// The caller's session ended.
    SessionOver,
}

/// The result of verifying a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// The account owns the domain. The account may have verified the domain before this call.
    Active(Domain),
    /// Another account verified the domain first.
    Taken,
    /// The domain has become a platform domain.
    Platform,
    /// The claim does not exist any longer.
    Gone,
    /// The caller's session ended.
    SessionOver,
}

/// The result of releasing a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The domain was released.
    Released,
    /// The account still has aliases on the domain.
    HasAliases,
    /// The account has neither the domain nor a claim to the domain.
    Unknown,
    /// The caller's session ended.
    SessionOver,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    name: String,
    challenge: String,
    created_at: i64,
    verified_at: Option<i64>,
    dkim_selector: Option<String>,
    dkim_public_key: Option<String>,
}

#[derive(sqlx_macros::FromRow)]
struct ClaimRow {
    #[sqlx(flatten)]
    domain: Row,
    account_id: String,
    owner: String,
}

impl From<Row> for Domain {
    fn from(row: Row) -> Self {
        let dkim = row.dkim_selector.zip(row.dkim_public_key);
        Self {
            name: row.name,
            challenge: row.challenge,
            created_at: Timestamp::from_millis(row.created_at),
            verified_at: row.verified_at.map(Timestamp::from_millis),
            dkim: dkim.map(|(selector, key)| PublicKey { selector, key }),
        }
    }
}

impl DomainCaller<'_> {
    /// Locks the account. After that, returns `true` if the caller's session is live or if the
    /// operator makes the change.
    async fn lock(&self, tx: &mut Tx) -> Result<bool, Error> {
        let Some(sid) = self.sid else {
            tx.lock_account(self.account_id).await?;
            return Ok(true);
        };
        let caller = SessionCaller {
            account_id: self.account_id,
            sid,
            at: self.at,
        };
        caller.lock(tx).await
    }
}

/// The domains of the platform, and the domains of accounts.
#[derive(Clone, Debug)]
pub struct Domains {
    pub(crate) db: Db,
}

impl Domains {
    /// Returns an account's domains and claims, newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account_id: &str) -> Result<Vec<Domain>, Error> {
        let rows: Vec<Row> = self.db.all(LIST, [account_id]).await?;
        Ok(rows.into_iter().map(Domain::from).collect())
    }

    /// Returns one domain or claim of an account. Returns `None` if the account has neither the
    /// domain nor a claim to the domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, account_id: &str, name: &str) -> Result<Option<Domain>, Error> {
        let row: Option<Row> = self.db.optional(OWN, (account_id, name)).await?;
        Ok(row.map(Domain::from))
    }

    /// Returns the verified domain with this name and all pending claims to the domain. If `name`
    /// is empty, returns all verified domains and all claims. The result is sorted by name. A
    /// verified domain comes before its pending claims.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn claims(&self, name: &str) -> Result<Vec<Claim>, Error> {
        let rows: Vec<ClaimRow> = self.db.all(CLAIMS, [name]).await?;
        let claim = |row: ClaimRow| Claim {
            domain: row.domain.into(),
            account_id: row.account_id,
            owner: row.owner,
        };
        Ok(rows.into_iter().map(claim).collect())
    }

    /// Claims a domain for an account. The account must have fewer than `at_most` domains and
    /// claims together. Concurrent claims cannot exceed this limit.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is claimed in that case.
    pub async fn claim(
        &self,
        by: DomainCaller<'_>,
        name: &str,
        challenge: &str,
        at_most: u32,
        origin: &Origin,
    ) -> Result<Claimed, Error> {
        let mut tx = self.db.begin().await?;
        if !by.lock(&mut tx).await? {
            return Ok(Claimed::SessionOver);
        }
        tx.lock_domain(name).await?;
        if let Some(existing) = own(&mut tx, by.account_id, name).await? {
            return Ok(Claimed::Existing(existing));
        }
        if is_platforms(&mut tx, by.account_id, name).await? {
            return Ok(Claimed::Platform);
        }
        // If a plan allows no custom domains, accounts with this plan must not learn whether
        // another account has the domain.
        if at_most == 0 {
            return Ok(Claimed::Full);
        }
        if holder(&mut tx, name).await?.is_some() {
            return Ok(Claimed::Taken);
        }
        let held: i64 = tx.value(COUNT, [by.account_id]).await?;
        if held >= i64::from(at_most) {
            return Ok(Claimed::Full);
        }
        tx.execute(INSERT, (by.account_id, name, challenge, by.at))
            .await?;
        let claimed = Event::of(Kind::DomainClaimed, by.account_id, by.at).about(name);
        events::commit(tx, claimed, origin).await?;
        Ok(Claimed::New(Domain {
            name: name.to_owned(),
            challenge: challenge.to_owned(),
            created_at: by.at,
            verified_at: None,
            dkim: None,
        }))
    }

    /// Marks a claimed domain as verified. The caller must have found `challenge` in the DNS.
    /// Deletes the claims of other accounts to the domain. Also deletes the rows of other accounts'
    /// deleted aliases on the domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn activate(
        &self,
        by: DomainCaller<'_>,
        name: &str,
        challenge: &str,
        keys: &NewKeys,
        origin: &Origin,
    ) -> Result<Verified, Error> {
        let mut tx = self.db.begin().await?;
        if !by.lock(&mut tx).await? {
            return Ok(Verified::SessionOver);
        }
        tx.lock_domain(name).await?;
        let claim = match own(&mut tx, by.account_id, name).await? {
            Some(active) if active.verified_at.is_some() => return Ok(Verified::Active(active)),
            Some(claim) if claim.challenge == challenge => claim,
            _ if holder(&mut tx, name).await?.is_some() => return Ok(Verified::Taken),
            _ => return Ok(Verified::Gone),
        };
        // Check whether another account has verified the domain. Such a domain has no pending
        // claims, unless a person edited the tables.
        if holder(&mut tx, name).await?.is_some() {
            return Ok(Verified::Taken);
        }
        if is_platforms(&mut tx, by.account_id, name).await? {
            return Ok(Verified::Platform);
        }
        tx.execute(FORGET_ALIASES_OF_OTHERS, (name, by.account_id))
            .await?;
        let others: Vec<String> = tx.values(VOID_OTHERS, (name, by.account_id)).await?;
        for other in &others {
            let voided = Event::of(Kind::DomainClaimVoided, other, by.at)
                .about(name)
                .detail("verified by another account");
            // The origin of the event is the service, because the account that loses its claim must
            // not learn who verified the domain.
            events::record(&mut tx, voided, &Origin::service()).await?;
        }
        let row = (
            by.account_id,
            name,
            by.at,
            &keys.public.selector,
            &keys.public.key,
            &keys.sealed_private_key,
        );
        tx.execute(ACTIVATE, row).await?;
        tx.project(Source::Domain(name)).await?;
        let verified = Event::of(Kind::DomainVerified, by.account_id, by.at).about(name);
        events::commit(tx, verified, origin).await?;
        Ok(Verified::Active(Domain {
            verified_at: Some(by.at),
            dkim: Some(keys.public.clone()),
            ..claim
        }))
    }

    /// Releases a domain or a claim. Deletes the domain's keys, and the rows of the account's
    /// deleted aliases on the domain. With [`Remaining::Delete`], also deletes the account's live
    /// aliases on the domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn release(
        &self,
        by: DomainCaller<'_>,
        name: &str,
        aliases: Remaining,
        origin: &Origin,
    ) -> Result<Released, Error> {
        let mut tx = self.db.begin().await?;
        if !by.lock(&mut tx).await? {
            return Ok(Released::SessionOver);
        }
        tx.lock_domain(name).await?;
        let Some(domain) = own(&mut tx, by.account_id, name).await? else {
            return Ok(Released::Unknown);
        };
        match aliases {
            Remaining::Delete => end_aliases(&mut tx, by, name, origin).await?,
            Remaining::Keep => {
                let aliases: i64 = tx.value(LIVE_ALIASES, (name, by.account_id)).await?;
                if aliases > 0 {
                    return Ok(Released::HasAliases);
                }
            }
        }
        // Only a verified domain proves that the account owns the addresses on the domain.
        // Therefore keep the rows of deleted aliases if the claim is pending.
        if domain.verified_at.is_some() {
            tx.execute(FORGET_ALIASES, (name, by.account_id)).await?;
        }
        tx.execute(DELETE, (by.account_id, name)).await?;
        if domain.verified_at.is_some() {
            domain_settings::forget(&mut tx, name).await?;
        }
        tx.project(Source::Domain(name)).await?;
        let state = if domain.verified_at.is_some() {
            "active"
        } else {
            "pending"
        };
        let released = Event::of(Kind::DomainReleased, by.account_id, by.at)
            .about(name)
            .detail(state);
        events::commit(tx, released, origin).await?;
        Ok(Released::Released)
    }
}

/// Deletes the account's aliases on a domain, and records an event for each alias.
async fn end_aliases(
    tx: &mut Tx,
    by: DomainCaller<'_>,
    name: &str,
    origin: &Origin,
) -> Result<(), Error> {
    let mut ended: Vec<String> = tx.values(END_ALIASES, (name, by.account_id, by.at)).await?;
    ended.sort_unstable();
    for address in &ended {
        tx.project(Source::Alias(address)).await?;
        let deleted = Event::of(Kind::AliasDeleted, by.account_id, by.at)
            .about(address)
            .detail("its domain was released");
        events::record(tx, deleted, origin).await?;
    }
    Ok(())
}

async fn own(tx: &mut Tx, account_id: &str, name: &str) -> Result<Option<Domain>, Error> {
    let row: Option<Row> = tx.optional(OWN, (account_id, name)).await?;
    Ok(row.map(Domain::from))
}

/// Returns the account that has verified a domain. Returns `None` if no account has verified the
/// domain.
pub(super) async fn holder(tx: &mut Tx, name: &str) -> Result<Option<String>, Error> {
    tx.optional_value(HOLDER, [name]).await
}

async fn is_platforms(tx: &mut Tx, account_id: &str, name: &str) -> Result<bool, Error> {
    tx.exists(PLATFORM, (name, account_id)).await
}

#[cfg(test)]
mod tests;
