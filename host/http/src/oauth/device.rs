//! `POST /auth/device` and `/device` (RFC 8628): a device without a browser shows a code of eight letters, and the user enters the code on the page and signs
//! in.
//!
//! An attacker can send their own code to a user (RFC 8628, section 5.4). Therefore a link alone never authorizes a device, the sign-in page names the
//! client, and the pages warn against codes from other people.

use http::StatusCode;
use latchmail_core::limits::Bucket;
use latchmail_oauth::device::{DeviceResponse, read_code, shown_code};
use latchmail_oauth::error::Refusal;
use latchmail_oauth::parameters::Parameters;
use maud::html;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::form::Browser;
use super::page::{Page, agreement, alert, credentials, described, named, within};
use super::sign_in::{Filled, checked, filled, once_more, opened, stale, told, wants_code};
use super::token::basic;
use super::{answer, refused};
use crate::App;
use crate::rejection::Rejection;
use crate::{Request, Response};

pub(super) const PATH: &str = "/auth/device";
pub(super) const PAGE: &str = "/device";

/// The state that the sign-in page carries in its form, after the user entered a valid code.
#[derive(Serialize, Deserialize)]
struct Known {
    user_code: String,
    client_id: String,
    client_name: String,
    scope: String,
}

/// A device authorization request (RFC 8628, section 3.1). Other fields are ignored.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described")]
struct DeviceForm {
    /// The client's id. Required unless the client authenticates in the Authorization header.
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// The client's secret, if it has one and does not send it in the Authorization header.
    #[schema(nullable = false, format = "password")]
    client_secret: Option<String>,
    /// The resource that the tokens are for (RFC 8707): a URL of this service.
    #[schema(nullable = false)]
    resource: Option<String>,
    /// The scopes that the client requests, separated by spaces. The default is all that it can be granted.
    #[schema(nullable = false)]
    scope: Option<String>,
}

/// Start a device authorization
///
/// RFC 8628. Returns `device_code`, `user_code` and the URL of the page where the user enters the code. The codes expire after ten minutes. Poll the token
/// endpoint every `interval` seconds.
#[utoipa::path(
    post,
    path = "/auth/device",
    operation_id = "beginDevice",
    tag = "Authorization",
    request_body(content = DeviceForm, content_type = "application/x-www-form-urlencoded", description = "The client, and the resource that the tokens are for"),
    responses(
        (
            status = 200,
            description = "The codes and the URL of the page",
            body = DeviceResponse,
            links(
                ("showDevice" = (operation_id = "showDevice", parameters(("user_code" = "$response.body#/user_code"))))
            )
        ),
        (status = 400, description = "`invalid_request`, `invalid_target` or `invalid_scope`", body = Refusal),
        (status = 401, description = "`invalid_client`", body = Refusal, headers(("WWW-Authenticate" = String, description = "`Basic`, if the client sent an Authorization header"))),
    )
)]
pub(super) async fn begin_device(app: &App, request: &Request) -> Result<Response, Rejection> {
    let basic = basic(&request.headers);
    let begun = async {
        let shown = basic.as_ref().map_err(Clone::clone)?;
        let parameters = Parameters::new(super::form(request)?);
        let shown = shown.as_ref().map(|(id, secret)| (&**id, &**secret));
        app.oauth.begin_device(&parameters, shown).await
    };
    match begun.await {
        Ok(device) => answer(StatusCode::OK, &device),
        Err(error) => refused(error, !matches!(basic, Ok(None))),
    }
}

/// Show the page for device codes
#[utoipa::path(
    get,
    path = "/device",
    operation_id = "showDevice",
    tag = "Authorization",
    params(("user_code" = Option<String>, Query, description = "The code that the page fills in")),
    responses(
        (status = 200, description = "The page", content_type = "text/html"),
        (status = 429, description = "A page: too many requests", content_type = "text/html"),
        (status = 500, description = "A page: the operation could not be completed", content_type = "text/html"),
    )
)]
pub(super) async fn show_device(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let typed = request.query("user_code").and_then(read_code);
        let typed = typed.as_deref().map(shown_code).unwrap_or_default();
        letters_page(app, &Browser::of(app, request)?, &typed, None)
    };
    within(app, request, Bucket::OAuth, page).await
}

/// The fields of the pages. The first page has `user_code`, the second has the others.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described")]
struct DevicePageForm {
    /// The hidden field of the page.
    request: String,
    /// The code that the device shows.
    #[schema(nullable = false)]
    user_code: Option<String>,
    /// `no` denies access to the device.
    #[schema(nullable = false)]
    answer: Option<String>,
    /// The account's address.
    #[schema(nullable = false)]
    email: Option<String>,
    /// The account's password.
    #[schema(nullable = false, format = "password")]
    password: Option<String>,
    /// The two-factor code.
    #[schema(nullable = false)]
    code: Option<String>,
}

/// Sign in for a device
///
/// Receives the forms of the pages: first the code of the device, then the credentials of the account.
#[utoipa::path(
    post,
    path = "/device",
    operation_id = "submitDevice",
    tag = "Authorization",
    request_body(content = DevicePageForm, content_type = "application/x-www-form-urlencoded", description = "The fields of the page"),
    responses(
        (status = 200, description = "The next page", content_type = "text/html"),
        (status = 400, description = "The page again: the email address or the password is malformed", content_type = "text/html"),
        (status = 403, description = "The page again: the code of the device or the credentials are incorrect. Or a page: the form has expired or belongs to another browser", content_type = "text/html"),
        (status = 429, description = "A page: too many requests or attempts", content_type = "text/html"),
        (status = 500, description = "A page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "A page: the mail server is starting or cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn submit_device(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let Some((browser, known, fields)) = opened::<Option<Known>>(app, PAGE, request) else {
            return stale(app);
        };
        let says_no = matches!(fields.one("answer"), Ok(Some("no")));
        match known {
            None => lettered(app, &browser, &fields).await,
            Some(known) if says_no => denied(app, &known).await,
            Some(known) => signed_in(app, request, &browser, &known, filled(&fields)).await,
        }
    };
    // Guesses of device codes have the same rate limit as guesses of passwords.
    within(app, request, Bucket::SignIn, page).await
}

/// Handles an entered code: shows the sign-in page if the code is valid, otherwise the page for codes again.
async fn lettered(
    app: &App,
    browser: &Browser,
    fields: &Parameters,
) -> Result<Response, Rejection> {
    let typed = fields.one("user_code").ok().flatten().unwrap_or("");
    let code = read_code(typed);
    let device = match &code {
        Some(code) => app.oauth.waiting_device(code).await?,
        None => None,
    };
    match code.zip(device) {
        Some((user_code, device)) => {
            let known = Known {
                user_code,
                client_id: device.client_id,
                client_name: device.client_name,
                scope: device.scope,
            };
            sign_in_page(app, browser, &known, "", None)
        }
        None => letters_page(
            app,
            browser,
            typed,
            Some("This code is invalid or has expired"),
        ),
    }
}

async fn denied(app: &App, known: &Known) -> Result<Response, Rejection> {
    if app.oauth.deny_device(&known.user_code).await? {
        return done(
            app,
            "Access denied",
            "The device cannot access your mailbox. You can close this page.",
        );
    }
    done(
        app,
        "This code is no longer valid",
        "The code has expired or was already used. If you signed in with this code and want to remove the access, change your password. This ends the access of all \
         applications to your mailbox.",
    )
}

async fn signed_in(
    app: &App,
    request: &Request,
    browser: &Browser,
    known: &Known,
    filled: Option<Filled>,
) -> Result<Response, Rejection> {
    let filled = filled.as_ref();
    let agreed: Result<(), Rejection> = async {
        let (address, filled, attempt) = checked(app, request, filled).await?;
        let (password, code) = (filled.password.clone(), filled.code.as_ref());
        let origin = request.origin();
        let agreed = app
            .oauth
            .agree_to_device(&known.user_code, &address, password, code, &origin)
            .await;
        attempt.finish(&agreed);
        Ok(agreed?)
    }
    .await;
    match agreed {
        Ok(()) => done(
            app,
            "Device connected",
            "Return to your device to continue. You can close this page.",
        ),
        Err(failure) if failure.status == StatusCode::NOT_FOUND => letters_page(
            app,
            browser,
            "",
            Some("This code is no longer valid. Start again on your device."),
        ),
        Err(failure) => once_more(failure, filled, |typed, failure| {
            sign_in_page(app, browser, known, typed, Some(failure))
        }),
    }
}

fn letters_page(
    app: &App,
    browser: &Browser,
    typed: &str,
    wrong: Option<&str>,
) -> Result<Response, Rejection> {
    let sealed = browser.seal(app, PAGE, None::<Known>)?;
    let page = Page {
        status: if wrong.is_some() {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::OK
        },
        title: "Connect a device",
        body: html! {
            (alert(wrong))
            p { "Enter the code that your device or application shows. Do not enter a code that someone sent you: it would give them access to your mailbox." }
            form method="post" action=(PAGE) {
                input type="hidden" name="request" value=(sealed);
                label for="user_code" { "Code" }
                input #user_code type="text" name="user_code" value=(typed) required maxlength="32" autocomplete="off" autocapitalize="characters" spellcheck="false" autofocus;
                button type="submit" { "Continue" }
            }
        },
        leads_to: None,
        browser: Some(browser),
    };
    page.reply(app)
}

fn sign_in_page(
    app: &App,
    browser: &Browser,
    known: &Known,
    address: &str,
    failure: Option<&Rejection>,
) -> Result<Response, Rejection> {
    let sealed = browser.seal(app, PAGE, Some(known))?;
    let (status, sentence) = told(failure);
    let page = Page {
        status,
        title: "Sign in to connect a device",
        body: html! {
            (alert(sentence.as_deref()))
            dl {
                dt { "Application" }
                dd { (named(&known.client_name)) }
                (described(&known.client_id))
                dt { "Code" }
                dd { (shown_code(&known.user_code)) }
            }
            (agreement(&known.scope, "you started this sign-in yourself and your device shows this code"))
            form method="post" action=(PAGE) {
                input type="hidden" name="request" value=(sealed);
                (credentials(address, wants_code(failure)))
                button type="submit" name="answer" value="yes" { "Sign in and allow" }
                button.quiet type="submit" name="answer" value="no" formnovalidate { "Deny" }
            }
        },
        leads_to: None,
        browser: Some(browser),
    };
    page.reply(app)
}

fn done(app: &App, title: &str, sentence: &str) -> Result<Response, Rejection> {
    let page = Page {
        status: StatusCode::OK,
        title,
        body: html! { p role="status" { (sentence) } },
        leads_to: None,
        browser: None,
    };
    page.reply(app)
}
