//! Shared mailboxes of the fake host.

use super::aliases::PLATFORM;
use super::mailbox::folder_id;
use super::{Account, FakeHost, Need};
use crate::capability::{
    Error, Grant, InvitedMember, Missing, NewGrant, Refused, Right, Target, Team, TeamMember,
    TeamRole, TeamSummary, Teams,
};
use crate::testing::NOW;
use latchmail_shape::{Code, codes};

/// All rights, in canonical order.
const ALL_RIGHTS: [&str; 6] = [
    "mail:read",
    "mail:write",
    "mail:send",
    "aliases:read",
    "aliases:write",
    "members:manage",
];

/// Maximum number of members of a mailbox, without the owner.
const MAX_MEMBERS: usize = 5;

/// Maximum length of a grant's label in characters.
const MAX_LABEL: usize = 200;

/// Returns the caller's address. Fails if the caller has no web session.
fn session(host: &FakeHost) -> Result<String, Refused> {
    host.authorize(Need::Session).map_err(Refused::Failed)
}

/// Calls `act` with the account that owns a team, if the caller is allowed to manage the members.
/// The second argument of `act` contains the rights on `target` that the caller can grant. The
/// argument is empty if `target` is `None` and the caller is not the owner.
fn manage<T>(
    host: &FakeHost,
    team: &str,
    target: Option<&Target>,
    act: impl FnOnce(&mut Account, &[Right]) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let caller = session(host)?;
    let mut accounts = host.accounts.borrow_mut();
    let owner = accounts
        .get_mut(team)
        .ok_or(Refused::Missing(Missing::Team))?;
    let rights: Vec<Right> = if caller == team {
        all_rights()
    } else {
        let member = owner.members.iter().find(|one| one.id == caller);
        let member = member.ok_or(Refused::Missing(Missing::Team))?;
        if !member.rights.iter().any(|right| right == "members:manage") {
            return Err(denied(
                codes::NOT_A_MANAGER,
                "You may not manage the members of this mailbox",
            ));
        }
        let covers = |grant: &&Grant| target.is_some_and(|target| covers(&grant.target, target));
        let grants = member.grants.iter().filter(covers);
        grants.flat_map(|grant| grant.rights.clone()).collect()
    };
    act(owner, &rights)
}

fn new_grant(host: &FakeHost, grant: &NewGrant) -> Grant {
    Grant {
        id: format!("grant-{}", host.next_number("grant")),
        target: grant.target.clone(),
        label: grant.label.clone(),
        rights: in_order(&grant.rights),
    }
}

impl Account {
    fn member(&mut self, id: &str) -> Result<&mut TeamMember, Refused> {
        let found = self.members.iter_mut().find(|member| member.id == id);
        found.ok_or(Refused::Missing(Missing::Member))
    }

    fn grant_mut(&mut self, id: &str) -> Result<&mut Grant, Refused> {
        let mut grants = self
            .members
            .iter_mut()
            .flat_map(|member| &mut member.grants);
        let found = grants.find(|grant| grant.id == id);
        found.ok_or(Refused::Missing(Missing::Grant))
    }

    /// Sets the rights of each member. A member has the rights of all its grants.
    fn update_rights(&mut self) {
        for member in &mut self.members {
            let rights = member.grants.iter().flat_map(|grant| grant.rights.clone());
            member.rights = in_order(&rights.collect::<Vec<_>>());
        }
    }

    /// Checks whether a grant in this account's mailbox is valid.
    fn check_grant(
        &self,
        rights: &[Right],
        target: &Target,
        label: Option<&str>,
    ) -> Result<(), Refused> {
        let applicable: &[&str] = match target {
            Target::Mailbox => &ALL_RIGHTS,
            Target::Folder(_) => &["mail:read", "mail:write"],
            _ => &["mail:send", "aliases:read", "aliases:write"],
        };
        if let Some(right) = rights
            .iter()
            .find(|right| !ALL_RIGHTS.contains(&right.as_str()))
        {
            let text = format!("There is no right {right:?}");
            return Err(invalid(codes::INVALID_FIELD, &text));
        }
        if rights.is_empty() {
            return Err(invalid(codes::INVALID_RIGHTS, "rights must not be empty"));
        }
        if rights
            .iter()
            .any(|right| !applicable.contains(&right.as_str()))
        {
            return Err(invalid(
                codes::INVALID_RIGHTS,
                "rights must be those that apply to the resource",
            ));
        }
        let label = label.unwrap_or_default();
        if label.chars().count() > MAX_LABEL || label.chars().any(char::is_control) {
            let text = "resource_label must be at most 200 characters on one line";
            return Err(invalid(codes::INVALID_FIELD, text));
        }
        let missing = match target {
            Target::Folder(id) if self.mail.paths().all(|(path, _)| folder_id(path) != *id) => {
                Missing::Folder
            }
            Target::Alias(address) if self.aliases.iter().all(|one| one.address != *address) => {
                Missing::Alias
            }
            _ => return Ok(()),
        };
        Err(Refused::Missing(missing))
    }

    fn summary(&self, role: TeamRole, rights: Vec<Right>) -> TeamSummary {
        TeamSummary {
            id: self.address.clone(),
            address: self.address.clone(),
            name: match &self.profile {
                Some(profile) => format!("{} {}", profile.first_name, profile.last_name),
                None => self.address.split('@').next().unwrap_or_default().into(),
            },
            role,
            rights,
        }
    }

    fn owner(&self) -> TeamMember {
        TeamMember {
            role: TeamRole::Owner,
            rights: all_rights(),
            ..member(&self.address, Vec::new(), NOW)
        }
    }
}

/// The id of a team is the owner's address. The id of a member is the member's address. The fake
/// host does not check whether the domain of a grant exists.
impl Teams for FakeHost {
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error> {
        let caller = self.authorize(Need::Session)?;
        let accounts = self.accounts.borrow();
        let own = accounts[&caller].summary(TeamRole::Owner, all_rights());
        let shared = accounts.values().filter_map(|account| {
            let member = account.members.iter().find(|member| member.id == caller)?;
            let rights = member.rights.clone();
            (!rights.is_empty()).then(|| account.summary(TeamRole::Guest, rights))
        });
        Ok(std::iter::once(own).chain(shared).collect())
    }

    fn team(&self, team: &str) -> Result<Team, Error> {
        let caller = self.authorize(Need::Session)?;
        let accounts = self.accounts.borrow();
        let owner = accounts.get(team).ok_or(Error::NotFound)?;
        let member = owner.members.iter().find(|member| member.id == caller);
        let manages =
            |member: &TeamMember| member.rights.iter().any(|right| right == "members:manage");
        let all = match member {
            _ if caller == team => true,
            Some(member) => manages(member),
            None => return Err(Error::NotFound),
        };
        let visible = owner.members.iter().filter(|one| all || one.id == caller);
        Ok(Team {
            members: std::iter::once(owner.owner())
                .chain(visible.cloned())
                .collect(),
            limit: u32::try_from(MAX_MEMBERS).unwrap_or(u32::MAX),
            guests: u32::try_from(owner.members.len()).unwrap_or(u32::MAX),
            shared: !owner.members.is_empty(),
        })
    }

    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused> {
        let caller = session(self)?;
        let name = username.to_lowercase();
        let (local, domain) = name.rsplit_once('@').unwrap_or((&name, PLATFORM[0]));
        let address = format!("{local}@{domain}");
        let is_password = self.accounts.borrow()[&caller].password == password;
        let exists = self.accounts.borrow().contains_key(&address);
        let (now, first) = (self.now(), new_grant(self, grant));
        manage(self, team, Some(&grant.target), |owner, grantable| {
            owner.check_grant(&grant.rights, &grant.target, grant.label.as_deref())?;
            if !(3..=32).contains(&local.chars().count()) {
                let text = "username must be 3 to 32 characters, not counting the domain";
                return Err(invalid(codes::INVALID_MEMBER, text));
            }
            if password.is_empty() {
                return Err(invalid(codes::FIELD_REQUIRED, "password is required"));
            }
            if !is_password {
                return Err(denied(codes::WRONG_PASSWORD, "Wrong password"));
            }
            if !exists {
                return Err(Refused::Missing(Missing::User));
            }
            if address == team || address == caller {
                return Err(invalid(
                    codes::INVALID_MEMBER,
                    "username must be neither your own nor the owner's",
                ));
            }
            check_held(grantable, &grant.rights)?;
            let conflict = |code, text: &str| Err(Refused::Failed(Error::conflict(code, text)));
            if owner.member(&address).is_ok() {
                return conflict(codes::ALREADY_A_MEMBER, "The account is already a member");
            }
            if owner.members.len() >= MAX_MEMBERS {
                return conflict(
                    codes::TOO_MANY_MEMBERS,
                    "The plan's limit of guests is reached",
                );
            }
            let invited = member(&address, vec![first.clone()], now);
            let username = invited.username.clone();
            owner.members.push(invited);
            owner.members.sort_by(|a, b| a.address.cmp(&b.address));
            owner.update_rights();
            Ok(InvitedMember {
                membership: format!("member-{address}"),
                grant: first.id,
                username,
            })
        })
    }

    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused> {
        let new = new_grant(self, grant);
        manage(self, team, Some(&grant.target), |owner, grantable| {
            owner.check_grant(&grant.rights, &grant.target, grant.label.as_deref())?;
            check_member(team, member)?;
            check_held(grantable, &grant.rights)?;
            owner.member(member)?.grants.push(new.clone());
            owner.update_rights();
            Ok(new.id)
        })
    }

    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused> {
        let target = manage(self, team, None, |owner, _| {
            Ok(owner.grant_mut(grant)?.target.clone())
        })?;
        manage(self, team, Some(&target), |owner, grantable| {
            owner.check_grant(rights, &target, None)?;
            check_held(grantable, rights)?;
            owner.grant_mut(grant)?.rights = in_order(rights);
            owner.update_rights();
            Ok(())
        })
    }

    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused> {
        manage(self, team, None, |owner, _| {
            owner.grant_mut(grant)?;
            for member in &mut owner.members {
                member.grants.retain(|one| one.id != grant);
            }
            owner.update_rights();
            Ok(())
        })
    }

    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused> {
        let leaves = session(self)? == member && member != team;
        let remove = |owner: &mut Account| {
            check_member(team, member)?;
            owner.member(member)?;
            owner.members.retain(|one| one.id != member);
            Ok(())
        };
        if !leaves {
            return manage(self, team, None, |owner, _| remove(owner));
        }
        let mut accounts = self.accounts.borrow_mut();
        let left = accounts.get_mut(team).map(remove);
        left.unwrap_or(Err(Refused::Missing(Missing::Team)))
            .map_err(|_| Refused::Missing(Missing::Team))
    }
}

/// Returns whether a grant on `granted` also applies to `target`.
fn covers(granted: &Target, target: &Target) -> bool {
    match (granted, target) {
        (Target::Mailbox, _)
        | (Target::AllAliases, Target::Alias(_) | Target::AliasesOf(_) | Target::OwnAliases) => {
            true
        }
        // `Target` does not implement `PartialEq`, so the debug texts are compared.
        (granted, target) => format!("{granted:?}") == format!("{target:?}"),
    }
}

fn check_held(held: &[Right], rights: &[Right]) -> Result<(), Refused> {
    if rights.iter().all(|right| held.contains(right)) {
        return Ok(());
    }
    Err(denied(
        codes::RIGHT_NOT_HELD,
        "You can only grant rights that you hold",
    ))
}

fn check_member(team: &str, member: &str) -> Result<(), Refused> {
    if member != team {
        return Ok(());
    }
    let text = "The mailbox's owner can be neither removed nor granted anything";
    Err(denied(codes::OWNER_NOT_CHANGEABLE, text))
}

fn in_order(rights: &[Right]) -> Vec<Right> {
    let mut all = all_rights();
    all.retain(|right| rights.contains(right));
    all
}

fn all_rights() -> Vec<Right> {
    ALL_RIGHTS.map(str::to_owned).into()
}

/// Returns a member with the role guest. If the address is on the first platform domain, the user
/// name is the local part of the address. Otherwise the user name is the address.
fn member(address: &str, grants: Vec<Grant>, joined_at: i64) -> TeamMember {
    let local = address.strip_suffix(PLATFORM[0]);
    let local = local.and_then(|local| local.strip_suffix('@'));
    TeamMember {
        id: address.into(),
        username: local.unwrap_or(address).into(),
        address: address.into(),
        role: TeamRole::Guest,
        rights: Vec::new(),
        grants,
        joined_at,
    }
}

fn denied(code: Code, text: &str) -> Refused {
    Refused::Failed(Error::denied(code, text))
}

fn invalid(code: Code, text: &str) -> Refused {
    Refused::Failed(Error::invalid(code, text))
}
