//! `/admin/api/v1/accounts/{id}/grants` and `/admin/api/v1/holds`. The operator sees which programs
//! have access to an account, and the number of messages that wait for a decision of their owner,
//! but no message.

use http::StatusCode;
use latchmail_accounts::auth::grants::Grant;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use serde::Serialize;
use utoipa::ToSchema;

use super::accounts::account;
use super::request::segment;
use super::state::OperatorState;
use crate::message::{self, Request, Response, Success};
use crate::rejection::Rejection;

/// A grant: an API token or an OAuth grant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AccountGrant)]
struct ListedGrant {
    /// An opaque id.
    id: String,
    /// `oauth` for an OAuth grant, `token` for an API token.
    kind: &'static str,
    /// The name of the client, or the label of the token.
    name: String,
    /// The scopes.
    scopes: Vec<&'static str>,
    /// The time of creation (RFC 3339).
    created_at: String,
    /// The time of the last use (RFC 3339).
    last_used_at: Option<String>,
    /// The time at which the grant expires (RFC 3339).
    expires_at: Option<String>,
    /// Whether the grant is suspended.
    suspended: bool,
}

impl From<Grant> for ListedGrant {
    fn from(grant: Grant) -> Self {
        Self {
            id: grant.id,
            kind: if grant.client_id.is_some() {
                "oauth"
            } else {
                "token"
            },
            name: grant.name,
            scopes: grant.scopes.iter().map(|scope| scope.name()).collect(),
            created_at: grant.created_at.to_string(),
            last_used_at: grant.last_used_at.map(|at| at.to_string()),
            expires_at: grant.expires_at.map(|at| at.to_string()),
            suspended: grant.suspended_at.is_some(),
        }
    }
}

/// The grants of an account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AccountGrants)]
struct ListedGrants {
    /// The grants, the newest first.
    grants: Vec<ListedGrant>,
    /// The number of messages of grants that wait for a decision of the owner.
    pending_holds: i64,
}

/// The number of held messages.
#[derive(Serialize, ToSchema)]
struct Holds {
    /// The number of messages of all accounts that wait for a decision of their owners.
    pending: i64,
}

/// Lists the grants of an account.
///
/// # Errors
/// Returns 404 if there is no such account.
#[utoipa::path(
    get,
    path = "/admin/api/v1/accounts/{id}/grants",
    operation_id = "readGrants",
    tag = "Grants",
    params(("id" = String, Path, description = "The account's id")),
    responses(
        (status = 200, description = "The grants", body = ListedGrants),
        (status = 404, description = "There is no such account", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let id = account(app, request).await?.id;
    let grants = app.auth.grants.list(&id).await?.into_iter();
    let grants = ListedGrants {
        grants: grants.map(ListedGrant::from).collect(),
        pending_holds: app.directory.outbox.pending_holds(&id).await?,
    };
    message::json(StatusCode::OK, &grants)
}

/// Suspends a grant.
///
/// The program gets 403 until the grant is resumed, by the operator or by the owner.
///
/// # Errors
/// Returns 404 if there is no such account or grant.
#[utoipa::path(
    post,
    path = "/admin/api/v1/accounts/{id}/grants/{grant}/suspend",
    operation_id = "suspendGrant",
    tag = "Grants",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("grant" = String, Path, description = "The grant's id"),
    ),
    responses(
        (status = 200, description = "The grant is suspended", body = inline(Success)),
        (status = 404, description = "There is no such account or grant", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn suspend<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    set_suspended(state, request, true).await
}

/// Resumes a suspended grant.
///
/// # Errors
/// Returns 404 if there is no such account or grant.
#[utoipa::path(
    post,
    path = "/admin/api/v1/accounts/{id}/grants/{grant}/resume",
    operation_id = "resumeGrant",
    tag = "Grants",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("grant" = String, Path, description = "The grant's id"),
    ),
    responses(
        (status = 200, description = "The grant is not suspended", body = inline(Success)),
        (status = 404, description = "There is no such account or grant", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn resume<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    set_suspended(state, request, false).await
}

async fn set_suspended<S: OperatorState>(
    state: &S,
    request: &Request,
    suspended: bool,
) -> Result<Response, Rejection> {
    let app = state.app();
    let id = account(app, request).await?.id;
    let (grant, origin) = (segment(request, "grant"), request.origin());
    let grants = &app.auth.grants;
    let found = grants.set_suspended_by_operator(&id, grant, suspended, origin);
    if !found.await? {
        return Err(no_grant());
    }
    message::success()
}

/// Ends a grant.
///
/// # Errors
/// Returns 404 if there is no such account or grant.
#[utoipa::path(
    delete,
    path = "/admin/api/v1/accounts/{id}/grants/{grant}",
    operation_id = "endGrant",
    tag = "Grants",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("grant" = String, Path, description = "The grant's id"),
    ),
    responses(
        (status = 200, description = "The grant has ended", body = inline(Success)),
        (status = 404, description = "There is no such account or grant", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn end<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let id = account(app, request).await?.id;
    let (grant, origin) = (segment(request, "grant"), request.origin());
    if !app.auth.grants.end(&id, grant, origin).await? {
        return Err(no_grant());
    }
    message::success()
}

/// Shows the number of held messages.
///
/// # Errors
/// Returns 500 if the database fails.
#[utoipa::path(
    get,
    path = "/admin/api/v1/holds",
    operation_id = "readHolds",
    tag = "Grants",
    responses((status = 200, description = "The number of held messages", body = Holds)),
)]
pub(super) async fn holds<S: OperatorState>(state: &S) -> Result<Response, Rejection> {
    let pending = state.app().directory.outbox.pending_holds("").await?;
    message::json(StatusCode::OK, &Holds { pending })
}

fn no_grant() -> Rejection {
    Failure::not_found(codes::GRANT_NOT_FOUND, "There is no such grant").into()
}
