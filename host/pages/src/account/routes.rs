//! The routes of the owner's page.

use std::future::ready;
use std::time::Duration;

use http::Method;
use latchmail_http::App;
use latchmail_http::route_group::{Handler, RouteGroup, Target, host_route};
use latchmail_runtime::modules::Route;
use serde_json::Value;

use super::{
    aliases, app_passwords, grants, holds, journal, modules, overview, paths, policy, sessions,
    tokens, two_factor, visit,
};
use crate::shell::style_sheet;
use crate::sign_in::{show_account_sign_in, submit_account_sign_in};

/// The maximum size of a form, in bytes. The largest form has the lists of a policy.
const MAX_FORM: usize = 256 * 1024;

/// The maximum duration of a request. Undoing many changes takes up to 100 seconds.
const DEADLINE: Duration = Duration::from_mins(2);

/// The rate limit of the pages, for each client.
const BUCKET: &str = "profile";

/// Returns the routes.
pub(crate) fn route_group() -> RouteGroup<App> {
    let get = |path, operation, handler| route(BUCKET, Method::GET, path, operation, handler);
    let post = |path, operation, handler| route(BUCKET, Method::POST, path, operation, handler);
    let mut routes = vec![
        route("", Method::GET, paths::STYLE, "accountStyle", |_, _| {
            Box::pin(ready(Ok(style_sheet())))
        }),
        get(paths::SIGN_IN, "showAccountSignIn", |s, r| {
            Box::pin(show_account_sign_in(s, r))
        }),
        route(
            "sign_in",
            Method::POST,
            paths::SIGN_IN,
            "submitAccountSignIn",
            |s, r| Box::pin(submit_account_sign_in(s, r)),
        ),
        post(paths::SIGN_OUT, "accountSignOut", |s, r| {
            Box::pin(visit::sign_out(s, r))
        }),
        get(paths::START, "accountOverview", |s, r| {
            Box::pin(overview::overview(s, r))
        }),
        get(paths::HOLDS, "accountHolds", |s, r| {
            Box::pin(holds::list(s, r))
        }),
        get("/account/holds/{id}", "accountHold", |s, r| {
            Box::pin(holds::one(s, r))
        }),
        post(
            "/account/holds/{id}/approve",
            "accountApproveHold",
            |s, r| Box::pin(holds::approve(s, r)),
        ),
        post("/account/holds/{id}/reject", "accountRejectHold", |s, r| {
            Box::pin(holds::reject(s, r))
        }),
        get(paths::MODULES, "accountModules", |s, r| {
            Box::pin(modules::list(s, r))
        }),
        post(
            "/account/modules/{name}/enable",
            "accountEnableModule",
            |s, r| Box::pin(modules::enable(s, r)),
        ),
        post(
            "/account/modules/{name}/disable",
            "accountDisableModule",
            |s, r| Box::pin(modules::disable(s, r)),
        ),
    ];
    routes.extend(grant_routes());
    routes.extend(credential_routes());
    routes.extend(alias_routes());
    RouteGroup {
        owner: "the host".into(),
        routes,
        // Clients do not use the pages, so the pages are not part of the API.
        description: Value::Null,
    }
}

/// Returns the routes of agents and tokens, their policies and their journals.
fn grant_routes() -> Vec<(Route, Target<App>)> {
    let get = |path, operation, handler| route(BUCKET, Method::GET, path, operation, handler);
    let post = |path, operation, handler| route(BUCKET, Method::POST, path, operation, handler);
    vec![
        get(paths::GRANTS, "accountGrants", |s, r| {
            Box::pin(grants::list(s, r))
        }),
        post(paths::GRANTS, "accountCreateToken", |s, r| {
            Box::pin(tokens::create(s, r))
        }),
        get("/account/grants/{id}", "accountGrant", |s, r| {
            Box::pin(grants::one(s, r))
        }),
        post(
            "/account/grants/{id}/suspend",
            "accountSuspendGrant",
            |s, r| Box::pin(grants::suspend(s, r)),
        ),
        post(
            "/account/grants/{id}/resume",
            "accountResumeGrant",
            |s, r| Box::pin(grants::resume(s, r)),
        ),
        post("/account/grants/{id}/end", "accountEndGrant", |s, r| {
            Box::pin(grants::end(s, r))
        }),
        get("/account/grants/{id}/policy", "accountPolicy", |s, r| {
            Box::pin(policy::edit(s, r))
        }),
        post(
            "/account/grants/{id}/policy",
            "accountSavePolicy",
            |s, r| Box::pin(policy::save(s, r)),
        ),
        get("/account/grants/{id}/journal", "accountJournal", |s, r| {
            Box::pin(journal::list(s, r))
        }),
        post(
            "/account/grants/{id}/journal/rewind",
            "accountRewind",
            |s, r| Box::pin(journal::rewind(s, r)),
        ),
    ]
}

/// Returns the routes of app passwords, sessions and two-factor sign-in.
fn credential_routes() -> Vec<(Route, Target<App>)> {
    let get = |path, operation, handler| route(BUCKET, Method::GET, path, operation, handler);
    let post = |path, operation, handler| route(BUCKET, Method::POST, path, operation, handler);
    vec![
        get(paths::APP_PASSWORDS, "accountAppPasswords", |s, r| {
            Box::pin(app_passwords::list(s, r))
        }),
        post(paths::APP_PASSWORDS, "accountCreateAppPassword", |s, r| {
            Box::pin(app_passwords::create(s, r))
        }),
        post(
            "/account/app-passwords/{id}/revoke",
            "accountRevokeAppPassword",
            |s, r| Box::pin(app_passwords::revoke(s, r)),
        ),
        get(paths::SESSIONS, "accountSessions", |s, r| {
            Box::pin(sessions::list(s, r))
        }),
        post("/account/sessions/{id}/end", "accountEndSession", |s, r| {
            Box::pin(sessions::end(s, r))
        }),
        get(paths::TWO_FACTOR, "accountTwoFactor", |s, r| {
            Box::pin(two_factor::state(s, r))
        }),
        post(
            "/account/two-factor/enable",
            "accountEnableTwoFactor",
            |s, r| Box::pin(two_factor::enable(s, r)),
        ),
        get(
            "/account/two-factor/disable",
            "accountConfirmDisableTwoFactor",
            |s, r| Box::pin(two_factor::confirm_disable(s, r)),
        ),
        post(
            "/account/two-factor/disable",
            "accountDisableTwoFactor",
            |s, r| Box::pin(two_factor::disable(s, r)),
        ),
        get(
            "/account/two-factor/recovery-codes",
            "accountConfirmRecoveryCodes",
            |s, r| Box::pin(two_factor::confirm_codes(s, r)),
        ),
        post(
            "/account/two-factor/recovery-codes",
            "accountRenewRecoveryCodes",
            |s, r| Box::pin(two_factor::renew_codes(s, r)),
        ),
    ]
}

/// Returns the routes of aliases.
fn alias_routes() -> Vec<(Route, Target<App>)> {
    let post = |path, operation, handler| route(BUCKET, Method::POST, path, operation, handler);
    vec![
        route(
            BUCKET,
            Method::GET,
            paths::ALIASES,
            "accountAliases",
            |s, r| Box::pin(aliases::page(s, r)),
        ),
        post(paths::ALIASES, "accountCreateAlias", |s, r| {
            Box::pin(aliases::create(s, r))
        }),
        post(
            "/account/aliases/{id}/enable",
            "accountEnableAlias",
            |s, r| Box::pin(aliases::enable(s, r)),
        ),
        post(
            "/account/aliases/{id}/disable",
            "accountDisableAlias",
            |s, r| Box::pin(aliases::disable(s, r)),
        ),
        post("/account/aliases/{id}/note", "accountNoteAlias", |s, r| {
            Box::pin(aliases::set_note(s, r))
        }),
        post(
            "/account/aliases/{id}/delete",
            "accountDeleteAlias",
            |s, r| Box::pin(aliases::delete(s, r)),
        ),
    ]
}

fn route(
    bucket: &str,
    method: Method,
    path: &str,
    operation: &str,
    handler: Handler<App>,
) -> (Route, Target<App>) {
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
    use latchmail_http::{ApiInfo, RouteTable};

    #[test]
    fn the_routes_do_not_conflict_and_are_not_part_of_the_api() {
        let table = RouteTable::build(&ApiInfo::default(), vec![route_group()]).unwrap();
        let description: Value = serde_json::from_slice(&table.description()).unwrap();
        assert_eq!(description["paths"], serde_json::json!({}));
        assert!(table.entries().len() > 30);
    }

    #[test]
    fn only_the_style_sheet_has_no_rate_limit() {
        let group = route_group();
        let free = group
            .routes
            .iter()
            .filter(|(route, _)| route.bucket.is_empty());
        let free: Vec<&str> = free.map(|(route, _)| route.path.as_str()).collect();
        assert_eq!(free, [paths::STYLE]);
    }
}
