//! The routes of held messages: `GET /api/v1/profile/holds`, `GET /api/v1/profile/holds/{id}`, and
//! POST `approve` and `reject`. These are routes of the host, so no module can decide for the
//! owner.

use http::{Method, StatusCode};
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_core::error::{Failure, StartError};
use latchmail_mailbox::holds::{self, Decision, HeldMessage};
use latchmail_mailbox::outbox;
use latchmail_runtime::modules::{Access, Route};
use serde::{Deserialize, Serialize};
use utoipa::{OpenApi, ToSchema};

use crate::app::App;
use crate::message::{self, Request, Response, Success};
use crate::owner::{self, Owner};
use crate::rejection::{Rejection, session_over};
use crate::route_group::{HostRoute, RouteGroup, host_route};

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 4 * 1024;

/// The status of a hold.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "used only for the API description")]
enum HoldStatus {
    Pending,
    Approved,
    Rejected,
    Expired,
}

/// The grant that wants to send a message.
#[derive(Serialize, ToSchema)]
struct HoldingGrant {
    /// The id of the grant, which can have ended.
    id: String,
    /// The label of the grant. An agent chooses its own name.
    name: String,
}

/// A recipient with a name.
#[derive(Serialize, ToSchema)]
struct NamedRecipient {
    name: String,
    address: String,
}

/// An attachment of a held message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct HeldAttachment {
    filename: String,
    content_type: String,
    /// The size in bytes.
    size: u64,
}

/// A message that the policy of a grant holds.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Hold {
    /// Opaque id.
    id: String,
    /// The hash of the message with its attachments, its sender and its recipients. A decision must
    /// contain the hash, so it is valid for exactly this message.
    hash: String,
    #[schema(value_type = HoldStatus)]
    status: String,
    grant: HoldingGrant,
    /// Why the policy holds the message.
    reason: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time at which the message is rejected without a decision.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// The time of the decision; `null` if there is none.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    decided_at: Option<Timestamp>,
    /// The time at which an approved message leaves at the earliest.
    #[schema(value_type = String, format = DateTime)]
    send_at: Timestamp,
    /// The Message-ID with angle brackets.
    message_id: String,
    /// The sender.
    from: String,
    /// All recipients, with those in Cc and Bcc.
    recipients: Vec<String>,
    /// The recipients in To.
    to: Vec<NamedRecipient>,
    subject: String,
    /// The attachments, at most 100 in a list of holds.
    attachments: Vec<HeldAttachment>,
}

impl From<holds::Hold> for Hold {
    fn from(hold: holds::Hold) -> Self {
        let file = |file: outbox::HeldFile| HeldAttachment {
            filename: file.filename,
            content_type: file.content_type,
            size: file.size,
        };
        let to = hold.to.into_iter();
        Self {
            id: hold.id,
            hash: hold.hash,
            status: hold.status,
            grant: HoldingGrant {
                id: hold.grant,
                name: hold.grant_name,
            },
            reason: hold.reason,
            created_at: hold.created_at,
            expires_at: hold.expires_at,
            decided_at: hold.decided_at,
            send_at: hold.send_at,
            message_id: hold.message_id,
            from: hold.from,
            recipients: hold.recipients,
            to: to
                .map(|(name, address)| NamedRecipient { name, address })
                .collect(),
            subject: hold.subject,
            attachments: hold.files.into_iter().map(file).collect(),
        }
    }
}

/// The held messages of an account.
#[derive(Serialize, ToSchema)]
struct HoldList {
    /// First the holds that wait for a decision, then the others of the last 30 days, newest first.
    holds: Vec<Hold>,
}

/// A held message with its texts.
#[derive(Serialize, ToSchema)]
struct HoldDetail {
    #[serde(flatten)]
    hold: Hold,
    /// The plain text; `null` if there is none, or if the message was rejected or sent.
    #[schema(required)]
    text: Option<String>,
    /// The HTML as the message contains it; `null` in the same cases.
    #[schema(required)]
    html: Option<String>,
}

/// A decision about a held message.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HoldDecision {
    /// The hash of the hold that the owner has read.
    #[schema(max_length = 64)]
    hash: String,
}

/// List held messages
///
/// Returns the messages that the policies of the account's grants hold until the owner decides.
/// Only a web session can read and decide.
#[utoipa::path(
    get,
    path = "/api/v1/profile/holds",
    operation_id = "listHolds",
    tag = "Grants",
    extensions(("x-latchmail" = json!(true))),
    responses((status = 200, description = "The holds", body = HoldList))
)]
async fn list_holds(app: &App, request: &Request) -> Result<Response, Rejection> {
    let owner = Owner::of(request)?;
    let holds = app.holds.list(&owner.access.account).await?;
    let holds = holds.into_iter().map(Hold::from).collect();
    message::json(StatusCode::OK, &HoldList { holds })
}

/// Read a held message
///
/// Returns the hold with the texts of the message.
#[utoipa::path(
    get,
    path = "/api/v1/profile/holds/{id}",
    operation_id = "getHold",
    tag = "Grants",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The hold's id")),
    responses(
        (status = 200, description = "The hold", body = HoldDetail),
        (status = 404, description = "`Hold not found`", body = ref("#/components/schemas/Error")),
    )
)]
async fn get_hold(app: &App, request: &Request) -> Result<Response, Rejection> {
    let owner = Owner::of(request)?;
    let found = app.holds.find(&owner.access, owner::segment(request, "id"));
    let HeldMessage { hold, message } = found.await?.ok_or_else(not_found)?;
    let texts = message.map(|message| (message.text, message.html));
    let (text, html) = texts.unwrap_or_default();
    let detail = HoldDetail {
        hold: hold.into(),
        text,
        html,
    };
    message::json(StatusCode::OK, &detail)
}

/// Approve a held message
///
/// The message leaves through the outbox: at once, or at its time. It is sent once, also if the
/// grant has ended or is suspended, because the owner has decided.
#[utoipa::path(
    post,
    path = "/api/v1/profile/holds/{id}/approve",
    operation_id = "approveHold",
    tag = "Grants",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The hold's id")),
    request_body = HoldDecision,
    responses(
        (status = 200, description = "The message is approved", body = inline(Success)),
        (status = 404, description = "`Hold not found`: there is no such hold, or it was decided or has expired", body = ref("#/components/schemas/Error")),
        (status = 409, description = "`The hold has changed`: the hash is not the hash of the message", body = ref("#/components/schemas/Error")),
    )
)]
async fn approve_hold(app: &App, request: &Request) -> Result<Response, Rejection> {
    let HoldDecision { hash } = request.json()?;
    let owner = Owner::of(request)?;
    let hold = (owner::segment(request, "id"), &*hash);
    let origin = request.origin();
    let decided = app.holds.approve(&owner.access, owner.sid, hold, &origin);
    decided_response(decided.await?)
}

/// Reject a held message
///
/// The message is not sent. If it was sent from a draft, the draft is in the folder for drafts
/// again after a moment.
#[utoipa::path(
    post,
    path = "/api/v1/profile/holds/{id}/reject",
    operation_id = "rejectHold",
    tag = "Grants",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The hold's id")),
    request_body = HoldDecision,
    responses(
        (status = 200, description = "The message is rejected", body = inline(Success)),
        (status = 404, description = "`Hold not found`: there is no such hold, or it was decided or has expired", body = ref("#/components/schemas/Error")),
        (status = 409, description = "`The hold has changed`: the hash is not the hash of the message", body = ref("#/components/schemas/Error")),
    )
)]
async fn reject_hold(app: &App, request: &Request) -> Result<Response, Rejection> {
    let HoldDecision { hash } = request.json()?;
    let owner = Owner::of(request)?;
    let hold = (owner::segment(request, "id"), &*hash);
    let origin = request.origin();
    let decided = app.holds.reject(&owner.access, owner.sid, hold, &origin);
    decided_response(decided.await?)
}

fn decided_response(decided: Decision) -> Result<Response, Rejection> {
    match decided {
        Decision::Done => message::success(),
        Decision::NotFound => Err(not_found()),
        Decision::Changed => {
            Err(Failure::conflict(codes::HOLD_CHANGED, "The hold has changed").into())
        }
        Decision::SessionOver => Err(session_over()),
    }
}

fn not_found() -> Rejection {
    Failure::not_found(codes::HOLD_NOT_FOUND, "Hold not found").into()
}

#[derive(OpenApi)]
#[openapi(
    paths(list_holds, get_hold, approve_hold, reject_hold),
    tags((name = "Grants", description = "What agents and programs did and may do with the mailbox"))
)]
struct Description;

/// Returns the routes and their handlers.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group() -> Result<RouteGroup<App>, StartError> {
    const ALL: &str = "/api/v1/profile/holds";
    const ONE: &str = "/api/v1/profile/holds/{id}";
    const APPROVE: &str = "/api/v1/profile/holds/{id}/approve";
    const REJECT: &str = "/api/v1/profile/holds/{id}/reject";
    let post = |path, operation| Route {
        max_body: MAX_BODY,
        ..route(Method::POST, path, operation)
    };
    RouteGroup::host(
        vec![
            HostRoute {
                route: route(Method::GET, ALL, "listHolds"),
                handler: |app, request| Box::pin(list_holds(app, request)),
            },
            HostRoute {
                route: route(Method::GET, ONE, "getHold"),
                handler: |app, request| Box::pin(get_hold(app, request)),
            },
            HostRoute {
                route: post(APPROVE, "approveHold"),
                handler: |app, request| Box::pin(approve_hold(app, request)),
            },
            HostRoute {
                route: post(REJECT, "rejectHold"),
                handler: |app, request| Box::pin(reject_hold(app, request)),
            },
        ],
        &Description::openapi(),
    )
}

fn route(method: Method, path: &str, operation: &str) -> Route {
    Route {
        access: Access::Session,
        bucket: "profile".into(),
        ..host_route(method, path, operation)
    }
}
