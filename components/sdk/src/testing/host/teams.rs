//! Shared mailboxes of the fake host.

use super::{FakeHost, Need};
use crate::capability::{
    Caller as _, Error, InvitedMember, Missing, NewGrant, Refused, Right, Target, Team, TeamMember,
    TeamRole, TeamSummary, Teams,
};
use crate::testing::NOW;
use crate::testing::account::Account;
use crate::testing::account::members::{ALL_RIGHTS, MAX_MEMBERS, Members, check_grant, covers};

const OWNER: &str = "The mailbox's owner can be neither removed nor granted anything";

/// The domain of a user name without an `@`.
const PLATFORM: &str = "example.test";

impl FakeHost {
    /// Returns the caller's address. Fails if the caller has no web session.
    fn session(&self) -> Result<String, Error> {
        self.allow(Need::Session, |account| Ok(account.address.clone()))
    }

    /// Returns the rights on `target` that the caller can grant to other members. Fails if the
    /// caller is not allowed to manage the members.
    fn grantable(&self, team: &str, target: &Target) -> Result<Vec<Right>, Refused> {
        let caller = self.session().map_err(Refused::Failed)?;
        if caller == team {
            return Ok(ALL_RIGHTS.into());
        }
        let member = self.members(team, |members| {
            let member = members.get(&caller).cloned();
            member.ok_or(Refused::Missing(Missing::Team))
        })?;
        if !member.rights.contains(&Right::MembersManage) {
            return Err(denied("You may not manage the members of this mailbox"));
        }
        let grants = member.grants.into_iter();
        let covering = grants.filter(|grant| covers(&grant.target, target));
        Ok(covering.flat_map(|grant| grant.rights).collect())
    }

    /// Checks whether the caller is allowed to grant these rights in a team.
    fn check_grantable(
        &self,
        team: &str,
        target: &Target,
        rights: &[Right],
    ) -> Result<(), Refused> {
        let grantable = self.grantable(team, target)?;
        if rights.iter().all(|right| grantable.contains(right)) {
            return Ok(());
        }
        Err(denied("You can only grant rights that you hold"))
    }

    /// Calls `act` with the members of a team. Returns [`Refused::Missing`] if the team does not
    /// exist.
    fn members<T>(
        &self,
        team: &str,
        act: impl FnOnce(&mut Members) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let done = self.account_of(team, |account| act(&mut account.members));
        done.unwrap_or(Err(Refused::Missing(Missing::Team)))
    }
}

/// The id of a team is the owner's address. The id of a member is the member's address. The fake
/// host does not check whether the folder, alias or domain of a grant exists.
impl Teams for FakeHost {
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error> {
        let caller = self.session()?;
        let own = self.account_of(&caller, |own| {
            summary(own, TeamRole::Owner, ALL_RIGHTS.into())
        });
        let shared = self.addresses().into_iter().filter_map(|address| {
            let shared = |account: &mut Account| {
                let rights = account.members.get(&caller)?.rights.clone();
                (!rights.is_empty()).then(|| summary(account, TeamRole::Guest, rights))
            };
            self.account_of(&address, shared).flatten()
        });
        Ok(own.into_iter().chain(shared).collect())
    }

    fn team(&self, team: &str) -> Result<Team, Error> {
        let caller = self.session()?;
        let found = self.account_of(team, |account| {
            let own = account.address == caller;
            let member = account.members.get(&caller);
            let manages = member.is_some_and(|one| one.rights.contains(&Right::MembersManage));
            if !own && member.is_none() {
                return None;
            }
            let members = account.members.all();
            let visible = members
                .iter()
                .filter(|one| own || manages || one.id == caller);
            Some(Team {
                members: std::iter::once(owner(account))
                    .chain(visible.cloned())
                    .collect(),
                limit: MAX_MEMBERS,
                guests: u32::try_from(members.len()).unwrap_or(u32::MAX),
                shared: !members.is_empty(),
            })
        });
        found.flatten().ok_or(Error::NotFound)
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
        self.grantable(team, &grant.target)?;
        check_grant(&grant.rights, &grant.target, grant.label.as_deref())
            .map_err(Refused::Failed)?;
        let name = username.to_lowercase();
        let (local, domain) = name.rsplit_once('@').unwrap_or((&name, PLATFORM));
        if !(3..=32).contains(&local.chars().count()) {
            return Err(invalid(
                "username must be 3 to 32 characters, not counting the domain",
            ));
        }
        if password.is_empty() {
            return Err(invalid("password is required"));
        }
        let right = self.account_of(&caller, |account| account.has_password(password));
        if right != Some(true) {
            return Err(denied("Wrong password"));
        }
        let address = format!("{local}@{domain}");
        if !self.addresses().contains(&address) {
            return Err(Refused::Missing(Missing::User));
        }
        if address == team || address == caller {
            return Err(invalid("username must be neither your own nor the owner's"));
        }
        self.check_grantable(team, &grant.target, &grant.rights)?;
        self.members(team, |members| {
            members.invite(&address, &self::username(&address), grant, now)
        })
    }

    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused> {
        self.grantable(team, &grant.target)?;
        check_grant(&grant.rights, &grant.target, grant.label.as_deref())
            .map_err(Refused::Failed)?;
        if member == team {
            return Err(denied(OWNER));
        }
        self.check_grantable(team, &grant.target, &grant.rights)?;
        self.members(team, |members| members.add_grant(member, grant))
    }

    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused> {
        self.grantable(team, &Target::Mailbox)?;
        let target = self.members(team, |members| members.target(grant))?;
        check_grant(rights, &target, None).map_err(Refused::Failed)?;
        self.check_grantable(team, &target, rights)?;
        self.members(team, |members| members.change_grant(grant, rights))
    }

    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused> {
        self.grantable(team, &Target::Mailbox)?;
        self.members(team, |members| members.revoke_grant(grant))
    }

    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused> {
        let caller = self.session().map_err(Refused::Failed)?;
        if caller != member {
            self.grantable(team, &Target::Mailbox)?;
        }
        if member == team {
            return Err(denied(OWNER));
        }
        let missing = if caller == member {
            Missing::Team
        } else {
            Missing::Member
        };
        self.members(team, |members| {
            members.get(member).ok_or(Refused::Missing(missing))?;
            members.remove(member);
            Ok(())
        })
    }
}

/// Returns the local part of an address on the platform domain. For other domains, returns the
/// complete address.
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
        rights: ALL_RIGHTS.into(),
        grants: Vec::new(),
        joined_at: NOW,
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

fn denied(text: &str) -> Refused {
    Refused::Failed(Error::Denied(text.into()))
}

fn invalid(text: &str) -> Refused {
    Refused::Failed(Error::Invalid(text.into()))
}
