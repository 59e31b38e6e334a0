//! Adds, changes and revokes grants. A caller can grant a right only if the caller has this right
//! over the complete resource.

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::permissions::{AliasSet, Granted, Grants, Resource, Rights};

use super::Teams;
use super::caller::{Refusal, TeamCaller};
use super::{Grant, find_member};
use crate::aliases::{DomainOwner, owner_of};
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};
use crate::teams::shared::GrantRow;

/// Maximum number of grants of one member in one mailbox.
pub const MAX_GRANTS: u32 = 100;

const ALIAS: &str =
    "SELECT 1 FROM addresses WHERE address = $1 AND account_id = $2 AND kind = 'alias' AND live";
const COUNT: &str = "SELECT COUNT(*) FROM team_grants WHERE membership = $1";
const INSERT: &str = "INSERT INTO team_grants \
    (id, membership, resource_kind, resource_id, uid_validity, resource_label, rights, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const FIND: &str = "SELECT a.address, g.resource_kind, g.resource_id, g.uid_validity, g.rights \
    FROM team_grants g JOIN team_members m ON m.id = g.membership JOIN accounts a ON a.id = m.member \
    WHERE g.id = $1 AND m.mailbox = $2";
const SET: &str = "UPDATE team_grants SET rights = $2 WHERE id = $1";
const DELETE: &str = "DELETE FROM team_grants WHERE id = $1";

#[derive(sqlx_macros::FromRow)]
struct Found {
    address: String,
    #[sqlx(flatten)]
    grant: GrantRow,
}

impl Teams {
    /// Adds a grant to a member of a team. In a grant for a folder, a UIDVALIDITY of 0 means that
    /// the mail server has no such folder.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the request is not allowed or the database fails. Nothing is granted
    /// in that case.
    pub async fn add_grant(
        &self,
        caller: TeamCaller<'_>,
        member: &str,
        grant: &Grant,
        origin: &Origin,
    ) -> Result<(), Refusal> {
        let (mailbox, at) = (caller.mailbox, caller.session.at);
        let mut tx = self.db.begin().await?;
        caller.lock(&mut tx, None).await?;
        let held = caller.manager_grants(&mut tx).await?;
        if member == mailbox {
            return Err(Refusal::Owner);
        }
        let found = find_member(&mut tx, mailbox, member).await?;
        let (membership, address) = found.ok_or(Refusal::NoMember)?;
        authorize(&mut tx, mailbox, &held, grant).await?;
        let count: i64 = tx.value(COUNT, [&membership]).await?;
        if count >= i64::from(MAX_GRANTS) {
            return Err(Refusal::TooManyGrants);
        }
        insert(&mut tx, &membership, grant, at).await?;
        let detail = event_detail(&grant.resource, grant.rights);
        let added = Event::of(Kind::GrantAdded, mailbox, at)
            .about(&address)
            .detail(&detail);
        Ok(events::commit(tx, added, origin).await?)
    }

    /// Changes the rights of a grant.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the request is not allowed or the database fails. Nothing is changed
    /// in that case.
    pub async fn change_grant(
        &self,
        caller: TeamCaller<'_>,
        id: &str,
        rights: Rights,
        origin: &Origin,
    ) -> Result<(), Refusal> {
        let (mailbox, at) = (caller.mailbox, caller.session.at);
        let mut tx = self.db.begin().await?;
        caller.lock(&mut tx, None).await?;
        let held = caller.manager_grants(&mut tx).await?;
        let (address, before) = find(&mut tx, mailbox, id).await?;
        let resource = before.resource;
        if !rights.within(resource.takes()) {
            return Err(Refusal::NotApplicable(resource));
        }
        // The caller needs only the rights that the grant does not already contain.
        if !rights.within(held.over(&resource).and(before.rights)) {
            return Err(Refusal::NotHeld);
        }
        if rights == before.rights {
            return Ok(());
        }
        tx.execute(SET, (id, rights.to_string())).await?;
        let detail = format!(
            "{}, before: {}",
            event_detail(&resource, rights),
            before.rights
        );
        let changed = Event::of(Kind::GrantChanged, mailbox, at)
            .about(&address)
            .detail(&detail);
        Ok(events::commit(tx, changed, origin).await?)
    }

    /// Revokes a grant. The account with the grant remains a member.
    ///
    /// # Errors
    /// Returns [`Refusal`] if the request is not allowed or the database fails. Nothing is changed
    /// in that case.
    pub async fn revoke_grant(
        &self,
        caller: TeamCaller<'_>,
        id: &str,
        origin: &Origin,
    ) -> Result<(), Refusal> {
        let (mailbox, at) = (caller.mailbox, caller.session.at);
        let mut tx = self.db.begin().await?;
        caller.lock(&mut tx, None).await?;
        caller.manager_grants(&mut tx).await?;
        let (address, grant) = find(&mut tx, mailbox, id).await?;
        tx.execute(DELETE, [id]).await?;
        let detail = event_detail(&grant.resource, grant.rights);
        let revoked = Event::of(Kind::GrantRevoked, mailbox, at)
            .about(&address)
            .detail(&detail);
        Ok(events::commit(tx, revoked, origin).await?)
    }
}

/// Checks that a caller with the grants `held` is allowed to make a grant.
///
/// # Errors
/// Returns [`Refusal::NotApplicable`] if rights do not apply to the resource, and
/// [`Refusal::NotHeld`] if the caller does not have all the rights. Returns another [`Refusal`] if
/// the resource does not exist or the database fails.
pub(super) async fn authorize(
    tx: &mut Tx,
    mailbox: &str,
    held: &Grants,
    grant: &Grant,
) -> Result<(), Refusal> {
    let resource = &grant.resource;
    if !grant.rights.within(resource.takes()) {
        return Err(Refusal::NotApplicable(resource.clone()));
    }
    // Check the caller's rights first. A caller without these rights must not learn whether the
    // resource exists.
    if !grant.rights.within(held.over(resource)) {
        return Err(Refusal::NotHeld);
    }
    if exists(tx, mailbox, resource).await? {
        return Ok(());
    }
    Err(match resource {
        Resource::Folder(_) => Refusal::NoFolder,
        Resource::Alias(_) => Refusal::NoAlias,
        Resource::AliasSet(_) | Resource::Mailbox => Refusal::NoDomain,
    })
}

/// Returns `true` if the resource of a grant exists in the mailbox.
async fn exists(tx: &mut Tx, mailbox: &str, resource: &Resource) -> Result<bool, Error> {
    Ok(match resource {
        Resource::Mailbox | Resource::AliasSet(AliasSet::All | AliasSet::Own) => true,
        Resource::Folder(folder) => folder.uid_validity != 0,
        Resource::Alias(address) => tx.exists(ALIAS, (address, mailbox)).await?,
        Resource::AliasSet(AliasSet::Domain(domain)) => {
            owner_of(tx, mailbox, domain).await? != DomainOwner::Foreign
        }
    })
}

/// Returns a grant and the address of its member.
async fn find(tx: &mut Tx, mailbox: &str, id: &str) -> Result<(String, Granted), Refusal> {
    let found: Option<Found> = tx.optional(FIND, (id, mailbox)).await?;
    let found = found.and_then(|found| Some((found.grant.granted()?, found.address)));
    let (granted, address) = found.ok_or(Refusal::NoGrant)?;
    Ok((address, granted))
}

/// Stores a grant of a member.
pub(super) async fn insert(
    tx: &mut Tx,
    membership: &str,
    grant: &Grant,
    at: Timestamp,
) -> Result<(), Error> {
    let (kind, id) = columns(&grant.resource);
    let uid_validity = match &grant.resource {
        Resource::Folder(folder) => Some(i64::from(folder.uid_validity)),
        _ => None,
    };
    let row = (
        &grant.id,
        membership,
        kind,
        &id,
        uid_validity,
        &grant.label,
        grant.rights.to_string(),
        at,
    );
    tx.execute(INSERT, row).await?;
    Ok(())
}

/// Returns the kind and the id of a resource for the database.
fn columns(resource: &Resource) -> (&'static str, Option<String>) {
    match resource {
        Resource::Mailbox => ("mailbox", None),
        Resource::Folder(folder) => ("folder", Some(folder.id.clone())),
        Resource::Alias(address) => ("alias", Some(address.clone())),
        Resource::AliasSet(AliasSet::All) => ("alias_set", Some("all".into())),
        Resource::AliasSet(AliasSet::Own) => ("alias_set", Some("own".into())),
        Resource::AliasSet(AliasSet::Domain(domain)) => {
            ("alias_set", Some(format!("domain:{domain}")))
        }
    }
}

/// Returns the event details of a grant.
pub(super) fn event_detail(resource: &Resource, rights: Rights) -> String {
    match columns(resource) {
        (kind, None) => format!("{kind}: {rights}"),
        (kind, Some(id)) => format!("{kind} {id}: {rights}"),
    }
}
