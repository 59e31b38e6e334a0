//! `POST /api/v1/admin/modules/inspect`: checks components without installing them.

use http::StatusCode;
use latchmail_runtime::manager::report::Inspection;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::request::{Component, new_components};
use super::state::AdminState;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The components to inspect.
#[derive(Deserialize, ToSchema)]
struct Components {
    /// The components, at least one.
    modules: Vec<Component>,
}

/// The results of an inspection.
#[derive(Serialize, ToSchema)]
struct Inspected {
    /// The modules, in the order of the request.
    modules: Vec<Inspection>,
}

/// Inspects components.
///
/// Returns for each component its imports and whether each import is granted, its routes, and the
/// changes that need consent. If a component cannot be installed, also returns the reason. Does not
/// install the components.
///
/// # Errors
/// Returns 400 if a component is not a module.
#[utoipa::path(
    post,
    path = "/api/v1/admin/modules/inspect",
    operation_id = "inspectModules",
    tag = "Administration",
    request_body = Components,
    responses(
        (status = 200, description = "The results", body = Inspected),
        (status = 400, description = "A component is not a module; the message names the component and the reason", body = ref("#/components/schemas/Error")),
    ),
)]
pub(super) async fn inspect_modules<S: AdminState>(
    state: &S,
    request: &Request,
) -> Result<Response, Rejection> {
    let components: Components = request.json()?;
    let components = new_components(components.modules, request)?;
    let app = state.app();
    let modules = app.module_manager.inspect(app, &components).await?;
    message::json(StatusCode::OK, &Inspected { modules })
}
