//! Creates API tokens on the page `/account/grants`.

use http::StatusCode;
use latchmail_accounts::auth::api_tokens::TokenRequest;
use latchmail_accounts::auth::person;
use latchmail_core::caller::Scope;
use latchmail_core::codes;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};
use secrecy::ExposeSecret as _;

use super::paths;
use super::visit::{Visit, act};
use crate::elements::token;
use crate::page_session::Fields;

/// The maximum number of tokens of an account, as in the API.
const MAX_TOKENS: u32 = 20;

/// Renders the form for a new token.
pub(super) fn form(csrf: &str) -> Markup {
    html! {
        details {
            summary { "New API token" }
            form.wide method="post" action=(paths::GRANTS) {
                (token(csrf))
                label for="label" { "Name of the program" }
                input #label type="text" name="label" required maxlength="64" autocomplete="off";
                fieldset {
                    legend { "Permissions" }
                    @for scope in Scope::ALL {
                        label.check {
                            input type="checkbox" name=(scope.name()) value="yes";
                            (scope.name())
                        }
                    }
                }
                label for="days" { "Days until it expires" }
                p.soft #days-hint { "From 1 to 365. Without a number, it does not expire." }
                input #days type="text" inputmode="numeric" name="days" maxlength="3" aria-describedby="days-hint";
                button.primary type="submit" { "Create" }
            }
        }
    }
}

/// Creates a token. Only the response to this request contains the token.
pub(super) async fn create(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let label = fields.one("label")?.unwrap_or_default().trim();
        person::label(label)?;
        let wanted = TokenRequest {
            label: label.to_owned(),
            scopes: scopes(&fields)?,
            days: days(&fields)?,
            at_most: MAX_TOKENS,
        };
        let tokens = &app.auth.api_tokens;
        let created = tokens
            .create_token(visit.session(), wanted, &visit.origin())
            .await?;
        let created = created.ok_or_else(|| {
            Rejection::new(
                StatusCode::CONFLICT,
                codes::TOO_MANY_TOKENS,
                "You already have 20 API tokens; revoke one before creating another",
            )
        })?;
        let path = paths::of(paths::GRANTS, &created.token.id);
        let body = html! {
            p.notice role="status" { "Copy the token into the program. The token is not shown again." }
            p { code { (created.secret.expose_secret()) } }
            p { a href={ (path) "/policy" } { "Change the policy" } }
            p { a href=(paths::GRANTS) { "All agents and tokens" } }
        };
        visit.page(paths::GRANTS, "New API token", &body)
    });
    act(app, request, page).await
}

/// Returns the scopes whose checkboxes are selected.
fn scopes(fields: &Fields) -> Result<Vec<Scope>, Rejection> {
    let mut scopes = Vec::new();
    for scope in Scope::ALL {
        if fields.one(scope.name())?.is_some() {
            scopes.push(scope);
        }
    }
    if scopes.is_empty() {
        return Err(Rejection::bad_request(
            codes::SCOPE_REQUIRED,
            "At least one scope is required",
        ));
    }
    Ok(scopes)
}

/// Returns the number of days until the token expires, or `None` if the field is empty.
fn days(fields: &Fields) -> Result<Option<u32>, Rejection> {
    let Some(text) = fields.one("days")?.map(str::trim) else {
        return Ok(None);
    };
    if text.is_empty() {
        return Ok(None);
    }
    let days = text.parse::<u32>().ok();
    let days = days.filter(|days| (1..=365).contains(days));
    let invalid = || Rejection::bad_request(codes::INVALID_EXPIRY, "days must be from 1 to 365");
    days.ok_or_else(invalid).map(Some)
}
