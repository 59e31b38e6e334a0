//! `/account/sessions`: web sessions, also those on this page.

use latchmail_directory::credentials::AppPasswordKind;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::html;

use super::app_passwords::{End, dates, of_kind};
use super::claims::foreign;
use super::paths;
use super::visit::{Visit, show};
use crate::elements::button;

/// Lists the web sessions.
pub(super) async fn list(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let sessions = of_kind(&visit, AppPasswordKind::WebSession).await?;
        let current = &visit.caller.mail.id;
        let body = html! {
            ul.cards {
                @for one in &sessions {
                    li {
                        h2 #{ "session-" (one.id) } { (foreign(&one.label)) }
                        @if one.id == *current { p { span.good { "This session" } } }
                        (dates(one))
                        div.actions {
                            (button(visit.csrf(), &format!("{}/end", paths::of(paths::SESSIONS, &one.id)), "End", &format!("session-{}", one.id)))
                        }
                    }
                }
            }
        };
        visit.page(paths::SESSIONS, "Sessions", &body)
    });
    show(app, request, page).await
}

/// Ends a web session after a confirmation.
pub(super) async fn end(app: &App, request: &Request) -> Result<Response, Rejection> {
    let end = End {
        list: paths::SESSIONS,
        verb: "end",
        button: "End",
        consequence: "The browser or program must sign in again.",
        kind: AppPasswordKind::WebSession,
    };
    end.handle(app, request).await
}
