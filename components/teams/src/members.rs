//! GET `/api/v1/teams/{id}/members`: lists the members of a team.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::failure::NO_TEAM;
use crate::model::TeamMember;

/// The members of a team.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemberList {
    /// The owner, then the guests, sorted by address. A guest without `members:manage` sees only
    /// the owner and itself.
    members: Vec<TeamMember>,
    /// Current and maximum number of guests: members who are not the owner.
    limits: GuestLimits,
    /// Whether the mailbox has the app password with which guests access it. Without this app
    /// password, guests have no access.
    shared: bool,
}

/// Current and maximum number of guests: members who are not the owner.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GuestLimits {
    /// Maximum number of guests, from the owner's plan.
    max_guests: u32,
    /// Current number of guests.
    guests: u32,
}

/// List members
///
/// The owner and guests with `members:manage` see all members. Other guests see only the owner and
/// themselves.
#[utoipa::path(
    get,
    path = "/api/v1/teams/{id}/members",
    operation_id = "listMembers",
    tag = "Teams",
    params(("id" = String, Path, description = "The team")),
    responses(
        (
            status = 200,
            description = "The members",
            body = MemberList,
            links(
                ("addGrant" = (operation_id = "addGrant", parameters(("id" = "$request.path.id"), ("userId" = "$response.body#/members/1/userId")))),
                ("removeMember" = (operation_id = "removeMember", parameters(("id" = "$request.path.id"), ("userId" = "$response.body#/members/1/userId")))),
                ("changeGrant" = (operation_id = "changeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/members/1/grants/0/grantId")))),
                ("revokeGrant" = (operation_id = "revokeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/members/1/grants/0/grantId"))))
            )
        ),
        (status = 404, description = "`Team not found`: there is no team with this id, or the account is not a member", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn list_members(
    host: &(impl Teams + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let team = host
        .team(request.path("id"))
        .map_err(|error| Failure::of(error, NO_TEAM, host))?;
    Reply::json(&MemberList {
        members: team.members.into_iter().map(TeamMember::from).collect(),
        limits: GuestLimits {
            max_guests: team.limit,
            guests: team.guests,
        },
        shared: team.shared,
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::Service;
    use serde_json::json;

    const MEMBERS: &str = "/api/v1/teams/ada@example.test/members";

    #[test]
    fn a_team_consists_of_its_owner_and_guests() {
        let service = Service::of(crate::module());
        for name in ["bob@example.test", "cyd@example.test", "ada@example.test"] {
            service.host.sign_in(name);
        }
        let alone = service.get(MEMBERS).succeeds(200);
        assert_eq!(alone["members"][0]["role"], "owner");
        assert_eq!(alone["members"][0]["grants"], json!([]));
        assert_eq!(alone["limits"], json!({ "maxGuests": 5, "guests": 0 }));
        assert_eq!(alone["shared"], false);

        for (name, right) in [("bob", "mail:read"), ("cyd", "members:manage")] {
            let invited = json!({
                "username": name, "password": "Correct-Horse-7", "resource_kind": "mailbox", "resource_label": "All of it", "rights": [right],
            });
            let path = "/api/v1/teams/ada@example.test/invitations";
            service.post(path, &invited).succeeds(201);
        }
        let team = service.get(MEMBERS).succeeds(200);
        let bob = json!({
            "userId": "bob@example.test", "username": "bob", "address": "bob@example.test", "role": "guest", "rights": ["mail:read"],
            "grants": [{
                "grantId": "grant-1", "resource_kind": "mailbox", "resource_id": null, "resource_label": "All of it", "rights": ["mail:read"],
            }],
            "joinedAt": "2026-11-20T08:00:00.000Z",
        });
        assert_eq!(team["members"][1], bob);
        assert_eq!(team["limits"]["guests"], 2);
        assert_eq!(team["shared"], true);

        let seen_by = |name: &str| {
            service.host.sign_in(name);
            let team = service.get(MEMBERS).succeeds(200);
            team["members"].as_array().unwrap().len()
        };
        assert_eq!(seen_by("bob@example.test"), 2);
        assert_eq!(seen_by("cyd@example.test"), 3);
        service.host.sign_in("dan@example.test");
        service.get(MEMBERS).fails(404, "Team not found");
        let nobodys = service.get("/api/v1/teams/nobody/members");
        nobodys.fails(404, "Team not found");
    }
}
