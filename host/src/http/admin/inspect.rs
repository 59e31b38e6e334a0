//! `POST /api/v1/admin/modules/inspect`: what an install would come to.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Component, Managing, bytes};
use crate::error::Failure;
use crate::http::{Reply, Request};
use crate::life::report::Inspection;

/// What is to be looked at.
#[derive(Deserialize, ToSchema)]
struct Components {
    /// At least one.
    modules: Vec<Component>,
}

/// What components are.
#[derive(Serialize, ToSchema)]
struct Inspected {
    /// In the order given.
    modules: Vec<Inspection>,
}

/// Inspects components.
///
/// What each imports beside what was granted, its routes, what it would need a yes for, and why it could not be installed. Nothing is changed.
///
/// # Errors
/// 400 for what is no module.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/inspect",
    operation_id = "inspectModules",
    tag = "Administration",
    request_body = Components,
    responses(
        (status = 200, description = "What they are", body = Inspected),
        (status = 400, description = "One is no module; the sentence says which, and why", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn inspect_modules<S: Managing>(
    state: &S,
    request: &Request,
) -> Result<Reply, Failure> {
    let components: Components = request.json()?;
    let app = state.app();
    let modules = app
        .life
        .inspect(app, bytes(&components.modules, request)?)
        .await?;
    Reply::json(StatusCode::OK, &Inspected { modules })
}
