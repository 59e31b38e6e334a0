//! What a caller may know of the teams that it is in, and of who else is.

use super::rights::{Grants, Right, Rights};
use super::{Error, Teams};
use crate::auth::account::Session;
use crate::clock::Timestamp;
use crate::directory::teams::{Grant, Member, Refusal, Summary, Team};
use crate::error::Failure;

/// A team that the caller may act in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The mailbox's id.
    pub mailbox: String,
    /// Its address.
    pub address: String,
    /// What it is called: its owner's name, where there is one.
    pub name: String,
    /// Whether it is the caller's own.
    pub own: bool,
    /// What the caller holds somewhere in it.
    pub rights: Rights,
}

/// Somebody in a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Their account's id.
    pub account: String,
    /// What they are invited by.
    pub username: String,
    /// Their address.
    pub address: String,
    /// Whether the mailbox is theirs.
    pub owner: bool,
    /// What they hold somewhere in it.
    pub rights: Rights,
    /// What was granted to them; nothing to the owner.
    pub grants: Vec<Grant>,
    /// Since when.
    pub joined_at: Timestamp,
}

/// A team as one in it may see it.
#[derive(Clone, Debug)]
pub struct Roster {
    /// The owner first, then those guests that the caller may know of, by address.
    pub members: Vec<Seen>,
    /// Guests that the owner's plan has.
    pub at_most: u32,
    /// Guests that there are.
    pub guests: u32,
    /// Whether there is a key that acts for guests: whether they get in.
    pub shared: bool,
}

/// A team that somebody is in, with what they hold in it.
pub(super) struct Entered {
    pub(super) team: Team,
    pub(super) held: Grants,
}

impl Entered {
    /// Whether they may manage the members.
    pub(super) fn manages(&self) -> bool {
        self.held.over_mailbox().hold(Right::MembersManage)
    }
}

impl Teams {
    /// The teams of an account: its own mailbox first.
    ///
    /// # Errors
    /// 500.
    pub async fn list(&self, account: &str) -> Result<Vec<Listed>, Failure> {
        let teams = self.directory.teams(account).await?;
        Ok(teams
            .into_iter()
            .map(|team| listed(team, account))
            .collect())
    }

    /// A team and who is in it; none where there is no such team for the session's account.
    ///
    /// # Errors
    /// 500.
    pub async fn members(
        &self,
        session: Session<'_>,
        mailbox: &str,
    ) -> Result<Option<Roster>, Failure> {
        let Some(entered) = self.entered(session.account, mailbox).await? else {
            return Ok(None);
        };
        let manages = entered.manages();
        let team = entered.team;
        let owner = Seen {
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

    /// A team, where an account is in it and gets in: an owner always, a guest while there is a key and an active owner.
    pub(super) async fn entered(
        &self,
        account: &str,
        mailbox: &str,
    ) -> Result<Option<Entered>, Failure> {
        let Some(team) = self.directory.team(mailbox).await? else {
            return Ok(None);
        };
        let held = if account == mailbox {
            Some(Grants::owner())
        } else if team.shared && team.active {
            let mut members = team.members.iter();
            let own = members.find(|member| member.account_id == account);
            own.map(Member::held)
        } else {
            None
        };
        Ok(held.map(|held| Entered { team, held }))
    }

    /// A team whose members an account may manage. Asked once more where a change is made: who is refused anyway is told nothing of what it names, and need not be
    /// asked for a password.
    pub(super) async fn managed(&self, account: &str, mailbox: &str) -> Result<Entered, Error> {
        let entered = self.entered(account, mailbox).await?;
        let entered = entered.ok_or(Refusal::NoTeam)?;
        if entered.manages() {
            Ok(entered)
        } else {
            Err(Refusal::NotManaging.into())
        }
    }

    fn guest(&self, member: Member) -> Seen {
        Seen {
            rights: member.held().anywhere(),
            username: self.username(&member.address),
            account: member.account_id,
            address: member.address,
            owner: false,
            grants: member.grants,
            joined_at: member.joined_at,
        }
    }

    /// The name that an address is invited by: the local part on the domain that a bare name means, the whole address on any other.
    pub(super) fn username(&self, address: &str) -> String {
        let (name, domain) = address.rsplit_once('@').unwrap_or((address, ""));
        let bare = self.auth.registration_domains().first();
        let bare = bare.is_some_and(|bare| bare == domain);
        if bare { name } else { address }.to_owned()
    }
}

fn listed(team: Summary, account: &str) -> Listed {
    let local_part = || team.address.rsplit_once('@').map_or("", |(name, _)| name);
    Listed {
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
