//! The routes of the admin API.

use std::future::ready;
use std::time::Duration;

use http::Method;
use latchmail_core::caller::OperatorScope;
use latchmail_core::caller::OperatorScope::{
    AccountsRead, AccountsWrite, AliasesRead, AliasesWrite, DomainsRead, DomainsWrite, GrantsRead,
    GrantsWrite, ModulesRead, ModulesWrite,
};
use latchmail_core::error::StartError;
use latchmail_runtime::modules::{Access, Route};
use utoipa::OpenApi;

use super::state::OperatorState;
use super::{accounts, aliases, description, domains, events, grants, modules};
use crate::route_group::{Handler, HostRoute, RouteGroup, host_route};

/// The rate-limit bucket of requests with operator tokens.
pub(crate) const BUCKET: &str = "provisioning";

/// The maximum size of a request body, in bytes.
const MAX_BODY: usize = 16 * 1024;
/// The maximum size of a request body with a component in base64, in bytes.
const MAX_MODULE: usize = 128 * 1024 * 1024;

/// The maximum duration of a request with a module. The compilation of a large component takes
/// several seconds.
const MODULE_DEADLINE: Duration = Duration::from_mins(2);

#[derive(OpenApi)]
#[openapi(
    paths(
        accounts::list,
        accounts::create,
        accounts::read,
        accounts::update,
        accounts::delete,
        events::list,
        grants::list,
        grants::end,
        grants::suspend,
        grants::resume,
        grants::holds,
        domains::list,
        domains::create,
        domains::read,
        domains::update,
        domains::delete,
        aliases::list,
        aliases::create,
        aliases::read,
        aliases::update,
        aliases::delete,
        modules::list,
        modules::read,
        modules::update,
        modules::delete,
        modules::create,
        description::show
    ),
    tags(
        (name = "Accounts", description = "Accounts, and their security events"),
        (name = "Domains", description = "The domains on which accounts and aliases can be created"),
        (name = "Aliases", description = "The aliases of all accounts"),
        (name = "Modules", description = "The installed modules"),
        (name = "Grants", description = "The programs that have access to accounts"),
        (name = "Description", description = "This description")
    )
)]
struct Description;

/// Returns the routes of the admin API.
///
/// # Errors
/// Returns an error if the API description cannot be serialized.
pub fn route_group<S: OperatorState>() -> Result<RouteGroup<S>, StartError> {
    let mut routes = account_routes();
    routes.extend(grant_routes());
    routes.extend(domain_routes());
    routes.extend(alias_routes());
    routes.extend(module_routes());
    routes.push(HostRoute {
        route: host_route(
            Method::GET,
            "/admin/api/v1/openapi.json",
            "describeAdminApi",
        ),
        handler: |state, _| Box::pin(ready(Ok(description::show(state)))),
    });
    RouteGroup::host(routes, &Description::openapi())
}

fn account_routes<S: OperatorState>() -> Vec<HostRoute<S>> {
    const ALL: &str = "/admin/api/v1/accounts";
    const ONE: &str = "/admin/api/v1/accounts/{id}";
    const EVENTS: &str = "/admin/api/v1/accounts/{id}/events";
    let (read, write) = (AccountsRead, AccountsWrite);
    vec![
        get::<S>(ALL, "readAccounts", read, |s, r| {
            Box::pin(accounts::list(s, r))
        }),
        post::<S>(ALL, "createAccount", write, |s, r| {
            Box::pin(accounts::create(s, r))
        }),
        get::<S>(ONE, "readAccount", read, |s, r| {
            Box::pin(accounts::read(s, r))
        }),
        patch::<S>(ONE, "updateAccount", write, |s, r| {
            Box::pin(accounts::update(s, r))
        }),
        delete::<S>(ONE, "deleteAccount", write, |s, r| {
            Box::pin(accounts::delete(s, r))
        }),
        get::<S>(EVENTS, "readAccountEvents", read, |s, r| {
            Box::pin(events::list(s, r))
        }),
    ]
}

fn grant_routes<S: OperatorState>() -> Vec<HostRoute<S>> {
    const ALL: &str = "/admin/api/v1/accounts/{id}/grants";
    const ONE: &str = "/admin/api/v1/accounts/{id}/grants/{grant}";
    const SUSPEND: &str = "/admin/api/v1/accounts/{id}/grants/{grant}/suspend";
    const RESUME: &str = "/admin/api/v1/accounts/{id}/grants/{grant}/resume";
    let (read, write) = (GrantsRead, GrantsWrite);
    vec![
        get::<S>(ALL, "readGrants", read, |s, r| Box::pin(grants::list(s, r))),
        delete::<S>(ONE, "endGrant", write, |s, r| Box::pin(grants::end(s, r))),
        route::<S>(Method::POST, SUSPEND, "suspendGrant", write, 0, |s, r| {
            Box::pin(grants::suspend(s, r))
        }),
        route::<S>(Method::POST, RESUME, "resumeGrant", write, 0, |s, r| {
            Box::pin(grants::resume(s, r))
        }),
        get::<S>("/admin/api/v1/holds", "readHolds", read, |s, _| {
            Box::pin(grants::holds(s))
        }),
    ]
}

fn domain_routes<S: OperatorState>() -> Vec<HostRoute<S>> {
    const ALL: &str = "/admin/api/v1/domains";
    const ONE: &str = "/admin/api/v1/domains/{domain}";
    let (read, write) = (DomainsRead, DomainsWrite);
    vec![
        get::<S>(ALL, "readDomains", read, |s, r| {
            Box::pin(domains::list(s, r))
        }),
        post::<S>(ALL, "createDomain", write, |s, r| {
            Box::pin(domains::create(s, r))
        }),
        get::<S>(ONE, "readDomain", read, |s, r| {
            Box::pin(domains::read(s, r))
        }),
        patch::<S>(ONE, "updateDomain", write, |s, r| {
            Box::pin(domains::update(s, r))
        }),
        delete::<S>(ONE, "deleteDomain", write, |s, r| {
            Box::pin(domains::delete(s, r))
        }),
    ]
}

fn alias_routes<S: OperatorState>() -> Vec<HostRoute<S>> {
    const ALL: &str = "/admin/api/v1/aliases";
    const ONE: &str = "/admin/api/v1/aliases/{id}";
    let (read, write) = (AliasesRead, AliasesWrite);
    vec![
        get::<S>(ALL, "readAliases", read, |s, r| {
            Box::pin(aliases::list(s, r))
        }),
        post::<S>(ALL, "createAlias", write, |s, r| {
            Box::pin(aliases::create(s, r))
        }),
        get::<S>(ONE, "readAlias", read, |s, r| Box::pin(aliases::read(s, r))),
        patch::<S>(ONE, "updateAlias", write, |s, r| {
            Box::pin(aliases::update(s, r))
        }),
        delete::<S>(ONE, "deleteAlias", write, |s, r| {
            Box::pin(aliases::delete(s, r))
        }),
    ]
}

fn module_routes<S: OperatorState>() -> Vec<HostRoute<S>> {
    const ALL: &str = "/admin/api/v1/modules";
    const ONE: &str = "/admin/api/v1/modules/{name}";
    let (read, write) = (ModulesRead, ModulesWrite);
    let mut install = post::<S>(ALL, "createModule", write, |s, r| {
        Box::pin(modules::create(s, r))
    });
    install.route.max_body = MAX_MODULE;
    install.route.blob_fields = vec!["/component".into()];
    install.route.deadline = MODULE_DEADLINE;
    vec![
        get::<S>(ALL, "readModules", read, |s, r| {
            Box::pin(modules::list(s, r))
        }),
        install,
        get::<S>(ONE, "readModule", read, |s, r| {
            Box::pin(modules::read(s, r))
        }),
        patch::<S>(ONE, "updateModule", write, |s, r| {
            Box::pin(modules::update(s, r))
        }),
        delete::<S>(ONE, "deleteModule", write, |s, r| {
            Box::pin(modules::delete(s, r))
        }),
    ]
}

fn get<S>(path: &str, operation: &str, scope: OperatorScope, handler: Handler<S>) -> HostRoute<S> {
    route(Method::GET, path, operation, scope, 0, handler)
}

fn post<S>(path: &str, operation: &str, scope: OperatorScope, handler: Handler<S>) -> HostRoute<S> {
    route(Method::POST, path, operation, scope, MAX_BODY, handler)
}

fn patch<S>(
    path: &str,
    operation: &str,
    scope: OperatorScope,
    handler: Handler<S>,
) -> HostRoute<S> {
    route(Method::PATCH, path, operation, scope, MAX_BODY, handler)
}

fn delete<S>(
    path: &str,
    operation: &str,
    scope: OperatorScope,
    handler: Handler<S>,
) -> HostRoute<S> {
    route(Method::DELETE, path, operation, scope, 0, handler)
}

/// Returns a route for operator tokens.
pub(crate) fn route<S>(
    method: Method,
    path: &str,
    operation: &str,
    scope: OperatorScope,
    max_body: usize,
    handler: Handler<S>,
) -> HostRoute<S> {
    let route = Route {
        access: Access::Operator(scope),
        bucket: BUCKET.into(),
        max_body,
        ..host_route(method, path, operation)
    };
    HostRoute { route, handler }
}
