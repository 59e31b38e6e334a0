//! `/device` (RFC 8628): sign-in for a device without a browser. The device shows a code of eight
//! letters. The user enters the code on the page `/device`, and signs in on the next page.
//!
//! An attacker can send the code of the attacker's own device to a user (RFC 8628, section 5.4).
//! Therefore a link alone never authorizes a device: the user must also submit the code and the
//! credentials. The sign-in page shows the name of the client, and the pages warn against codes
//! from other people.

use http::StatusCode;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_oauth::device::{read_code, shown_code};
use latchmail_oauth::parameters::Parameters;
use maud::html;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::browser::{Browser, open_form};
use super::page::{Page, alert, client_url, consent, display_name, expired_page};
use super::provider::{
    Destination, LoginHint, ProviderChoice, continue_at_provider, provider_sign_in,
};
use crate::credentials::{
    Credentials, begin_attempt, fields, needs_code, read_credentials, show_again,
    status_and_message,
};

pub(super) const PAGE: &str = "/device";

/// The state of the sign-in page, which appears after the user has entered a valid code.
#[derive(Serialize, Deserialize)]
struct DeviceRequest {
    user_code: String,
    client_id: String,
    client_name: String,
    scope: String,
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
        (status = 429, description = "An error page: too many requests", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
    )
)]
#[expect(clippy::unused_async, reason = "handlers are asynchronous")]
pub(super) async fn show_device(app: &App, request: &Request) -> Result<Response, Rejection> {
    let code = request.query("user_code").and_then(read_code);
    let code = code.as_deref().map(shown_code).unwrap_or_default();
    code_page(app, &Browser::get_or_create(app, request)?, &code, None)
}

/// The fields of the two forms. The first form has `request` and `user_code`. The second form has
/// `request` and the other fields.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct DevicePageForm {
    /// The value of the hidden field of the page.
    request: String,
    /// The code that the device shows.
    #[schema(nullable = false)]
    user_code: Option<String>,
    /// The value `no` denies the device access.
    #[schema(nullable = false)]
    answer: Option<String>,
    /// The account's email address.
    #[schema(nullable = false)]
    email: Option<String>,
    /// The account's password.
    #[schema(nullable = false, format = "password")]
    password: Option<String>,
    /// The two-factor code.
    #[schema(nullable = false)]
    code: Option<String>,
    /// Any value continues the sign-in at the identity provider. Present only if users sign in
    /// there.
    #[schema(nullable = false)]
    provider: Option<String>,
}

/// Sign in for a device
///
/// Receives the forms of both pages. The first form contains the code of the device, and the second
/// form contains the credentials of the account.
#[utoipa::path(
    post,
    path = "/device",
    operation_id = "submitDevice",
    tag = "Authorization",
    request_body(content = DevicePageForm, content_type = "application/x-www-form-urlencoded", description = "The fields of the page"),
    responses(
        (status = 200, description = "The next page", content_type = "text/html"),
        (
            status = 303,
            description = "The redirect to the identity provider",
            headers(("Location" = String, description = "The URL of the sign-in at the identity provider"))
        ),
        (status = 400, description = "The page again, because the email address or the password is malformed", content_type = "text/html"),
        (status = 403, description = "The page again if the code of the device or the credentials are incorrect, or an error page if the form has expired or belongs to another browser", content_type = "text/html"),
        (status = 429, description = "An error page: too many requests or attempts", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "An error page: the mail server is starting or cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn submit_device(app: &App, request: &Request) -> Result<Response, Rejection> {
    let Some((browser, device_request, fields)) =
        open_form::<Option<DeviceRequest>>(app, PAGE, request)
    else {
        return expired_page(app);
    };
    let is_denied = matches!(fields.one("answer"), Ok(Some("no")));
    match device_request {
        None => submit_code(app, &browser, &fields).await,
        Some(device_request) if is_denied => deny(app, &device_request).await,
        Some(device_request) => {
            if let Some(LoginHint(hint)) = provider_sign_in(app, &fields) {
                let destination = Destination::Device(device_request.user_code);
                return continue_at_provider(
                    app,
                    request.client,
                    &browser,
                    destination,
                    hint.as_deref(),
                )
                .await;
            }
            let credentials = read_credentials(&fields);
            allow(app, request, &browser, &device_request, credentials).await
        }
    }
}

/// Handles the code that the user entered. Renders the sign-in page if the code is valid. Otherwise
/// renders the page on which the user enters the code again, with an error.
async fn submit_code(
    app: &App,
    browser: &Browser,
    fields: &Parameters,
) -> Result<Response, Rejection> {
    let input = fields.one("user_code").ok().flatten().unwrap_or("");
    let code = read_code(input);
    let device = match &code {
        Some(code) => app.oauth.waiting_device(code).await?,
        None => None,
    };
    match code.zip(device) {
        Some((user_code, device)) => {
            let device_request = DeviceRequest {
                user_code,
                client_id: device.client_id,
                client_name: device.client_name,
                scope: device.scope,
            };
            sign_in_page(app, browser, &device_request, "", None)
        }
        None => code_page(
            app,
            browser,
            input,
            Some("This code is invalid or has expired"),
        ),
    }
}

async fn deny(app: &App, device_request: &DeviceRequest) -> Result<Response, Rejection> {
    if app.oauth.deny_device(&device_request.user_code).await? {
        return result_page(
            app,
            "Access denied",
            "The device cannot access your mailbox. You can close this page.",
        );
    }
    result_page(
        app,
        "This code is no longer valid",
        "The code has expired or was already used. If you signed in with this code and want to remove the access, change your password. This ends the access of all \
         applications to your mailbox.",
    )
}

/// Signs the user in, and authorizes the device.
async fn allow(
    app: &App,
    request: &Request,
    browser: &Browser,
    device_request: &DeviceRequest,
    credentials: Option<Credentials>,
) -> Result<Response, Rejection> {
    let credentials = credentials.as_ref();
    let result: Result<(), Rejection> = async {
        let (address, credentials, attempt) = begin_attempt(app, request, credentials).await?;
        let (password, code) = (credentials.password.clone(), credentials.code.as_ref());
        let origin = request.origin();
        let result = app
            .oauth
            .agree_to_device(&device_request.user_code, &address, password, code, &origin)
            .await;
        attempt.finish(&result).await;
        Ok(result?)
    }
    .await;
    match result {
        Ok(()) => connected_page(app),
        Err(rejection) if rejection.status == StatusCode::NOT_FOUND => code_page(
            app,
            browser,
            "",
            Some("This code is no longer valid. Start again on your device."),
        ),
        Err(rejection) => show_again(rejection, credentials, |address, rejection| {
            sign_in_page(app, browser, device_request, address, Some(rejection))
        }),
    }
}

/// Renders the page on which the user enters the code. `code` and `error` are the input and the
/// error of the previous attempt.
fn code_page(
    app: &App,
    browser: &Browser,
    code: &str,
    error: Option<&str>,
) -> Result<Response, Rejection> {
    let sealed = browser.seal(app, PAGE, None::<DeviceRequest>)?;
    let page = Page {
        status: if error.is_some() {
            StatusCode::FORBIDDEN
        } else {
            StatusCode::OK
        },
        title: "Connect a device",
        body: html! {
            (alert(error))
            p { "Enter the code that your device or application shows. Do not enter a code that someone sent you: it would give them access to your mailbox." }
            form method="post" action=(PAGE) {
                input type="hidden" name="request" value=(sealed);
                label for="user_code" { "Code" }
                input #user_code type="text" name="user_code" value=(code) required maxlength="32" autocomplete="off" autocapitalize="characters" spellcheck="false" autofocus;
                button type="submit" { "Continue" }
            }
        },
        form_action: None,
        browser: Some(browser),
    };
    page.into_response(app)
}

/// Renders the sign-in page. `address` and `rejection` are the email address and the error of the
/// previous attempt.
fn sign_in_page(
    app: &App,
    browser: &Browser,
    device_request: &DeviceRequest,
    address: &str,
    rejection: Option<&Rejection>,
) -> Result<Response, Rejection> {
    let sealed = browser.seal(app, PAGE, Some(device_request))?;
    let (status, message) = status_and_message(rejection);
    let choice = ProviderChoice::of(app);
    let page = Page {
        status,
        title: "Sign in to connect a device",
        body: html! {
            (alert(message.as_deref()))
            dl {
                dt { "Application" }
                dd { (display_name(&device_request.client_name)) }
                (client_url(&device_request.client_id))
                dt { "Code" }
                dd { (shown_code(&device_request.user_code)) }
            }
            (consent(app, &device_request.scope, "you started this sign-in yourself and your device shows this code"))
            form method="post" action=(PAGE) {
                input type="hidden" name="request" value=(sealed);
                @if choice.passwords {
                    (fields(app, address, needs_code(rejection)))
                    button type="submit" name="answer" value="yes" { "Sign in and allow" }
                }
                (choice.button(" and allow"))
                button.quiet type="submit" name="answer" value="no" formnovalidate { "Deny" }
            }
        },
        form_action: choice.form_action(None),
        browser: Some(browser),
    };
    page.into_response(app)
}

/// Renders the page after the user has authorized a device.
pub(super) fn connected_page(app: &App) -> Result<Response, Rejection> {
    result_page(
        app,
        "Device connected",
        "Return to your device to continue. You can close this page.",
    )
}

/// Renders a page with a message and without a form.
fn result_page(app: &App, title: &str, message: &str) -> Result<Response, Rejection> {
    let page = Page {
        status: StatusCode::OK,
        title,
        body: html! { p role="status" { (message) } },
        form_action: None,
        browser: None,
    };
    page.into_response(app)
}
