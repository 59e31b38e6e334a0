//! Aliases: further addresses of an account, in the one namespace of addresses.
//!
//! On one of the platform's domains a deleted alias keeps its row, so that nobody else ever has the address. On an account's own domain nobody
//! else could: there the row goes.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::db::{Tx, on, on_tx};
use super::events::{self, Event, Kind};
use super::{Directory, Error};
use crate::caller::{Caller, Credential, Origin};
use crate::clock::Timestamp;
use crate::teams::rights::{Grants, Right, Rights};

/// Aliases that an account may have or have had on the platform's domains: nobody uses up the names that all share.
pub const MOST_SHARED: u32 = 500;
/// Aliases that an account may have on its own domains, of all of them together.
pub const MOST_OWN: u32 = 1000;

/// New aliases that one credential can make in one mailbox within [`WINDOW`]: a stolen credential must not use up all names.
pub const MOST_NEW: u32 = 50;
const WINDOW: Duration = Duration::from_hours(24);
/// The detail of an event that made an alias active again that the account had before: no name is used up.
const AGAIN: &str = "deleted before";

/// A web session may have got another app password meanwhile; it goes on. Of what is not the directory's to judge ($5) the account counts alone.
const LIVES: &str = "SELECT 1 FROM accounts a WHERE a.id = $1 AND a.active AND ( $5 \
    OR EXISTS (SELECT 1 FROM app_passwords p WHERE p.id = $2 AND p.account_id = a.id AND (p.expires_at IS NULL OR p.expires_at > $4)) \
    OR EXISTS (SELECT 1 FROM sessions s WHERE s.sid = $3 AND s.account_id = a.id AND s.expires_at > $4))";

const LIST: &str = "SELECT address, active, created_at, changed_at, made_by FROM addresses \
    WHERE account_id = $1 AND kind = 'alias' AND live";
const DOMAINS: &str = "SELECT domain, 0 AS own FROM platform_domains UNION ALL \
    SELECT domain, 1 AS own FROM domains WHERE account_id = $1 AND verified_at IS NOT NULL";
/// One that is both is the platform's.
const WHOSE: &str = "SELECT \
    EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) AS platform, \
    EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND account_id = $2 AND verified_at IS NOT NULL) AS own";
/// What stands in the way of an address: $3 is whether it is on an own domain, whose rows are counted apart.
const ROOM: &str = "SELECT \
    EXISTS (SELECT 1 FROM addresses WHERE address = $2) AS held, \
    EXISTS (SELECT 1 FROM addresses WHERE address = $2 AND account_id = $1 AND kind = 'alias' AND NOT live) AS had, \
    (SELECT COUNT(*) FROM addresses a WHERE a.account_id = $1 AND a.kind = 'alias' AND $3 = EXISTS ( \
        SELECT 1 FROM domains d WHERE d.account_id = $1 AND d.verified_at IS NOT NULL \
            AND substr(a.address, length(a.address) - length(d.domain)) = '@' || d.domain \
            AND NOT EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = d.domain))) AS count";
/// The primary key decides, also between two at once.
const INSERT: &str = "INSERT INTO addresses (address, kind, account_id, created_at, changed_at, made_by) VALUES ($1, 'alias', $2, $3, $3, $4) \
    ON CONFLICT (address) DO UPDATE SET live = TRUE, active = TRUE, created_at = EXCLUDED.created_at, changed_at = EXCLUDED.changed_at, \
        made_by = EXCLUDED.made_by \
    WHERE addresses.account_id = EXCLUDED.account_id AND addresses.kind = 'alias' AND NOT addresses.live";
/// The time at which a credential made the oldest of its newest aliases: $4 are skipped.
const MADE: &str = "SELECT at FROM security_events WHERE account_id = $1 AND kind = 'alias_created' AND credential = $2 \
    AND detail IS NULL AND at > $3 ORDER BY at DESC LIMIT 1 OFFSET $4";
const SET_ACTIVE: &str = "UPDATE addresses SET active = $2, changed_at = $3 WHERE address = $1";
const KEEP: &str = "UPDATE addresses SET live = FALSE, changed_at = $2 WHERE address = $1";
const FORGET: &str = "DELETE FROM addresses WHERE address = $1";

/// Who asks for a change. It is made in a transaction that finds their credential good: a request may be on its way for a minute.
#[derive(Clone, Copy, Debug)]
pub struct Acting<'a> {
    /// The account.
    pub account_id: &'a str,
    /// The app password that acts for the credential at the mail server; it goes when the credential does. None where an access token of an
    /// authorization server elsewhere acts: only that server knows whether it is good, and said so a minute ago at most.
    pub app_password_id: Option<&'a str>,
    /// The web session, where it is one; empty else.
    pub sid: &'a str,
    /// Now.
    pub at: Timestamp,
    /// Who acts, where it is a guest in the account's mailbox.
    pub guest: Option<Guest<'a>>,
}

/// A guest, and what it was granted.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// The guest's own account.
    pub account: &'a str,
    /// What it was granted.
    pub grants: &'a Grants,
}

impl Guest<'_> {
    /// What it holds of an alias.
    #[must_use]
    pub fn over(&self, alias: &Alias) -> Rights {
        let made = alias.made_by.as_deref() == Some(self.account);
        self.grants.over_alias(&alias.address, made)
    }
}

impl<'a> Acting<'a> {
    /// A caller, now, in its own mailbox or in one that is shared with it.
    #[must_use]
    pub fn of(caller: &'a Caller, at: Timestamp) -> Self {
        if let Some(shared) = &caller.shared {
            return Self {
                account_id: &shared.account,
                // What acts for guests: it is gone when they are not to act any more.
                app_password_id: Some(&shared.mail.id),
                sid: "",
                at,
                guest: Some(Guest {
                    account: &caller.account,
                    grants: &shared.grants,
                }),
            };
        }
        Self {
            account_id: &caller.account,
            app_password_id: caller.mail.app_password_id(),
            sid: match &caller.credential {
                Credential::Session { sid } => sid,
                Credential::ApiToken { .. } | Credential::OAuth { .. } => "",
            },
            at,
            guest: None,
        }
    }

    /// Locks the account. Whether the credential is good.
    pub(super) async fn lock(&self, tx: &mut Tx) -> Result<bool, Error> {
        tx.lock_account(self.account_id).await?;
        let lives: Option<i32> = on_tx!(tx, db => sqlx::query_scalar(LIVES)
            .bind(self.account_id)
            .bind(self.app_password_id)
            .bind(self.sid)
            .bind(self.at.millis())
            .bind(self.app_password_id.is_none())
            .fetch_optional(db).await)?;
        Ok(lives.is_some())
    }
}

/// An alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Lower case.
    pub address: String,
    /// Whether it delivers and may be sent from.
    pub active: bool,
    /// When it was made; none for one that the service never saw being made.
    pub created_at: Option<Timestamp>,
    /// When it was last changed; none likewise.
    pub modified_at: Option<Timestamp>,
    /// The account of the guest who made it; none where its owner did.
    pub made_by: Option<String>,
}

impl Alias {
    /// Its id. It tells nothing that the address does not, and only its owner finds anything by it.
    #[must_use]
    pub fn id(&self) -> u64 {
        id(&self.address)
    }
}

/// The first 52 bits of the address's SHA-256, plus 1: a number that every JSON reader keeps whole (RFC 8259, section 6).
fn id(address: &str) -> u64 {
    let digest = Sha256::digest(address);
    let first = digest.iter().take(8);
    1 + (first.fold(0, |number, byte| (number << 8) | u64::from(*byte)) >> 12)
}

/// Whose a domain is, to an account that would have aliases on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The platform's: everybody may.
    Platform,
    /// Its own, verified.
    Own,
    /// Somebody else's, or nobody's.
    Foreign,
}

/// What is, or would be, in the way of a new alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The address is, or was, somebody's.
    Taken,
    /// The account may have no aliases on the domain, or no longer.
    Foreign,
    /// The account has as many as it may: of those on the platform's domains, or on its own.
    Full(Whose),
    /// The credential has made as many new aliases as it can until this instant.
    Spent(Timestamp),
    /// The credential that asked is no longer good.
    CredentialOver,
}

/// What came of a change to an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is as it was wanted.
    Done,
    /// The account has no alias of this id, or none that a guest may know of.
    Unknown,
    /// A guest may know of it, and not change it.
    Denied,
    /// The credential that asked is no longer good.
    CredentialOver,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    address: String,
    active: bool,
    created_at: Option<i64>,
    changed_at: Option<i64>,
    made_by: Option<String>,
}

impl From<Row> for Alias {
    fn from(row: Row) -> Self {
        Self {
            address: row.address,
            active: row.active,
            created_at: row.created_at.map(Timestamp::from_millis),
            modified_at: row
                .created_at
                .and(row.changed_at)
                .map(Timestamp::from_millis),
            made_by: row.made_by,
        }
    }
}

#[derive(sqlx_macros::FromRow)]
struct Room {
    held: bool,
    had: bool,
    count: i64,
}

impl Room {
    fn obstacle(&self, whose: Whose) -> Option<Obstacle> {
        let most = match whose {
            Whose::Platform => MOST_SHARED,
            Whose::Own => MOST_OWN,
            Whose::Foreign => return Some(Obstacle::Foreign),
        };
        if self.had {
            None
        } else if self.held {
            Some(Obstacle::Taken)
        } else if self.count >= i64::from(most) {
            Some(Obstacle::Full(whose))
        } else {
            None
        }
    }
}

impl Directory {
    /// An account's aliases, active or not, by their addresses.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn aliases(&self, account_id: &str) -> Result<Vec<Alias>, Error> {
        let rows: Vec<Row> = on!(&self.db, pool => sqlx::query_as(LIST)
            .bind(account_id)
            .fetch_all(pool).await)?;
        Ok(sorted(rows))
    }

    /// The domains that an account may have aliases on: the platform's, then its own, each by name.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn alias_domains(&self, account_id: &str) -> Result<Vec<String>, Error> {
        let mut domains: Vec<(String, i32)> = on!(&self.db, pool => sqlx::query_as(DOMAINS)
            .bind(account_id)
            .fetch_all(pool).await)?;
        // Here, since databases sort by languages' rules.
        domains.sort_by(|(a, own_a), (b, own_b)| (own_a, a).cmp(&(own_b, b)));
        let mut names: Vec<String> = Vec::with_capacity(domains.len());
        for (name, _) in domains {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Whose a domain, in lower case and ASCII, is to an account.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn whose_domain(&self, account_id: &str, domain: &str) -> Result<Whose, Error> {
        let found: (bool, bool) = on!(&self.db, pool => sqlx::query_as(WHOSE)
            .bind(domain)
            .bind(account_id)
            .fetch_one(pool).await)?;
        Ok(whose(found))
    }

    /// What would be in the way of an account that wanted this address on a domain of that kind.
    ///
    /// # Errors
    /// [`Error`] where the database fails.
    pub async fn alias_obstacle(
        &self,
        account_id: &str,
        address: &str,
        whose: Whose,
    ) -> Result<Option<Obstacle>, Error> {
        let room: Room = on!(&self.db, pool => sqlx::query_as(ROOM)
            .bind(account_id)
            .bind(address)
            .bind(whose == Whose::Own)
            .fetch_one(pool).await)?;
        Ok(room.obstacle(whose))
    }

    /// Makes an alias, active, on a domain of that kind; one that the account had is had again. Of two that want an address at once one gets it.
    ///
    /// # Errors
    /// [`Error`] where the database fails; nothing was made then.
    pub async fn create_alias(
        &self,
        acting: Acting<'_>,
        address: &str,
        whose: Whose,
        origin: &Origin,
    ) -> Result<Result<Alias, Obstacle>, Error> {
        let account_id = acting.account_id;
        let mut tx = self.db.begin().await?;
        if !acting.lock(&mut tx).await? {
            return Ok(Err(Obstacle::CredentialOver));
        }
        tx.keep_domain(domain_of(address)).await?;
        // By the domain as it is, the name was judged: reserved names are free on an account's own alone.
        if whose_of(&mut tx, account_id, address).await? != whose {
            return Ok(Err(Obstacle::Foreign));
        }
        let room: Room = on_tx!(&mut tx, db => sqlx::query_as(ROOM)
            .bind(account_id)
            .bind(address)
            .bind(whose == Whose::Own)
            .fetch_one(db).await)?;
        if let Some(obstacle) = room.obstacle(whose) {
            return Ok(Err(obstacle));
        }
        if !room.had
            && let Some(until) = spent_until(&mut tx, acting, origin).await?
        {
            return Ok(Err(Obstacle::Spent(until)));
        }
        let made = on_tx!(&mut tx, db => sqlx::query(INSERT)
            .bind(address)
            .bind(account_id)
            .bind(acting.at.millis())
            .bind(acting.guest.map(|guest| guest.account))
            .execute(db).await.map(|done| done.rows_affected()))?;
        if made == 0 {
            return Ok(Err(Obstacle::Taken));
        }
        let event = Event {
            detail: room.had.then_some(AGAIN),
            ..Event::of(Kind::AliasCreated, account_id, acting.at).about(address)
        };
        events::commit(tx, event, origin).await?;
        Ok(Ok(Alias {
            address: address.to_owned(),
            active: true,
            created_at: Some(acting.at),
            modified_at: Some(acting.at),
            made_by: acting.guest.map(|guest| guest.account.to_owned()),
        }))
    }

    /// Switches an alias of an account on or off.
    ///
    /// # Errors
    /// [`Error`] where the database fails; it is as it was then.
    pub async fn set_alias_active(
        &self,
        acting: Acting<'_>,
        id: u64,
        active: bool,
        origin: &Origin,
    ) -> Result<Change, Error> {
        let mut tx = self.db.begin().await?;
        if !acting.lock(&mut tx).await? {
            return Ok(Change::CredentialOver);
        }
        let alias = match find(&mut tx, acting, id).await? {
            Ok(alias) => alias,
            Err(refused) => return Ok(refused),
        };
        if alias.active == active {
            return Ok(Change::Done);
        }
        on_tx!(&mut tx, db => sqlx::query(SET_ACTIVE)
            .bind(&alias.address)
            .bind(active)
            .bind(acting.at.millis())
            .execute(db).await.map(drop))?;
        let kind = if active {
            Kind::AliasEnabled
        } else {
            Kind::AliasDisabled
        };
        let event = Event::of(kind, acting.account_id, acting.at).about(&alias.address);
        events::commit(tx, event, origin).await?;
        Ok(Change::Done)
    }

    /// Deletes an alias of an account.
    ///
    /// # Errors
    /// [`Error`] where the database fails; it is as it was then.
    pub async fn delete_alias(
        &self,
        acting: Acting<'_>,
        id: u64,
        origin: &Origin,
    ) -> Result<Change, Error> {
        let account_id = acting.account_id;
        let mut tx = self.db.begin().await?;
        if !acting.lock(&mut tx).await? {
            return Ok(Change::CredentialOver);
        }
        let alias = match find(&mut tx, acting, id).await? {
            Ok(alias) => alias,
            Err(refused) => return Ok(refused),
        };
        match whose_of(&mut tx, account_id, &alias.address).await? {
            Whose::Own => on_tx!(&mut tx, db => sqlx::query(FORGET)
                .bind(&alias.address)
                .execute(db).await.map(drop))?,
            Whose::Platform | Whose::Foreign => on_tx!(&mut tx, db => sqlx::query(KEEP)
                .bind(&alias.address)
                .bind(acting.at.millis())
                .execute(db).await.map(drop))?,
        }
        let event = Event::of(Kind::AliasDeleted, account_id, acting.at).about(&alias.address);
        events::commit(tx, event, origin).await?;
        Ok(Change::Done)
    }
}

fn sorted(rows: Vec<Row>) -> Vec<Alias> {
    let mut aliases: Vec<Alias> = rows.into_iter().map(Alias::from).collect();
    aliases.sort_by(|a, b| a.address.cmp(&b.address));
    aliases
}

const fn whose((platform, own): (bool, bool)) -> Whose {
    if platform {
        Whose::Platform
    } else if own {
        Whose::Own
    } else {
        Whose::Foreign
    }
}

/// The domain of an address.
pub(super) fn domain_of(address: &str) -> &str {
    address.rsplit('@').next().unwrap_or_default()
}

/// Whose the domain of an address, or a domain, is to an account.
pub(super) async fn whose_of(tx: &mut Tx, account_id: &str, address: &str) -> Result<Whose, Error> {
    let found: (bool, bool) = on_tx!(tx, db => sqlx::query_as(WHOSE)
        .bind(domain_of(address))
        .bind(account_id)
        .fetch_one(db).await)?;
    Ok(whose(found))
}

/// Until when a credential can make no new alias in a mailbox. Returns `None` if it can make one now.
async fn spent_until(
    tx: &mut Tx,
    acting: Acting<'_>,
    origin: &Origin,
) -> Result<Option<Timestamp>, Error> {
    let made: Option<i64> = on_tx!(tx, db => sqlx::query_scalar(MADE)
        .bind(acting.account_id)
        .bind(&origin.credential)
        .bind(acting.at.minus(WINDOW).millis())
        .bind(i64::from(MOST_NEW - 1))
        .fetch_optional(db).await)?;
    Ok(made.map(|at| Timestamp::from_millis(at).plus(WINDOW)))
}

/// The live alias with this id that may be changed, or why there is none.
async fn find(tx: &mut Tx, acting: Acting<'_>, id: u64) -> Result<Result<Alias, Change>, Error> {
    let rows: Vec<Row> = on_tx!(tx, db => sqlx::query_as(LIST)
        .bind(acting.account_id)
        .fetch_all(db).await)?;
    let found = sorted(rows).into_iter().find(|alias| alias.id() == id);
    let Some(alias) = found else {
        return Ok(Err(Change::Unknown));
    };
    let Some(guest) = acting.guest else {
        return Ok(Ok(alias));
    };
    let rights = guest.over(&alias);
    Ok(if rights.hold(Right::AliasesWrite) {
        Ok(alias)
    } else if rights.is_none() {
        Err(Change::Unknown)
    } else {
        Err(Change::Denied)
    })
}

#[cfg(test)]
mod tests;
