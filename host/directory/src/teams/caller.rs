//! The caller of a change to a team, and the caller's right to make the change. The transaction
//! with the change checks the session and the right of the caller. So a right that was revoked
//! before the change has no effect.

use latchmail_core::permissions::{Granted, Grants, Resource, Right};

use crate::db::{Error, Tx};
use crate::session_caller::SessionCaller;
use crate::teams::shared::GrantRow;

/// Returns one row for each grant of the member. For a member without a grant, returns one row
/// without a grant.
const RELATION: &str = "SELECT a.active AND EXISTS (SELECT 1 FROM team_keys k WHERE k.mailbox = m.mailbox) AS open, \
        g.resource_kind, g.resource_id, g.uid_validity, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.mailbox LEFT JOIN team_grants g ON g.membership = m.id \
    WHERE m.mailbox = $1 AND m.member = $2";

/// The caller of a change to a team.
#[derive(Clone, Copy, Debug)]
pub struct TeamCaller<'a> {
    /// The caller's session, which must be live. The caller is the owner or a member.
    pub session: SessionCaller<'a>,
    /// The mailbox's id.
    pub mailbox: &'a str,
}

/// The reason why a change to a team was refused.
#[derive(Debug)]
pub enum Refusal {
    /// The caller's session ended.
    SessionOver,
    /// The mailbox does not exist, or the mailbox is not shared with the caller.
    NoTeam,
    /// The caller is not allowed to manage the members.
    NotManaging,
    /// The caller does not have all requested rights over the complete resource.
    NotHeld,
    /// Some of the requested rights do not apply to the resource of the grant.
    NotApplicable(Resource),
    /// No active account has this address.
    NoUser,
    /// The owner is not a member. The owner cannot get grants and cannot be removed.
    Owner,
    /// The owner cannot be invited.
    OwnerInvited,
    /// The caller cannot invite itself.
    Oneself,
    /// The mailbox has no such alias.
    NoAlias,
    /// The owner of the mailbox is not allowed to have aliases on the domain.
    NoDomain,
    /// The mailbox has no such folder.
    NoFolder,
    /// There is no such member.
    NoMember,
    /// There is no such grant.
    NoGrant,
    /// The account is already a member.
    Member,
    /// The mailbox has the maximum number of members in the owner's plan.
    Full,
    /// The member has the maximum number of grants.
    TooManyGrants,
    /// The directory returned an error.
    Directory(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Directory(error)
    }
}

/// The caller's relation to a mailbox.
pub(super) enum Relation {
    Owner,
    /// `open` is `false` if the mailbox's owner is disabled or if the mailbox has no key. In that
    /// case, members have no access.
    Member {
        open: bool,
        grants: Grants,
    },
}

#[derive(sqlx_macros::FromRow)]
struct Row {
    open: bool,
    #[sqlx(flatten)]
    grant: GrantRow,
}

impl TeamCaller<'_> {
    /// Locks the accounts of the caller and of the mailbox, and the account `other`. The locks are
    /// taken in the order of the account ids, so that transactions cannot deadlock. Fails if the
    /// caller's session is not live.
    pub(super) async fn lock(&self, tx: &mut Tx, other: Option<&str>) -> Result<(), Refusal> {
        let mut accounts = vec![self.session.account_id, self.mailbox];
        accounts.extend(other);
        accounts.sort_unstable();
        accounts.dedup();
        for account in accounts {
            tx.lock_account(account).await?;
        }
        if self.session.lock(tx).await? {
            Ok(())
        } else {
            Err(Refusal::SessionOver)
        }
    }

    /// Returns the caller's relation to the mailbox.
    pub(super) async fn relation(&self, tx: &mut Tx) -> Result<Relation, Refusal> {
        if self.session.account_id == self.mailbox {
            return Ok(Relation::Owner);
        }
        let rows: Vec<Row> = tx
            .all(RELATION, (self.mailbox, self.session.account_id))
            .await?;
        let open = rows.first().ok_or(Refusal::NoTeam)?.open;
        let granted: Vec<Granted> = rows.iter().filter_map(|row| row.grant.granted()).collect();
        let grants = granted.into();
        Ok(Relation::Member { open, grants })
    }

    /// Returns the caller's grants if the caller is allowed to manage the members of the mailbox.
    /// Otherwise returns a [`Refusal`].
    pub(super) async fn manager_grants(&self, tx: &mut Tx) -> Result<Grants, Refusal> {
        self.relation(tx).await?.manager_grants()
    }
}

impl Relation {
    /// Returns the caller's grants if the caller is allowed to manage the members of the mailbox.
    /// Otherwise returns a [`Refusal`].
    ///
    /// While members have no access, only the owner can manage the members. Otherwise a member
    /// could restore its own access or the access of another member.
    pub(super) fn manager_grants(self) -> Result<Grants, Refusal> {
        match self {
            Self::Owner => Ok(Grants::owner()),
            Self::Member { open: false, .. } => Err(Refusal::NoTeam),
            Self::Member { grants, .. } if grants.over_mailbox().hold(Right::MembersManage) => {
                Ok(grants)
            }
            Self::Member { .. } => Err(Refusal::NotManaging),
        }
    }
}
