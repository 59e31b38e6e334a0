//! `/account/app-passwords`: passwords of mail clients.

use http::StatusCode;
use latchmail_accounts::auth::person;
use latchmail_core::codes;
use latchmail_directory::credentials::{AppPasswordKind, Credential, Revocation};
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};
use secrecy::ExposeSecret as _;

use super::claims::foreign;
use super::grants::optional_time;
use super::paths;
use super::visit::{Refusal, Visit, act, show};
use crate::elements::{Confirmation, button, time, token};

/// Lists the app passwords.
pub(super) async fn list(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let credentials = of_kind(&visit, AppPasswordKind::AppPassword).await?;
        let csrf = visit.csrf();
        let body = html! {
            p.soft { "An app password gives a mail client access to the whole mailbox over IMAP and SMTP." }
            form.search method="post" action=(paths::APP_PASSWORDS) {
                (token(csrf))
                div {
                    label for="label" { "Name of the mail client" }
                    input #label type="text" name="label" required maxlength="64" autocomplete="off";
                }
                button.primary type="submit" { "Create" }
            }
            @if credentials.is_empty() { p { "There are no app passwords." } }
            ul.cards {
                @for one in &credentials {
                    li {
                        h2 #{ "password-" (one.id) } { (foreign(&one.label)) }
                        (dates(one))
                        div.actions {
                            (button(csrf, &format!("{}/revoke", paths::of(paths::APP_PASSWORDS, &one.id)), "Revoke", &format!("password-{}", one.id)))
                        }
                    }
                }
            }
        };
        visit.page(paths::APP_PASSWORDS, "App passwords", &body)
    });
    show(app, request, page).await
}

/// Creates an app password. Only the response to this request contains the password.
pub(super) async fn create(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let label = fields.one("label")?.unwrap_or_default().trim();
        person::label(label)?;
        let credentials = &app.auth.credentials;
        let created = credentials
            .create_app_password(visit.session(), label, &visit.origin())
            .await?;
        let created = created.ok_or_else(|| {
            Rejection::new(
                StatusCode::CONFLICT,
                codes::TOO_MANY_APP_PASSWORDS,
                "You already have 100 app passwords; revoke one before creating another",
            )
        })?;
        let body = html! {
            p.notice role="status" { "Enter these values in your mail client. The password is not shown again." }
            dl {
                dt { "User name" }
                dd { (visit.caller.address) }
                dt { "Password" }
                dd { code { (created.secret.expose_secret()) } }
            }
            p { a href=(paths::APP_PASSWORDS) { "All app passwords" } }
        };
        visit.page(paths::APP_PASSWORDS, "New app password", &body)
    });
    act(app, request, page).await
}

/// Revokes an app password after a confirmation.
pub(super) async fn revoke(app: &App, request: &Request) -> Result<Response, Rejection> {
    let end = End {
        list: paths::APP_PASSWORDS,
        verb: "revoke",
        button: "Revoke",
        consequence: "Mail clients with this password are disconnected at once, and cannot sign in again.",
        kind: AppPasswordKind::AppPassword,
    };
    end.handle(app, request).await
}

/// The form that ends a credential.
pub(super) struct End {
    /// The path of the list with the credential.
    pub(super) list: &'static str,
    /// The last segment of the path of the action.
    pub(super) verb: &'static str,
    /// The name of the button.
    pub(super) button: &'static str,
    /// What happens.
    pub(super) consequence: &'static str,
    /// The kind of the credentials in the list.
    pub(super) kind: AppPasswordKind,
}

impl End {
    /// Ends the credential whose id is in the path of the request, after a confirmation.
    pub(super) async fn handle(&self, app: &App, request: &Request) -> Result<Response, Rejection> {
        let page = Box::pin(async {
            let (visit, fields) = Visit::of_form(app, request).await?;
            let credentials = of_kind(&visit, self.kind).await?;
            let mut credentials = credentials.into_iter();
            let found = credentials.find(|one| one.id == visit.id());
            let found = found.ok_or_else(missing)?;
            if !fields.are_confirmed()? {
                let confirmation = Confirmation {
                    action: &format!("{}/{}", paths::of(self.list, &found.id), self.verb),
                    button: self.button,
                    back: self.list,
                    fields: &[],
                    text: html! { p { (self.consequence) } },
                };
                let body = confirmation.render(visit.csrf());
                let title = format!("{} “{}”?", self.button, found.label);
                return visit.page(self.list, &title, &body);
            }
            let credentials = &app.auth.credentials;
            let revoked = credentials
                .revoke_app_password(visit.account(), &found.id, visit.origin())
                .await?;
            match revoked {
                Revocation::Revoked(_) => {
                    visit.done(self.list, format!("“{}” has ended.", found.label))
                }
                Revocation::BacksToken { .. } | Revocation::Unknown => Err(missing().into()),
            }
        });
        act(app, request, page).await
    }
}

/// Returns the credentials of a kind, newest first.
pub(super) async fn of_kind(
    visit: &Visit<'_>,
    kind: AppPasswordKind,
) -> Result<Vec<Credential>, Refusal> {
    let credentials = &visit.app.auth.credentials;
    let mut all = credentials.credentials(visit.account()).await?;
    all.retain(|one| one.kind == kind);
    Ok(all)
}

/// Renders the times of a credential.
pub(super) fn dates(credential: &Credential) -> Markup {
    html! {
        dl {
            dt { "Created" }
            dd { (time(credential.created_at.millis())) }
            dt { "Last use" }
            dd { (optional_time(credential.last_used_at)) }
            dt { "Expires" }
            dd { (optional_time(credential.expires_at)) }
        }
    }
}

fn missing() -> Rejection {
    Rejection::new(
        StatusCode::NOT_FOUND,
        codes::SESSION_NOT_FOUND,
        "Session not found",
    )
}
