//! The routes of the operator's page.

use std::future::ready;
use std::time::Duration;

use http::{Method, StatusCode};
use latchmail_http::route_group::{Handler, RouteGroup, Target, host_route};
use latchmail_runtime::modules::Route;
use serde_json::{Map, Value, json};

use super::state::PageState;
use super::{accounts, domains, limits, log, mail_server, modules, paths, sign_in};
use crate::layout::{asset, see_other};

const STYLE: &str = include_str!("page.css");

/// The maximum size of a form, in bytes.
const MAX_FORM: usize = 16 * 1024;

/// The maximum duration of a request. The compilation of a large module takes several seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// Returns the routes. A page with charts sends 30 requests per minute for the data of the charts.
/// So these requests count towards another rate limit than the pages.
pub(super) fn route_group() -> RouteGroup<PageState> {
    let get = |path, operation, handler| route("admin", Method::GET, path, operation, handler);
    let post = |path, operation, handler| route("admin", Method::POST, path, operation, handler);
    let get_as =
        |bucket, path, operation, handler| route(bucket, Method::GET, path, operation, handler);
    let routes = vec![
        get_as("", paths::START, "start", |_, _| {
            Box::pin(ready(Ok(see_other(paths::MODULES))))
        }),
        get_as("", paths::STYLE, "style", |_, _| {
            Box::pin(ready(Ok(asset("text/css", STYLE))))
        }),
        get(paths::SIGN_IN, "showSignIn", |s, r| {
            Box::pin(sign_in::show(s, r))
        }),
        route("sign_in", Method::POST, paths::SIGN_IN, "signIn", |s, r| {
            Box::pin(sign_in::submit(s, r))
        }),
        post(paths::SIGN_OUT, "signOut", |s, r| {
            Box::pin(sign_in::sign_out(s, r))
        }),
        get(paths::MODULES, "listModules", |s, r| {
            Box::pin(modules::list(s, r))
        }),
        get_as("", paths::CHARTS_SCRIPT, "chartsScript", |_, _| {
            Box::pin(ready(Ok(modules::script())))
        }),
        get_as("unproven", paths::CHARTS_DATA, "chartsData", |s, r| {
            Box::pin(modules::data(s, r))
        }),
        get("/admin/modules/{name}", "showModule", |s, r| {
            Box::pin(modules::show(s, r))
        }),
        post("/admin/modules/{name}/enable", "enableModule", |s, r| {
            Box::pin(modules::enable(s, r))
        }),
        post("/admin/modules/{name}/disable", "disableModule", |s, r| {
            Box::pin(modules::disable(s, r))
        }),
        post(
            "/admin/modules/{name}/rollback",
            "rollModuleBack",
            |s, r| Box::pin(modules::roll_back(s, r)),
        ),
        post("/admin/modules/{name}/switch", "switchModule", |s, r| {
            Box::pin(modules::switch(s, r))
        }),
        get(paths::ACCOUNTS, "listAccounts", |s, r| {
            Box::pin(accounts::list(s, r))
        }),
        post(paths::ACCOUNTS, "findAccounts", |s, r| {
            Box::pin(accounts::find(s, r))
        }),
        get("/admin/accounts/{address}", "showAccount", |s, r| {
            Box::pin(accounts::show(s, r))
        }),
        post(
            "/admin/accounts/{address}/enable",
            "enableAccount",
            |s, r| Box::pin(accounts::enable(s, r)),
        ),
        post(
            "/admin/accounts/{address}/disable",
            "disableAccount",
            |s, r| Box::pin(accounts::disable(s, r)),
        ),
        get(paths::DOMAINS, "listDomains", |s, r| {
            Box::pin(domains::list(s, r))
        }),
        get(paths::MAIL_SERVER, "showMailServer", |s, r| {
            Box::pin(mail_server::show(s, r))
        }),
        get(paths::LIMITS, "listLimits", |s, r| {
            Box::pin(limits::list(s, r))
        }),
        get(paths::LOG, "showLog", |s, r| Box::pin(log::show(s, r))),
        post(paths::LOG, "findEvents", |s, r| Box::pin(log::find(s, r))),
    ];
    let description = describe(&routes);
    RouteGroup {
        owner: "the host".into(),
        routes,
        description,
    }
}

fn route(
    bucket: &str,
    method: Method,
    path: &str,
    operation: &str,
    handler: Handler<PageState>,
) -> (Route, Target<PageState>) {
    let max_body = if method == Method::POST { MAX_FORM } else { 0 };
    let route = Route {
        bucket: bucket.into(),
        is_page: true,
        max_body,
        deadline: DEADLINE,
        ..host_route(method, path, operation)
    };
    (route, Target::Host(handler))
}

/// Returns the OpenAPI description that the route table requires. Clients cannot read this
/// description, because the operator's pages are not part of the API.
fn describe(routes: &[(Route, Target<PageState>)]) -> Value {
    let mut paths = Map::new();
    for (route, _) in routes {
        let item = paths.entry(route.path.clone()).or_insert(json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = json!({
            "operationId": route.operation,
            "responses": { StatusCode::OK.as_str(): { "description": "The page" } },
        });
    }
    json!({ "paths": paths })
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchmail_http::ApiInfo;
    use latchmail_http::RouteTable;

    #[test]
    fn the_routes_do_not_conflict() {
        assert!(RouteTable::build(&ApiInfo::default(), vec![route_group()]).is_ok());
    }
}
