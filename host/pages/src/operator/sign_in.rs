//! `/admin/sign-in` and `/admin/sign-out`: starts and ends the session of an administrator.

use http::{StatusCode, header};
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::html;

use super::layout::{SITE, token};
use super::paths;
use super::state::PageState;
use super::visit::{Refusal, Visit, cookies, require_same_origin, respond};
use crate::credentials::{
    Credentials, begin_attempt, needs_code, read_credentials, status_and_message,
};
use crate::layout::see_other;
use crate::page_session::{Browser, Fields};
use crate::shell::Shell;

/// Shows the sign-in page. Redirects an administrator with a session to the list of modules.
pub(super) async fn show(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        match Visit::of(state, request).await {
            Ok(_) => return Ok(see_other(paths::MODULES)),
            Err(Refusal::SignInRequired) => {}
            Err(refusal) => return Err(refusal),
        }
        let browser = match cookies(state).read(&request.headers) {
            Some(browser) => browser,
            None => Browser::new(None)?,
        };
        sign_in_page(state, browser, "", None)
    };
    Box::pin(respond(request, page)).await
}

/// Receives the form of the sign-in page.
pub(super) async fn submit(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        require_same_origin(state, &request.headers)?;
        let browser = cookies(state).read(&request.headers);
        let browser = match browser {
            Some(browser) => browser,
            // A browser without a cookie gets a new random token, so the token in the submitted
            // form is wrong and the form is rejected.
            None => Browser::new(None)?,
        };
        let fields = Fields::read(request, &browser)?;
        let credentials = read_credentials(&fields.0);
        match sign_in(state, request, credentials.as_ref()).await {
            Ok(sid) => {
                let cookie = cookies(state).set(&mut Browser::new(Some(sid))?)?;
                Ok(see_other(paths::MODULES).with(header::SET_COOKIE, cookie))
            }
            Err(rejection) if rejection.status.is_server_error() => Err(rejection.into()),
            Err(rejection) => {
                let address = credentials.as_ref().map_or("", |one| one.address.as_str());
                let mut response = sign_in_page(state, browser, address, Some(&rejection))?;
                response.headers.extend(rejection.headers);
                Ok(response)
            }
        }
    };
    Box::pin(respond(request, page)).await
}

/// Verifies the credentials and starts a session. Returns the id of the session.
async fn sign_in(
    state: &PageState,
    request: &Request,
    credentials: Option<&Credentials>,
) -> Result<String, Rejection> {
    let app = &*state.app;
    let (address, credentials, attempt) = begin_attempt(app, request, credentials).await?;
    let result = app
        .auth
        .administrators
        .sign_in_administrator(
            &address,
            credentials.password.clone(),
            credentials.code.as_ref(),
            &request.origin(),
        )
        .await;
    attempt.finish(&result).await;
    Ok(result?)
}

/// Ends the session, and redirects the browser to the sign-in page.
pub(super) async fn sign_out(state: &PageState, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let (visit, _) = Visit::of_form(state, request).await?;
        let auth = &visit.app.auth;
        auth.administrators
            .sign_out_administrator(&visit.administrator, request.origin())
            .await?;
        Ok(see_other(paths::SIGN_IN).with(header::SET_COOKIE, cookies(state).delete()?))
    };
    Box::pin(respond(request, page)).await
}

/// Renders the sign-in page. `address` and `rejection` are the email address and the error of the
/// previous attempt.
fn sign_in_page(
    state: &PageState,
    mut browser: Browser,
    address: &str,
    rejection: Option<&Rejection>,
) -> Result<Response, Refusal> {
    let (status, message) = match rejection {
        Some(refused) if refused.status == StatusCode::FORBIDDEN => {
            (refused.status, Some(refused.text.to_string()))
        }
        other => status_and_message(other),
    };
    // If the configuration has a default domain, users can enter a name without a domain. Browsers
    // reject such a name in a field of the type `email`.
    let kind = match state.app.config.sign_in.mailserver.default_domain.as_str() {
        "" => "email",
        _ => "text",
    };
    let body = html! {
        @if let Some(message) = message {
            p role="alert" { (message) }
        }
        form.narrow method="post" action=(paths::SIGN_IN) {
            (token(&browser.csrf))
            label for="email" { "Email address" }
            input #email type=(kind) name="email" value=(address) autocomplete="username" required maxlength="320" autocapitalize="none" spellcheck="false";
            label for="password" { "Password" }
            input #password type="password" name="password" autocomplete="current-password" required maxlength="1024";
            label for="code" { "Two-factor code" }
            p #code-hint .soft { "Six digits or a recovery code. This page needs two-factor sign-in." }
            input #code type="text" name="code" autocomplete="one-time-code" aria-describedby="code-hint" maxlength="64" autocapitalize="none" spellcheck="false" required[needs_code(rejection)];
            button.primary type="submit" { "Sign in" }
        }
    };
    let page = Shell {
        site: &SITE,
        status,
        title: "Sign in",
        section: None,
        notice: None,
        signed_in: None,
        body: &body,
    };
    let response = page.render(&state.app);
    let cookie = cookies(state).set(&mut browser)?;
    Ok(response.with(header::SET_COOKIE, cookie))
}
