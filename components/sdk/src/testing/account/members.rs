//! The members of a mailbox and their grants.

use crate::capability::{
    Error, Grant, InvitedMember, Missing, NewGrant, Refused, Right, Target, TeamMember, TeamRole,
    Timestamp,
};

/// All rights, in canonical order.
pub(crate) const ALL_RIGHTS: [Right; 6] = [
    Right::MailRead,
    Right::MailWrite,
    Right::MailSend,
    Right::AliasesRead,
    Right::AliasesWrite,
    Right::MembersManage,
];

/// Maximum number of members of a mailbox, without the owner.
pub(crate) const MAX_MEMBERS: u32 = 5;

/// Maximum length of a grant's label in characters.
const MAX_LABEL: usize = 200;

/// The members of a mailbox, without the owner. Sorted by address.
#[derive(Debug, Default)]
pub(crate) struct Members {
    members: Vec<TeamMember>,
    last_grant: u32,
}

impl Members {
    pub(crate) fn all(&self) -> &[TeamMember] {
        &self.members
    }

    /// Returns the member with this id. The id is the member's address.
    pub(crate) fn get(&self, id: &str) -> Option<&TeamMember> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Returns the target of a grant.
    pub(crate) fn target(&self, grant: &str) -> Result<Target, Refused> {
        let mut grants = self.members.iter().flat_map(|member| &member.grants);
        let found = grants.find(|one| one.id == grant);
        let found = found.ok_or(Refused::Missing(Missing::Grant))?;
        Ok(found.target.clone())
    }

    /// Adds a member with one grant.
    pub(crate) fn invite(
        &mut self,
        address: &str,
        username: &str,
        grant: &NewGrant,
        now: Timestamp,
    ) -> Result<InvitedMember, Refused> {
        let conflict = |text: &str| Err(Refused::Failed(Error::Conflict(text.into())));
        if self.get(address).is_some() {
            return conflict("The account is already a member");
        }
        if self.members.len() >= MAX_MEMBERS as usize {
            return conflict("The plan's limit of guests is reached");
        }
        let grant = self.new_grant(grant);
        let invited = InvitedMember {
            membership: format!("member-{address}"),
            grant: grant.id.clone(),
            username: username.into(),
        };
        self.members.push(TeamMember {
            id: address.into(),
            username: username.into(),
            address: address.into(),
            role: TeamRole::Guest,
            rights: Vec::new(),
            grants: vec![grant],
            joined_at: now,
        });
        self.members.sort_by(|a, b| a.address.cmp(&b.address));
        self.update_rights();
        Ok(invited)
    }

    pub(crate) fn remove(&mut self, id: &str) {
        self.members.retain(|member| member.id != id);
    }

    /// Adds a grant to a member and returns the grant's id.
    pub(crate) fn add_grant(&mut self, member: &str, grant: &NewGrant) -> Result<String, Refused> {
        let found = self.members.iter().position(|one| one.id == member);
        let found = found.ok_or(Refused::Missing(Missing::Member))?;
        let grant = self.new_grant(grant);
        let id = grant.id.clone();
        self.members[found].grants.push(grant);
        self.update_rights();
        Ok(id)
    }

    pub(crate) fn change_grant(&mut self, id: &str, rights: &[Right]) -> Result<(), Refused> {
        let mut grants = self
            .members
            .iter_mut()
            .flat_map(|member| &mut member.grants);
        let grant = grants.find(|grant| grant.id == id);
        grant.ok_or(Refused::Missing(Missing::Grant))?.rights = in_order(rights);
        self.update_rights();
        Ok(())
    }

    pub(crate) fn revoke_grant(&mut self, id: &str) -> Result<(), Refused> {
        self.target(id)?;
        for member in &mut self.members {
            member.grants.retain(|grant| grant.id != id);
        }
        self.update_rights();
        Ok(())
    }

    fn new_grant(&mut self, grant: &NewGrant) -> Grant {
        self.last_grant += 1;
        Grant {
            id: format!("grant-{}", self.last_grant),
            target: grant.target.clone(),
            label: grant.label.clone(),
            rights: in_order(&grant.rights),
        }
    }

    /// Updates the rights of each member. A member has the rights of all its grants.
    fn update_rights(&mut self) {
        for member in &mut self.members {
            let rights = member.grants.iter().flat_map(|grant| grant.rights.clone());
            member.rights = in_order(&rights.collect::<Vec<_>>());
        }
    }
}

/// Checks whether a grant is valid. Does not check the rights of the caller.
pub(crate) fn check_grant(
    rights: &[Right],
    target: &Target,
    label: Option<&str>,
) -> Result<(), Error> {
    let invalid = |text: &str| Err(Error::Invalid(text.into()));
    if rights.is_empty() {
        return invalid("rights must not be empty");
    }
    if rights
        .iter()
        .any(|right| !applicable(target).contains(right))
    {
        return invalid("rights must be those that apply to what is granted");
    }
    let label = label.unwrap_or_default();
    if label.chars().count() > MAX_LABEL || label.chars().any(char::is_control) {
        return invalid("resource_label must be at most 200 characters on one line");
    }
    Ok(())
}

/// Returns the rights that a grant on this target can contain.
fn applicable(target: &Target) -> &'static [Right] {
    match target {
        Target::Mailbox => &ALL_RIGHTS,
        Target::Folder(_) => &[Right::MailRead, Right::MailWrite],
        _ => &[Right::MailSend, Right::AliasesRead, Right::AliasesWrite],
    }
}

/// Returns whether a grant on `granted` also applies to `target`.
pub(crate) fn covers(granted: &Target, target: &Target) -> bool {
    if matches!(granted, Target::Mailbox) {
        return true;
    }
    match (granted, target) {
        (Target::Folder(one), Target::Folder(other))
        | (Target::Alias(one), Target::Alias(other))
        | (Target::AliasesOf(one), Target::AliasesOf(other)) => one == other,
        (Target::AllAliases, Target::Alias(_) | Target::AliasesOf(_) | Target::OwnAliases) => true,
        (granted, target) => std::mem::discriminant(granted) == std::mem::discriminant(target),
    }
}

fn in_order(rights: &[Right]) -> Vec<Right> {
    let included = |right: &Right| rights.contains(right);
    ALL_RIGHTS.into_iter().filter(included).collect()
}
