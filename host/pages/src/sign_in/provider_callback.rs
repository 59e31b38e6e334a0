//! `GET /auth/oidc/callback`: the browser returns from the identity provider. The service verifies
//! the provider's response and finds the person's mailbox. Then the service completes the request
//! of the client, the agent or the device that started the sign-in.

use http::StatusCode;
use latchmail_accounts::auth::single_sign_on::{NoMailbox, Owner};
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::oauth::{provider, unavailable};
use latchmail_http::rejection::Rejection;
use latchmail_oauth::parameters::Parameters;
use latchmail_oidc::{Error, Person, Response as ProviderResponse};
use maud::html;

use super::device::connected_page;
use super::page::{expired_page, page_without_form};
use super::provider::{Continuation, Destination, take_continuation};
use crate::account;
use crate::layout::see_other_to;

/// The maximum length of an error code from the provider, in bytes.
const MAX_ERROR: usize = 64;

/// Finish a sign-in at the identity provider
///
/// The provider redirects the browser to this URL. Other parameters of the provider are ignored.
#[utoipa::path(
    get,
    path = "/auth/oidc/callback",
    operation_id = "finishSignIn",
    tag = "Single sign-on",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("state" = String, Query, description = "The value that the service sent to the provider"),
        ("code" = Option<String>, Query, description = "The authorization code"),
        ("iss" = Option<String>, Query, description = "The issuer identifier of the provider (RFC 9207)"),
        ("error" = Option<String>, Query, description = "The error, if the provider rejected the sign-in")
    ),
    responses(
        (status = 200, description = "A page: the device is connected", content_type = "text/html"),
        (
            status = 303,
            description = "The redirect to the client or agent, with `code` or `error`, and `state`",
            headers(("Location" = String, description = "The redirect URI with the parameters"))
        ),
        (status = 400, description = "An error page: the response of the provider is invalid", content_type = "text/html"),
        (status = 403, description = "An error page: the person has no mailbox, or the sign-in has expired or was started in another browser", content_type = "text/html"),
        (status = 429, description = "An error page: too many requests", content_type = "text/html"),
        (status = 500, description = "An error page: the operation could not be completed", content_type = "text/html"),
        (status = 503, description = "An error page: the provider or the mail server cannot be reached", content_type = "text/html"),
    )
)]
pub(super) async fn finish_sign_in(app: &App, request: &Request) -> Result<Response, Rejection> {
    let parameters = Parameters::new(request.query.clone());
    let state = parameters.one("state").ok().flatten().unwrap_or_default();
    let Some(continuation) = take_continuation(app, request, state).await? else {
        return expired_page(app);
    };
    if let Ok(Some(error)) = parameters.one("error") {
        return provider_error(app, &continuation.destination, error);
    }
    let person = match verified_person(app, &continuation, &parameters).await {
        Ok(person) => person,
        Err(Error::Unavailable(why)) => return Err(unavailable(Error::Unavailable(why))),
        Err(Error::Rejected(why)) => {
            tracing::warn!(why, "rejected a sign-in at the identity provider");
            return invalid_response_page(app);
        }
    };
    let shown = person.clone();
    match app
        .auth
        .single_sign_on
        .owner(person, &request.origin())
        .await?
    {
        Ok(owner) => finish(app, request, continuation.destination, owner).await,
        Err(reason) => no_mailbox_page(app, &shown, &reason),
    }
}

/// Verifies the response of the provider. Returns the person who signed in.
async fn verified_person(
    app: &App,
    continuation: &Continuation,
    parameters: &Parameters,
) -> Result<Person, Error> {
    let rejected = |why: &str| Error::Rejected(why.to_owned());
    let code = parameters.needed("code");
    let code = code.map_err(|refusal| rejected(&refusal.description))?;
    let issuer = parameters.one("iss");
    let issuer = issuer.map_err(|refusal| rejected(&refusal.description))?;
    let provider = provider(app).map_err(|rejection| rejected(&rejection.text))?;
    let response = ProviderResponse { code, issuer };
    provider.finish(&continuation.pending, response).await
}

/// Completes the request of the client, the agent or the device that started the sign-in.
async fn finish(
    app: &App,
    request: &Request,
    destination: Destination,
    owner: Owner,
) -> Result<Response, Rejection> {
    let origin = request.origin();
    match destination {
        Destination::Client(client) => Ok(see_other_to(
            &app.oauth.complete_client_request(&client, &owner).await?,
        )?),
        Destination::Agent(authorization) => {
            let agreed = app.oauth.agree_by_provider(&authorization, owner, &origin);
            Ok(see_other_to(&agreed.await?)?)
        }
        Destination::Device(user_code) => {
            let agreed = app
                .oauth
                .agree_to_device_by_provider(&user_code, owner, &origin);
            match agreed.await.map_err(Rejection::from) {
                Ok(()) => connected_page(app),
                Err(rejection) if rejection.status == StatusCode::NOT_FOUND => page_without_form(
                    app,
                    StatusCode::FORBIDDEN,
                    "This code is no longer valid",
                    html! { p role="alert" { "The code of the device has expired or was already used. Start again on your device." } },
                ),
                Err(rejection) => Err(rejection),
            }
        }
        Destination::Account(next) => {
            let sid = app.auth.single_sign_on.sign_in_on_page(owner, &origin);
            account::begin(app, sid.await?, account::local_path(Some(&next)))
        }
    }
}

/// Handles an error that the provider reported. A client receives every error. An agent receives
/// only the error `access_denied`. All other errors are shown on a page.
fn provider_error(
    app: &App,
    destination: &Destination,
    error: &str,
) -> Result<Response, Rejection> {
    let is_code = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let error = if error.len() <= MAX_ERROR && error.bytes().all(is_code) {
        error
    } else {
        "server_error"
    };
    match destination {
        Destination::Client(client) => Ok(see_other_to(&client.response_url(&[("error", error)]))?),
        Destination::Agent(authorization) if error == "access_denied" => {
            Ok(see_other_to(&app.oauth.declined(authorization))?)
        }
        Destination::Agent(_) | Destination::Device(_) | Destination::Account(_) => {
            page_without_form(
                app,
                StatusCode::FORBIDDEN,
                "The identity provider did not sign you in",
                html! { p role="alert" { "The identity provider reported the error “" (error) "”. Nothing was authorized. Start again, or ask your administrator." } },
            )
        }
    }
}

fn invalid_response_page(app: &App) -> Result<Response, Rejection> {
    page_without_form(
        app,
        StatusCode::BAD_REQUEST,
        "The sign-in could not be completed",
        html! { p role="alert" { "The response of the identity provider is invalid or was already used. Return to the application and start again. If this happens again, ask your administrator." } },
    )
}

/// Renders the page for a person without a mailbox. The page shows the address that the provider
/// returned, or the provider's id of the person.
fn no_mailbox_page(app: &App, person: &Person, reason: &NoMailbox) -> Result<Response, Rejection> {
    let problem = match reason {
        NoMailbox::MissingClaim => {
            "The identity provider returned no mail address for your account."
        }
        NoMailbox::Unverified(_) => {
            "The identity provider has not verified this mail address. Verify the address there, and sign in again."
        }
        NoMailbox::NotFound(_) => "There is no mailbox with this address on this service.",
        NoMailbox::Disabled(_) => "The mailbox with this address is disabled.",
    };
    page_without_form(
        app,
        StatusCode::FORBIDDEN,
        "You have no mailbox here",
        html! {
            p role="alert" { (problem) }
            dl {
                dt { "You signed in as" }
                dd { @if reason.address().is_empty() { (person.subject) } @else { (reason.address()) } }
            }
            p { "If this is not the account that you want to use, sign out at the identity provider and start again. Otherwise ask your administrator for a mailbox." }
        },
    )
}
