//! The routes of the operator's page.

use std::future::ready;
use std::time::Duration;

use http::Method;
use latchmail_http::route_group::{Handler, RouteGroup, Target, host_route};
use latchmail_runtime::modules::Route;
use serde_json::Value;

use super::state::PageState;
use super::{accounts, domains, limits, log, mail_server, modules, paths, sign_in};
use crate::layout::see_other;
use crate::shell::style_sheet;

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
            Box::pin(ready(Ok(style_sheet())))
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
    RouteGroup {
        owner: "the host".into(),
        routes,
        // Clients do not use the pages, so the pages are not part of the API.
        description: Value::Null,
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
