//! `GET` and `PUT /api/v1/profile/grants/{id}/policy`.

use bytes::Bytes;
use http::StatusCode;
use latchmail_accounts::auth::account::Session;
use latchmail_core::caller::{Credential, SESSION_ONLY};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::policy::Policy;
use utoipa::ToSchema;

use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// To whom a grant may send: to no one (`drafts` lets it write drafts), to people to whom the owner
/// wrote in the thread, to those in `sendTo`, or to everyone.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(super) enum PolicySend {
    Never,
    Drafts,
    Thread,
    List,
    Any,
}

/// How a grant may delete messages. `trash` turns a permanent deletion into a move to Trash.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(super) enum PolicyDelete {
    Never,
    Trash,
    Permanent,
}

/// What happens to a message that `thread`, `list` or a cap does not allow.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(super) enum PolicyOnDenied {
    Hold,
    Refuse,
}

/// What a grant may do, in addition to its scopes. A missing field does not limit the grant, except
/// `aliases`.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(super) struct GrantPolicy {
    /// To whom the grant may send.
    #[schema(required = false, default = "any")]
    send: PolicySend,
    /// Addresses and domains (`@example.org`, without subdomains) to which the grant may send.
    #[schema(required = false, max_items = 1000)]
    send_to: Vec<String>,
    /// Messages in a day (UTC). `null`: no limit.
    #[schema(maximum = 1_000_000)]
    send_per_day: Option<u32>,
    /// Recipients of all messages in a day (UTC). `null`: no limit.
    #[schema(maximum = 1_000_000)]
    recipients_per_day: Option<u32>,
    /// The paths of the folders that the grant can use, without their subfolders. `null`: all
    /// folders.
    #[schema(max_items = 1000)]
    folders: Option<Vec<String>>,
    /// Whether the grant can read attachments and attach them to messages.
    #[schema(required = false, default = true)]
    attachments: bool,
    /// Whether codes and links for signing in are hidden.
    #[schema(required = false, default = false)]
    hide_codes: bool,
    /// How the grant may delete messages.
    #[schema(required = false, default = "permanent")]
    delete: PolicyDelete,
    /// What happens to a message that the policy does not allow.
    #[schema(required = false, default = "refuse")]
    on_denied: PolicyOnDenied,
    /// Whether the grant may create and change aliases, as far as its scopes permit.
    #[schema(required = false, default = false)]
    aliases: bool,
    /// The time from which all requests of the grant are refused. `null`: no end.
    #[schema(format = DateTime)]
    until: Option<String>,
}

/// Shows the policy of a grant.
///
/// Returns `null` if only the scopes limit the grant.
///
/// # Errors
/// Returns 404 if the account has no such grant.
#[utoipa::path(
    get,
    path = "/api/v1/profile/grants/{id}/policy",
    operation_id = "getGrantPolicy",
    tag = "Credentials",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The grant's id")),
    responses(
        (status = 200, description = "The policy, or `null`", body = Option<GrantPolicy>),
        (status = 403, description = "The credential is not a web session", body = ref("#/components/schemas/Error")),
        (status = 404, description = "`Grant not found`", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn get_policy(app: &App, request: &Request) -> Result<Response, Rejection> {
    let caller = request.caller()?;
    let grant = app.auth.grants.find(&caller.account, id(request)).await?;
    let policy = grant.ok_or_else(missing)?.policy;
    message::json(StatusCode::OK, &policy)
}

/// Sets the policy of a grant.
///
/// Replaces the policy as a whole. Requests that begin later follow the new policy.
///
/// # Errors
/// Returns 400 if the policy is invalid, and 404 if the account has no such grant.
#[utoipa::path(
    put,
    path = "/api/v1/profile/grants/{id}/policy",
    operation_id = "setGrantPolicy",
    tag = "Credentials",
    extensions(("x-latchmail" = json!(true))),
    params(("id" = String, Path, description = "The grant's id")),
    request_body = GrantPolicy,
    responses(
        (status = 200, description = "The policy", body = GrantPolicy),
        (status = 400, description = "A field is invalid", body = ref("#/components/schemas/Error")),
        (status = 403, description = "The credential is not a web session", body = ref("#/components/schemas/Error")),
        (status = 404, description = "`Grant not found`", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn set_policy(app: &App, request: &Request) -> Result<Response, Rejection> {
    let caller = request.caller()?;
    let Credential::Session { sid } = &caller.credential else {
        return Err(Failure::forbidden(codes::SESSION_REQUIRED, SESSION_ONLY).into());
    };
    let policy = parse(&request.body)?;
    let session = Session {
        account: &caller.account,
        sid,
    };
    let grants = &app.auth.grants;
    let set = grants.set_policy(session, id(request), policy.clone(), request.origin());
    if !set.await? {
        return Err(missing().into());
    }
    message::json(StatusCode::OK, &policy)
}

fn parse(body: &Bytes) -> Result<Policy, Rejection> {
    let invalid = |text: String| Rejection::bad_request(codes::INVALID_POLICY, text);
    let text = std::str::from_utf8(body);
    let text = text.map_err(|_| invalid("policy must be JSON in UTF-8".into()))?;
    Policy::parse(text).map_err(|problem| invalid(problem.text.into_owned()))
}

fn id(request: &Request) -> &str {
    request.path.first().map_or("", |(_, id)| id)
}

fn missing() -> Failure {
    Failure::not_found(codes::GRANT_NOT_FOUND, "Grant not found")
}
