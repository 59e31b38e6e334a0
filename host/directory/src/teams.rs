//! Teams. A team is a shared mailbox with its members and their grants. The key of the mailbox is
//! an app password for all members.
//!
//! The id of a team is the account id of the owner. This file reads teams. [`caller`] checks the
//! caller of a change. The other submodules make the changes. [`shared`] reads the data for
//! requests of members.

mod caller;
mod grants;
mod invitation;
mod leaving;
pub mod shared;

use std::collections::BTreeMap;

pub use caller::{Refusal, TeamCaller};
pub use grants::MAX_GRANTS;
pub use invitation::{Invitation, NewKey};
pub(super) use leaving::{leave_all, lock_with_mailboxes};

use latchmail_core::clock::Timestamp;
use latchmail_core::permissions::{Granted, Grants, Resource, Rights};

use crate::db::{Db, Error, Tx};
use crate::teams::shared::GrantRow;

const OWN: &str = "SELECT a.address, p.first_name, p.last_name FROM accounts a \
    LEFT JOIN profiles p ON p.account_id = a.id WHERE a.id = $1";
/// Returns one row for each grant of an account in other accounts' mailboxes. Omits mailboxes that
/// are not shared. A mailbox is not shared if its owner is disabled or if the mailbox has no key.
const SHARED_WITH: &str = "SELECT m.mailbox, a.address, p.first_name, p.last_name, g.resource_kind, g.resource_id, g.uid_validity, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.mailbox JOIN team_keys k ON k.mailbox = m.mailbox \
    JOIN team_grants g ON g.membership = m.id LEFT JOIN profiles p ON p.account_id = a.id \
    WHERE m.member = $1 AND a.active";
const OWNER: &str = "SELECT address, plan, active, created_at, EXISTS (SELECT 1 FROM team_keys k WHERE k.mailbox = accounts.id) AS shared \
    FROM accounts WHERE id = $1";
/// Returns one row for each grant of each member. Also returns one row for each member without a
/// grant.
const MEMBERS: &str = "SELECT m.member, a.address, m.joined_at, g.id, g.resource_kind, g.resource_id, g.uid_validity, g.resource_label, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.member LEFT JOIN team_grants g ON g.membership = m.id \
    WHERE m.mailbox = $1 ORDER BY g.created_at, g.id";

const MEMBER: &str = "SELECT m.id, a.address FROM team_members m JOIN accounts a ON a.id = m.member \
    WHERE m.mailbox = $1 AND m.member = $2";

/// A team in the list of an account's teams. The account has at least one right in the team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The mailbox's id.
    pub mailbox: String,
    /// The mailbox's address.
    pub address: String,
    /// The owner's first and last name. `None` if the owner has no profile.
    pub person: Option<(String, String)>,
    /// The grants of the account in this team.
    pub grants: Grants,
}

/// A team with all its members.
#[derive(Clone, Debug)]
pub struct Team {
    /// The mailbox's address.
    pub address: String,
    /// The owner's plan.
    pub plan: String,
    /// Whether the owner's account is active.
    pub active: bool,
    /// The time at which the owner's account was created.
    pub created_at: Timestamp,
    /// Whether the mailbox has a key for its members.
    pub shared: bool,
    /// The members, sorted by address.
    pub members: Vec<Member>,
}

/// A member of a shared mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member's account.
    pub account_id: String,
    /// The member's address.
    pub address: String,
    /// The time at which the account became a member.
    pub joined_at: Timestamp,
    /// The member's grants, oldest first.
    pub grants: Vec<Grant>,
}

impl Member {
    /// Returns the member's grants as [`Grants`].
    #[must_use]
    pub fn held(&self) -> Grants {
        let granted = self.grants.iter().map(|grant| Granted {
            id: grant.id.clone(),
            resource: grant.resource.clone(),
            rights: grant.rights,
        });
        granted.collect::<Vec<_>>().into()
    }
}

/// A grant of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// An opaque id.
    pub id: String,
    /// The resource of the grant.
    pub resource: Resource,
    /// The name of the resource. The caller that made the grant chose this name.
    pub label: Option<String>,
    /// The granted rights.
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

/// The members of shared mailboxes, and their grants.
#[derive(Clone, Debug)]
pub struct Teams {
    pub(crate) db: Db,
}

impl Teams {
    /// Returns the teams of an account. The first team is the account's own mailbox, if the account
    /// exists. The other teams are shared mailboxes in which the account has at least one right,
    /// sorted by address.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(&self, account_id: &str) -> Result<Vec<Summary>, Error> {
        type Own = (String, Option<String>, Option<String>);
        let own: Option<Own> = self.db.optional(OWN, [account_id]).await?;
        let rows: Vec<SummaryRow> = self.db.all(SHARED_WITH, [account_id]).await?;
        let own = own.map(|(address, first, last)| Summary {
            mailbox: account_id.to_owned(),
            address,
            person: first.zip(last),
            grants: Grants::owner(),
        });
        Ok(own.into_iter().chain(summaries(rows)).collect())
    }

    /// Returns a team. Returns `None` if there is no such mailbox.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, mailbox: &str) -> Result<Option<Team>, Error> {
        let owner: Option<OwnerRow> = self.db.optional(OWNER, [mailbox]).await?;
        let Some(owner) = owner else {
            return Ok(None);
        };
        let rows: Vec<MemberRow> = self.db.all(MEMBERS, [mailbox]).await?;
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

/// Returns the id of the membership and the address of a member. Returns `None` if there is no such
/// member.
async fn find_member(
    tx: &mut Tx,
    mailbox: &str,
    member: &str,
) -> Result<Option<(String, String)>, Error> {
    tx.optional(MEMBER, (mailbox, member)).await
}

/// Returns one summary for each mailbox in which the account has at least one right, sorted by
/// address. The query does not sort, because the collation of a database can follow the rules of a
/// human language.
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

/// Returns one entry for each member, sorted by address. The query does not sort, because the
/// collation of a database can follow the rules of a human language.
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
