//! GET `/api/v1/teams`: lists the mailboxes in which the account has rights.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Serialize;
use utoipa::ToSchema;

use crate::failure::NO_TEAM;
use crate::model::TeamSummary;

/// The teams of an account.
#[derive(Serialize, ToSchema)]
pub(crate) struct TeamList {
    /// The account's own mailbox, then the mailboxes that are shared with it, sorted by address.
    teams: Vec<TeamSummary>,
}

/// List teams
///
/// Returns the account's own mailbox, and the shared mailboxes in which the account has at least
/// one right.
#[utoipa::path(
    get,
    path = "/api/v1/teams",
    operation_id = "listTeams",
    tag = "Teams",
    responses((
        status = 200,
        description = "The teams",
        body = TeamList,
        links(
            ("listMembers" = (operation_id = "listMembers", parameters(("id" = "$response.body#/teams/0/id")))),
            ("inviteMember" = (operation_id = "inviteMember", parameters(("id" = "$response.body#/teams/0/id")))),
            ("listFolders" = (operation_id = "listFolders", parameters(("mailbox" = "$response.body#/teams/1/id")))),
            ("listAliases" = (operation_id = "listAliases", parameters(("mailbox" = "$response.body#/teams/1/id"))))
        )
    ))
)]
pub(crate) fn list_teams(host: &(impl Teams + Caller), _: &Request) -> Result<Reply, Failure> {
    let teams = host
        .list_teams()
        .map_err(|error| Failure::of(error, NO_TEAM, host))?;
    Reply::json(&TeamList {
        teams: teams.into_iter().map(TeamSummary::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::Service;
    use serde_json::json;

    #[test]
    fn the_own_mailbox_is_first_and_has_all_rights() {
        let service = Service::of(crate::module());
        let all = [
            "mail:read",
            "mail:write",
            "mail:send",
            "aliases:read",
            "aliases:write",
            "members:manage",
        ];
        let own = json!({
            "id": "ada@example.test", "address": "ada@example.test", "name": "Ada Lovelace", "role": "owner",
            "rights": all, "mailboxRights": ["mail:read", "mail:write", "mail:send"],
        });
        let listed = || service.get("/api/v1/teams").succeeds(200);
        assert_eq!(listed(), json!({ "teams": [own] }));

        service.host.sign_in("bob@example.test");
        let ada = json!({
            "username": "ada", "password": "Correct-Horse-7", "resource_kind": "folder", "resource_id": "id of INBOX", "rights": ["mail:read"],
        });
        let path = "/api/v1/teams/bob@example.test/invitations";
        service.post(path, &ada).succeeds(201);
        service.host.sign_in("ada@example.test");
        let teams = listed();
        assert_eq!(teams["teams"][0], own);
        let shared = json!({
            "id": "bob@example.test", "address": "bob@example.test", "name": "Ada Lovelace", "role": "guest",
            "rights": ["mail:read"], "mailboxRights": ["mail:read"],
        });
        assert_eq!(teams["teams"][1], shared);
    }
}
