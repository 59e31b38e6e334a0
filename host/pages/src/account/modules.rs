//! `/account/modules`: modules that act for the owner without a request, if the owner enables them.

use http::StatusCode;
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_runtime::owner_modules::{ModuleOwner, OwnerModule, OwnerModules as _, SwitchError};
use maud::{Markup, html};

use super::paths;
use super::visit::{Refusal, Visit, act, show};
use crate::elements::button;

/// Lists the modules.
pub(super) async fn list(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let modules = app.handlers.list(visit.account()).await?;
        let body = html! {
            p.soft { "The operator of the service determines what a module may do. A module acts only while you enable it." }
            @if modules.is_empty() { p { "No module can act for you." } }
            ul.cards { @for module in &modules { li { (card(visit.csrf(), module)) } } }
        };
        visit.page(paths::MODULES, "Modules", &body)
    });
    show(app, request, page).await
}

fn card(csrf: &str, module: &OwnerModule) -> Markup {
    let id = format!("module-{}", module.name);
    let path = paths::of(paths::MODULES, &module.name);
    let scopes: Vec<&str> = module.scopes.iter().map(|scope| scope.name()).collect();
    let (verb, name) = if module.enabled {
        ("disable", "Disable")
    } else {
        ("enable", "Enable")
    };
    html! {
        h2 #(id) { (module.name) }
        @if !module.description.is_empty() { p { (module.description) } }
        dl {
            dt { "State" }
            dd {
                @if let Some(reason) = &module.paused { span.bad { "Paused" } ": " (reason) }
                @else if module.enabled { span.good { "Enabled" } }
                @else { "Disabled" }
            }
            dt { "Permissions" }
            dd { @if scopes.is_empty() { "none" } @else { (scopes.join(", ")) } }
        }
        @if module.subscriptions.is_none() { p.soft { "The operator has disabled this module." } }
        div.actions { (button(csrf, &format!("{path}/{verb}"), name, &id)) }
    }
}

/// Enables a module.
pub(super) async fn enable(app: &App, request: &Request) -> Result<Response, Rejection> {
    switch(app, request, true).await
}

/// Disables a module.
pub(super) async fn disable(app: &App, request: &Request) -> Result<Response, Rejection> {
    switch(app, request, false).await
}

async fn switch(app: &App, request: &Request, enabled: bool) -> Result<Response, Rejection> {
    let page = Box::pin(async move {
        let (visit, _) = Visit::of_form(app, request).await?;
        let owner = ModuleOwner {
            access: visit.access(),
            sid: visit.sid().to_owned(),
            origin: visit.origin(),
        };
        let name = visit.id();
        let switched = app.handlers.switch(&owner, name, enabled).await;
        let module = switched.map_err(refusal)?;
        let state = if module.enabled {
            "enabled"
        } else {
            "disabled"
        };
        visit.done(
            paths::MODULES,
            format!("The module {} is {state}.", module.name),
        )
    });
    act(app, request, page).await
}

fn refusal(error: SwitchError) -> Refusal {
    match error {
        SwitchError::NotFound => Rejection::new(
            StatusCode::NOT_FOUND,
            codes::MODULE_NOT_FOUND,
            "Module not found",
        )
        .into(),
        SwitchError::SessionEnded => Refusal::SignInRequired,
        SwitchError::Mailbox(error) => Failure::mail_unavailable().because(error).into(),
        SwitchError::Failed(failure) => failure.into(),
    }
}
