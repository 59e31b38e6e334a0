//! `POST /api/v1/admin/modules/{name}/compare`: compares a new version of a module with the serving
//! version.

use std::time::Duration;

use http::StatusCode;
use latchmail_core::codes;
use latchmail_runtime::manager::compare::{Comparison, MAX_REQUESTS, MAX_TIME, compare};
use serde::Deserialize;
use utoipa::ToSchema;

use super::request::{Component, module_name, new_components};
use super::state::AdminState;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The maximum duration of a request. The new version is loaded first, and the replay of the last
/// recorded request ends after the time of the comparison.
pub(super) const DEADLINE: Duration = Duration::from_secs(MAX_TIME.as_secs() + 300);

/// A version to compare.
#[derive(Deserialize, ToSchema)]
struct CompareModule {
    /// The component of the new version, exactly one.
    #[schema(min_items = 1, max_items = 1)]
    modules: Vec<Component>,
    /// The number of requests to compare.
    #[schema(minimum = 1, maximum = 100_000)]
    requests: u32,
    /// The maximum time, in seconds.
    #[schema(minimum = 1, maximum = 3600)]
    seconds: u64,
}

/// Compares a module.
///
/// Records read requests of clients to the serving version in memory, and replays them into the
/// serving version and into the new version. Responds when the requests were compared, or when the
/// time has passed. The new version is not installed, and the replays have no effect. The response
/// contains no values of responses to clients. The audit log records the comparison. Standard
/// components and handlers cannot be compared.
///
/// # Errors
/// Returns 400 if the component cannot be loaded as a version of the module, or if it has no routes
/// of its own. Returns 404 if there is no such module. Returns 409 if the module is not serving or
/// has no routes of its own, if the configuration does not allow the new version, or if another
/// comparison is running.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/{name}/compare",
    operation_id = "compareModule",
    tag = "Administration",
    params(("name" = String, Path, description = "The module's name")),
    request_body = CompareModule,
    responses(
        (status = 200, description = "The differences", body = Comparison),
        (status = 400, description = "The component cannot be loaded as a version of the module", body = ref("#/components/schemas/Error")),
        (status = 404, description = "There is no such module", body = ref("#/components/schemas/Error")),
        (status = 409, description = "The module is not serving, the configuration does not allow the new version, or another comparison is running", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn compare_module<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let CompareModule {
        modules,
        requests,
        seconds,
    } = request.json()?;
    let invalid = |text: String| Rejection::bad_request(codes::INVALID_FIELD, text);
    if !(1..=MAX_REQUESTS).contains(&requests) {
        return Err(invalid(format!("requests must be 1 to {MAX_REQUESTS}")));
    }
    let max_seconds = MAX_TIME.as_secs();
    if !(1..=max_seconds).contains(&seconds) {
        return Err(invalid(format!("seconds must be 1 to {max_seconds}")));
    }
    let mut components = new_components(modules, request)?.into_iter();
    let (Some(component), None) = (components.next(), components.next()) else {
        return Err(invalid("modules must contain one component".into()));
    };
    let (app, origin) = (state.app(), state.origin(request));
    let time = Duration::from_secs(seconds);
    let comparison = compare(
        &app.module_manager,
        app,
        module_name(request),
        &component,
        (requests, time),
        &origin,
    );
    message::json(StatusCode::OK, &comparison.await?)
}
