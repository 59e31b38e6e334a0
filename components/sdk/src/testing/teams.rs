//! Shared mailboxes in memory.

use super::account::Account;
use super::host::{FakeHost, Need};
use crate::capability::{
    Caller as _, Error, Grant, InvitedMember, Missing, NewGrant, Refused, Right, Target, Team,
    TeamMember, TeamRole, TeamSummary, Teams,
};

/// All rights, in canonical order.
const ALL: [Right; 6] = [
    Right::MailRead,
    Right::MailWrite,
    Right::MailSend,
    Right::AliasesRead,
    Right::AliasesWrite,
    Right::MembersManage,
];

/// Maximum number of members of a mailbox, without the owner.
const MOST_GUESTS: u32 = 5;

const LONGEST_LABEL: usize = 200;

const OWNER: &str = "The mailbox's owner can be neither removed nor granted anything";

/// Domain of a user name without an `@`.
const PLATFORM: &str = "example.test";

/// The members of a mailbox, without the owner.
#[derive(Debug, Default)]
pub(super) struct Guests {
    members: Vec<TeamMember>,
    last_grant: u32,
}

impl Guests {
    fn of(&self, address: &str) -> Option<&TeamMember> {
        self.members.iter().find(|member| member.id == address)
    }

    fn grant(&mut self, id: &str) -> Option<&mut Grant> {
        let mut grants = self
            .members
            .iter_mut()
            .flat_map(|member| &mut member.grants);
        grants.find(|grant| grant.id == id)
    }

    /// Creates a grant with a new id.
    fn made(&mut self, grant: &NewGrant) -> Grant {
        self.last_grant += 1;
        Grant {
            id: format!("grant-{}", self.last_grant),
            target: grant.target.clone(),
            label: grant.label.clone(),
            rights: in_order(&grant.rights),
        }
    }

    /// Updates the rights of each member from the member's grants.
    fn count(&mut self) {
        for member in &mut self.members {
            let rights = member.grants.iter().flat_map(|grant| grant.rights.clone());
            member.rights = in_order(&rights.collect::<Vec<_>>());
        }
        self.members.sort_by(|a, b| a.address.cmp(&b.address));
    }
}

fn in_order(rights: &[Right]) -> Vec<Right> {
    let held = |right: &Right| rights.contains(right);
    ALL.into_iter().filter(held).collect()
}

fn missing(missing: Missing) -> Refused {
    Refused::Missing(missing)
}

fn failed(error: Error) -> Refused {
    Refused::Failed(error)
}

fn takes(target: &Target) -> &'static [Right] {
    match target {
        Target::Mailbox => &ALL,
        Target::Folder(_) => &[Right::MailRead, Right::MailWrite],
        _ => &[Right::MailSend, Right::AliasesRead, Right::AliasesWrite],
    }
}

/// Checks that a grant is valid, regardless of who makes it.
fn possible(rights: &[Right], target: &Target, label: Option<&str>) -> Result<(), Refused> {
    let invalid = |text: &str| Err(failed(Error::Invalid(text.into())));
    if rights.is_empty() {
        return invalid("rights must not be empty");
    }
    if rights.iter().any(|right| !takes(target).contains(right)) {
        return invalid("rights must be those that apply to what is granted");
    }
    let label = label.unwrap_or_default();
    if label.chars().count() > LONGEST_LABEL || label.chars().any(char::is_control) {
        return invalid("resource_label must be at most 200 characters on one line");
    }
    Ok(())
}

/// Returns the local part of an address on the platform domain, and the whole address on another domain.
fn username(address: &str) -> String {
    let bare = address.strip_suffix(PLATFORM);
    let bare = bare.and_then(|bare| bare.strip_suffix('@'));
    bare.unwrap_or(address).into()
}

fn owner(account: &Account) -> TeamMember {
    TeamMember {
        id: account.address.clone(),
        username: username(&account.address),
        address: account.address.clone(),
        role: TeamRole::Owner,
        rights: ALL.into(),
        grants: Vec::new(),
        joined_at: super::NOW,
    }
}

fn summary(account: &Account, role: TeamRole, rights: Vec<Right>) -> TeamSummary {
    TeamSummary {
        id: account.address.clone(),
        address: account.address.clone(),
        name: account.name(),
        role,
        rights,
    }
}

impl FakeHost {
    /// Returns the caller's address. Fails unless the caller has a web session.
    fn session(&self) -> Result<String, Error> {
        self.allow(Need::Session, |account| Ok(account.address.clone()))
    }

    /// Returns the rights on `target` that the caller can grant to others. Fails unless the caller may manage the members of the team.
    fn manager(&self, team: &str, target: &Target) -> Result<Vec<Right>, Refused> {
        let caller = self.session().map_err(failed)?;
        if caller == team {
            return Ok(ALL.into());
        }
        let held = |account: &Account| {
            let member = account.guests.of(&caller)?;
            let over = |grant: &&Grant| {
                matches!(grant.target, Target::Mailbox) || same(&grant.target, target)
            };
            let rights = member.grants.iter().filter(over);
            let rights = rights.flat_map(|grant| grant.rights.clone());
            Some((member.rights.clone(), rights.collect::<Vec<_>>()))
        };
        let held = self.account_of(team, |account| held(account)).flatten();
        let (all, over) = held.ok_or(missing(Missing::Team))?;
        if !all.contains(&Right::MembersManage) {
            return Err(failed(Error::Denied(
                "You may not manage the members of this mailbox".into(),
            )));
        }
        Ok(over)
    }

    /// Checks that the caller may grant these rights in a team.
    fn may_grant(&self, team: &str, target: &Target, rights: &[Right]) -> Result<(), Refused> {
        let held = self.manager(team, target)?;
        if rights.iter().all(|right| held.contains(right)) {
            return Ok(());
        }
        Err(failed(Error::Denied(
            "You can only grant rights that you hold".into(),
        )))
    }

    fn guests<T>(
        &self,
        team: &str,
        act: impl FnOnce(&mut Guests) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let done = self.account_of(team, |account| {
            let done = act(&mut account.guests);
            account.guests.count();
            done
        });
        done.unwrap_or(Err(missing(Missing::Team)))
    }
}

fn same(one: &Target, other: &Target) -> bool {
    match (one, other) {
        (Target::Folder(one), Target::Folder(other))
        | (Target::Alias(one), Target::Alias(other))
        | (Target::AliasesOf(one), Target::AliasesOf(other)) => one == other,
        (Target::AllAliases, Target::Alias(_) | Target::AliasesOf(_) | Target::OwnAliases) => true,
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// The id of a team and of a member is the account's address. Folders, aliases and domains of grants are not checked for existence.
impl Teams for FakeHost {
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error> {
        let caller = self.session()?;
        let own = self.account_of(&caller, |own| summary(own, TeamRole::Owner, ALL.into()));
        let shared = self.addresses().into_iter().filter_map(|address| {
            let shared = |account: &mut Account| {
                let rights = account.guests.of(&caller)?.rights.clone();
                (!rights.is_empty()).then(|| summary(account, TeamRole::Guest, rights))
            };
            self.account_of(&address, shared).flatten()
        });
        Ok(own.into_iter().chain(shared).collect())
    }

    fn team(&self, team: &str) -> Result<Team, Error> {
        let caller = self.session()?;
        let seen = self.account_of(team, |account| {
            let own = account.address == caller;
            let guest = account.guests.of(&caller);
            let manages = guest.is_some_and(|one| one.rights.contains(&Right::MembersManage));
            if !own && guest.is_none() {
                return None;
            }
            let guests = &account.guests.members;
            let known = guests
                .iter()
                .filter(|one| own || manages || one.id == caller);
            Some(Team {
                members: std::iter::once(owner(account))
                    .chain(known.cloned())
                    .collect(),
                limit: MOST_GUESTS,
                guests: u32::try_from(guests.len()).unwrap_or(u32::MAX),
                shared: !guests.is_empty(),
            })
        });
        seen.flatten().ok_or(Error::NotFound)
    }

    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused> {
        let now = self.now();
        let caller = self.current().address;
        self.manager(team, &grant.target)?;
        possible(&grant.rights, &grant.target, grant.label.as_deref())?;
        let name = username.to_lowercase();
        let (local, domain) = name.rsplit_once('@').unwrap_or((&name, PLATFORM));
        if !(3..=32).contains(&local.chars().count()) {
            let text = "username must be 3 to 32 characters, not counting the domain";
            return Err(failed(Error::Invalid(text.into())));
        }
        let right = self.account_of(&caller, |account| account.has_password(password));
        if right != Some(true) {
            return Err(failed(Error::Denied("Wrong password".into())));
        }
        let address = format!("{local}@{domain}");
        if !self.addresses().contains(&address) {
            return Err(missing(Missing::User));
        }
        if address == team || address == caller {
            let text = "username must be neither your own nor the owner's";
            return Err(failed(Error::Invalid(text.into())));
        }
        self.may_grant(team, &grant.target, &grant.rights)?;
        self.guests(team, |guests| {
            let conflict = |text: &str| Err(failed(Error::Conflict(text.into())));
            if guests.of(&address).is_some() {
                return conflict("The account is already a member");
            }
            if guests.members.len() >= MOST_GUESTS as usize {
                return conflict("The plan's limit of guests is reached");
            }
            let grant = guests.made(grant);
            let invited = InvitedMember {
                membership: format!("member-{address}"),
                grant: grant.id.clone(),
                username: self::username(&address),
            };
            guests.members.push(TeamMember {
                id: address.clone(),
                username: invited.username.clone(),
                address,
                role: TeamRole::Guest,
                rights: Vec::new(),
                grants: vec![grant],
                joined_at: now,
            });
            Ok(invited)
        })
    }

    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused> {
        self.manager(team, &grant.target)?;
        possible(&grant.rights, &grant.target, grant.label.as_deref())?;
        if member == team {
            return Err(failed(Error::Denied(OWNER.into())));
        }
        self.may_grant(team, &grant.target, &grant.rights)?;
        self.guests(team, |guests| {
            if guests.of(member).is_none() {
                return Err(missing(Missing::Member));
            }
            let grant = guests.made(grant);
            let id = grant.id.clone();
            let mut members = guests.members.iter_mut();
            if let Some(member) = members.find(|one| one.id == member) {
                member.grants.push(grant);
            }
            Ok(id)
        })
    }

    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused> {
        self.manager(team, &Target::Mailbox)?;
        let target = self.guests(team, |guests| {
            let grant = guests.grant(grant).ok_or(missing(Missing::Grant))?;
            Ok(grant.target.clone())
        })?;
        possible(rights, &target, None)?;
        self.may_grant(team, &target, rights)?;
        self.guests(team, |guests| {
            let grant = guests.grant(grant).ok_or(missing(Missing::Grant))?;
            grant.rights = in_order(rights);
            Ok(())
        })
    }

    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused> {
        self.manager(team, &Target::Mailbox)?;
        self.guests(team, |guests| {
            guests.grant(grant).ok_or(missing(Missing::Grant))?;
            for member in &mut guests.members {
                member.grants.retain(|one| one.id != grant);
            }
            Ok(())
        })
    }

    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused> {
        let caller = self.session().map_err(failed)?;
        if caller != member {
            self.manager(team, &Target::Mailbox)?;
        }
        if member == team {
            return Err(failed(Error::Denied(OWNER.into())));
        }
        let other = caller != member;
        self.guests(team, |guests| {
            let none = if other {
                Missing::Member
            } else {
                Missing::Team
            };
            guests.of(member).ok_or(missing(none))?;
            guests.members.retain(|one| one.id != member);
            Ok(())
        })
    }
}
