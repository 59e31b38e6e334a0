//! POST `/api/v1/teams/{id}/members/{userId}/grants`: adds a grant to a member.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::described::GrantRequest;
use crate::failure::failure_of;
use crate::model::{ResourceKind, Right};
use crate::request::{self, Resource};

/// The body of the request. The API description contains [`GrantRequest`] instead.
#[derive(Deserialize)]
struct Body {
    resource_kind: ResourceKind,
    resource_id: Option<String>,
    resource_label: Option<String>,
    rights: Vec<Right>,
}

/// The id and the current rights of a grant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Granted {
    /// Opaque id of the grant.
    pub(crate) grant_id: String,
    /// Rights of the grant.
    pub(crate) rights: Vec<Right>,
}

/// Add a grant
///
/// A member has all rights of all of the member's grants. Adding the same grant again creates a
/// second grant.
#[utoipa::path(
    post,
    path = "/api/v1/teams/{id}/members/{userId}/grants",
    operation_id = "addGrant",
    tag = "Teams",
    params(
        ("id" = String, Path, description = "The team"),
        ("userId" = String, Path, description = "The member")
    ),
    request_body = GrantRequest,
    responses(
        (
            status = 201,
            description = "The grant was added",
            body = Granted,
            links(
                ("changeGrant" = (operation_id = "changeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/grantId")))),
                ("revokeGrant" = (operation_id = "revokeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/grantId"))))
            )
        ),
        (status = 400, description = "A field is invalid, and the error names it; or the member has the maximum of 100 grants", body = latchmail_sdk::Failed),
        (status = 403, description = "`You may not manage the members of this mailbox`, `You can only grant rights that you hold`, or the member is the owner", body = latchmail_sdk::Failed),
        (status = 404, description = "`Team not found`, `There is no such member`, `Folder not found`, `There is no such alias`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn add_grant(host: &(impl Teams + Caller), request: &Request) -> Result<Reply, Failure> {
    let body: Body = request.json()?;
    let rights = request::in_order(body.rights)?;
    let resource = Resource {
        kind: body.resource_kind,
        id: body.resource_id,
        label: body.resource_label,
    };
    let grant = resource.granting(&rights)?;
    let grant_id = host
        .add_grant(request.path("id"), request.path("userId"), &grant)
        .map_err(|refused| failure_of(refused, host))?;
    Reply::with_status(201, &Granted { grant_id, rights })
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::capability::Aliases as _;
    use serde_json::{Value, json};

    use crate::testing::with_bob;

    const GRANTS: &str = "/api/v1/teams/ada@example.test/members/bob@example.test/grants";

    fn folder(rights: &Value) -> Value {
        json!({ "resource_kind": "folder", "resource_id": "id of Archive", "resource_label": "Work", "rights": rights })
    }

    #[test]
    fn an_added_grant_is_returned_and_listed() {
        let service = with_bob(&["mail:read"]);
        let granted = service
            .post(GRANTS, &folder(&json!(["mail:write", "mail:read"])))
            .succeeds(201);
        let expected = json!({ "grantId": "grant-2", "rights": ["mail:read", "mail:write"] });
        assert_eq!(granted, expected);
        let members = "/api/v1/teams/ada@example.test/members";
        let team = service.get(members).succeeds(200);
        let expected = json!({
            "grantId": "grant-2", "resource_kind": "folder", "resource_id": "id of Archive", "resource_label": "Work",
            "rights": ["mail:read", "mail:write"],
        });
        assert_eq!(team["members"][1]["grants"][1], expected);
        service.host.create_alias("shop", "example.test").unwrap();
        for (set, kind) in [
            ("all", "alias_set"),
            ("own", "alias_set"),
            ("domain:b.test", "alias_set"),
            ("shop@example.test", "alias"),
        ] {
            let body =
                json!({ "resource_kind": kind, "resource_id": set, "rights": ["mail:send"] });
            service.post(GRANTS, &body).succeeds(201);
            let team = service.get(members).succeeds(200);
            let grants = team["members"][1]["grants"].as_array().unwrap();
            let last = grants.last().unwrap();
            assert_eq!(
                (&last["resource_kind"], &last["resource_id"]),
                (&json!(kind), &json!(set))
            );
        }
    }

    #[test]
    fn each_error_of_the_host_has_its_status() {
        let service = with_bob(&["members:manage", "mail:read"]);
        let nothing = service.post(GRANTS, &folder(&json!([])));
        nothing.fails(400, "rights must not be empty");
        let misplaced = service.post(GRANTS, &folder(&json!(["mail:send"])));
        assert_eq!(misplaced.status, 400);
        let path = "/api/v1/teams/ada@example.test/members/unknown/grants";
        let response = service.post(path, &folder(&json!(["mail:read"])));
        response.fails(404, "There is no such member");
        service.host.sign_in("bob@example.test");
        let wider = service.post(GRANTS, &folder(&json!(["mail:write"])));
        wider.fails(403, "You can only grant rights that you hold");
    }
}
