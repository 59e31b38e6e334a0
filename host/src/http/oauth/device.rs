//! `POST /auth/device` and `/device` (RFC 8628): a device without a browser shows eight letters, which its person types here and signs in.
//!
//! Whoever is talked into typing somebody else's letters lets them in: so nothing is agreed to by following a link alone, the client is named before
//! anybody signs in, and the page says whose letters these have to be.

use http::StatusCode;
use maud::html;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::form::Browser;
use super::page::{Page, agreement, alert, credentials, described, named, within};
use super::sign_in::{Filled, checked, filled, once_more, opened, stale, told, wants_code};
use super::token::basic;
use super::{answer, refused};
use crate::app::App;
use crate::error::Failure;
use crate::http::{Reply, Request};
use crate::limits::Area;
use crate::oauth::device::{Answer, read_code, shown_code};
use crate::oauth::error::Refusal;
use crate::oauth::parameters::Parameters;

pub(super) const PATH: &str = "/auth/device";
pub(super) const PAGE: &str = "/device";

/// What the pages keep from one to the next, once it is known which device it is.
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
    /// The resource that the tokens are for (RFC 8707): an address of this service.
    #[schema(nullable = false)]
    resource: Option<String>,
    /// The scopes that the client requests, separated by spaces. All that it can be granted if absent.
    #[schema(nullable = false)]
    scope: Option<String>,
}

/// Let a device begin to wait
///
/// RFC 8628: answers `device_code`, `user_code` and where the person goes with that, which is good for ten minutes. Ask the token endpoint every `interval`
/// seconds.
#[utoipa::path(
    post,
    path = "/auth/device",
    operation_id = "beginDevice",
    tag = "Authorization",
    request_body(content = DeviceForm, content_type = "application/x-www-form-urlencoded", description = "The client, and the resource that the tokens are for"),
    responses(
        (
            status = 200,
            description = "What the device shows, and what it asks with",
            body = Answer,
            links(
                ("showDevice" = (operation_id = "showDevice", parameters(("user_code" = "$response.body#/user_code"))))
            )
        ),
        (status = 400, description = "`invalid_request`, `invalid_target` or `invalid_scope`", body = Refusal),
        (status = 401, description = "`invalid_client`", body = Refusal, headers(("WWW-Authenticate" = String, description = "`Basic`, if the client sent an Authorization header"))),
    )
)]
pub(super) async fn begin_device(app: &App, request: &Request) -> Result<Reply, Failure> {
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

/// Ask for a device's letters
#[utoipa::path(
    get,
    path = "/device",
    operation_id = "showDevice",
    tag = "Authorization",
    params(("user_code" = Option<String>, Query, description = "Filled in where it is given")),
    responses(
        (status = 200, description = "The page", content_type = "text/html"),
        (status = 429, description = "A page: too many requests", content_type = "text/html"),
        (status = 500, description = "A page: the operation could not be completed", content_type = "text/html"),
    )
)]
pub(super) async fn show_device(app: &App, request: &Request) -> Result<Reply, Failure> {
    let page = async {
        let typed = request.query("user_code").and_then(read_code);
        let typed = typed.as_deref().map(shown_code).unwrap_or_default();
        letters_page(app, &Browser::of(app, request)?, &typed, None)
    };
    within(app, request, Area::OAuth, page).await
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
    /// `no` rejects the device.
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
/// What the pages send: the letters first, then who signs in.
#[utoipa::path(
    post,
    path = "/device",
    operation_id = "submitDevice",
    tag = "Authorization",
    request_body(content = DevicePageForm, content_type = "application/x-www-form-urlencoded", description = "What the page holds, and what was filled in"),
    responses(
        (status = 200, description = "The next page", content_type = "text/html"),
        (status = 400, description = "The page again: the address or the password cannot be one", content_type = "text/html"),
        (status = 403, description = "The page once more: what was filled in is not right", content_type = "text/html"),
        (status = 429, description = "A page: too many requests or attempts", content_type = "text/html"),
        (status = 500, description = "A page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "A page: the mail server is starting or cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn submit_device(app: &App, request: &Request) -> Result<Reply, Failure> {
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
    // Whoever guesses letters is as slow as who guesses passwords.
    within(app, request, Area::SignIn, page).await
}

/// Letters were typed: the client is named, and somebody is asked to sign in.
async fn lettered(app: &App, browser: &Browser, fields: &Parameters) -> Result<Reply, Failure> {
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
        None => letters_page(app, browser, typed, Some("No device waits with this code")),
    }
}

async fn denied(app: &App, known: &Known) -> Result<Reply, Failure> {
    if app.oauth.deny_device(&known.user_code).await? {
        return done(
            app,
            "It was not let in",
            "The application was told no. You can close this page.",
        );
    }
    done(
        app,
        "Nothing waits any more",
        "Nobody waits with this code: it is too old, or somebody signed in with it and it is in use. If that was you and you regret it, change your password: that ends what \
         applications may do in your mailbox.",
    )
}

async fn signed_in(
    app: &App,
    request: &Request,
    browser: &Browser,
    known: &Known,
    filled: Option<Filled>,
) -> Result<Reply, Failure> {
    let filled = filled.as_ref();
    let agreed = async {
        let (address, filled, attempt) = checked(app, request, filled).await?;
        let (password, code) = (filled.password.clone(), filled.code.as_ref());
        let origin = request.origin();
        let agreed = app
            .oauth
            .agree_to_device(&known.user_code, &address, password, code, &origin)
            .await;
        attempt.settle(&agreed);
        agreed
    };
    match agreed.await {
        Ok(()) => done(
            app,
            "It is let in",
            "Go back to the device; it goes on by itself. You can close this page.",
        ),
        Err(failure) if failure.status == StatusCode::NOT_FOUND => letters_page(
            app,
            browser,
            "",
            Some("No device waits with this code any more"),
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
) -> Result<Reply, Failure> {
    let sealed = browser.seal(app, PAGE, None::<Known>)?;
    let page = Page {
        status: if wrong.is_some() {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::OK
        },
        title: "Let a device use your mailbox",
        body: html! {
            (alert(wrong))
            p { "Type the letters that your own device or program shows. Letters that somebody sent you let them into your mailbox." }
            form method="post" action=(PAGE) {
                input type="hidden" name="request" value=(sealed);
                label for="user_code" { "Code" }
                input #user_code type="text" name="user_code" value=(typed) required maxlength="32" autocomplete="off" autocapitalize="characters" spellcheck="false" autofocus;
                button type="submit" { "Go on" }
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
    failure: Option<&Failure>,
) -> Result<Reply, Failure> {
    let sealed = browser.seal(app, PAGE, Some(known))?;
    let (status, sentence) = told(failure);
    let page = Page {
        status,
        title: "Sign in to let a device use your mailbox",
        body: html! {
            (alert(sentence.as_deref()))
            dl {
                dt { "Application" }
                dd { (named(&known.client_name)) }
                (described(&known.client_id))
                dt { "It shows" }
                dd { (shown_code(&known.user_code)) }
            }
            (agreement(&known.scope, "it is in front of you and you started this yourself"))
            form method="post" action=(PAGE) {
                input type="hidden" name="request" value=(sealed);
                (credentials(address, wants_code(failure)))
                button type="submit" name="answer" value="yes" { "Sign in and allow" }
                button.quiet type="submit" name="answer" value="no" formnovalidate { "I did not start this" }
            }
        },
        leads_to: None,
        browser: Some(browser),
    };
    page.reply(app)
}

fn done(app: &App, title: &str, sentence: &str) -> Result<Reply, Failure> {
    let page = Page {
        status: StatusCode::OK,
        title,
        body: html! { p role="status" { (sentence) } },
        leads_to: None,
        browser: None,
    };
    page.reply(app)
}
