//! JSON types of teams.

use latchmail_sdk::capability::{self, Target, TeamRole};
use latchmail_sdk::time::iso8601;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A right in a mailbox. The rights are in canonical order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub(crate) enum Right {
    #[serde(rename = "mail:read")]
    MailRead,
    #[serde(rename = "mail:write")]
    MailWrite,
    #[serde(rename = "mail:send")]
    MailSend,
    #[serde(rename = "aliases:read")]
    AliasesRead,
    #[serde(rename = "aliases:write")]
    AliasesWrite,
    #[serde(rename = "members:manage")]
    MembersManage,
}

/// Kind of the resource that a grant is for.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResourceKind {
    Mailbox,
    Folder,
    Alias,
    AliasSet,
}

/// Role of a member.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Owner,
    Guest,
}

/// A mailbox that the account can use: its own mailbox, or a mailbox that is shared with the
/// account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TeamSummary {
    /// Opaque id of the team. The mail and alias routes accept the id as the parameter `mailbox`.
    id: String,
    /// Address of the mailbox.
    address: String,
    /// Name of the mailbox: the owner's first and last name, or the address's local part.
    name: String,
    /// `owner` for the account's own mailbox, otherwise `guest`.
    role: Role,
    /// Each right that the account has on at least one resource of the mailbox.
    rights: Vec<Right>,
    /// The rights in `rights` that begin with `mail:`.
    mailbox_rights: Vec<Right>,
}

/// A member of a team.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TeamMember {
    /// Opaque id of the member.
    user_id: String,
    /// User name for invitations: the local part if the address is on the first registration
    /// domain, otherwise the complete address.
    username: String,
    /// Address of the member.
    address: String,
    /// `owner` or `guest`.
    role: Role,
    /// Each right that the member has on at least one resource of the mailbox.
    rights: Vec<Right>,
    /// Grants of the member, oldest first. The member has the rights of all these grants. The owner
    /// has all rights without any grants.
    grants: Vec<TeamGrant>,
    /// Start of the membership, ISO 8601. For the owner, the time when the account was created.
    joined_at: String,
}

/// A grant of a member.
#[derive(Serialize, ToSchema)]
pub(crate) struct TeamGrant {
    /// Opaque id of the grant.
    #[serde(rename = "grantId")]
    grant_id: String,
    /// Kind of the resource.
    resource_kind: ResourceKind,
    /// Id of the resource: `null` for the mailbox, the `id` of a folder, the address of an alias,
    /// or `all`, `own` or `domain:<domain>` for a set of aliases.
    resource_id: Option<String>,
    /// Label that the member who made the grant chose for the resource.
    resource_label: Option<String>,
    /// Rights of the grant.
    rights: Vec<Right>,
}

impl Right {
    /// All rights with their names.
    const ALL: [(Self, &str); 6] = [
        (Self::MailRead, "mail:read"),
        (Self::MailWrite, "mail:write"),
        (Self::MailSend, "mail:send"),
        (Self::AliasesRead, "aliases:read"),
        (Self::AliasesWrite, "aliases:write"),
        (Self::MembersManage, "members:manage"),
    ];

    /// Converts rights from the host's type. The order stays the same. Omits rights of later hosts,
    /// which the API description does not contain.
    pub(crate) fn all(rights: &[capability::Right]) -> Vec<Self> {
        let known = |name: &capability::Right| Self::ALL.iter().find(|(_, known)| known == name);
        let known = rights.iter().filter_map(known);
        known.map(|(right, _)| *right).collect()
    }

    fn reaches_mail(self) -> bool {
        matches!(self, Self::MailRead | Self::MailWrite | Self::MailSend)
    }
}

impl From<Right> for capability::Right {
    fn from(right: Right) -> Self {
        let found = Right::ALL.iter().find(|(known, _)| *known == right);
        found.map_or("", |(_, name)| name).into()
    }
}

impl From<TeamRole> for Role {
    fn from(role: TeamRole) -> Self {
        match role {
            TeamRole::Owner => Self::Owner,
            TeamRole::Guest => Self::Guest,
        }
    }
}

impl From<capability::TeamSummary> for TeamSummary {
    fn from(team: capability::TeamSummary) -> Self {
        let rights = Right::all(&team.rights);
        Self {
            id: team.id,
            address: team.address,
            name: team.name,
            role: team.role.into(),
            mailbox_rights: rights
                .iter()
                .copied()
                .filter(|right| right.reaches_mail())
                .collect(),
            rights,
        }
    }
}

impl From<capability::TeamMember> for TeamMember {
    fn from(member: capability::TeamMember) -> Self {
        Self {
            user_id: member.id,
            username: member.username,
            address: member.address,
            role: member.role.into(),
            rights: Right::all(&member.rights),
            grants: member.grants.into_iter().map(TeamGrant::from).collect(),
            joined_at: iso8601(member.joined_at),
        }
    }
}

impl From<capability::Grant> for TeamGrant {
    fn from(grant: capability::Grant) -> Self {
        let (resource_kind, resource_id) = match grant.target {
            Target::Mailbox => (ResourceKind::Mailbox, None),
            Target::Folder(id) => (ResourceKind::Folder, Some(id)),
            Target::Alias(address) => (ResourceKind::Alias, Some(address)),
            Target::AllAliases => (ResourceKind::AliasSet, Some("all".into())),
            Target::OwnAliases => (ResourceKind::AliasSet, Some("own".into())),
            Target::AliasesOf(domain) => (ResourceKind::AliasSet, Some(format!("domain:{domain}"))),
        };
        Self {
            grant_id: grant.id,
            resource_kind,
            resource_id,
            resource_label: grant.label,
            rights: Right::all(&grant.rights),
        }
    }
}
