//! `/login`: the authorization endpoint (OAuth 2.1, section 4.1). A user signs in on behalf of a
//! client, and the service redirects the user to the client. The service redirects to the client
//! only after the user has submitted the form, so a link alone cannot redirect a user.

use http::StatusCode;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::oauth::AUTHORIZATION_PATH;
use latchmail_http::rejection::Rejection;
use latchmail_oauth::authorization::{Authorization, AuthorizationError};
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::redirect;
use maud::html;
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
use crate::layout::see_other_to;

pub(super) const PATH: &str = AUTHORIZATION_PATH;

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
        Ok(url) => Ok(see_other_to(&url)?),
        Err(rejection) => show_again(rejection, credentials.as_ref(), |address, rejection| {
            sign_in_page(app, &browser, &authorization, address, Some(rejection))
        }),
    }
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
            (consent(app, &authorization.scope, "you started this sign-in yourself"))
            form method="post" action=(PATH) {
                input type="hidden" name="request" value=(sealed);
                @if choice.passwords {
                    (fields(app, address, needs_code(rejection)))
                    button type="submit" { "Sign in and allow" }
                }
                (choice.button(" and allow"))
            }
            a.button.quiet href=(app.oauth.declined(authorization)) rel="noreferrer" { "Cancel" }
        },
        form_action: choice.form_action(Some(redirect::form_action(&authorization.redirect_uri))),
        browser: Some(browser),
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
