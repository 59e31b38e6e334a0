//! DELETE `/api/v1/teams/{id}/grants/{grantId}`: revokes a grant.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request};

use crate::failure::failure_of;

/// Revoke a grant
///
/// The member stays in the team and keeps its other grants.
#[utoipa::path(
    delete,
    path = "/api/v1/teams/{id}/grants/{grantId}",
    operation_id = "revokeGrant",
    tag = "Teams",
    params(
        ("id" = String, Path, description = "The team"),
        ("grantId" = String, Path, description = "The grant")
    ),
    responses(
        (status = 200, description = "The grant was revoked", body = latchmail_sdk::Succeeded),
        (status = 403, description = "`You may not manage the members of this mailbox`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Team not found`, `There is no such grant`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn revoke_grant(
    host: &(impl Teams + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    host.revoke_grant(request.path("id"), request.path("grantId"))
        .map_err(|refused| failure_of(refused, host))?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::with_bob;

    #[test]
    fn a_revoked_grant_leaves_the_member_in_the_team() {
        let service = with_bob(&["mail:read"]);
        let grant = "/api/v1/teams/ada@example.test/grants/grant-1";
        let revoked = service.delete(grant).succeeds(200);
        assert_eq!(revoked, json!({ "success": true }));
        service.delete(grant).fails(404, "There is no such grant");
        let team = "/api/v1/teams/ada@example.test/members";
        let team = service.get(team).succeeds(200);
        assert_eq!(team["members"][1]["grants"], json!([]));
        assert_eq!(team["members"][1]["rights"], json!([]));
    }
}
