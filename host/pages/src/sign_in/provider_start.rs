//! `/auth/oidc/start`: a client starts a sign-in at the identity provider. If the sign-in returns
//! to an application on the user's device, the user must press a button first. A provider can sign
//! the user in without showing a page. So without the button, any program on the device could get a
//! web session without the user's knowledge.

use http::StatusCode;
use latchmail_accounts::auth::verifier::START_PATH;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::oauth::{provider, unavailable};
use latchmail_http::rejection::Rejection;
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::single_sign_on::ClientRequest;
use maud::html;
use utoipa::ToSchema;

use super::browser::{Browser, open_form};
use super::page::{Page, expired_page};
use super::provider::{Destination, ProviderChoice, continue_at_provider};

pub(super) const PATH: &str = START_PATH;

/// Start a sign-in at the identity provider
///
/// Redirects the browser to the provider. If `redirect_uri` is a loopback URL, shows a page first,
/// whose button continues at the provider. After the sign-in, the browser is redirected to
/// `redirect_uri` with `code` and `state`, or with `error` and `state`.
/// The client exchanges the code with `exchangeSignInCode`.
#[utoipa::path(
    get,
    path = "/auth/oidc/start",
    operation_id = "startSignIn",
    tag = "Single sign-on",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("redirect_uri" = String, Query, description = "The URI that the user is redirected to: a URI that the operator listed, or a loopback URL with any port"),
        ("state" = Option<String>, Query, max_length = 2000, description = "Returned to the client unchanged"),
        ("code_challenge" = String, Query, pattern = "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$", description = "SHA-256 of the code verifier, in base64url"),
        ("code_challenge_method" = Option<String>, Query, pattern = "^S256$", description = "`S256`")
    ),
    responses(
        (status = 200, description = "A page with a button that continues at the provider, for a loopback URL", content_type = "text/html"),
        (
            status = 303,
            description = "The redirect to the provider",
            headers(("Location" = String, description = "The URL of the sign-in at the provider"))
        ),
        (status = 400, description = "An error page: the request is invalid", content_type = "text/html"),
        (status = 429, description = "An error page: too many requests", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "An error page: the provider cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn start_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let parameters = Parameters::new(request.query.clone());
    match app.oauth.client_request(&parameters) {
        Ok(client_request) => {
            let browser = Browser::get_or_create(app, request)?;
            if let Some(target) = client_request.loopback_target() {
                let available = provider(app)?.require_available().await;
                available.map_err(unavailable)?;
                return confirmation_page(app, &browser, &client_request, &target);
            }
            let destination = Destination::Client(client_request);
            continue_at_provider(app, request.client, &browser, destination, None).await
        }
        Err(refusal) => invalid_request_page(app, &refusal.description),
    }
}

/// The fields of the form.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct ConfirmationForm {
    /// The value of the hidden field of the page.
    request: String,
}

/// Continue a sign-in at the identity provider
///
/// Receives the form of the page that `startSignIn` shows. Redirects the browser to the provider.
#[utoipa::path(
    post,
    path = "/auth/oidc/start",
    operation_id = "confirmSignIn",
    tag = "Single sign-on",
    extensions(("x-latchmail" = json!(true))),
    request_body(
        content = ConfirmationForm,
        content_type = "application/x-www-form-urlencoded",
        description = "The fields of the page"
    ),
    responses(
        (
            status = 303,
            description = "The redirect to the provider",
            headers(("Location" = String, description = "The URL of the sign-in at the provider"))
        ),
        (
            status = 403,
            description = "An error page: the form has expired or belongs to another browser",
            content_type = "text/html"
        ),
        (status = 429, description = "An error page: too many requests", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "An error page: the provider cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn confirm_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let Some((browser, client_request, _)) = open_form::<ClientRequest>(app, PATH, request) else {
        return expired_page(app);
    };
    let destination = Destination::Client(client_request);
    continue_at_provider(app, request.client, &browser, destination, None).await
}

/// Renders the page for a sign-in that returns to an application on the user's device.
fn confirmation_page(
    app: &App,
    browser: &Browser,
    client_request: &ClientRequest,
    target: &str,
) -> Result<Response, Rejection> {
    let sealed = browser.seal(app, PATH, client_request)?;
    let choice = ProviderChoice::of(app);
    let page = Page {
        status: StatusCode::OK,
        title: "Sign in with an application on this device",
        body: html! {
            dl {
                dt { "You will be redirected to" }
                dd { (target) }
            }
            p { "The application gets access to your mailbox and to your account. Continue only if you started this sign-in yourself." }
            form method="post" action=(PATH) {
                input type="hidden" name="request" value=(sealed);
                (choice.confirmation())
            }
        },
        form_action: choice.form_action(Some(client_request.form_action())),
        browser: Some(browser),
    };
    page.into_response(app)
}

fn invalid_request_page(app: &App, reason: &str) -> Result<Response, Rejection> {
    let page = Page {
        status: StatusCode::BAD_REQUEST,
        title: "The application sent an invalid request",
        body: html! {
            p role="alert" { (reason) "." }
            p { "Return to the application and report this error to its developer." }
        },
        form_action: None,
        browser: None,
    };
    page.into_response(app)
}
