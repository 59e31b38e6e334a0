//! Who asks for a change to a team, and whether they may: read in the transaction of the change, so that what was taken from them a moment ago counts.

use super::super::Error;
use super::super::db::{Tx, on_tx};
use super::super::sessions::Asking;
use super::super::shared::GrantRow;
use crate::teams::rights::{Granted, Grants, Resource, Right};

/// A row for every grant, and one where there is none.
const STANDING: &str = "SELECT a.active AND EXISTS (SELECT 1 FROM team_keys k WHERE k.mailbox = m.mailbox) AS open, \
        g.resource_kind, g.resource_id, g.uid_validity, g.rights \
    FROM team_members m JOIN accounts a ON a.id = m.mailbox LEFT JOIN team_grants g ON g.membership = m.id \
    WHERE m.mailbox = $1 AND m.member = $2";

/// Somebody who asks for a change to a team.
#[derive(Clone, Copy, Debug)]
pub struct Changing<'a> {
    /// The session that asks, the owner's or a guest's. It has to live.
    pub asking: Asking<'a>,
    /// The mailbox's id.
    pub mailbox: &'a str,
}

/// Why a team is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The session that asked is over.
    #[error("the session that asked is over")]
    SessionOver,
    /// There is no such mailbox, or it is not shared with who asked.
    #[error("there is no such team")]
    NoTeam,
    /// Who asked may not manage the members.
    #[error("who asked may not manage the members")]
    NotManaging,
    /// Who asked does not hold all of these rights itself, over all that they were to be granted on.
    #[error("who asked does not hold these rights")]
    NotHeld,
    /// Not every one of these rights applies to what the grant is on.
    #[error("these rights do not apply to {0:?}")]
    NotTaken(Resource),
    /// Nobody active has this address.
    #[error("there is no such user")]
    NoUser,
    /// The owner is no guest: not to be granted anything, nor removed.
    #[error("the mailbox is theirs")]
    Owner,
    /// Nobody invites the owner.
    #[error("it is the owner who was to be invited")]
    OwnerInvited,
    /// Nobody invites themselves.
    #[error("it is who asked who was to be invited")]
    Oneself,
    /// There is no such alias of the mailbox.
    #[error("there is no such alias")]
    NoAlias,
    /// The mailbox's owner may have no aliases on the domain.
    #[error("the domain is none of the mailbox's")]
    NoDomain,
    /// There is no such folder in the mailbox.
    #[error("there is no such folder")]
    NoFolder,
    /// There is no such member.
    #[error("there is no such member")]
    NoMember,
    /// There is no such grant.
    #[error("there is no such grant")]
    NoGrant,
    /// They are a member already.
    #[error("they are a member already")]
    Member,
    /// There are as many guests as the plan has.
    #[error("there are as many guests as the plan has")]
    Full,
    /// The member has as many grants as a member may.
    #[error("the member has as many grants as a member may")]
    TooManyGrants,
    /// The directory failed.
    #[error(transparent)]
    Directory(#[from] Error),
}

impl From<sqlx::Error> for Refusal {
    fn from(error: sqlx::Error) -> Self {
        Self::Directory(error.into())
    }
}

/// What somebody is to a mailbox.
pub(super) enum Standing {
    Owner,
    /// `open` is whether guests get in at all.
    Guest {
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

impl Changing<'_> {
    /// Locks the asker's account, the mailbox's and another one, always in one order. The session lives where this succeeds.
    pub(super) async fn lock(&self, tx: &mut Tx, other: Option<&str>) -> Result<(), Refusal> {
        let mut accounts = vec![self.asking.account_id, self.mailbox];
        accounts.extend(other);
        accounts.sort_unstable();
        accounts.dedup();
        for account in accounts {
            tx.lock_account(account).await?;
        }
        if self.asking.lock(tx).await? {
            Ok(())
        } else {
            Err(Refusal::SessionOver)
        }
    }

    /// What the asker is to the mailbox.
    pub(super) async fn standing(&self, tx: &mut Tx) -> Result<Standing, Refusal> {
        if self.asking.account_id == self.mailbox {
            return Ok(Standing::Owner);
        }
        let rows: Vec<Row> = on_tx!(tx, db => sqlx::query_as(STANDING)
            .bind(self.mailbox)
            .bind(self.asking.account_id)
            .fetch_all(db).await)?;
        let open = rows.first().ok_or(Refusal::NoTeam)?.open;
        let granted: Vec<Granted> = rows.iter().filter_map(|row| row.grant.granted()).collect();
        let grants = granted.into();
        Ok(Standing::Guest { open, grants })
    }

    /// What the asker holds, where it may manage the members.
    pub(super) async fn manages(&self, tx: &mut Tx) -> Result<Grants, Refusal> {
        self.standing(tx).await?.manages()
    }
}

impl Standing {
    /// What is held by who may manage the members. Where guests get in no longer, the owner alone may: a guest is not to let others, or itself, in again.
    pub(super) fn manages(self) -> Result<Grants, Refusal> {
        match self {
            Self::Owner => Ok(Grants::owner()),
            Self::Guest { open: false, .. } => Err(Refusal::NoTeam),
            Self::Guest { grants, .. } if grants.over_mailbox().hold(Right::MembersManage) => {
                Ok(grants)
            }
            Self::Guest { .. } => Err(Refusal::NotManaging),
        }
    }
}
