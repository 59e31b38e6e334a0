//! Composes the API description (OpenAPI 3.1.1) of a route table from the descriptions of the host
//! and the modules.
//!
//! The host adds the security and the scope of each operation, and the errors of the request
//! pipeline ([`responses`]). The description of a group must match the group's routes, and must not
//! conflict with another description.

mod components;
mod document;
pub mod info;
mod links;
mod operations;
mod parameters;
mod responses;
mod shared;

use std::collections::BTreeSet;

use bytes::Bytes;
use latchmail_core::caller::Scope;
use latchmail_core::error::StartError;
use latchmail_runtime::modules::Access;
use serde_json::json;

use crate::access;
use crate::route_group::RouteGroup;
use components::Components;
use document::{Document, Paths};
use info::ApiInfo;

/// Composes the API description of all groups, as JSON.
///
/// # Errors
/// Returns an error if a route has no description, or if a described operation has no route. Also
/// returns an error if two descriptions conflict, or if a reference has no target.
pub fn compose<S>(info: &ApiInfo, groups: &[RouteGroup<S>]) -> Result<Bytes, StartError> {
    with_document(info, groups, |document| {
        serde_json::to_vec(document)
            .map(Bytes::from)
            .map_err(|error| {
                StartError::new(format!("cannot serialize the API description: {error}"))
            })
    })
}

/// Performs the checks of [`compose`] without serializing the description.
///
/// # Errors
/// Fails under the same conditions as [`compose`].
pub fn check<S>(info: &ApiInfo, groups: &[RouteGroup<S>]) -> Result<(), StartError> {
    with_document(info, groups, |_| Ok(()))
}

/// Composes and checks the API description, and passes the description to `then`. The description
/// borrows from local values, so this function cannot return it.
fn with_document<S, T>(
    info: &ApiInfo,
    groups: &[RouteGroup<S>],
    then: impl FnOnce(&Document<'_>) -> Result<T, StartError>,
) -> Result<T, StartError> {
    let mut declared = BTreeSet::new();
    for group in groups {
        let codes = shared::declared_codes(&group.description);
        declared.extend(codes.map_err(|error| {
            StartError::new(format!("the description of {}: {error}", group.owner))
        })?);
    }
    let shared = shared::components(info, &declared);
    let mut components = Components::default();
    components.add("the host", &shared)?;
    let app_password = shared::app_password();
    let mut routes = groups.iter().flat_map(|group| &group.routes);
    if routes.any(|(route, _)| access::takes_app_password(route.access)) {
        components.add("the host", &app_password)?;
    }
    let operator_token = shared::operator_token();
    let mut routes = groups.iter().flat_map(|group| &group.routes);
    if routes.any(|(route, _)| matches!(route.access, Access::Operator(_))) {
        components.add("the host", &operator_token)?;
    }
    let mut paths = Paths::new();
    for group in groups {
        if let Some(described) = group.description.get("components") {
            components.add(&group.owner, described)?;
        }
        operations::add(&mut paths, group, info.agents_send)?;
    }
    links::remove_dangling(&mut paths);
    let document = Document {
        openapi: "3.1.1",
        info: json!({
            "title": info.title,
            "version": "2.0.0",
            "description": "An HTTP API over real mailboxes. Every error response has the body `{\"error\": <message>, \"code\": <code>}`, except those of the OAuth endpoints.",
        }),
        servers: json!([{ "url": info.base_url }]),
        paths: &paths,
        components: &components.sections,
        scopes: Scope::ALL
            .iter()
            .map(|scope| (scope.name(), scope.description()))
            .collect(),
    };
    document.check_references()?;
    then(&document)
}

#[cfg(test)]
mod tests;
