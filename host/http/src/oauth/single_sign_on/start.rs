//! `GET /auth/oidc/start`: a client starts a sign-in at the identity provider.

use http::StatusCode;
use latchmail_accounts::auth::single_sign_on::START_PATH;
use latchmail_core::limits::Bucket;
use latchmail_oauth::parameters::Parameters;
use maud::html;

use super::super::form_state::Browser;
use super::super::page::{Page, within_limit};
use super::flow::{Destination, continue_at_provider};
use crate::app::App;
use crate::message::{Request, Response};
use crate::rejection::Rejection;

pub(super) const PATH: &str = START_PATH;

/// Start a sign-in at the identity provider
///
/// Redirects the browser to the provider. After the sign-in, the browser is redirected to `redirect_uri` with `code` and `state`, or with `error` and `state`.
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
    let page = async {
        let parameters = Parameters::new(request.query.clone());
        match app.oauth.client_request(&parameters) {
            Ok(client_request) => {
                let browser = Browser::get_or_create(app, request)?;
                let destination = Destination::Client(client_request);
                continue_at_provider(app, request.client, &browser, destination, None).await
            }
            Err(refusal) => invalid_request_page(app, &refusal.description),
        }
    };
    within_limit(app, request, Bucket::OAuth, page).await
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
