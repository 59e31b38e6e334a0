//! The interface `teams`, for the caller's own shared mailbox and for the mailboxes that other
//! accounts share with the caller. The id of a team alone gives no access, because the teams
//! service authorizes each operation.

use crate::api::problem;
use latchmail_accounts::teams::{self, GrantRequest, Roster, TeamMember, TeamSummary};
use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::teams::{self as wit, Host, Missing, Refused};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_core::codes;
use latchmail_core::permissions::{AliasSet, GrantedFolder, Resource, Right, Rights};
use latchmail_directory::teams::{Grant, Refusal};
use secrecy::SecretString;

use super::call::Call;
use super::convert::{self, account_error, mail_server_error};
use super::host_call::host_call;
use super::session::password_error;

impl Host for Call {
    fn convert_refused(&mut self, error: HostError<Refused>) -> wasmtime::Result<Refused> {
        error.into_guest()
    }

    async fn list(&mut self) -> Result<Vec<wit::Summary>, HostError<Error>> {
        let _span = host_call("teams.list");
        let account = self.require_session()?;
        let teams = self.services.teams.list(&account.id).await;
        let teams = teams.map_err(account_error)?;
        Ok(teams.into_iter().map(summary).collect())
    }

    async fn members(&mut self, team: String) -> Result<wit::Team, HostError<Error>> {
        let _span = host_call("teams.members");
        let account = self.require_session()?;
        let roster = self.services.teams.members(account.session(), &team).await;
        let roster = roster.map_err(account_error)?.ok_or(Error::NotFound)?;
        Ok(roster_to_wit(roster))
    }

    async fn invite(
        &mut self,
        team: String,
        username: String,
        password: String,
        grant: wit::NewGrant,
    ) -> Result<wit::Invited, HostError<Refused>> {
        let _span = host_call("teams.invite");
        self.count_password_check()?;
        let password = SecretString::from(password);
        let account = self.require_session()?;
        let invited = self.services.teams.invite(
            account.confirmation(password),
            &account.mail,
            &team,
            &username,
            grant_request(grant)?,
            &account.origin,
        );
        let invited = invited.await.map_err(|error| match error {
            teams::Error::Failed(failure) => password_error(failure),
            other => team_error(other).into(),
        })?;
        Ok(wit::Invited {
            membership: invited.membership,
            grant: invited.grant,
            username: invited.username,
        })
    }

    async fn add_grant(
        &mut self,
        team: String,
        member: String,
        grant: wit::NewGrant,
    ) -> Result<String, HostError<Refused>> {
        let _span = host_call("teams.add-grant");
        let account = self.require_session()?;
        let added = self.services.teams.add_grant(
            account.session(),
            &account.mail,
            &team,
            &member,
            grant_request(grant)?,
            &account.origin,
        );
        Ok(added.await.map_err(team_error)?)
    }

    async fn change_grant(
        &mut self,
        team: String,
        grant: String,
        rights: Vec<wit::Right>,
    ) -> Result<(), HostError<Refused>> {
        let _span = host_call("teams.change-grant");
        let account = self.require_session()?;
        let (session, rights) = (account.session(), rights_from_wit(&rights)?);
        let teams = &self.services.teams;
        let changed = teams.change_grant(session, &team, &grant, rights, &account.origin);
        Ok(changed.await.map_err(team_error)?)
    }

    async fn revoke_grant(
        &mut self,
        team: String,
        grant: String,
    ) -> Result<(), HostError<Refused>> {
        let _span = host_call("teams.revoke-grant");
        let account = self.require_session()?;
        let teams = &self.services.teams;
        let revoked = teams.revoke_grant(account.session(), &team, &grant, &account.origin);
        Ok(revoked.await.map_err(team_error)?)
    }

    async fn remove_member(
        &mut self,
        team: String,
        member: String,
    ) -> Result<(), HostError<Refused>> {
        let _span = host_call("teams.remove-member");
        let account = self.require_session()?;
        let (teams, origin) = (&self.services.teams, account.origin.clone());
        let removed = teams.remove_member(account.session(), &team, &member, origin);
        Ok(removed.await.map_err(team_error)?)
    }
}

fn team_error(error: teams::Error) -> Refused {
    Refused::Failed(match error {
        teams::Error::Refused(refusal) => return refusal_error(refusal),
        teams::Error::Invalid(why) => Error::Invalid(problem::of(why)),
        teams::Error::WrongPassword => problem::denied(codes::WRONG_PASSWORD, "Wrong password"),
        teams::Error::MailServer(error) => mail_server_error(error),
        teams::Error::Failed(failure) => account_error(failure),
    })
}

fn refusal_error(refusal: Refusal) -> Refused {
    let denied = |code, text: &str| Refused::Failed(problem::denied(code, text));
    let invalid = |code, text: &str| Refused::Failed(problem::invalid(code, text));
    let conflict = |code, text: &str| Refused::Failed(problem::conflict(code, text));
    match refusal {
        Refusal::NoTeam => Refused::Missing(Missing::Team),
        Refusal::NoUser => Refused::Missing(Missing::User),
        Refusal::NoMember => Refused::Missing(Missing::Member),
        Refusal::NoGrant => Refused::Missing(Missing::Grant),
        Refusal::NoFolder => Refused::Missing(Missing::Folder),
        Refusal::NoAlias => Refused::Missing(Missing::Alias),
        Refusal::NotManaging => denied(
            codes::NOT_A_MANAGER,
            "You may not manage the members of this mailbox",
        ),
        Refusal::NotHeld => denied(
            codes::RIGHT_NOT_HELD,
            "You can only grant rights that you hold",
        ),
        Refusal::Owner => denied(
            codes::OWNER_NOT_CHANGEABLE,
            "The mailbox's owner can be neither removed nor granted anything",
        ),
        Refusal::Oneself => invalid(codes::INVALID_MEMBER, "username must not be your own"),
        Refusal::OwnerInvited => invalid(codes::INVALID_MEMBER, "username must not be the owner's"),
        Refusal::NoDomain => invalid(
            codes::INVALID_RESOURCE,
            "resource_id must name a domain that the mailbox may have aliases on",
        ),
        Refusal::TooManyGrants => invalid(
            codes::TOO_MANY_GRANTS,
            &format!(
                "A member may have {} grants; revoke one before making another",
                latchmail_directory::teams::MAX_GRANTS
            ),
        ),
        Refusal::Member => conflict(codes::ALREADY_A_MEMBER, "The account is already a member"),
        Refusal::Full => conflict(
            codes::TOO_MANY_MEMBERS,
            "The plan's limit of guests is reached",
        ),
        // The refusals below do not occur here, because the teams service reports other errors in
        // these cases.
        Refusal::SessionOver => Refused::Failed(Error::CredentialRefused),
        Refusal::NotApplicable(_) => invalid(
            codes::INVALID_RIGHTS,
            "rights must be those that apply to the resource",
        ),
        Refusal::Directory(error) => Refused::Failed(account_error(error.into())),
    }
}

fn rights(rights: Rights) -> Vec<wit::Right> {
    rights.iter().map(|right| right.name().into()).collect()
}

/// Converts the names of rights. Returns an error if the host does not know a name.
fn rights_from_wit(names: &[wit::Right]) -> Result<Rights, Refused> {
    names.iter().try_fold(Rights::NONE, |rights, name| {
        let right =
            Right::named(name).ok_or_else(|| Refused::Failed(convert::unknown("right", name)))?;
        Ok(rights.and(Rights::of(&[right])))
    })
}

fn grant_request(grant: wit::NewGrant) -> Result<GrantRequest, Refused> {
    Ok(GrantRequest {
        resource: match grant.target {
            wit::Target::Mailbox => Resource::Mailbox,
            wit::Target::Folder(id) => Resource::Folder(GrantedFolder {
                id,
                uid_validity: 0,
            }),
            wit::Target::Alias(address) => Resource::Alias(address),
            wit::Target::AllAliases => Resource::AliasSet(AliasSet::All),
            wit::Target::OwnAliases => Resource::AliasSet(AliasSet::Own),
            wit::Target::AliasesOf(domain) => Resource::AliasSet(AliasSet::Domain(domain)),
        },
        label: grant.label,
        rights: rights_from_wit(&grant.rights)?,
    })
}

fn target(resource: Resource) -> wit::Target {
    match resource {
        Resource::Mailbox => wit::Target::Mailbox,
        Resource::Folder(folder) => wit::Target::Folder(folder.id),
        Resource::Alias(address) => wit::Target::Alias(address),
        Resource::AliasSet(AliasSet::All) => wit::Target::AllAliases,
        Resource::AliasSet(AliasSet::Own) => wit::Target::OwnAliases,
        Resource::AliasSet(AliasSet::Domain(domain)) => wit::Target::AliasesOf(domain),
    }
}

const fn role(owner: bool) -> wit::Role {
    if owner {
        wit::Role::Owner
    } else {
        wit::Role::Guest
    }
}

fn summary(team: TeamSummary) -> wit::Summary {
    wit::Summary {
        id: team.mailbox,
        address: team.address,
        name: team.name,
        role: role(team.own),
        rights: rights(team.rights),
    }
}

fn roster_to_wit(roster: Roster) -> wit::Team {
    wit::Team {
        members: roster.members.into_iter().map(member).collect(),
        limit: roster.at_most,
        guests: roster.guests,
        shared: roster.shared,
    }
}

fn member(member: TeamMember) -> wit::Member {
    wit::Member {
        id: member.account,
        username: member.username,
        address: member.address,
        role: role(member.owner),
        rights: rights(member.rights),
        grants: member.grants.into_iter().map(grant).collect(),
        joined_at: member.joined_at.millis(),
    }
}

fn grant(grant: Grant) -> wit::Grant {
    wit::Grant {
        id: grant.id,
        target: target(grant.resource),
        label: grant.label,
        rights: rights(grant.rights),
    }
}
