//! Teams: the mailboxes that accounts share, with their members, what was granted to each, and the key that acts for them all.
//!
//! A team is a mailbox; its id is that of its owner's account. Here is what can be read of it; who may change it is in [`changing`], what can be changed
//! in the files beside that. What one request of a guest needs is in [`super::shared`].

mod changing;
mod grants;
mod invitation;
mod keys;
mod leaving;

use std::collections::BTreeMap;

pub use changing::{Changing, Refusal};
pub use grants::MOST_GRANTS;
pub use invitation::{Invitation, NewKey};
pub(super) use leaving::{leave_all, lock_with_mailboxes};

use super::db::{Tx, on, on_tx};
use super::shared::GrantRow;
use super::{Directory, Error};
use crate::clock::Timestamp;
use crate::teams::rights::{Granted, Grants, Resource, Rights};

const OWN: &str = "SELECT a.address, p.first_name, p.last_name FROM accounts a \
    LEFT JOIN profiles p ON p.account_id = a.id WHERE a.id = $1";
/// A row for every grant. Whose owner is disabled, and who lost its key, shares nothing.
const SHARED_WITH: &str = "SELECT m.mailbox, a.address, p.first_name, p.last_name, g.resource_kind, g.resource_id, g.uid_validity, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.mailbox JOIN team_keys k ON k.mailbox = m.mailbox \
    JOIN team_grants g ON g.membership = m.id LEFT JOIN profiles p ON p.account_id = a.id \
    WHERE m.member = $1 AND a.active";
const OWNER: &str = "SELECT address, plan, active, created_at, EXISTS (SELECT 1 FROM team_keys k WHERE k.mailbox = accounts.id) AS shared \
    FROM accounts WHERE id = $1";
/// A row for every grant, and one where a member has none.
const MEMBERS: &str = "SELECT m.member, a.address, m.joined_at, g.id, g.resource_kind, g.resource_id, g.uid_validity, g.resource_label, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.member LEFT JOIN team_grants g ON g.membership = m.id \
    WHERE m.mailbox = $1 ORDER BY g.created_at, g.id";

const MEMBER: &str = "SELECT m.id, a.address FROM team_members m JOIN accounts a ON a.id = m.member \
    WHERE m.mailbox = $1 AND m.member = $2";

/// A team as one who may act in it sees it in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The mailbox's id.
    pub mailbox: String,
    /// Its address.
    pub address: String,
    /// The owner's first and last name, where there is a profile.
    pub person: Option<(String, String)>,
    /// What was granted.
    pub grants: Grants,
}

/// A team with everybody in it.
#[derive(Clone, Debug)]
pub struct Team {
    /// The mailbox's address.
    pub address: String,
    /// The owner's plan.
    pub plan: String,
    /// Whether the owner's account is active.
    pub active: bool,
    /// When the owner's account was made.
    pub created_at: Timestamp,
    /// Whether there is a key that acts for guests.
    pub shared: bool,
    /// The guests, by address.
    pub members: Vec<Member>,
}

/// A guest of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The guest's account.
    pub account_id: String,
    /// Its address.
    pub address: String,
    /// Since when.
    pub joined_at: Timestamp,
    /// What was granted, the oldest first.
    pub grants: Vec<Grant>,
}

impl Member {
    /// What the grants come to.
    #[must_use]
    pub fn held(&self) -> Grants {
        let granted = self.grants.iter().map(|grant| Granted {
            resource: grant.resource.clone(),
            rights: grant.rights,
        });
        granted.collect::<Vec<_>>().into()
    }
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Opaque.
    pub id: String,
    /// On what.
    pub resource: Resource,
    /// What whoever granted it called that.
    pub label: Option<String>,
    /// What.
    pub rights: Rights,
}

#[derive(sqlx_macros::FromRow)]
struct SummaryRow {
    mailbox: String,
    address: String,
    first_name: Option<String>,
    last_name: Option<String>,
    #[sqlx(flatten)]
    grant: GrantRow,
}

#[derive(sqlx_macros::FromRow)]
struct OwnerRow {
    address: String,
    plan: String,
    active: bool,
    created_at: i64,
    shared: bool,
}

#[derive(sqlx_macros::FromRow)]
struct MemberRow {
    member: String,
    address: String,
    joined_at: i64,
    id: Option<String>,
    resource_label: Option<String>,
    #[sqlx(flatten)]
    grant: GrantRow,
}

impl Directory {
    /// The teams of an account: its own mailbox, where there is such an account, then those that are shared with it and in which it holds something, by
    /// address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn teams(&self, account_id: &str) -> Result<Vec<Summary>, Error> {
        type Own = (String, Option<String>, Option<String>);
        let own: Option<Own> = on!(&self.db, pool => sqlx::query_as(OWN)
            .bind(account_id)
            .fetch_optional(pool).await)?;
        let rows: Vec<SummaryRow> = on!(&self.db, pool => sqlx::query_as(SHARED_WITH)
            .bind(account_id)
            .fetch_all(pool).await)?;
        let own = own.map(|(address, first, last)| Summary {
            mailbox: account_id.to_owned(),
            address,
            person: first.zip(last),
            grants: Grants::owner(),
        });
        Ok(own.into_iter().chain(summaries(rows)).collect())
    }

    /// A team; none where there is no such mailbox.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn team(&self, mailbox: &str) -> Result<Option<Team>, Error> {
        let owner: Option<OwnerRow> = on!(&self.db, pool => sqlx::query_as(OWNER)
            .bind(mailbox)
            .fetch_optional(pool).await)?;
        let Some(owner) = owner else {
            return Ok(None);
        };
        let rows: Vec<MemberRow> = on!(&self.db, pool => sqlx::query_as(MEMBERS)
            .bind(mailbox)
            .fetch_all(pool).await)?;
        Ok(Some(Team {
            address: owner.address,
            plan: owner.plan,
            active: owner.active,
            created_at: Timestamp::from_millis(owner.created_at),
            shared: owner.shared,
            members: members(rows),
        }))
    }
}

/// A guest of a mailbox: the membership's id and the guest's address.
async fn find_member(
    tx: &mut Tx,
    mailbox: &str,
    member: &str,
) -> Result<Option<(String, String)>, Error> {
    Ok(on_tx!(tx, db => sqlx::query_as(MEMBER)
        .bind(mailbox)
        .bind(member)
        .fetch_optional(db).await)?)
}

/// One for each mailbox in which something is held. By address here, since databases sort by languages' rules.
fn summaries(rows: Vec<SummaryRow>) -> impl Iterator<Item = Summary> {
    type Shared = (String, Option<(String, String)>, Vec<Granted>);
    let mut shared: BTreeMap<String, Shared> = BTreeMap::new();
    for row in rows {
        let person = row.first_name.zip(row.last_name);
        let (_, _, granted) = shared
            .entry(row.address)
            .or_insert_with(|| (row.mailbox, person, Vec::new()));
        granted.extend(row.grant.granted());
    }
    let summary = |(address, (mailbox, person, granted)): (String, Shared)| Summary {
        mailbox,
        address,
        person,
        grants: granted.into(),
    };
    let all = shared.into_iter().map(summary);
    all.filter(|summary| !summary.grants.anywhere().is_none())
}

/// One for each member, by address, for the same reason.
fn members(rows: Vec<MemberRow>) -> Vec<Member> {
    let mut members: BTreeMap<String, Member> = BTreeMap::new();
    for row in rows {
        let member = members
            .entry(row.address.clone())
            .or_insert_with(|| Member {
                account_id: row.member,
                address: row.address,
                joined_at: Timestamp::from_millis(row.joined_at),
                grants: Vec::new(),
            });
        if let Some((id, granted)) = row.id.zip(row.grant.granted()) {
            member.grants.push(Grant {
                id,
                resource: granted.resource,
                label: row.resource_label,
                rights: granted.rights,
            });
        }
    }
    members.into_values().collect()
}

#[cfg(test)]
mod tests;
