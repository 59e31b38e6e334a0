//! Lists teams and the members of a team. A member who cannot manage members sees only the owner
//! and itself in the list of members.

use latchmail_core::clock::Timestamp;
use latchmail_core::error::Failure;
use latchmail_core::permissions::{Grants, Right, Rights};
use latchmail_directory::teams::{Grant, Member, Refusal, Summary, Team};

use super::{Error, Teams};
use crate::auth::account::Session;

/// A shared mailbox in the list of an account's teams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamSummary {
    /// The mailbox's id.
    pub mailbox: String,
    /// The mailbox's address.
    pub address: String,
    /// The team's name: the name of the owner, or the local part of the mailbox's address if the
    /// owner has no profile.
    pub name: String,
    /// Whether the caller owns the mailbox.
    pub own: bool,
    /// The union of the rights in all grants of the caller in the mailbox.
    pub rights: Rights,
}

/// The owner or a member of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamMember {
    /// The account's id.
    pub account: String,
    /// The user name with which an owner can invite this account.
    pub username: String,
    /// The account's address.
    pub address: String,
    /// Whether the account owns the mailbox.
    pub owner: bool,
    /// The union of the rights in all grants of the account in the mailbox.
    pub rights: Rights,
    /// The account's grants. Empty for the owner.
    pub grants: Vec<Grant>,
    /// The time at which the account became a member. For the owner, the time at which the account
    /// was created.
    pub joined_at: Timestamp,
}

/// The members of a team that are visible to a caller.
#[derive(Clone, Debug)]
pub struct Roster {
    /// The owner, followed by the visible members, sorted by address.
    pub members: Vec<TeamMember>,
    /// The maximum number of members in the owner's plan.
    pub at_most: u32,
    /// The number of all members, including members that are not visible to the caller. The owner
    /// does not count.
    pub guests: u32,
    /// Whether the mailbox has a key. Without a key, members have no access.
    pub shared: bool,
}

/// A team to which a caller has access, and the caller's grants.
pub(super) struct Access {
    pub(super) team: Team,
    pub(super) grants: Grants,
}

impl Access {
    /// Returns `true` if the caller may manage the members.
    pub(super) fn manages(&self) -> bool {
        self.grants.over_mailbox().hold(Right::MembersManage)
    }
}

impl Teams {
    /// Returns the teams of an account. The account's own mailbox is first.
    ///
    /// # Errors
    /// Returns a 500 failure if the database fails.
    pub async fn list(&self, account: &str) -> Result<Vec<TeamSummary>, Failure> {
        let teams = self.directory.teams.list(account).await?;
        Ok(teams
            .into_iter()
            .map(|team| listed(team, account))
            .collect())
    }

    /// Returns the members of a team that are visible to the session's account. Returns `None` if
    /// the account has no access to the team.
    ///
    /// # Errors
    /// Returns a 500 failure if the database fails.
    pub async fn members(
        &self,
        session: Session<'_>,
        mailbox: &str,
    ) -> Result<Option<Roster>, Failure> {
        let Some(access) = self.access(session.account, mailbox).await? else {
            return Ok(None);
        };
        let manages = access.manages();
        let team = access.team;
        let owner = TeamMember {
            account: mailbox.to_owned(),
            username: self.username(&team.address),
            address: team.address,
            owner: true,
            rights: Rights::ALL,
            grants: Vec::new(),
            joined_at: team.created_at,
        };
        let guests = u32::try_from(team.members.len()).unwrap_or(u32::MAX);
        let known = |member: &Member| manages || member.account_id == session.account;
        let members = team.members.into_iter().filter(known);
        Ok(Some(Roster {
            members: std::iter::once(owner)
                .chain(members.map(|member| self.guest(member)))
                .collect(),
            at_most: self.plans.named(&team.plan, mailbox).guests,
            guests,
            shared: team.shared,
        }))
    }

    /// Returns a team and the account's grants, or `None` if the account has no access to the team.
    /// The owner always has access. A member has access if the mailbox has a key and the owner's
    /// account is active.
    pub(super) async fn access(
        &self,
        account: &str,
        mailbox: &str,
    ) -> Result<Option<Access>, Failure> {
        let Some(team) = self.directory.teams.find(mailbox).await? else {
            return Ok(None);
        };
        let grants = if account == mailbox {
            Some(Grants::owner())
        } else if team.shared && team.active {
            let mut members = team.members.iter();
            let own = members.find(|member| member.account_id == account);
            own.map(Member::held)
        } else {
            None
        };
        Ok(grants.map(|grants| Access { team, grants }))
    }

    /// Returns a team if the account `account` is allowed to manage the members. Operations call
    /// this function before they verify a password or look up another account, so a caller without
    /// this right learns nothing about other accounts. The transaction of a change checks the right
    /// again.
    pub(super) async fn managed(&self, account: &str, mailbox: &str) -> Result<Access, Error> {
        let access = self.access(account, mailbox).await?;
        let access = access.ok_or(Refusal::NoTeam)?;
        if access.manages() {
            Ok(access)
        } else {
            Err(Refusal::NotManaging.into())
        }
    }

    fn guest(&self, member: Member) -> TeamMember {
        TeamMember {
            rights: member.held().anywhere(),
            username: self.username(&member.address),
            account: member.account_id,
            address: member.address,
            owner: false,
            grants: member.grants,
            joined_at: member.joined_at,
        }
    }

    /// Returns the user name with which an address is invited. For an address on the first
    /// registration domain, the user name is the local part. For an address on another domain, the
    /// user name is the complete address.
    pub(super) fn username(&self, address: &str) -> String {
        let (name, domain) = address.rsplit_once('@').unwrap_or((address, ""));
        let first = self.auth.registration.registration_domains().first();
        if first.is_some_and(|first| first == domain) {
            name
        } else {
            address
        }
        .to_owned()
    }
}

fn listed(team: Summary, account: &str) -> TeamSummary {
    let local_part = || team.address.rsplit_once('@').map_or("", |(name, _)| name);
    TeamSummary {
        name: team.person.as_ref().map_or_else(
            || local_part().to_owned(),
            |(first, last)| format!("{first} {last}"),
        ),
        own: team.mailbox == account,
        rights: team.grants.anywhere(),
        mailbox: team.mailbox,
        address: team.address,
    }
}
