//! `POST /auth/token` (OAuth 2.1, section 3.2): exchanges a code, a refresh token or a device code
//! for tokens.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, StatusCode, header};
use latchmail_core::error::{Failure, Kind};
use latchmail_core::limits::{BoxFuture, Bucket, Key};
use latchmail_core::rate_limit::RateLimitStatus;
use latchmail_oauth::GrantType;
use latchmail_oauth::error::{Error, Refusal};
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::token::TokenResponse;
use percent_encoding::percent_decode_str;
use utoipa::ToSchema;

use super::protocol;
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rate_limit;
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/auth/token";

/// A request for tokens (OAuth 2.1, section 3.2; RFC 8628, section 3.4). The server ignores other
/// fields.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct TokenForm {
    /// The grant type. It determines which other fields are required.
    grant_type: GrantType,
    /// The client's id. Required unless the client authenticates with the Authorization header.
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// The client's secret, if the client has one and does not send it in the Authorization header.
    #[schema(nullable = false, format = "password")]
    client_secret: Option<String>,
    /// The authorization code. Required for `authorization_code`.
    #[schema(nullable = false)]
    code: Option<String>,
    /// The secret whose hash the client sent as `code_challenge`. Required for
    /// `authorization_code`.
    #[schema(nullable = false, pattern = "^[A-Za-z0-9._~-]{43,128}$")]
    code_verifier: Option<String>,
    /// The redirect URI to which the server sent the code. For `authorization_code`.
    #[schema(nullable = false)]
    redirect_uri: Option<String>,
    /// The refresh token. Required for `refresh_token`.
    #[schema(nullable = false)]
    refresh_token: Option<String>,
    /// The device code. Required for the device code grant.
    #[schema(nullable = false)]
    device_code: Option<String>,
    /// The resource of the authorization request (RFC 8707).
    #[schema(nullable = false)]
    resource: Option<String>,
    /// For `refresh_token`: the scopes of the new access token, separated by spaces. A client uses
    /// this field to request fewer scopes than it was granted. The new refresh token keeps all
    /// granted scopes.
    #[schema(nullable = false)]
    scope: Option<String>,
}

/// Exchange a grant for tokens
///
/// Supports the grants `authorization_code` (with `code_verifier`), `refresh_token` and the device
/// code grant. A refresh token can be used once. A second use ends the grant. A failed exchange
/// counts towards the rate limit of the client. Any other exchange counts towards the rate limit of
/// its grant, code or device.
#[utoipa::path(
    post,
    path = "/auth/token",
    operation_id = "exchangeToken",
    tag = "Authorization",
    request_body(content = TokenForm, content_type = "application/x-www-form-urlencoded", description = "The parameters of the grant"),
    responses(
        (status = 200, description = "The tokens", body = TokenResponse),
        (status = 400, description = "A code of RFC 6749, section 5.2, or of RFC 8628, section 3.5", body = Refusal),
        (status = 401, description = "`invalid_client`", body = Refusal, headers(("WWW-Authenticate" = String, description = "`Basic`, if the client sent an Authorization header"))),
        (status = 429, description = "Too many failed exchanges, or too many exchanges of one grant, code or device", body = ref("#/components/schemas/Error")),
    )
)]
pub(super) async fn exchange_token(app: &App, request: &Request) -> Result<Response, Rejection> {
    let basic = basic_credentials(&request.headers);
    let limits = &app.http.limits;
    let counted = OnceLock::new();
    let count = |key: &str| -> BoxFuture<'_, Result<(), Failure>> {
        let key = Key::OAuth(key.into());
        Box::pin(async {
            // This line moves `key` into the future, which only borrows `limits` and `counted`.
            let key = key;
            let limit = limits.check(Bucket::OAuth, &key).await.admit()?;
            counted.get_or_init(|| limit);
            Ok(())
        })
    };
    let exchange = async {
        let client = basic.as_ref().map_err(Clone::clone)?;
        let parameters = Parameters::new(protocol::form(request)?);
        let client = client.as_ref().map(|(id, secret)| (&**id, &**secret));
        let origin = request.origin();
        app.oauth.token(&parameters, client, &count, &origin).await
    };
    let result = exchange.await;
    // All users of a client network share the rate limits of the network, so only failed exchanges
    // count towards these limits.
    let is_failure = matches!(&result, Err(Error::Refused(refusal)) if !is_waiting(refusal));
    let limit = count_request(app, request, &result, is_failure, counted.into_inner()).await?;
    let mut response = match result {
        Ok(tokens) => message::json(StatusCode::OK, &tokens)?,
        Err(error) => protocol::error_response(error, !matches!(basic, Ok(None)))?,
    };
    if let Some(limit) = limit {
        rate_limit::write(limit, &mut response.headers);
    }
    Ok(response)
}

/// Counts a failed request towards the rate limit of its client. Any other request was counted
/// towards the rate limit of its grant; `counted` is the state of that limit. Returns the state of
/// the limit that applies.
pub(super) async fn count_request<T>(
    app: &App,
    request: &Request,
    result: &Result<T, Error>,
    is_failure: bool,
    counted: Option<RateLimitStatus>,
) -> Result<Option<RateLimitStatus>, Failure> {
    if is_failure {
        let client = Key::client(request.client);
        let limit = app.http.limits.check(Bucket::OAuth, &client).await;
        return limit.admit().map(Some);
    }
    let is_limited = match result {
        Err(Error::Failed(failure)) => matches!(failure.kind, Kind::RateLimited(_)),
        _ => false,
    };
    if !is_limited {
        request.set_verified();
    }
    Ok(counted)
}

/// Returns `true` if the error means that the device must continue to poll (RFC 8628, section 3.5).
fn is_waiting(refusal: &Refusal) -> bool {
    matches!(refusal.code, "authorization_pending" | "slow_down")
}

/// Returns the client's id and secret from the `Authorization` header (RFC 6749, section 2.3.1).
/// Returns `None` if the header is missing or contains another scheme.
///
/// # Errors
/// Returns an error if the header occurs several times or is malformed.
pub(super) fn basic_credentials(headers: &HeaderMap) -> Result<Option<(String, String)>, Refusal> {
    let malformed =
        || Refusal::client("The Authorization header must contain one Basic credential");
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = all.next() else {
        return Ok(None);
    };
    if all.next().is_some() {
        return Err(malformed());
    }
    let (scheme, credentials) = value
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    let parse = || {
        let decoded = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
        let (id, secret) = decoded.split_once(':')?;
        Some((form_decode(id)?, form_decode(secret)?))
    };
    parse().map(Some).ok_or_else(malformed)
}

/// Decodes the form encoding of the client's id or secret in the `Authorization` header.
fn form_decode(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}
