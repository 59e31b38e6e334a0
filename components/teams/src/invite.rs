//! POST `/api/v1/teams/{id}/invitations`: adds a member to a team.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request, codes};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::described::InvitationRequest;
use crate::failure::failure_of;
use crate::model::{ResourceKind, Right};
use crate::request::{self, Resource};

/// The body of the request. The API description contains [`InvitationRequest`] instead.
#[derive(Deserialize)]
struct Body {
    username: String,
    password: Option<String>,
    code: Option<String>,
    resource_kind: ResourceKind,
    resource_id: Option<String>,
    resource_label: Option<String>,
    rights: Vec<Right>,
}

/// A new member.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Invitation {
    /// Opaque id of the membership.
    membership_id: String,
    /// Id of the first grant.
    grant_id: String,
    /// User name of the member, as in the list of members.
    username: String,
    /// Granted rights.
    rights: Vec<Right>,
    /// Whether the mailbox has the app password with which guests access it. Always `true` after an
    /// invitation.
    shared: bool,
}

/// Invite a member
///
/// The user becomes a member immediately. The service does not ask the user for a confirmation and
/// sends no mail. All guests access the mailbox with one app password, the standing key of the
/// mailbox. The first invitation creates the standing key, and the owner sees it in the list of
/// credentials. Revoking the standing key ends the access of all guests. Callers who sign in at an
/// identity provider need no password. They need a sign-in within the last five minutes instead.
/// The request counts towards the rate limit of sign-in.
#[utoipa::path(
    post,
    path = "/api/v1/teams/{id}/invitations",
    operation_id = "inviteMember",
    tag = "Teams",
    params(("id" = String, Path, description = "The team")),
    request_body = InvitationRequest,
    responses(
        (
            status = 201,
            description = "The user is a member",
            body = Invitation,
            links(
                ("listMembers" = (operation_id = "listMembers", parameters(("id" = "$request.path.id")))),
                ("changeGrant" = (operation_id = "changeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/grantId")))),
                ("revokeGrant" = (operation_id = "revokeGrant", parameters(("id" = "$request.path.id"), ("grantId" = "$response.body#/grantId"))))
            )
        ),
        (status = 400, description = "A field is invalid and the text names it", body = latchmail_sdk::Failed),
        (status = 401, description = "`Two-factor code required` if two-factor sign-in is on and `code` is missing", body = latchmail_sdk::Failed),
        (status = 403, description = "`You may not manage the members of this mailbox`, `Wrong password`, `You can only grant rights that you hold`; or the caller signs in at an identity provider and the last sign-in was more than five minutes ago", body = latchmail_sdk::Failed),
        (status = 404, description = "`Team not found`, `There is no such user`, `Folder not found`, `There is no such alias`", body = latchmail_sdk::Failed),
        (status = 409, description = "`The account is already a member`, `The plan's limit of guests is reached`", body = latchmail_sdk::Failed),
        (status = 503, description = "The mail server is unavailable, so the standing key could not be created", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn invite_member(
    host: &(impl Teams + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: Body = request.json()?;
    if body.password.as_deref() == Some("") {
        return Err(Failure::bad_request(
            codes::INVALID_PASSWORD,
            "password must not be empty",
        ));
    }
    if let Some(code) = &body.code {
        host.present_code(code);
    }
    let rights = request::in_order(body.rights)?;
    let resource = Resource {
        kind: body.resource_kind,
        id: body.resource_id,
        label: body.resource_label,
    };
    let grant = resource.granting(&rights)?;
    // Only the host knows whether the caller has a password. If the caller has a password, the host
    // rejects the empty password.
    let password = body.password.unwrap_or_default();
    let invited = host
        .invite_member(request.path("id"), &body.username, &password, &grant)
        .map_err(|refused| failure_of(refused, host))?;
    let invitation = Invitation {
        membership_id: invited.membership,
        grant_id: invited.grant,
        username: invited.username,
        rights,
        shared: true,
    };
    Reply::with_status(201, &invitation)
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{Response, Service};
    use serde_json::{Value, json};

    fn service() -> Service {
        let service = Service::of(crate::module());
        for name in ["bob@example.test", "ada@example.test"] {
            service.host.sign_in(name);
        }
        service
    }

    fn invitation() -> Value {
        json!({
            "username": "bob", "password": "Correct-Horse-7", "resource_kind": "mailbox", "rights": ["mail:write", "mail:read", "mail:write"],
        })
    }

    fn invite(service: &Service, body: &Value) -> Response {
        service.post("/api/v1/teams/ada@example.test/invitations", body)
    }

    #[test]
    fn an_invitation_returns_the_granted_rights_in_canonical_order() {
        let invited = invite(&service(), &invitation()).succeeds(201);
        assert_eq!(invited["username"], "bob");
        assert_eq!(invited["rights"], json!(["mail:read", "mail:write"]));
        assert_eq!(invited["shared"], true);
        assert!(invited["membershipId"].is_string());
        assert!(invited["grantId"].is_string());
    }

    #[test]
    fn an_invalid_field_is_named() {
        let service = service();
        for (field, value, text) in [
            ("username", Value::Null, "username must be a string"),
            ("password", json!(7), "password must be a string"),
            ("password", json!(""), "password must not be empty"),
            ("rights", json!([]), "rights must not be empty"),
            ("rights", json!("mail:read"), "rights must be an array"),
            (
                "resource_id",
                json!("F1"),
                "resource_id must be null for the mailbox",
            ),
            ("resource_id", json!(7), "resource_id must be a string"),
        ] {
            let mut body = invitation();
            body[field] = value;
            invite(&service, &body).fails(400, text);
        }
        for (field, value, mention) in [
            ("rights", json!(["mail:burn"]), "rights[0]"),
            ("resource_kind", json!("house"), "resource_kind"),
            ("username", json!("bo"), "username"),
            ("resource_label", json!("x".repeat(201)), "resource_label"),
        ] {
            let mut body = invitation();
            body[field] = value;
            let refused = invite(&service, &body);
            assert_eq!(refused.status, 400);
            let error = refused.json()["error"].to_string();
            assert!(error.contains(mention), "{error}");
        }
        for field in ["username", "password", "resource_kind", "rights"] {
            let mut body = invitation();
            body.as_object_mut().unwrap().remove(field);
            invite(&service, &body).fails(400, &format!("{field} is required"));
        }
    }

    #[test]
    fn each_error_of_the_host_has_its_status() {
        let service = service();
        let with = |field: &str, value: &str| {
            let mut body = invitation();
            body[field] = value.into();
            invite(&service, &body)
        };
        with("password", "Wrong-Horse-7").fails(403, "Wrong password");
        with("username", "nobody").fails(404, "There is no such user");
        invite(&service, &invitation()).succeeds(201);
        invite(&service, &invitation()).fails(409, "The account is already a member");
        service.host.sign_in("bob@example.test");
        invite(&service, &invitation())
            .fails(403, "You may not manage the members of this mailbox");
        service.host.sign_in("cyd@example.test");
        invite(&service, &invitation()).fails(404, "Team not found");
        service.host.use_token(&[]);
        assert_eq!(invite(&service, &invitation()).status, 403);
    }
}
