//! `POST /auth/device` and `/device` (RFC 8628): a device without a browser shows eight letters, which its person types here and signs in.
//!
//! Whoever is talked into typing somebody else's letters lets them in: so nothing is agreed to by following a link alone, the client is named before
//! anybody signs in, and the page says whose letters these have to be.

use http::StatusCode;
use maud::html;
use serde::{Deserialize, Serialize};

use super::form::Browser;
use super::page::{self, Page, alert, counted, credentials, described, named};
use super::sign_in::{Filled, checked, filled, opened, stale, told, wants_code};
use super::token::basic;
use super::{answer, refused};
use crate::app::App;
use crate::error::Failure;
use crate::http::{Reply, Request};
use crate::limits::{Area, Key};
use crate::oauth::device::{read_code, shown_code};
use crate::oauth::parameters::Parameters;

pub(super) const PATH: &str = "/auth/device";
pub(super) const PAGE: &str = "/device";

/// What the pages keep from one to the next.
#[derive(Serialize, Deserialize)]
struct Waiting {
    /// Which device it is; none before it is known.
    device: Option<Known>,
}

#[derive(Serialize, Deserialize)]
struct Known {
    user_code: String,
    client_id: String,
    client_name: String,
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
    request_body(content = Value, content_type = "application/x-www-form-urlencoded", description = "`client_id`, and `resource`"),
    responses(
        (status = 200, description = "What the device shows, and what it asks with", body = Value),
        (status = 400, description = "`invalid_request` or `invalid_target`", body = ref("#/components/schemas/Error")),
        (status = 401, description = "`invalid_client`", body = ref("#/components/schemas/Error")),
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
    responses((status = 200, description = "The page", content_type = "text/html"))
)]
#[expect(clippy::unused_async, reason = "all handlers are called alike")]
pub(super) async fn show_device(app: &App, request: &Request) -> Result<Reply, Failure> {
    let key = Key::client(request.client);
    let verdict = match app.http.limits.check(Area::OAuth, &key).admit() {
        Ok(verdict) => verdict,
        Err(failure) => return page::failed(app, &failure),
    };
    let browser = Browser::of(app, request)?;
    let typed = request.query("user_code").and_then(read_code);
    let typed = typed.as_deref().map(shown_code).unwrap_or_default();
    let reply = letters_page(app, &browser, &typed, None)?;
    Ok(counted(reply, &verdict))
}

/// Sign in for a device
///
/// What the pages send: the letters first, then who signs in.
#[utoipa::path(
    post,
    path = "/device",
    operation_id = "submitDevice",
    tag = "Authorization",
    request_body(content = String, content_type = "application/x-www-form-urlencoded", description = "What the page holds, and what was filled in"),
    responses(
        (status = 200, description = "The next page", content_type = "text/html"),
        (status = 403, description = "The page once more: what was filled in is not right", content_type = "text/html"),
    )
)]
pub(super) async fn submit_device(app: &App, request: &Request) -> Result<Reply, Failure> {
    let key = Key::client(request.client);
    // Whoever guesses letters is as slow as who guesses passwords.
    let verdict = match app.http.limits.check(Area::SignIn, &key).admit() {
        Ok(verdict) => verdict,
        Err(failure) => return page::failed(app, &failure),
    };
    let Some((browser, waiting, fields)) = opened::<Waiting>(app, PAGE, request) else {
        return Ok(counted(stale(app)?, &verdict));
    };
    let reply = match waiting.device {
        None => lettered(app, &browser, &fields).await,
        Some(known) if matches!(fields.one("answer"), Ok(Some("no"))) => denied(app, &known).await,
        Some(known) => signed_in(app, request, &browser, &known, filled(&fields).as_ref()).await,
    };
    let reply = reply.or_else(|failure| page::failed(app, &failure))?;
    Ok(counted(reply, &verdict))
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
    filled: Option<&Filled>,
) -> Result<Reply, Failure> {
    let agreed = async {
        let (address, filled) = checked(app, filled)?;
        let (password, code) = (filled.password.clone(), filled.code.as_ref());
        let origin = request.origin();
        app.oauth
            .agree_to_device(&known.user_code, &address, password, code, &origin)
            .await
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
        Err(failure) if failure.status.is_server_error() => Err(failure),
        Err(failure) => {
            let typed = filled.map_or("", |filled| &filled.address);
            let mut reply = sign_in_page(app, browser, known, typed, Some(&failure))?;
            reply.headers.extend(failure.headers);
            Ok(reply)
        }
    }
}

fn letters_page(
    app: &App,
    browser: &Browser,
    typed: &str,
    wrong: Option<&str>,
) -> Result<Reply, Failure> {
    let sealed = browser.seal(app, PAGE, Waiting { device: None })?;
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
    let kept = Waiting {
        device: Some(Known {
            user_code: known.user_code.clone(),
            client_id: known.client_id.clone(),
            client_name: known.client_name.clone(),
        }),
    };
    let sealed = browser.seal(app, PAGE, kept)?;
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
            p { "It will be able to read, flag, move and delete your mail and to add aliases" @if app.config.mcp.send_tool { ", and to send mail as you" } ". Continue only if it is in front of you and you started this yourself." }
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
