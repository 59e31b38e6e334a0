//! `POST /auth/revoke` (RFC 7009): ends the grant of a token.

use std::sync::OnceLock;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use latchmail_core::error::Failure;
use latchmail_core::limits::{BoxFuture, Bucket, Key};
use latchmail_oauth::error::{Error, Refusal};
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::revocation::Revocation;
use utoipa::ToSchema;

use super::protocol;
use super::token::{basic_credentials, count_request};
use crate::app::App;
use crate::message::{Content, Request, Response};
use crate::rate_limit;
use crate::rejection::Rejection;

pub(super) const PATH: &str = "/auth/revoke";

/// A token to revoke (RFC 7009, section 2.1). The server ignores other fields.
#[derive(ToSchema)]
#[expect(dead_code, reason = "used only for the API description")]
struct RevocationForm {
    /// An access token or a refresh token.
    token: String,
    /// The type of the token, for example `refresh_token`. The server does not need the type and
    /// ignores this field.
    #[schema(nullable = false)]
    token_type_hint: Option<String>,
    /// The client's id. Required unless the client authenticates with the Authorization header.
    #[schema(nullable = false)]
    client_id: Option<String>,
    /// The client's secret, if the client has one and does not send it in the Authorization header.
    #[schema(nullable = false, format = "password")]
    client_secret: Option<String>,
}

/// Revoke a token
///
/// RFC 7009. Ends the grant of an access token or a refresh token, with all its tokens. An unknown
/// or expired token is not an error. A failed request, and a request with an unknown token, count
/// towards the rate limit of the client. Any other request counts towards the rate limit of its
/// grant.
#[utoipa::path(
    post,
    path = "/auth/revoke",
    operation_id = "revokeOAuthToken",
    tag = "Authorization",
    extensions(("x-latchmail" = json!(true))),
    request_body(content = RevocationForm, content_type = "application/x-www-form-urlencoded", description = "The token"),
    responses(
        (status = 200, description = "The token is not valid any longer. The body is empty"),
        (status = 400, description = "`invalid_request`, or `invalid_grant` if the token was issued to another client", body = Refusal),
        (status = 401, description = "`invalid_client`", body = Refusal, headers(("WWW-Authenticate" = String, description = "`Basic`, if the client sent an Authorization header"))),
        (status = 429, description = "Too many failed requests, or too many requests for one grant", body = ref("#/components/schemas/Error")),
    )
)]
pub(super) async fn revoke_oauth_token(
    app: &App,
    request: &Request,
) -> Result<Response, Rejection> {
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
    let revoke = async {
        let client = basic.as_ref().map_err(Clone::clone)?;
        let parameters = Parameters::new(protocol::form(request)?);
        let client = client.as_ref().map(|(id, secret)| (&**id, &**secret));
        let origin = request.origin();
        app.oauth.revoke(&parameters, client, &count, &origin).await
    };
    let result = revoke.await;
    // All users of a client network share the rate limits of the network, so only requests without
    // a valid token count towards these limits.
    let is_guess = matches!(&result, Ok(Revocation::Unknown) | Err(Error::Refused(_)));
    let limit = count_request(app, request, &result, is_guess, counted.into_inner()).await?;
    let mut response = match result {
        Ok(_) => Response {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: Content::Bytes(Bytes::new()),
        },
        Err(error) => protocol::error_response(error, !matches!(basic, Ok(None)))?,
    };
    if let Some(limit) = limit {
        rate_limit::write(limit, &mut response.headers);
    }
    Ok(response)
}
