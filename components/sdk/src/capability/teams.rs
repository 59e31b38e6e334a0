//! `latchmail:host/teams`: shared mailboxes.

use super::{Error, Host};
use crate::bindings::latchmail::host::teams;
pub use crate::bindings::latchmail::host::teams::{
    Grant, Invited as InvitedMember, Member as TeamMember, Missing, NewGrant, Refused, Right,
    Role as TeamRole, Summary as TeamSummary, Target, Team,
};

/// Shared mailboxes, which are called teams. A team is the caller's own mailbox or a mailbox of
/// another account. Each function needs a web session. The host checks the caller's membership and
/// rights.
///
/// A function that changes a team returns [`Refused::Failed`] with `Denied` if the caller is not
/// allowed to manage the members, and with `CredentialRefused` if the mail server rejects the
/// caller's credential.
pub trait Teams {
    /// Returns the caller's teams. The caller's own mailbox is first. The other mailboxes are
    /// sorted by address.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the host fails.
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error>;

    /// Returns a team and its members.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the team does not exist or the caller is not a member.
    fn team(&self, team: &str) -> Result<Team, Error>;

    /// Adds a member with a first grant. The new member does not need to accept an invitation.
    /// `password` is the caller's own password.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`] if the team, the user or the target of the grant does not
    /// exist. In other cases, returns [`Refused::Failed`] with one of these errors:
    ///
    /// - `Denied` if the password is wrong or the caller lacks a right of the grant;
    /// - `Invalid` if the grant is invalid;
    /// - `Conflict` if the user is already a member or the owner's plan allows no more members;
    /// - `Unavailable` if the mailbox has no app password for its members yet, and the mail server
    ///   is unavailable.
    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused>;

    /// Adds a grant to a member and returns the grant's id.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`] if the team, the member or the target of the grant does not
    /// exist. Returns [`Refused::Failed`] with `Denied` if the caller lacks a right of the grant.
    /// Returns [`Refused::Failed`] with `Invalid` if the grant is invalid.
    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused>;

    /// Replaces the rights of a grant.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Teams::add_grant`], or if the grant does not exist.
    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused>;

    /// Revokes a grant. The member stays in the team.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`] if the team or the grant does not exist.
    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused>;

    /// Removes a member. Each member can remove its own membership.
    ///
    /// # Errors
    /// Returns [`Refused::Missing`] if the team or the member does not exist. Returns
    /// [`Refused::Failed`] with `Denied` if the member is the owner.
    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused>;
}

impl Teams for Host {
    fn list_teams(&self) -> Result<Vec<TeamSummary>, Error> {
        teams::list()
    }

    fn team(&self, team: &str) -> Result<Team, Error> {
        teams::members(team)
    }

    fn invite_member(
        &self,
        team: &str,
        username: &str,
        password: &str,
        grant: &NewGrant,
    ) -> Result<InvitedMember, Refused> {
        teams::invite(team, username, password, grant)
    }

    fn add_grant(&self, team: &str, member: &str, grant: &NewGrant) -> Result<String, Refused> {
        teams::add_grant(team, member, grant)
    }

    fn change_grant(&self, team: &str, grant: &str, rights: &[Right]) -> Result<(), Refused> {
        teams::change_grant(team, grant, rights)
    }

    fn revoke_grant(&self, team: &str, grant: &str) -> Result<(), Refused> {
        teams::revoke_grant(team, grant)
    }

    fn remove_member(&self, team: &str, member: &str) -> Result<(), Refused> {
        teams::remove_member(team, member)
    }
}
