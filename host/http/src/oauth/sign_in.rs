//! `/login`: the authorization endpoint (OAuth 2.1, section 4.1). A user signs in on behalf of a
//! client, and the service redirects the user to the client. The service redirects only after the
//! user has submitted the page.

use http::{HeaderValue, StatusCode, header};
use latchmail_accounts::auth::passwords;
use latchmail_accounts::auth::verifier::CODE_REQUIRED;
use latchmail_core::error::Failure;
use latchmail_core::limits::Attempt;
use latchmail_oauth::authorization::{Authorization, AuthorizationError};
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::redirect;
use latchmail_runtime::modules::Content;
use maud::html;
use secrecy::SecretString;
use utoipa::ToSchema;

use super::form_state::{self, Browser};
use super::page::{Page, alert, client_url, consent, credentials, display_name};
use super::protocol;
use super::single_sign_on::{Destination, ProviderChoice, continue_at_provider};
use crate::app::App;
use crate::auth::login::start_attempt;
use crate::message::{Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/login";

/// The unchecked credentials from a submitted form.
pub(crate) struct Credentials {
    /// The email address.
    pub(crate) address: String,
    pub(crate) password: SecretString,
    /// The two-factor code. `None` if the field is empty.
    pub(crate) code: Option<SecretString>,
}

/// Show the sign-in page for a client
///
/// This is the authorization endpoint. PKCE with `S256` is required. `redirect_uri` must be
/// identical to a registered URI, except for the port of a loopback URL. `resource` (RFC 8707) must
/// be a URL of this service. The redirect to the client contains `iss` (RFC 9207).
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
        ("scope" = Option<String>, Query, description = "The scopes that the client requests, separated by spaces. The default is all scopes that the client can be granted. Unknown scopes and scopes that the client cannot be granted are ignored. If no other scope remains, the request is rejected with `invalid_scope`")
    ),
    responses(
        (status = 200, description = "The page", content_type = "text/html"),
        (status = 400, description = "An error page: the request is invalid", content_type = "text/html"),
        (status = 429, description = "An error page: too many requests", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
    )
)]
pub(super) async fn show_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let parameters = Parameters::new(request.query.clone());
    match app.oauth.authorization(&parameters).await {
        Ok(authorization) => {
            let browser = Browser::get_or_create(app, request)?;
            sign_in_page(app, &browser, &authorization, "", None)
        }
        Err(error) => invalid_request_page(app, error),
    }
}

/// The fields of the sign-in form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct SignInForm {
    /// The value of the hidden field of the page.
    request: String,
    /// The account's email address.
    email: String,
    /// The account's password.
    #[schema(format = "password")]
    password: String,
    /// The two-factor code.
    #[schema(nullable = false)]
    code: Option<String>,
    /// Any value continues the sign-in at the identity provider. Present only if users sign in
    /// there.
    #[schema(nullable = false)]
    provider: Option<String>,
}

/// Sign in for a client
///
/// Receives the form of the sign-in page. Redirects the user to the client with an authorization
/// code that expires after one minute, or to the identity provider.
#[utoipa::path(
    post,
    path = "/login",
    operation_id = "submitSignIn",
    tag = "Authorization",
    request_body(content = SignInForm, content_type = "application/x-www-form-urlencoded", description = "The fields of the page"),
    responses(
        (
            status = 303,
            description = "The redirect to the client, with `code`, `state` and `iss`, or to the identity provider",
            headers(("Location" = String, description = "The client's redirect URI with the parameters, or the URL of the sign-in at the identity provider"))
        ),
        (status = 400, description = "The page again, because the email address or the password is malformed", content_type = "text/html"),
        (status = 403, description = "The sign-in page again if the credentials are incorrect, or an error page if the form has expired or belongs to another browser", content_type = "text/html"),
        (status = 429, description = "An error page: too many requests or attempts", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "An error page: the mail server is starting or cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn submit_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let Some((browser, authorization, fields)) = open_form::<Authorization>(app, PATH, request)
    else {
        return expired_page(app);
    };
    if let Some(LoginHint(hint)) = provider_sign_in(app, &fields) {
        let destination = Destination::Agent(authorization);
        return continue_at_provider(app, request.client, &browser, destination, hint.as_deref())
            .await;
    }
    let credentials = read_credentials(&fields);
    match sign_in(app, request, &authorization, credentials.as_ref()).await {
        Ok(url) => redirect_to(&url),
        Err(rejection) => show_again(rejection, credentials.as_ref(), |address, rejection| {
            sign_in_page(app, &browser, &authorization, address, Some(rejection))
        }),
    }
}

/// The address that a user entered before the sign-in at the identity provider. `None` if the user
/// pressed the button of the provider.
pub(super) struct LoginHint(pub(super) Option<String>);

/// Returns a value if the submitted form continues at the identity provider, because the user
/// pressed the button of the provider or entered an address of a user of the provider.
pub(super) fn provider_sign_in(app: &App, fields: &Parameters) -> Option<LoginHint> {
    app.auth.single_sign_on.provider()?;
    if matches!(fields.one("provider"), Ok(Some(_))) {
        return Some(LoginHint(None));
    }
    let entered = fields.one("email").ok()??;
    let address = app.auth.sign_in_address(entered.trim())?;
    let is_at_provider = app.auth.single_sign_on.is_at_provider(&address);
    is_at_provider.then_some(LoginHint(Some(address)))
}

/// Signs the user in and authorizes the client. Returns the URL for the redirect to the client.
async fn sign_in(
    app: &App,
    request: &Request,
    authorization: &Authorization,
    credentials: Option<&Credentials>,
) -> Result<String, Rejection> {
    let (address, credentials, attempt) = begin_attempt(app, request, credentials).await?;
    let code = credentials.code.as_ref();
    let password = credentials.password.clone();
    let result = app
        .oauth
        .agree(authorization, &address, password, code, &request.origin())
        .await;
    attempt.finish(&result).await;
    Ok(result?)
}

/// Checks the format of the credentials, and starts a sign-in attempt. Returns the normalized email
/// address, the credentials and the attempt.
///
/// # Errors
/// Returns 400 if the address or the password is malformed, and 429 if there were too many failed
/// attempts for the address.
pub(crate) async fn begin_attempt<'a>(
    app: &'a App,
    request: &Request,
    credentials: Option<&'a Credentials>,
) -> Result<(String, &'a Credentials, Attempt<'a>), Rejection> {
    let credentials = credentials
        .filter(|credentials| passwords::has_valid_length(&credentials.password))
        .ok_or_else(|| Rejection::bad_request("Invalid email or password format"))?;
    let address = app
        .auth
        .sign_in_address(credentials.address.trim())
        .ok_or_else(|| Rejection::bad_request("Invalid email or password format"))?;
    let attempt = start_attempt(app, &address, request.client).await?;
    Ok((address, credentials, attempt))
}

/// Renders the sign-in page again after a failed sign-in. The page contains the email address that
/// the user entered.
///
/// # Errors
/// Returns `rejection` unchanged if it is a server error.
pub(super) fn show_again(
    rejection: Rejection,
    credentials: Option<&Credentials>,
    page: impl FnOnce(&str, &Rejection) -> Result<Response, Rejection>,
) -> Result<Response, Rejection> {
    if rejection.status.is_server_error() {
        return Err(rejection);
    }
    let address = credentials.map_or("", |credentials| &credentials.address);
    let mut response = page(address, &rejection)?;
    response.headers.extend(rejection.headers);
    Ok(response)
}

/// Reads a submitted form. Returns the browser, the state of the page and the fields of the form.
/// Returns `None` if the form has expired or belongs to another browser.
pub(super) fn open_form<T: serde::de::DeserializeOwned>(
    app: &App,
    page: &str,
    request: &Request,
) -> Option<(Browser, T, Parameters)> {
    if !form_state::is_same_origin(app, &request.headers) {
        return None;
    }
    let browser = Browser::from_cookie(app, request)?;
    let fields = Parameters::new(protocol::form(request).ok()?);
    let sealed = fields.one("request").ok()??;
    let page_state = browser.open(app, page, sealed)?;
    Some((browser, page_state, fields))
}

/// Returns the credentials in a form. Returns `None` if a required field is missing or if a field
/// is repeated.
pub(crate) fn read_credentials(fields: &Parameters) -> Option<Credentials> {
    let code = fields.one("code").ok()?;
    Some(Credentials {
        address: fields.one("email").ok()??.to_owned(),
        password: SecretString::from(fields.one("password").ok()??),
        code: code.map(SecretString::from),
    })
}

/// Renders the sign-in page. `address` and `rejection` are the email address and the error of the
/// previous attempt.
fn sign_in_page(
    app: &App,
    browser: &Browser,
    authorization: &Authorization,
    address: &str,
    rejection: Option<&Rejection>,
) -> Result<Response, Rejection> {
    let client = display_name(&authorization.client_name);
    let target = redirect::target(&authorization.redirect_uri);
    let sealed = browser.seal(app, PATH, authorization)?;
    let (status, message) = status_and_message(rejection);
    let choice = ProviderChoice::of(app);
    let page = Page {
        status,
        title: "Sign in to give an application access to your mailbox",
        body: html! {
            (alert(message.as_deref()))
            dl {
                dt { "Application" }
                dd { (client) }
                (client_url(&authorization.client_id))
                dt { "You will be redirected to" }
                dd { (target) }
            }
            (consent(&authorization.scope, "you started this sign-in yourself"))
            form method="post" action=(PATH) {
                input type="hidden" name="request" value=(sealed);
                @if choice.passwords {
                    (credentials(app, address, needs_code(rejection)))
                    button type="submit" { "Sign in and allow" }
                }
                (choice.button())
            }
            a.button.quiet href=(app.oauth.declined(authorization)) rel="noreferrer" { "Cancel" }
        },
        form_action: choice.form_action(Some(redirect::form_action(&authorization.redirect_uri))),
        browser: Some(browser),
    };
    page.into_response(app)
}

/// Returns `true` if the sign-in failed only because the two-factor code is missing.
pub(crate) fn needs_code(rejection: Option<&Rejection>) -> bool {
    rejection.is_some_and(|rejection| rejection.text == CODE_REQUIRED)
}

/// Returns the status and the error message of a page. Wrong credentials get the status 403. The
/// status 401 would require the header `WWW-Authenticate`, which does not apply to forms.
pub(crate) fn status_and_message(rejection: Option<&Rejection>) -> (StatusCode, Option<String>) {
    let Some(rejection) = rejection else {
        return (StatusCode::OK, None);
    };
    let (status, message) = match rejection.status {
        StatusCode::UNAUTHORIZED if rejection.text == CODE_REQUIRED => (
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
        status => (status, &*rejection.text),
    };
    (status, Some(message.to_owned()))
}

/// Renders the response to a form that has expired or belongs to another browser.
pub(super) fn expired_page(app: &App) -> Result<Response, Rejection> {
    let page = Page {
        status: StatusCode::FORBIDDEN,
        title: "This page has expired",
        body: html! {
            p role="alert" { "You opened the page too long ago, in another browser or at another URL of this service, or your browser blocks cookies. Return to the application and start again." }
        },
        form_action: None,
        browser: None,
    };
    page.into_response(app)
}

/// Renders the error page for an invalid authorization request.
fn invalid_request_page(app: &App, error: AuthorizationError) -> Result<Response, Rejection> {
    let (reason, client) = match error {
        AuthorizationError::Failed(failure) => return Err(failure.into()),
        AuthorizationError::NotRedirectable(reason) => (reason, None),
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
            p role="alert" { (reason) "." }
            @if let Some((client_name, url)) = &client {
                a.button.quiet href=(url) rel="noreferrer" { "Return to " (display_name(client_name)) }
            } @else {
                p { "Return to the application and report this error to its developer." }
            }
        },
        form_action: None,
        browser: None,
    };
    page.into_response(app)
}

/// Redirects the browser to a URL.
pub(super) fn redirect_to(url: &str) -> Result<Response, Rejection> {
    let mut response = Response {
        status: StatusCode::SEE_OTHER,
        headers: http::HeaderMap::new(),
        body: Content::Bytes(bytes::Bytes::new()),
    };
    let location = HeaderValue::from_str(url).map_err(Failure::internal)?;
    response.headers.insert(header::LOCATION, location);
    Ok(response)
}
