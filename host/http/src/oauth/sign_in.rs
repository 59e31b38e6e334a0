//! `/login`: the authorization endpoint (OAuth 2.1, section 4.1). A user signs in for a client and is redirected to it. The service never redirects before the
//! user acts on the page.

use http::{HeaderValue, StatusCode, header};
use latchmail_accounts::auth::passwords;
use latchmail_accounts::auth::sessions::CODE_REQUIRED;
use latchmail_core::address;
use latchmail_core::error::Failure;
use latchmail_core::limits::{Attempt, Bucket};
use latchmail_oauth::authorization::{Authorization, AuthorizationError};
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::redirect;
use latchmail_runtime::modules::Content;
use maud::html;
use secrecy::SecretString;
use utoipa::ToSchema;

use super::form::{self, Browser};
use super::page::{Page, agreement, alert, credentials, described, named, within};
use crate::App;
use crate::auth::login::attempt;
use crate::rejection::Rejection;
use crate::{Request, Response};

pub(super) const PATH: &str = "/login";

/// The credentials in a form, as the user typed them.
pub(super) struct Filled {
    /// The email address.
    pub(super) address: String,
    /// The password.
    pub(super) password: SecretString,
    /// The two-factor code. `None` if the field is empty.
    pub(super) code: Option<SecretString>,
}

/// Show the sign-in page for a client
///
/// The authorization endpoint. PKCE with `S256` is required. `redirect_uri` must be identical to a registered URI, except for the port of a loopback URL.
/// `resource` (RFC 8707) must be a URL of this service. The redirect to the client contains `iss` (RFC 9207).
#[utoipa::path(
    get,
    path = "/login",
    operation_id = "showSignIn",
    tag = "Authorization",
    params(
        ("client_id" = String, Query, description = "The client's id, or the URL of its metadata document"),
        ("redirect_uri" = Option<String>, Query, description = "The URI that the user is redirected to. Required if the client registered more than one"),
        ("response_type" = String, Query, pattern = "^code$", description = "`code`"),
        ("code_challenge" = String, Query, pattern = "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$", description = "SHA-256 of the verifier, in base64url"),
        ("code_challenge_method" = String, Query, pattern = "^S256$", description = "`S256`"),
        ("state" = Option<String>, Query, max_length = 2000, description = "Returned to the client unchanged"),
        ("resource" = Option<String>, Query, description = "The resource that the tokens are for"),
        ("scope" = Option<String>, Query, description = "The scopes that the client requests, separated by spaces. The default is all that it can be granted. Scopes that it cannot be granted are ignored. An unknown scope is rejected with `invalid_scope`")
    ),
    responses(
        (status = 200, description = "The page", content_type = "text/html"),
        (status = 400, description = "A page: the request is invalid", content_type = "text/html"),
        (status = 429, description = "A page: too many requests", content_type = "text/html"),
        (status = 500, description = "A page: the operation could not be completed", content_type = "text/html"),
    )
)]
pub(super) async fn show_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let parameters = Parameters::new(request.query.clone());
        match app.oauth.authorization(&parameters).await {
            Ok(wish) => asked(app, &Browser::of(app, request)?, &wish, "", None),
            Err(unfit) => unfit_page(app, unfit),
        }
    };
    within(app, request, Bucket::OAuth, page).await
}

/// The fields of the page.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only described")]
struct SignInForm {
    /// The hidden field of the page.
    request: String,
    /// The account's address.
    email: String,
    /// The account's password.
    #[schema(format = "password")]
    password: String,
    /// The two-factor code.
    #[schema(nullable = false)]
    code: Option<String>,
}

/// Sign in for a client
///
/// Receives the form of the page. Redirects the user to the client with a code that expires after one minute.
#[utoipa::path(
    post,
    path = "/login",
    operation_id = "submitSignIn",
    tag = "Authorization",
    request_body(content = SignInForm, content_type = "application/x-www-form-urlencoded", description = "The fields of the page"),
    responses(
        (
            status = 303,
            description = "The redirect to the client, with `code`, `state` and `iss`",
            headers(("Location" = String, description = "The client's redirect URI with the parameters"))
        ),
        (status = 400, description = "The page again: the email address or the password is malformed", content_type = "text/html"),
        (status = 403, description = "The page again: the credentials are incorrect. Or a page: the form has expired or belongs to another browser", content_type = "text/html"),
        (status = 429, description = "A page: too many requests or attempts", content_type = "text/html"),
        (status = 500, description = "A page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "A page: the mail server is starting or cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn submit_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = async {
        let Some((browser, wish, fields)) = opened::<Authorization>(app, PATH, request) else {
            return stale(app);
        };
        let filled = filled(&fields);
        match signing_in(app, request, &wish, filled.as_ref()).await {
            Ok(back) => sent_back(&back),
            Err(failure) => once_more(failure, filled.as_ref(), |typed, failure| {
                asked(app, &browser, &wish, typed, Some(failure))
            }),
        }
    };
    within(app, request, Bucket::SignIn, page).await
}

async fn signing_in(
    app: &App,
    request: &Request,
    wish: &Authorization,
    filled: Option<&Filled>,
) -> Result<String, Rejection> {
    let (address, filled, attempt) = checked(app, request, filled).await?;
    let code = filled.code.as_ref();
    let password = filled.password.clone();
    let agreed = app
        .oauth
        .agree(wish, &address, password, code, &request.origin())
        .await;
    attempt.finish(&agreed);
    Ok(agreed?)
}

/// Checks the format of the credentials and starts a sign-in attempt. Returns the normalized email address, the credentials and the attempt.
pub(super) async fn checked<'a>(
    app: &'a App,
    request: &Request,
    filled: Option<&'a Filled>,
) -> Result<(String, &'a Filled, Attempt<'a>), Rejection> {
    let filled = filled
        .filter(|filled| passwords::has_valid_length(&filled.password))
        .ok_or_else(|| Rejection::bad_request("Invalid email or password format"))?;
    let address = address::fold(filled.address.trim())
        .ok_or_else(|| Rejection::bad_request("Invalid email or password format"))?;
    let attempt = attempt(app, &address, request.client).await?;
    Ok((address, filled, attempt))
}

/// Shows the page again after a failed sign-in. Server errors are returned as they are.
pub(super) fn once_more(
    failure: Rejection,
    filled: Option<&Filled>,
    page: impl FnOnce(&str, &Rejection) -> Result<Response, Rejection>,
) -> Result<Response, Rejection> {
    if failure.status.is_server_error() {
        return Err(failure);
    }
    let typed = filled.map_or("", |filled| &filled.address);
    let mut reply = page(typed, &failure)?;
    reply.headers.extend(failure.headers);
    Ok(reply)
}

/// Opens a submitted form. Returns the browser, the state of the page and the fields, or `None` if the form has expired or belongs to another browser.
pub(super) fn opened<T: serde::de::DeserializeOwned>(
    app: &App,
    page: &str,
    request: &Request,
) -> Option<(Browser, T, Parameters)> {
    if !form::is_own(app, &request.headers) {
        return None;
    }
    let browser = Browser::known(app, request)?;
    let fields = Parameters::new(super::form(request).ok()?);
    let sealed = fields.one("request").ok()??;
    let what = browser.open(app, page, sealed)?;
    Some((browser, what, fields))
}

/// Returns the credentials of a form, or `None` if a field is missing or repeated.
pub(super) fn filled(fields: &Parameters) -> Option<Filled> {
    let code = fields.one("code").ok()?;
    Some(Filled {
        address: fields.one("email").ok()??.to_owned(),
        password: SecretString::from(fields.one("password").ok()??),
        code: code.map(SecretString::from),
    })
}

/// Renders the sign-in page, with the error of the previous attempt.
fn asked(
    app: &App,
    browser: &Browser,
    wish: &Authorization,
    address: &str,
    failure: Option<&Rejection>,
) -> Result<Response, Rejection> {
    let client = named(&wish.client_name);
    let leads = redirect::target(&wish.redirect_uri);
    let sealed = browser.seal(app, PATH, wish)?;
    let (status, sentence) = told(failure);
    let wants_code = wants_code(failure);
    let page = Page {
        status,
        title: "Sign in to give an application access to your mailbox",
        body: html! {
            (alert(sentence.as_deref()))
            dl {
                dt { "Application" }
                dd { (client) }
                (described(&wish.client_id))
                dt { "You will be redirected to" }
                dd { (leads) }
            }
            (agreement(&wish.scope, "you started this sign-in yourself"))
            form method="post" action=(PATH) {
                input type="hidden" name="request" value=(sealed);
                (credentials(address, wants_code))
                button type="submit" { "Sign in and allow" }
            }
            a.button.quiet href=(app.oauth.declined(wish)) rel="noreferrer" { "Cancel" }
        },
        leads_to: Some(redirect::form_action(&wish.redirect_uri)),
        browser: Some(browser),
    };
    page.reply(app)
}

/// Returns `true` if the sign-in failed only because the two-factor code is missing.
pub(super) fn wants_code(failure: Option<&Rejection>) -> bool {
    failure.is_some_and(|failure| failure.text == CODE_REQUIRED)
}

/// Returns the status and the error message of a page. Wrong credentials have the status 403, because a response with 401 requires a `WWW-Authenticate`
/// challenge and a form has none.
pub(super) fn told(failure: Option<&Rejection>) -> (StatusCode, Option<String>) {
    let Some(failure) = failure else {
        return (StatusCode::OK, None);
    };
    let (status, sentence) = match failure.status {
        StatusCode::UNAUTHORIZED if failure.text == CODE_REQUIRED => (
            StatusCode::FORBIDDEN,
            "Enter your two-factor code, and enter your password again",
        ),
        StatusCode::UNAUTHORIZED => (
            StatusCode::FORBIDDEN,
            "Incorrect email address, password or two-factor code",
        ),
        StatusCode::BAD_REQUEST => (
            StatusCode::BAD_REQUEST,
            "Enter your full email address and your password",
        ),
        status => (status, &*failure.text),
    };
    (status, Some(sentence.to_owned()))
}

/// Renders the response to a form that has expired or belongs to another browser.
pub(super) fn stale(app: &App) -> Result<Response, Rejection> {
    let page = Page {
        status: StatusCode::FORBIDDEN,
        title: "This page has expired",
        body: html! {
            p role="alert" { "You opened the page too long ago, in another browser or at another URL of this service, or your browser blocks cookies. Return to the application and start again." }
        },
        leads_to: None,
        browser: None,
    };
    page.reply(app)
}

/// Renders the error page for an invalid authorization request.
fn unfit_page(app: &App, unfit: AuthorizationError) -> Result<Response, Rejection> {
    let (why, back) = match unfit {
        AuthorizationError::Failed(failure) => return Err(failure.into()),
        AuthorizationError::NotRedirectable(why) => (why, None),
        AuthorizationError::Redirectable {
            client_name,
            address,
            refusal,
        } => (
            refusal.description.into_owned(),
            Some((client_name, address)),
        ),
    };
    let page = Page {
        status: StatusCode::BAD_REQUEST,
        title: "The application sent an invalid request",
        body: html! {
            p role="alert" { (why) "." }
            @if let Some((client, address)) = &back {
                a.button.quiet href=(address) rel="noreferrer" { "Return to " (named(client)) }
            } @else {
                p { "Return to the application and report this error to its developer." }
            }
        },
        leads_to: None,
        browser: None,
    };
    page.reply(app)
}

/// Redirects to the client.
fn sent_back(address: &str) -> Result<Response, Rejection> {
    let mut reply = Response {
        status: StatusCode::SEE_OTHER,
        headers: http::HeaderMap::new(),
        body: Content::Bytes(bytes::Bytes::new()),
    };
    let location = HeaderValue::from_str(address).map_err(Failure::internal)?;
    reply.headers.insert(header::LOCATION, location);
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        reply.headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(reply)
}
