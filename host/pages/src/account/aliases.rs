//! `/account/aliases`: additional addresses of the account.

use http::StatusCode;
use latchmail_accounts::aliases::{AliasUpdate, Error};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_directory::aliases::Alias;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};

use super::claims::foreign;
use super::grants::optional_time;
use super::paths;
use super::visit::{Refusal, Visit, act, show};
use crate::elements::{Confirmation, button, time, token};

/// Returns the aliases, sorted by address.
pub(super) async fn list(visit: &Visit<'_>) -> Result<Vec<Alias>, Refusal> {
    let aliases = visit.app.aliases.list(&visit.caller).await;
    Ok(aliases.map_err(rejection)?)
}

/// Shows the aliases, and the form for a new one.
pub(super) async fn page(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let aliases = list(&visit).await?;
        let domains = app.aliases.domains(&visit.caller).await;
        let domains = domains.map_err(rejection)?;
        let body = html! {
            @if !domains.is_empty() { (new_form(visit.csrf(), &domains)) }
            @if aliases.is_empty() { p { "There are no aliases." } }
            ul.cards { @for alias in &aliases { li { (card(visit.csrf(), alias)) } } }
        };
        visit.page(paths::ALIASES, "Aliases", &body)
    });
    show(app, request, page).await
}

fn new_form(csrf: &str, domains: &[String]) -> Markup {
    html! {
        form.search method="post" action=(paths::ALIASES) {
            (token(csrf))
            div {
                label for="name" { "Name before the @" }
                input #name type="text" name="name" required maxlength="64" autocomplete="off" autocapitalize="none" spellcheck="false";
            }
            div {
                label for="domain" { "Domain" }
                select #domain name="domain" {
                    @for domain in domains { option value=(domain) { (domain) } }
                }
            }
            button.primary type="submit" { "Create" }
        }
    }
}

fn card(csrf: &str, alias: &Alias) -> Markup {
    let path = paths::of(paths::ALIASES, &alias.id().to_string());
    let id = format!("alias-{}", alias.id());
    let (verb, name) = if alias.active {
        ("disable", "Disable")
    } else {
        ("enable", "Enable")
    };
    html! {
        h2 #(id) { (alias.address) }
        dl {
            dt { "State" }
            dd { @if alias.active { span.good { "Active" } } @else { span.bad { "Disabled" } } }
            dt { "Received" }
            dd {
                (alias.received)
                @if let Some(at) = alias.last_received_at { ", last " (time(at.millis())) }
            }
            dt { "Expires" }
            dd { (optional_time(alias.expires_at)) }
            @if !alias.note.is_empty() {
                dt { "Note" }
                dd { (foreign(&alias.note)) }
            }
        }
        form.search method="post" action={ (path) "/note" } {
            (token(csrf))
            div {
                label for={ "note-" (alias.id()) } { "Note" }
                input #{ "note-" (alias.id()) } type="text" name="note" value=(alias.note) maxlength="200" autocomplete="off";
            }
            button type="submit" aria-describedby=(id) { "Save the note" }
        }
        div.actions {
            (button(csrf, &format!("{path}/{verb}"), name, &id))
            (button(csrf, &format!("{path}/delete"), "Delete", &id))
        }
    }
}

/// Creates an alias.
pub(super) async fn create(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let name = fields.one("name")?.unwrap_or_default().trim();
        let domain = fields.one("domain")?.unwrap_or_default();
        let origin = visit.origin();
        let created = app.aliases.create(&visit.caller, name, domain, &origin);
        let alias = created.await.map_err(rejection)?;
        visit.done(
            paths::ALIASES,
            format!("{} can receive mail.", alias.address),
        )
    });
    act(app, request, page).await
}

/// Enables an alias.
pub(super) async fn enable(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, _) = Visit::of_form(app, request).await?;
        let update = AliasUpdate {
            active: Some(true),
            ..AliasUpdate::default()
        };
        change(visit, &update).await
    });
    act(app, request, page).await
}

/// Disables an alias.
pub(super) async fn disable(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, _) = Visit::of_form(app, request).await?;
        let update = AliasUpdate {
            active: Some(false),
            ..AliasUpdate::default()
        };
        change(visit, &update).await
    });
    act(app, request, page).await
}

/// Changes the note of an alias.
pub(super) async fn set_note(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let update = AliasUpdate {
            note: Some(fields.one("note")?.unwrap_or_default().to_owned()),
            ..AliasUpdate::default()
        };
        change(visit, &update).await
    });
    act(app, request, page).await
}

async fn change(visit: Visit<'_>, update: &AliasUpdate) -> Result<Response, Refusal> {
    let id = number(&visit)?;
    let (aliases, origin) = (&visit.app.aliases, visit.origin());
    let changed = aliases.update(&visit.caller, id, update, &origin);
    let alias = changed.await.map_err(rejection)?;
    visit.done(paths::ALIASES, format!("{} is changed.", alias.address))
}

/// Deletes an alias after a confirmation.
pub(super) async fn delete(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let id = number(&visit)?;
        let aliases = list(&visit).await?;
        let mut aliases = aliases.into_iter();
        let alias = aliases.find(|alias| alias.id() == id);
        let alias = alias.ok_or_else(|| rejection(Error::Unknown))?;
        if !fields.are_confirmed()? {
            let path = paths::of(paths::ALIASES, &id.to_string());
            let confirmation = Confirmation {
                action: &format!("{path}/delete"),
                button: "Delete",
                back: paths::ALIASES,
                fields: &[],
                text: html! {
                    p { "The address no longer receives mail. No other account can use it. Mail that was delivered stays in the mailbox." }
                },
            };
            let body = confirmation.render(visit.csrf());
            let title = format!("Delete {}?", alias.address);
            return visit.page(paths::ALIASES, &title, &body);
        }
        let origin = visit.origin();
        let deleted = app.aliases.delete(&visit.caller, id, &origin);
        deleted.await.map_err(rejection)?;
        visit.done(paths::ALIASES, format!("{} is deleted.", alias.address))
    });
    act(app, request, page).await
}

/// Returns the id of the alias in the path of the request.
fn number(visit: &Visit<'_>) -> Result<u64, Rejection> {
    let id = visit.id().parse::<u64>();
    id.map_err(|_| Rejection::bad_request(codes::INVALID_ALIAS_ID, "Invalid alias ID"))
}

/// Returns the rejection of a request that cannot read or change aliases.
fn rejection(error: Error) -> Rejection {
    let text = error.to_string();
    let (status, code) = match error {
        Error::Invalid(_) => (StatusCode::BAD_REQUEST, codes::INVALID_ALIAS_NAME),
        Error::InvalidNote(_) => (StatusCode::BAD_REQUEST, codes::INVALID_ALIAS_NOTE),
        Error::Denied => (StatusCode::BAD_REQUEST, codes::ALIAS_DOMAIN_NOT_ALLOWED),
        Error::Lacking(_) => (StatusCode::FORBIDDEN, codes::MISSING_RIGHT),
        Error::Managed => (StatusCode::FORBIDDEN, codes::ALIASES_MANAGED),
        Error::Taken(_) => (StatusCode::BAD_REQUEST, codes::ALIAS_TAKEN),
        Error::Full(_) => (StatusCode::CONFLICT, codes::TOO_MANY_ALIASES),
        Error::Unknown => {
            let text = "There is no such alias";
            return Rejection::new(StatusCode::NOT_FOUND, codes::ALIAS_NOT_FOUND, text);
        }
        Error::Unavailable(detail) => return Failure::mail_unavailable().because(detail).into(),
        Error::CredentialOver => {
            let text = "Mail session expired, please log in again";
            return Failure::unauthorized(codes::MAIL_SESSION_EXPIRED, text).into();
        }
        Error::Spent(failure) => return failure.into(),
        Error::Directory(error) => return error.into(),
    };
    Rejection::new(status, code, text)
}
