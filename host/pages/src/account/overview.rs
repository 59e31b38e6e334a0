//! `/account`: the first page, with the numbers of the other pages.

use latchmail_accounts::auth::second_factor_settings::SecondFactorState;
use latchmail_directory::credentials::AppPasswordKind;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};

use super::paths;
use super::visit::{Visit, show};
use super::{aliases, holds};

/// Shows the overview.
pub(super) async fn overview(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let account = visit.account();
        let waiting = holds::pending(&visit).await?;
        let grants = app.auth.grants.list(account).await?;
        let suspended = grants
            .iter()
            .filter(|grant| grant.suspended_at.is_some())
            .count();
        let credentials = app.auth.credentials.credentials(account).await?;
        let count = |kind| credentials.iter().filter(|one| one.kind == kind).count();
        let (app_passwords, sessions) = (
            count(AppPasswordKind::AppPassword),
            count(AppPasswordKind::WebSession),
        );
        let aliases = aliases::list(&visit).await?.len();
        let address = &visit.caller.address;
        let state = app.auth.verifier.second_factor_state(account, address);
        let two_factor = match state.await? {
            SecondFactorState::On { .. } => "on",
            SecondFactorState::Off => "off",
            SecondFactorState::AtProvider => "at your identity provider",
        };
        let body = html! {
            @if waiting > 0 {
                p.notice { a href=(paths::HOLDS) { (counted(waiting, "message waits", "messages wait")) " for your decision" } }
            }
            dl {
                (row(paths::HOLDS, "Held mail", &counted(waiting, "waiting", "waiting")))
                (row(paths::GRANTS, "Agents and tokens", &format!("{}, {suspended} suspended", grants.len())))
                (row(paths::APP_PASSWORDS, "App passwords", &app_passwords.to_string()))
                (row(paths::SESSIONS, "Sessions", &sessions.to_string()))
                (row(paths::ALIASES, "Aliases", &aliases.to_string()))
                (row(paths::TWO_FACTOR, "Two-factor sign-in", two_factor))
            }
            p.soft { "If a program does something that you do not want, suspend it under “Agents and tokens”. Then undo its changes in its journal." }
        };
        visit.page(paths::START, "Your account", &body)
    });
    show(app, request, page).await
}

fn row(path: &str, name: &str, value: &str) -> Markup {
    html! {
        dt { a href=(path) { (name) } }
        dd { (value) }
    }
}

/// Returns a number with the singular or the plural.
fn counted(number: usize, one: &str, several: &str) -> String {
    let word = if number == 1 { one } else { several };
    format!("{number} {word}")
}
