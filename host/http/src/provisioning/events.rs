//! `/admin/api/v1/accounts/{id}/events`: the security events of an account, in the form in which
//! its owner sees them.

use http::StatusCode;

use super::accounts::account;
use super::state::OperatorState;
use crate::message::{self, Request, Response};
use crate::profile::events::{SecurityEvents, page};
use crate::rejection::Rejection;

/// Lists the security events of an account.
///
/// Lists the events of the last 90 days. They contain no secrets and nothing from messages.
///
/// # Errors
/// Returns 404 if there is no such account, and 400 if a parameter is invalid.
#[utoipa::path(
    get,
    path = "/admin/api/v1/accounts/{id}/events",
    operation_id = "readAccountEvents",
    tag = "Accounts",
    params(
        ("id" = String, Path, description = "The account's id"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "The maximum number of events; 50 by default"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
        ("credential" = Option<String>, Query, description = "Only events that a credential caused or that are about it: the id of the credential"),
    ),
    responses(
        (status = 200, description = "A page of events", body = SecurityEvents),
        (status = 404, description = "There is no such account", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn list<S: OperatorState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let app = state.app();
    let id = account(app, request).await?.id;
    message::json(StatusCode::OK, &page(app, &id, request).await?)
}
