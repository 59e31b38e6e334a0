//! Domains that accounts claim. A claim is pending until its owner has proved to have the domain. Claims of several accounts stand side by
//! side until then: of all who claim a domain, one gets it.
//!
//! Names come folded (`dns::name`). The keys that sign for a domain stand in its row and go with it.

use std::fmt;

use super::db::{Tx, on, on_tx};
use super::events::{self, Event, Kind};
use super::sessions::Asking;
use super::{Directory, Error};
use crate::caller::Origin;
use crate::clock::Timestamp;

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
const PLAN: &str = "SELECT plan FROM accounts WHERE id = $1";
const COUNT: &str = "SELECT COUNT(*) FROM domains WHERE account_id = $1";
const HOLDER: &str = "SELECT account_id FROM domains WHERE domain = $1 AND verified_at IS NOT NULL";
/// Where others have addresses that they did not get by verifying it, it is or was the platform's.
const PLATFORM: &str = "SELECT 1 WHERE EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) \
    OR EXISTS (SELECT 1 FROM addresses WHERE domain = $1 AND live AND kind = 'account') \
    OR EXISTS (SELECT 1 FROM addresses a WHERE a.domain = $1 AND a.live AND a.kind = 'alias' AND a.account_id <> $2 \
        AND NOT EXISTS (SELECT 1 FROM domains d WHERE d.domain = $1 AND d.account_id = a.account_id AND d.verified_at IS NOT NULL))";
/// Of one domain, or of all. Whoever has it before those that claim it.
const CLAIMS: &str = "SELECT d.domain AS name, d.challenge, d.created_at, d.verified_at, d.dkim_selector, d.dkim_public_key, \
        a.id AS account_id, a.address AS owner \
    FROM domains d JOIN accounts a ON a.id = d.account_id WHERE ($1 = '' OR d.domain = $1) \
    ORDER BY d.domain, d.verified_at IS NULL, d.created_at, a.address";
const INSERT: &str =
    "INSERT INTO domains (account_id, domain, challenge, created_at) VALUES ($1, $2, $3, $4)";
const ACTIVATE: &str = "UPDATE domains SET verified_at = $3, dkim_selector = $4, dkim_public_key = $5, dkim_private_key = $6 \
    WHERE account_id = $1 AND domain = $2";
/// Claims alone: of two that have verified it the unique index lets one.
const VOID_OTHERS: &str = "DELETE FROM domains \
    WHERE domain = $1 AND account_id <> $2 AND verified_at IS NULL RETURNING account_id";
const DELETE: &str = "DELETE FROM domains WHERE account_id = $1 AND domain = $2";
const LIVE_ALIASES: &str = "SELECT COUNT(*) FROM addresses \
    WHERE domain = $1 AND account_id = $2 AND kind = 'alias' AND live";
const END_ALIASES: &str = "UPDATE addresses SET live = FALSE, changed_at = $3 \
    WHERE domain = $1 AND account_id = $2 AND kind = 'alias' AND live RETURNING address";
/// Whoever has a domain next is to be able to have every alias on it. What the operator holds stays, and so does what everybody else had there.
const FORGET_ALIASES: &str = "DELETE FROM addresses \
    WHERE domain = $1 AND account_id = $2 AND kind = 'alias' AND NOT live \
    AND NOT EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1)";
const FORGET_ALIASES_OF_OTHERS: &str = "DELETE FROM addresses \
    WHERE domain = $1 AND kind = 'alias' AND NOT live AND (account_id IS NULL OR account_id <> $2)";

/// A domain of an account, or its claim of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Lower case, ASCII.
    pub name: String,
    /// The token that its owner publishes.
    pub challenge: String,
    /// When it was claimed.
    pub created_at: Timestamp,
    /// When it was verified; none while its claim is pending.
    pub verified_at: Option<Timestamp>,
    /// What signs for it; none while its claim is pending.
    pub dkim: Option<PublicKey>,
}

/// The public half of what signs for a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// What it is published under.
    pub selector: String,
    /// `SubjectPublicKeyInfo`, DER, base64.
    pub key: String,
}

/// A domain as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The domain.
    pub domain: Domain,
    /// The account's id.
    pub account_id: String,
    /// The account's address.
    pub owner: String,
}

/// What is to sign for a domain.
#[derive(Clone)]
pub struct NewKeys {
    /// What is published.
    pub public: PublicKey,
    /// What signs, sealed.
    pub sealed_private_key: Vec<u8>,
}

impl fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKeys")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// Who changes the domains of an account.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// The account.
    pub account_id: &'a str,
    /// The session that asks, which has to live; none where the operator does.
    pub sid: Option<&'a str>,
    /// Now.
    pub at: Timestamp,
}

/// What becomes of an account's aliases on a domain that it is to have no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// While there are any, it keeps the domain.
    Keep,
    /// They are deleted with it.
    Delete,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// It is pending now.
    Fresh(Domain),
    /// The account had claimed it; all is as it was.
    Standing(Domain),
    /// It is the platform's.
    Platform,
    /// It is another account's.
    Taken,
    /// The account has as many as it may.
    Full,
    /// The session that asked is over.
    SessionOver,
}

/// What came of verifying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// It is the account's, by this or since before.
    Active(Domain),
    /// Somebody else was first.
    Taken,
    /// It is the platform's meanwhile.
    Platform,
    /// The claim that was checked is gone.
    Gone,
    /// The session that asked is over.
    SessionOver,
}

/// What came of giving a domain up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It is nobody's.
    Released,
    /// The account has aliases on it.
    HasAliases,
    /// The account has no such domain.
    Unknown,
    /// The session that asked is over.
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

impl By<'_> {
    /// Locks the account. Whether the session lives, where one asks.
    async fn lock(&self, tx: &mut Tx) -> Result<bool, Error> {
        let Some(sid) = self.sid else {
            tx.lock_account(self.account_id).await?;
            return Ok(true);
        };
        let asking = Asking {
            account_id: self.account_id,
            sid,
            at: self.at,
        };
        asking.lock(tx).await
    }
}

impl Directory {
    /// The name of an account's plan; none where there is no such account.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn plan(&self, account_id: &str) -> Result<Option<String>, Error> {
        Ok(on!(&self.db, pool => sqlx::query_scalar(PLAN)
            .bind(account_id)
            .fetch_optional(pool).await)?)
    }

    /// An account's domains and claims, newest first.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn domains(&self, account_id: &str) -> Result<Vec<Domain>, Error> {
        let rows: Vec<Row> = on!(&self.db, pool => sqlx::query_as(LIST)
            .bind(account_id)
            .fetch_all(pool).await)?;
        Ok(rows.into_iter().map(Domain::from).collect())
    }

    /// One of them.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn domain(&self, account_id: &str, name: &str) -> Result<Option<Domain>, Error> {
        let row: Option<Row> = on!(&self.db, pool => sqlx::query_as(OWN)
            .bind(account_id)
            .bind(name)
            .fetch_optional(pool).await)?;
        Ok(row.map(Domain::from))
    }

    /// Who has or claims a domain, or any domain where `name` is empty: by domain, whoever has it first.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn domain_claims(&self, name: &str) -> Result<Vec<Claim>, Error> {
        let rows: Vec<ClaimRow> = on!(&self.db, pool => sqlx::query_as(CLAIMS)
            .bind(name)
            .fetch_all(pool).await)?;
        let claim = |row: ClaimRow| Claim {
            domain: row.domain.into(),
            account_id: row.account_id,
            owner: row.owner,
        };
        Ok(rows.into_iter().map(claim).collect())
    }

    /// Claims a domain, where the account has fewer than `at_most`, claims among them. Of many at once no more are kept.
    ///
    /// # Errors
    /// [`Error`] where the database fails; nothing was claimed then.
    pub async fn claim_domain(
        &self,
        by: By<'_>,
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
        if let Some(standing) = own(&mut tx, by.account_id, name).await? {
            return Ok(Claimed::Standing(standing));
        }
        if is_platforms(&mut tx, by.account_id, name).await? {
            return Ok(Claimed::Platform);
        }
        // Who may have none at all does not learn whether somebody else has this one.
        if at_most == 0 {
            return Ok(Claimed::Full);
        }
        if holder(&mut tx, name).await?.is_some() {
            return Ok(Claimed::Taken);
        }
        let held: i64 = on_tx!(&mut tx, db => sqlx::query_scalar(COUNT)
            .bind(by.account_id)
            .fetch_one(db).await)?;
        if held >= i64::from(at_most) {
            return Ok(Claimed::Full);
        }
        on_tx!(&mut tx, db => sqlx::query(INSERT)
            .bind(by.account_id)
            .bind(name)
            .bind(challenge)
            .bind(by.at.millis())
            .execute(db).await.map(drop))?;
        let claimed = Event::of(Kind::DomainClaimed, by.account_id, by.at).about(name);
        events::commit(tx, claimed, origin).await?;
        Ok(Claimed::Fresh(Domain {
            name: name.to_owned(),
            challenge: challenge.to_owned(),
            created_at: by.at,
            verified_at: None,
            dkim: None,
        }))
    }

    /// Makes a claimed domain the account's, its claim checked by this `challenge`. Claims of others are void from then on, and what others
    /// once had on the domain is nobody's.
    ///
    /// # Errors
    /// [`Error`] where the database fails; all is as it was then.
    pub async fn activate_domain(
        &self,
        by: By<'_>,
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
        // A claim can stand beside whose it is only where somebody changed the tables.
        if holder(&mut tx, name).await?.is_some() {
            return Ok(Verified::Taken);
        }
        if is_platforms(&mut tx, by.account_id, name).await? {
            return Ok(Verified::Platform);
        }
        on_tx!(&mut tx, db => sqlx::query(FORGET_ALIASES_OF_OTHERS)
            .bind(name)
            .bind(by.account_id)
            .execute(db).await.map(drop))?;
        let others: Vec<String> = on_tx!(&mut tx, db => sqlx::query_scalar(VOID_OTHERS)
            .bind(name)
            .bind(by.account_id)
            .fetch_all(db).await)?;
        for other in &others {
            let voided = Event::of(Kind::DomainClaimVoided, other, by.at)
                .about(name)
                .detail("somebody else verified it");
            // By whom is not told to an account that it does not concern.
            events::record(&mut tx, voided, &Origin::service()).await?;
        }
        on_tx!(&mut tx, db => sqlx::query(ACTIVATE)
            .bind(by.account_id)
            .bind(name)
            .bind(by.at.millis())
            .bind(&keys.public.selector)
            .bind(&keys.public.key)
            .bind(&keys.sealed_private_key)
            .execute(db).await.map(drop))?;
        let verified = Event::of(Kind::DomainVerified, by.account_id, by.at).about(name);
        events::commit(tx, verified, origin).await?;
        Ok(Verified::Active(Domain {
            verified_at: Some(by.at),
            dkim: Some(keys.public.clone()),
            ..claim
        }))
    }

    /// Gives a domain or a claim up: its keys go with it, and so do the addresses that were on it and are no more, or are to be no more.
    ///
    /// # Errors
    /// [`Error`] where the database fails; all is as it was then.
    pub async fn release_domain(
        &self,
        by: By<'_>,
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
                let aliases: i64 = on_tx!(&mut tx, db => sqlx::query_scalar(LIVE_ALIASES)
                    .bind(name)
                    .bind(by.account_id)
                    .fetch_one(db).await)?;
                if aliases > 0 {
                    return Ok(Released::HasAliases);
                }
            }
        }
        // A claim alone says nothing of whose the addresses are.
        if domain.verified_at.is_some() {
            on_tx!(&mut tx, db => sqlx::query(FORGET_ALIASES)
                .bind(name)
                .bind(by.account_id)
                .execute(db).await.map(drop))?;
        }
        on_tx!(&mut tx, db => sqlx::query(DELETE)
            .bind(by.account_id)
            .bind(name)
            .execute(db).await.map(drop))?;
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

/// Deletes the account's aliases on a domain, each recorded.
async fn end_aliases(tx: &mut Tx, by: By<'_>, name: &str, origin: &Origin) -> Result<(), Error> {
    let mut ended: Vec<String> = on_tx!(tx, db => sqlx::query_scalar(END_ALIASES)
        .bind(name)
        .bind(by.account_id)
        .bind(by.at.millis())
        .fetch_all(db).await)?;
    ended.sort_unstable();
    for address in &ended {
        let deleted = Event::of(Kind::AliasDeleted, by.account_id, by.at)
            .about(address)
            .detail("its domain was released");
        events::record(tx, deleted, origin).await?;
    }
    Ok(())
}

async fn own(tx: &mut Tx, account_id: &str, name: &str) -> Result<Option<Domain>, Error> {
    let row: Option<Row> = on_tx!(tx, db => sqlx::query_as(OWN)
        .bind(account_id)
        .bind(name)
        .fetch_optional(db).await)?;
    Ok(row.map(Domain::from))
}

/// The account that has verified it.
pub(super) async fn holder(tx: &mut Tx, name: &str) -> Result<Option<String>, Error> {
    Ok(on_tx!(tx, db => sqlx::query_scalar(HOLDER)
        .bind(name)
        .fetch_optional(db).await)?)
}

async fn is_platforms(tx: &mut Tx, account_id: &str, name: &str) -> Result<bool, Error> {
    let found: Option<i32> = on_tx!(tx, db => sqlx::query_scalar(PLATFORM)
        .bind(name)
        .bind(account_id)
        .fetch_optional(db).await)?;
    Ok(found.is_some())
}

#[cfg(test)]
mod tests;
