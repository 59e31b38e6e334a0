//! Aliases: additional addresses of an account. All addresses share one namespace.
//!
//! A deleted alias on a platform domain keeps its row, so that no other account can get the
//! address. The row of a deleted alias on an account's own domain is deleted, because other
//! accounts cannot create addresses on this domain.

pub mod addresses;
pub mod imports;
pub mod operator;
mod receipts;
mod recording;
pub mod reserved_addresses;
mod update;

pub use self::recording::{ALIAS_CREATE, ALIAS_DELETE, ALIAS_UPDATE};
pub use self::update::AliasUpdate;

use std::time::Duration;

use latchmail_core::caller::{Caller, Credential, Origin};
use latchmail_core::clock::Timestamp;
use latchmail_core::permissions::{Grants, Right, Rights};
use sha2::{Digest as _, Sha256};

use crate::db::{Db, Error, LastLogins, Lookup, Source, Tx};
use crate::events::{self, Event, Kind};
use crate::routes;

/// Maximum number of aliases of an account on platform domains, including deleted aliases. Without
/// this limit, one account could use up the names on domains that all accounts share.
pub const MAX_ON_PLATFORM_DOMAINS: u32 = 500;
/// Maximum number of aliases of an account on all its own domains together.
pub const MAX_ON_OWN_DOMAINS: u32 = 1000;

/// Maximum number of new aliases that one credential can create in one mailbox within [`WINDOW`].
/// Because of this limit, a thief of the credential cannot use up the account's aliases.
pub const MAX_NEW: u32 = 50;
const WINDOW: Duration = Duration::from_hours(24);
/// The event detail for a deleted alias that the account creates again. Such an alias does not
/// count towards [`MAX_NEW`].
const DELETED_BEFORE: &str = "deleted before";

/// Returns a row if the account is active and the credential is valid. A web session can also match
/// by its id, because a concurrent request may have replaced its app password. If $5 is true, the
/// directory does not store the credential, and the query checks only the account.
const IS_VALID: &str = "SELECT 1 FROM accounts a WHERE a.id = $1 AND a.active AND ( $5 \
    OR EXISTS (SELECT 1 FROM app_passwords p WHERE p.id = $2 AND p.account_id = a.id AND p.suspended_at IS NULL \
        AND (p.expires_at IS NULL OR p.expires_at > $4)) \
    OR EXISTS (SELECT 1 FROM sessions s WHERE s.sid = $3 AND s.account_id = a.id AND s.expires_at > $4))";

const LIST: &str = "SELECT address, active, created_at, changed_at, made_by, note, expires_at FROM addresses \
    WHERE account_id = $1 AND kind = 'alias' AND live";
const DOMAINS: &str = "SELECT domain, 0 AS own FROM platform_domains UNION ALL \
    SELECT domain, 1 AS own FROM domains WHERE account_id = $1 AND verified_at IS NOT NULL";
/// Reads whether a domain is a platform domain, and whether an account has verified the domain. If
/// both conditions are true, the domain counts as a platform domain.
const OWNER_OF_DOMAIN: &str = "SELECT \
    EXISTS (SELECT 1 FROM platform_domains WHERE domain = $1) AS platform, \
    EXISTS (SELECT 1 FROM domains WHERE domain = $1 AND account_id = $2 AND verified_at IS NOT NULL) AS own";
/// Reads the data for the decision whether an account can create an alias. $3 is true if the
/// account has verified the alias's domain. Aliases on verified domains and on platform domains are
/// counted separately.
const AVAILABILITY: &str = "SELECT \
    EXISTS (SELECT 1 FROM addresses WHERE address = $2) AS taken, \
    EXISTS (SELECT 1 FROM addresses WHERE address = $2 AND account_id = $1 AND kind = 'alias' AND NOT live) AS was_own, \
    (SELECT COUNT(*) FROM addresses a WHERE a.account_id = $1 AND a.kind = 'alias' AND $3 = EXISTS ( \
        SELECT 1 FROM domains d WHERE d.account_id = $1 AND d.verified_at IS NOT NULL \
            AND substr(a.address, length(a.address) - length(d.domain)) = '@' || d.domain \
            AND NOT EXISTS (SELECT 1 FROM platform_domains p WHERE p.domain = d.domain))) AS count";
/// Inserts an alias, or restores a deleted alias of the account. Changes no row if another account
/// has or had the address, even if a concurrent transaction inserted the address.
const INSERT: &str = "INSERT INTO addresses (address, kind, account_id, created_at, changed_at, made_by) VALUES ($1, 'alias', $2, $3, $3, $4) \
    ON CONFLICT (address) DO UPDATE SET live = TRUE, active = TRUE, created_at = EXCLUDED.created_at, changed_at = EXCLUDED.changed_at, \
        made_by = EXCLUDED.made_by, note = NULL, expires_at = NULL \
    WHERE addresses.account_id = EXCLUDED.account_id AND addresses.kind = 'alias' AND NOT addresses.live";
/// Reads the new aliases that a credential created after $3, newest first. Skips $4 aliases, and
/// returns the creation time of the next alias.
const NTH_LATEST_CREATION: &str = "SELECT at FROM security_events WHERE account_id = $1 AND kind = 'alias_created' AND credential = $2 \
    AND detail IS NULL AND at > $3 ORDER BY at DESC LIMIT 1 OFFSET $4";
const RESERVE: &str = "UPDATE addresses SET live = FALSE, note = NULL, expires_at = NULL, \
    changed_at = $2 WHERE address = $1";
const DELETE: &str = "DELETE FROM addresses WHERE address = $1";

/// The caller of a change to aliases or to the data of a module. A request can take up to a minute.
/// Therefore the transaction with the change checks the caller's credential again.
#[derive(Clone, Copy, Debug)]
pub struct AliasCaller<'a> {
    /// The account whose aliases are changed.
    pub account_id: &'a str,
    /// The id of the app password with which requests with the credential log in to the mail
    /// server. The app password is deleted when the credential ends.
    ///
    /// `None` for an access token of an external authorization server. Only that server can check
    /// such a token. The server confirmed the token at most a minute ago.
    pub app_password_id: Option<&'a str>,
    /// The id of the web session. Empty for other credentials.
    pub sid: &'a str,
    /// The id of the grant whose changes are recorded, or `None` if the caller is no grant.
    pub grant: Option<&'a str>,
    /// The current time.
    pub at: Timestamp,
    /// The member who acts in a shared mailbox, or `None` if the caller acts in its own mailbox.
    pub member: Option<MemberAccess<'a>>,
}

/// A member of a shared mailbox, with the member's grants.
#[derive(Clone, Copy, Debug)]
pub struct MemberAccess<'a> {
    /// The member's own account.
    pub account: &'a str,
    /// The member's grants.
    pub grants: &'a Grants,
}

impl MemberAccess<'_> {
    /// Returns the member's rights over an alias.
    #[must_use]
    pub fn over(&self, alias: &Alias) -> Rights {
        let created = alias.made_by.as_deref() == Some(self.account);
        self.grants.over_alias(&alias.address, created)
    }
}

impl<'a> AliasCaller<'a> {
    /// Creates an `AliasCaller` for the caller of a request. The caller acts in its own mailbox or
    /// in a mailbox that is shared with the caller.
    #[must_use]
    pub fn new(caller: &'a Caller, at: Timestamp) -> Self {
        if let Some(shared) = &caller.shared {
            return Self {
                account_id: &shared.account,
                // The requests of all members use this app password. The app password is deleted
                // when the last member is removed.
                app_password_id: Some(&shared.mail.id),
                sid: "",
                grant: None,
                at,
                member: Some(MemberAccess {
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
                Credential::ApiToken { .. }
                | Credential::OAuth { .. }
                | Credential::AppPassword { .. }
                | Credential::Handler { .. }
                | Credential::Operator { .. } => "",
            },
            grant: caller.grant.as_ref().map(|grant| &*grant.id),
            at,
            member: None,
        }
    }

    /// Locks the account. After that, returns `true` if the account is active and the credential is
    /// valid.
    pub(super) async fn lock(&self, tx: &mut Tx) -> Result<bool, Error> {
        tx.lock_account(self.account_id).await?;
        tx.exists(
            IS_VALID,
            (
                self.account_id,
                self.app_password_id,
                self.sid,
                self.at,
                self.app_password_id.is_none(),
            ),
        )
        .await
    }
}

/// An alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The alias's address, in lower case.
    pub address: String,
    /// Whether the alias receives mail and the account may send from the alias.
    pub active: bool,
    /// The time of creation, or `None` if this service did not create the alias.
    pub created_at: Option<Timestamp>,
    /// The time of the last change, or `None` if this service did not create the alias.
    pub modified_at: Option<Timestamp>,
    /// The account of the member who created the alias, or `None` if the owner created the alias.
    pub made_by: Option<String>,
    /// The owner's note, or an empty string.
    pub note: String,
    /// The time from which the alias receives no mail, or `None` if the alias does not expire.
    pub expires_at: Option<Timestamp>,
    /// The time at which the alias last received mail, or `None` if no mail was recorded.
    pub last_received_at: Option<Timestamp>,
    /// The number of recorded messages since the creation of the alias.
    pub received: u64,
}

impl Alias {
    /// Returns the alias's id, which is derived only from the address. The id is unique only among
    /// the aliases of one account.
    #[must_use]
    pub fn id(&self) -> u64 {
        id(&self.address)
    }
}

/// Returns the first 52 bits of the address's SHA-256, plus 1. Every JSON parser can represent such
/// a number exactly (RFC 8259, section 6).
fn id(address: &str) -> u64 {
    let digest = Sha256::digest(address);
    let first = digest.iter().take(8);
    1 + (first.fold(0, |number, byte| (number << 8) | u64::from(*byte)) >> 12)
}

/// The owner of a domain from the view of an account that wants to create aliases on the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainOwner {
    /// A platform domain. Every account can have aliases on a platform domain.
    Platform,
    /// A domain that the account has verified.
    Own,
    /// A domain of another account, or of no account.
    Foreign,
}

/// The reason why an alias cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The address is taken or reserved, or mail is forwarded to it in a way that would be a loop.
    Taken,
    /// The account is not allowed to have aliases on the domain, or lost this permission.
    Foreign,
    /// The account has reached its limit of aliases on platform domains or on its own domains.
    Full(DomainOwner),
    /// The credential has created the maximum number of new aliases. The value contains the time at
    /// which the credential can create the next alias.
    Spent(Timestamp),
    /// The caller's credential is no longer valid.
    CredentialOver,
}

/// The reason why an alias was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The account has no alias with this id, or the caller is a member without permission to see
    /// the alias.
    Unknown,
    /// The caller is a member with permission to see the alias, but without permission to change
    /// the alias.
    Denied,
    /// The caller's credential is no longer valid.
    CredentialOver,
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    address: String,
    active: bool,
    created_at: Option<i64>,
    changed_at: Option<i64>,
    made_by: Option<String>,
    note: Option<String>,
    expires_at: Option<i64>,
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
            note: row.note.unwrap_or_default(),
            expires_at: row.expires_at.map(Timestamp::from_millis),
            last_received_at: None,
            received: 0,
        }
    }
}

#[derive(sqlx_macros::FromRow)]
struct Availability {
    taken: bool,
    was_own: bool,
    count: i64,
}

impl Availability {
    fn obstacle(&self, owner: DomainOwner) -> Option<Obstacle> {
        let limit = match owner {
            DomainOwner::Platform => MAX_ON_PLATFORM_DOMAINS,
            DomainOwner::Own => MAX_ON_OWN_DOMAINS,
            DomainOwner::Foreign => return Some(Obstacle::Foreign),
        };
        if self.was_own {
            None
        } else if self.taken {
            Some(Obstacle::Taken)
        } else if self.count >= i64::from(limit) {
            Some(Obstacle::Full(owner))
        } else {
            None
        }
    }
}

/// The aliases of accounts, and the addresses that are taken or reserved.
#[derive(Clone, Debug)]
pub struct Aliases {
    pub(crate) db: Db,
    pub(crate) lookup: Lookup,
    /// The location of the receipts that the milter records.
    pub(crate) receipts: LastLogins,
}

impl Aliases {
    /// Returns an account's aliases, active or not, sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account_id: &str) -> Result<Vec<Alias>, Error> {
        let rows: Vec<Row> = self.db.all(LIST, [account_id]).await?;
        let mut aliases = sorted(rows);
        self.add_receipts(&mut aliases).await?;
        Ok(aliases)
    }

    /// Returns the domains on which an account can have aliases. The platform domains come first,
    /// followed by the account's own domains. Each group is sorted by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn domains(&self, account_id: &str) -> Result<Vec<String>, Error> {
        let mut domains: Vec<(String, i32)> = self.db.all(DOMAINS, [account_id]).await?;
        // Sort the domains here and not in the query, because the collation of a database can
        // follow the rules of a human language.
        domains.sort_by(|(a, own_a), (b, own_b)| (own_a, a).cmp(&(own_b, b)));
        let mut names: Vec<String> = Vec::with_capacity(domains.len());
        for (name, _) in domains {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Returns the owner of a domain from the view of an account. The domain must be in lower case
    /// and ASCII.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn domain_owner(&self, account_id: &str, domain: &str) -> Result<DomainOwner, Error> {
        let found: (bool, bool) = self.db.one(OWNER_OF_DOMAIN, (domain, account_id)).await?;
        Ok(owner(found))
    }

    /// Returns the reason why an account cannot create the alias `address`. Returns `None` if the
    /// account can create the alias. `owner` is the owner of the address's domain.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn obstacle(
        &self,
        account_id: &str,
        address: &str,
        owner: DomainOwner,
    ) -> Result<Option<Obstacle>, Error> {
        let availability: Availability = self
            .db
            .one(
                AVAILABILITY,
                (account_id, address, owner == DomainOwner::Own),
            )
            .await?;
        Ok(availability.obstacle(owner))
    }

    /// Creates an active alias, or restores a deleted alias of the account. The caller must have
    /// validated the address by the rules for domains of `owner`. If two requests create the same
    /// address concurrently, only one request succeeds.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is created in that case.
    pub async fn create(
        &self,
        caller: AliasCaller<'_>,
        address: &str,
        owner: DomainOwner,
        origin: &Origin,
    ) -> Result<Result<Alias, Obstacle>, Error> {
        let account_id = caller.account_id;
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(Err(Obstacle::CredentialOver));
        }
        tx.lock_domain_shared(domain_of(address)).await?;
        // The owner of the domain must not have changed since the caller validated the address. For
        // example, reserved names are allowed only on an account's own domains.
        if owner_of(&mut tx, account_id, address).await? != owner {
            return Ok(Err(Obstacle::Foreign));
        }
        let availability: Availability = tx
            .one(
                AVAILABILITY,
                (account_id, address, owner == DomainOwner::Own),
            )
            .await?;
        if let Some(obstacle) = availability.obstacle(owner) {
            return Ok(Err(obstacle));
        }
        if !availability.was_own
            && let Some(until) = blocked_until(&mut tx, caller, origin).await?
        {
            return Ok(Err(Obstacle::Spent(until)));
        }
        let created = tx
            .execute(
                INSERT,
                (
                    address,
                    account_id,
                    caller.at,
                    caller.member.map(|member| member.account),
                ),
            )
            .await?;
        if created == 0 || routes::causes_loop(&mut tx, account_id).await? {
            return Ok(Err(Obstacle::Taken));
        }
        tx.project(Source::Alias(address)).await?;
        let alias = Alias {
            address: address.to_owned(),
            active: true,
            created_at: Some(caller.at),
            modified_at: Some(caller.at),
            made_by: caller.member.map(|member| member.account.to_owned()),
            note: String::new(),
            expires_at: None,
            last_received_at: None,
            received: 0,
        };
        recording::record(&mut tx, caller, ALIAS_CREATE, (None, Some(&alias))).await?;
        let event = Event {
            detail: availability.was_own.then_some(DELETED_BEFORE),
            ..Event::of(Kind::AliasCreated, account_id, caller.at).about(address)
        };
        events::commit(tx, event, origin).await?;
        Ok(Ok(alias))
    }

    /// Deletes an alias of an account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn delete(
        &self,
        caller: AliasCaller<'_>,
        id: u64,
        origin: &Origin,
    ) -> Result<Result<(), Refusal>, Error> {
        let account_id = caller.account_id;
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(Err(Refusal::CredentialOver));
        }
        let alias = match find(&mut tx, caller, id).await? {
            Ok(alias) => alias,
            Err(refusal) => return Ok(Err(refusal)),
        };
        end(&mut tx, account_id, &alias.address, caller.at, origin).await?;
        recording::record(&mut tx, caller, ALIAS_DELETE, (Some(&alias), None)).await?;
        tx.commit().await?;
        self.forget_receipts(&alias.address).await;
        Ok(Ok(()))
    }
}

/// Deletes an alias in a transaction.
async fn end(
    tx: &mut Tx,
    account_id: &str,
    address: &str,
    now: Timestamp,
    origin: &Origin,
) -> Result<(), Error> {
    if owner_of(tx, account_id, address).await? == DomainOwner::Own {
        tx.execute(DELETE, [address]).await?;
    } else {
        tx.execute(RESERVE, (address, now)).await?;
    }
    tx.project(Source::Alias(address)).await?;
    let event = Event::of(Kind::AliasDeleted, account_id, now).about(address);
    events::record(tx, event, origin).await
}

fn sorted(rows: Vec<Row>) -> Vec<Alias> {
    let mut aliases: Vec<Alias> = rows.into_iter().map(Alias::from).collect();
    aliases.sort_by(|a, b| a.address.cmp(&b.address));
    aliases
}

const fn owner((platform, own): (bool, bool)) -> DomainOwner {
    if platform {
        DomainOwner::Platform
    } else if own {
        DomainOwner::Own
    } else {
        DomainOwner::Foreign
    }
}

/// Returns the domain of an address.
pub(super) fn domain_of(address: &str) -> &str {
    address.rsplit('@').next().unwrap_or_default()
}

/// Returns the owner of a domain from the view of an account. `address` is the domain or an address
/// on the domain.
pub(super) async fn owner_of(
    tx: &mut Tx,
    account_id: &str,
    address: &str,
) -> Result<DomainOwner, Error> {
    let found: (bool, bool) = tx
        .one(OWNER_OF_DOMAIN, (domain_of(address), account_id))
        .await?;
    Ok(owner(found))
}

/// Returns the time at which a credential can create its next new alias in a mailbox. Returns
/// `None` if the credential can create an alias immediately.
async fn blocked_until(
    tx: &mut Tx,
    caller: AliasCaller<'_>,
    origin: &Origin,
) -> Result<Option<Timestamp>, Error> {
    let created: Option<i64> = tx
        .optional_value(
            NTH_LATEST_CREATION,
            (
                caller.account_id,
                &origin.credential,
                caller.at.minus(WINDOW),
                i64::from(MAX_NEW - 1),
            ),
        )
        .await?;
    Ok(created.map(|at| Timestamp::from_millis(at).plus(WINDOW)))
}

/// Returns the live alias with this id if the caller is allowed to change the alias. Otherwise
/// returns the reason for the refusal.
async fn find(
    tx: &mut Tx,
    caller: AliasCaller<'_>,
    id: u64,
) -> Result<Result<Alias, Refusal>, Error> {
    let rows: Vec<Row> = tx.all(LIST, [caller.account_id]).await?;
    let found = sorted(rows).into_iter().find(|alias| alias.id() == id);
    let Some(alias) = found else {
        return Ok(Err(Refusal::Unknown));
    };
    let Some(member) = caller.member else {
        return Ok(Ok(alias));
    };
    let rights = member.over(&alias);
    Ok(if rights.hold(Right::AliasesWrite) {
        Ok(alias)
    } else if rights.is_none() {
        Err(Refusal::Unknown)
    } else {
        Err(Refusal::Denied)
    })
}

#[cfg(test)]
mod tests;
