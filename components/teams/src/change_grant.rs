//! PATCH `/api/v1/teams/{id}/grants/{grantId}`: replaces the rights of a grant.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::add_grant::Granted;
use crate::failure::failure_of;
use crate::model::Right;
use crate::request;

/// The new rights of a grant.
#[derive(Deserialize, ToSchema)]
pub(crate) struct RightsRequest {
    /// The new rights, which replace the current rights: at least one. The caller must hold each of
    /// these rights.
    #[schema(min_items = 1)]
    rights: Vec<Right>,
}

/// Change a grant
///
/// Replaces the rights of the grant. The resource of the grant stays the same. The change takes
/// effect at the member's next request.
#[utoipa::path(
    patch,
    path = "/api/v1/teams/{id}/grants/{grantId}",
    operation_id = "changeGrant",
    tag = "Teams",
    params(
        ("id" = String, Path, description = "The team"),
        ("grantId" = String, Path, description = "The grant")
    ),
    request_body = RightsRequest,
    responses(
        (
            status = 200,
            description = "The grant with its new rights",
            body = Granted,
            links(
                ("revokeGrant" = (operation_id = "revokeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/grantId"))))
            )
        ),
        (status = 400, description = "A field is invalid and the text names it", body = latchmail_sdk::Failed),
        (status = 403, description = "`You may not manage the members of this mailbox`, `You can only grant rights that you hold`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Team not found`, `There is no such grant`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn change_grant(
    host: &(impl Teams + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: RightsRequest = request.json()?;
    let rights = request::in_order(body.rights)?;
    let id = request.path("grantId");
    host.change_grant(request.path("id"), id, &request::for_the_host(&rights))
        .map_err(|refused| failure_of(refused, host))?;
    Reply::json(&Granted {
        grant_id: id.to_owned(),
        rights,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::with_bob;

    #[test]
    fn changed_rights_replace_the_previous_rights() {
        let service = with_bob(&["mail:read", "mail:write"]);
        let grant = "/api/v1/teams/ada@example.test/grants/grant-1";
        let rights = json!({ "rights": ["mail:read", "mail:read"], "resource_kind": "folder" });
        let changed = service.patch(grant, &rights).succeeds(200);
        assert_eq!(
            changed,
            json!({ "grantId": "grant-1", "rights": ["mail:read"] })
        );
        let team = "/api/v1/teams/ada@example.test/members";
        let team = service.get(team).succeeds(200);
        assert_eq!(team["members"][1]["rights"], json!(["mail:read"]));

        let nothing = service.patch(grant, &json!({ "rights": [] }));
        nothing.fails(400, "rights must not be empty");
        let missing = service.patch(grant, &json!({}));
        missing.fails(400, "rights is required");
        let elsewhere = "/api/v1/teams/ada@example.test/grants/none";
        let elsewhere = service.patch(elsewhere, &rights);
        elsewhere.fails(404, "There is no such grant");
        service.host.sign_in("bob@example.test");
        let refused = service.patch(grant, &rights);
        refused.fails(403, "You may not manage the members of this mailbox");
    }
}
