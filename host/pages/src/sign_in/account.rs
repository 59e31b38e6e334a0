//! `/account/sign-in`: the owner of an account signs in to the owner's page, with a password or at
//! the identity provider.

use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::html;
use serde::{Deserialize, Serialize};

use super::browser::{Browser, open_form};
use super::page::{Page, alert, expired_page};
use super::provider::{
    Destination, LoginHint, ProviderChoice, continue_at_provider, provider_sign_in,
};
use crate::account::{SIGN_IN, begin, has_session, local_path};
use crate::credentials::{
    Credentials, begin_attempt, fields, needs_code, read_credentials, show_again,
    status_and_message,
};
use crate::layout::see_other_to;

/// The state of the sign-in page.
#[derive(Serialize, Deserialize)]
struct AccountSignIn {
    /// The path of the owner's page to which the sign-in leads.
    next: String,
}

/// Shows the sign-in page. Redirects a user with a session to the page in the query parameter
/// `next`.
pub(crate) async fn show_account_sign_in(
    app: &App,
    request: &Request,
) -> Result<Response, Rejection> {
    let next = local_path(request.query("next"));
    if has_session(app, request).await? {
        return Ok(see_other_to(next)?);
    }
    let state = AccountSignIn { next: next.into() };
    let browser = Browser::get_or_create(app, request)?;
    sign_in_page(app, &browser, &state, "", None)
}

/// Receives the form of the sign-in page.
pub(crate) async fn submit_account_sign_in(
    app: &App,
    request: &Request,
) -> Result<Response, Rejection> {
    let Some((browser, state, fields)) = open_form::<AccountSignIn>(app, SIGN_IN, request) else {
        return expired_page(app);
    };
    if let Some(LoginHint(hint)) = provider_sign_in(app, &fields) {
        let destination = Destination::Account(state.next);
        return continue_at_provider(app, request.client, &browser, destination, hint.as_deref())
            .await;
    }
    let credentials = read_credentials(&fields);
    match sign_in(app, request, credentials.as_ref()).await {
        Ok(sid) => begin(app, sid, local_path(Some(&state.next))),
        Err(rejection) => show_again(rejection, credentials.as_ref(), |address, rejection| {
            sign_in_page(app, &browser, &state, address, Some(rejection))
        }),
    }
}

/// Verifies the credentials and starts a session. Returns the id of the session.
async fn sign_in(
    app: &App,
    request: &Request,
    credentials: Option<&Credentials>,
) -> Result<String, Rejection> {
    let (address, credentials, attempt) = begin_attempt(app, request, credentials).await?;
    let (password, code) = (credentials.password.clone(), credentials.code.as_ref());
    let origin = request.origin();
    let sessions = &app.auth.sessions;
    let result = sessions
        .sign_in_on_page(&address, password, code, &origin)
        .await;
    attempt.finish(&result).await;
    Ok(result?)
}

/// Renders the sign-in page. `address` and `rejection` are the email address and the error of the
/// previous attempt.
fn sign_in_page(
    app: &App,
    browser: &Browser,
    state: &AccountSignIn,
    address: &str,
    rejection: Option<&Rejection>,
) -> Result<Response, Rejection> {
    let sealed = browser.seal(app, SIGN_IN, state)?;
    let (status, message) = status_and_message(rejection);
    let choice = ProviderChoice::of(app);
    let page = Page {
        status,
        title: "Sign in to your account",
        body: html! {
            (alert(message.as_deref()))
            p { "Here you see and change agents, held mail, app passwords, sessions and aliases." }
            form method="post" action=(SIGN_IN) {
                input type="hidden" name="request" value=(sealed);
                @if choice.passwords {
                    (fields(app, address, needs_code(rejection)))
                    button type="submit" { "Sign in" }
                }
                (choice.button(""))
            }
        },
        form_action: choice.form_action(None),
        browser: Some(browser),
    };
    page.into_response(app)
}
