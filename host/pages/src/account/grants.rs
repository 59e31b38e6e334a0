//! `/account/grants`: agents that the owner connected and API tokens, each with its policy in
//! words. The owner suspends, resumes and deletes them here.

use http::StatusCode;
use latchmail_accounts::auth::grants::Grant;
use latchmail_core::clock::Timestamp;
use latchmail_core::codes;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};

use super::claims::{foreign, visible};
use super::paths;
use super::tokens;
use super::visit::{Refusal, Visit, act, show};
use crate::elements::{Confirmation, button, time};
use crate::policy_words::{policy_list, summary};

/// Lists the agents and tokens.
pub(super) async fn list(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let grants = app.auth.grants.list(visit.account()).await?;
        let now = app.clock.now();
        let body = html! {
            (tokens::form(visit.csrf()))
            @if grants.is_empty() { p { "No agent and no token can act for you." } }
            ul.cards {
                @for grant in &grants { li { (card(visit.csrf(), grant, now)) } }
            }
        };
        visit.page(paths::GRANTS, "Agents and tokens", &body)
    });
    show(app, request, page).await
}

fn card(csrf: &str, grant: &Grant, now: Timestamp) -> Markup {
    let path = paths::of(paths::GRANTS, &grant.id);
    let id = format!("grant-{}", grant.id);
    html! {
        h2 #(id) { a href=(path) { (foreign(&grant.name)) } }
        p { (kind(grant)) ". " (state(grant, now)) " " (last_use(grant)) }
        p { (summary(grant.policy.as_ref())) }
        div.actions { (switch(csrf, grant, &id)) }
    }
}

/// Shows an agent or a token.
pub(super) async fn one(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let grant = find(&visit).await?;
        let path = paths::of(paths::GRANTS, &grant.id);
        let scopes: Vec<&str> = grant.scopes.iter().map(|scope| scope.name()).collect();
        let body = html! {
            dl #facts {
                dt { "Kind" }
                dd { (kind(&grant)) }
                @if let Some(client) = &grant.client_id {
                    dt { "Id of the application" }
                    dd { (foreign(client)) }
                }
                dt { "State" }
                dd { (state(&grant, app.clock.now())) }
                dt { "Permissions" }
                dd { (scopes.join(", ")) }
                dt { "Created" }
                dd { (time(grant.created_at.millis())) }
                dt { "Last use" }
                dd { (optional_time(grant.last_used_at)) }
                dt { "Expires" }
                dd { (optional_time(grant.expires_at)) }
            }
            div.actions {
                (switch(visit.csrf(), &grant, "facts"))
                (button(visit.csrf(), &format!("{path}/end"), "Delete", "facts"))
            }
            h2 { "Policy" }
            (policy_list(grant.policy.as_ref()))
            p { a href={ (path) "/policy" } { "Change the policy" } }
            h2 { "Journal" }
            p { a href={ (path) "/journal" } { "See and undo what it did" } }
        };
        visit.page(paths::GRANTS, &grant.name, &body)
    });
    show(app, request, page).await
}

/// Suspends an agent or a token at once.
pub(super) async fn suspend(app: &App, request: &Request) -> Result<Response, Rejection> {
    set_suspended(app, request, true).await
}

/// Resumes an agent or a token.
pub(super) async fn resume(app: &App, request: &Request) -> Result<Response, Rejection> {
    set_suspended(app, request, false).await
}

async fn set_suspended(
    app: &App,
    request: &Request,
    suspended: bool,
) -> Result<Response, Rejection> {
    let page = Box::pin(async move {
        let (visit, _) = Visit::of_form(app, request).await?;
        let grant = find(&visit).await?;
        let changed = app
            .auth
            .grants
            .set_suspended(visit.session(), &grant.id, suspended, visit.origin())
            .await?;
        if !changed {
            return Err(missing().into());
        }
        let state = if suspended {
            "is suspended. All its requests are refused."
        } else {
            "is active again."
        };
        visit.done(
            &paths::of(paths::GRANTS, &grant.id),
            format!("{} {state}", grant.name),
        )
    });
    act(app, request, page).await
}

/// Deletes an agent or a token after a confirmation.
pub(super) async fn end(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let grant = find(&visit).await?;
        let path = paths::of(paths::GRANTS, &grant.id);
        if !fields.are_confirmed()? {
            let confirmation = Confirmation {
                action: &format!("{path}/end"),
                button: "Delete",
                back: &path,
                fields: &[],
                text: html! {
                    p { "All its tokens become invalid at once, and it cannot be resumed." }
                    p { "To undo what it did, use " a href={ (path) "/journal" } { "its journal" } " first. This page shows no journal of deleted agents and tokens." }
                },
            };
            let body = confirmation.render(visit.csrf());
            return visit.page(paths::GRANTS, &format!("Delete {}?", grant.name), &body);
        }
        let grants = &app.auth.grants;
        let ended = grants
            .end(visit.account(), &grant.id, visit.origin())
            .await?;
        if !ended {
            return Err(missing().into());
        }
        visit.done(paths::GRANTS, format!("{} is deleted.", grant.name))
    });
    act(app, request, page).await
}

/// Returns the grant whose id is in the path of the request.
///
/// # Errors
/// Returns 404 if the account has no such grant.
pub(super) async fn find(visit: &Visit<'_>) -> Result<Grant, Refusal> {
    let grants = visit.app.auth.grants.list(visit.account()).await?;
    let mut grants = grants.into_iter();
    let found = grants.find(|grant| grant.id == visit.id());
    let mut grant = found.ok_or_else(missing)?;
    // An agent chose its name.
    grant.name = visible(&grant.name);
    Ok(grant)
}

pub(super) fn missing() -> Rejection {
    Rejection::new(
        StatusCode::NOT_FOUND,
        codes::GRANT_NOT_FOUND,
        "There is no such grant",
    )
}

fn switch(csrf: &str, grant: &Grant, described_by: &str) -> Markup {
    let (verb, name) = if grant.suspended_at.is_some() {
        ("resume", "Resume")
    } else {
        ("suspend", "Suspend")
    };
    let path = format!("{}/{verb}", paths::of(paths::GRANTS, &grant.id));
    button(csrf, &path, name, described_by)
}

fn kind(grant: &Grant) -> &'static str {
    if grant.client_id.is_some() {
        "Agent"
    } else {
        "API token"
    }
}

fn state(grant: &Grant, now: Timestamp) -> Markup {
    let has_expired = grant.expires_at.is_some_and(|at| at <= now);
    let is_over = grant.policy.as_ref().is_some_and(|one| one.is_over(now));
    html! {
        @if grant.suspended_at.is_some() { span.bad { "Suspended" } }
        @else if has_expired || is_over { span.bad { "Expired" } }
        @else { span.good { "Active" } }
        "."
    }
}

fn last_use(grant: &Grant) -> Markup {
    html! {
        @if let Some(at) = grant.last_used_at { "Last use " (time(at.millis())) "." } @else { "Never used." }
    }
}

/// Renders a time, or a dash without a time.
pub(super) fn optional_time(at: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(at) = at { (time(at.millis())) } @else { "–" }
    }
}
