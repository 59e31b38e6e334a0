//! POST and GET `/api/v1/tokens`, DELETE `/api/v1/tokens/{id}`: creates, lists and revokes personal
//! API tokens.

use latchmail_sdk::capability::{Caller, Credentials, Error, Scope};
use latchmail_sdk::{Failure, Reply, Request, codes, scope};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use utoipa::ToSchema;

use crate::label::label;
use crate::model::{Token, TokenScope};

/// Maximum number of tokens of an account, including expired tokens.
const MAX_TOKENS: u32 = 20;

const EXPIRY: &str = "expiresInDays must be an integer from 1 to 365";

/// A token to create.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenRequest {
    /// Label, 1 to 64 characters on one line. Surrounding white space is removed.
    #[schema(
        required,
        nullable = false,
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
    )]
    label: Option<String>,
    /// Scopes, at least one. Duplicates are removed.
    #[schema(required, nullable = false, min_items = 1, value_type = Vec<TokenScope>)]
    scopes: Option<Vec<String>>,
    /// Days until the token expires. If this field is absent, the token does not expire.
    #[schema(minimum = 1, maximum = 365, value_type = Option<i64>)]
    expires_in_days: Option<Number>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedToken {
    #[serde(flatten)]
    token: Token,
    /// The token: `lmk_` followed by 43 letters and digits. No other response contains the token,
    /// because only its hash is stored.
    #[serde(rename = "token")]
    #[schema(pattern = "^lmk_[A-Za-z0-9]{43}$")]
    secret: String,
}

/// The tokens of an account.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenList {
    /// The tokens, newest first. Includes expired tokens, but not revoked tokens.
    tokens: Vec<Token>,
}

/// Create an API token
///
/// Only this response contains the token, so the client must store it. An account can have 20
/// tokens.
#[utoipa::path(
    post,
    path = "/api/v1/tokens",
    operation_id = "createToken",
    tag = "Credentials",
    request_body = TokenRequest,
    responses(
        (
            status = 201,
            description = "The token",
            body = CreatedToken,
            links(
                ("revokeToken" = (operation_id = "revokeToken", parameters(("id" = "$response.body#/id"))))
            )
        ),
        (status = 400, description = "`label is required`, `At least one scope is required`, `Unknown scope …`", body = latchmail_sdk::Failed),
        (status = 409, description = "`You already have 20 API tokens; revoke one before creating another`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn create_token(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let body: TokenRequest = request.json()?;
    let label = label(body.label.as_deref())?;
    let scopes = scopes(&body.scopes.unwrap_or_default())?;
    let days = body.expires_in_days.as_ref().map(days).transpose()?;
    let created = host
        .create_token(label, &scopes, days, MAX_TOKENS)
        .map_err(|error| match error {
            Error::Conflict(_) => Failure::conflict(
                codes::TOO_MANY_TOKENS,
                "You already have 20 API tokens; revoke one before creating another",
            ),
            error => Failure::of(error, (codes::TOKEN_NOT_FOUND, "Token not found"), host),
        })?;
    let created = CreatedToken {
        token: created.token.into(),
        secret: created.secret,
    };
    Ok(Reply::with_status(201, &created)?.with("cache-control", "no-store"))
}

/// Converts the names of scopes to scopes. Returns 400 if there is no name, or if a name is
/// unknown.
fn scopes(names: &[String]) -> Result<Vec<Scope>, Failure> {
    if names.is_empty() {
        return Err(Failure::bad_request(
            codes::SCOPE_REQUIRED,
            "At least one scope is required",
        ));
    }
    let known = |name: &String| {
        scope::named(name).ok_or_else(|| {
            let available = scope::ALL.map(|(_, name)| name).join(", ");
            Failure::bad_request(
                codes::UNKNOWN_SCOPE,
                format!("Unknown scope \"{name}\". Available scopes: {available}"),
            )
        })
    };
    names.iter().map(known).collect()
}

/// Checks that a JSON number is a number of days from 1 to 365, and returns this number. Accepts
/// `30.0`, because JSON Schema treats `30.0` as an integer.
fn days(number: &Number) -> Result<u32, Failure> {
    let shortest = || number.as_f64()?.to_string().parse().ok();
    let whole = number.as_u64().and_then(|days| days.try_into().ok());
    whole
        .or_else(shortest)
        .filter(|days| (1..=365).contains(days))
        .ok_or_else(|| Failure::bad_request(codes::INVALID_EXPIRY, EXPIRY))
}

/// List API tokens
///
/// Returns the tokens, newest first, without their secrets.
#[utoipa::path(
    get,
    path = "/api/v1/tokens",
    operation_id = "listTokens",
    tag = "Credentials",
    responses((
        status = 200,
        description = "The tokens",
        body = TokenList,
        links(
            ("revokeToken" = (operation_id = "revokeToken", parameters(("id" = "$response.body#/tokens/0/id"))))
        )
    ))
)]
pub(crate) fn list_tokens(
    host: &(impl Credentials + Caller),
    _: &Request,
) -> Result<Reply, Failure> {
    let tokens = host
        .list_tokens()
        .map_err(|error| Failure::of(error, (codes::TOKEN_NOT_FOUND, "Token not found"), host))?;
    Reply::json(&TokenList {
        tokens: tokens.into_iter().map(Token::from).collect(),
    })
}

/// Revoke an API token
///
/// The token becomes invalid immediately. Revoking the token again returns the same response.
#[utoipa::path(
    delete,
    path = "/api/v1/tokens/{id}",
    operation_id = "revokeToken",
    tag = "Credentials",
    params(("id" = String, Path, description = "The token's id")),
    responses(
        (status = 200, description = "The token was revoked", body = latchmail_sdk::Succeeded),
        (status = 404, description = "`Token not found`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn revoke_token(
    host: &(impl Credentials + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    host.revoke_token(request.path("id")).map_err(|error| {
        Failure::of(error, (codes::TOKEN_NOT_FOUND, "Token not found"), host)
            .failing(codes::TOKEN_REVOKE_FAILED, "Failed to revoke token")
    })?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::testing::{FakeHost, failure, json, request};

    use super::*;

    fn posted(body: &str) -> Request {
        request(&[], &[], body)
    }

    #[test]
    fn the_secret_of_a_token_is_only_in_the_first_response() {
        let host = FakeHost::new();
        let body =
            r#"{"label": " CI ", "scopes": ["mail:send", "mail:read"], "expiresInDays": 30.0}"#;
        let created = create_token(&host, &posted(body)).unwrap();
        assert_eq!(created.status, 201);
        assert!(
            created
                .headers
                .contains(&("cache-control".into(), "no-store".into()))
        );
        let expected = serde_json::json!({
            "id": "credential-1", "label": "CI", "scopes": ["mail:read", "mail:send"], "token": "secret-of-credential-1", "hint": "0000",
            "createdAt": "2026-11-20T08:00:00.000Z", "lastUsedAt": null, "expiresAt": "2026-12-20T08:00:00.000Z",
        });
        assert_eq!(json(Ok(created)), expected);
        let listed = json(list_tokens(&host, &Request::default()));
        assert_eq!(listed["tokens"][0]["hint"], "0000");
        assert!(listed["tokens"][0].get("token").is_none());
    }

    #[test]
    fn invalid_input_is_refused_before_the_host_is_called() {
        let host = FakeHost::new();
        let available = "Available scopes: mail:read, mail:send, mail:write, aliases:read, aliases:write, profile:read";
        for (body, text) in [
            ("", "Invalid JSON body".to_owned()),
            (r#"{"scopes": ["mail:read"]}"#, "label is required".into()),
            (
                r#"{"label": null, "scopes": ["mail:read"]}"#,
                "label is required".into(),
            ),
            (
                r#"{"label": 7, "scopes": ["mail:read"]}"#,
                "label must be a string".into(),
            ),
            (r#"{"label": "a"}"#, "At least one scope is required".into()),
            (
                r#"{"label": "a", "scopes": []}"#,
                "At least one scope is required".into(),
            ),
            (
                r#"{"label": "a", "scopes": ["mail:read", "admin"]}"#,
                format!("Unknown scope \"admin\". {available}"),
            ),
            (
                r#"{"label": "a", "scopes": ["mail:read"], "expiresInDays": 0}"#,
                EXPIRY.into(),
            ),
            (
                r#"{"label": "a", "scopes": ["mail:read"], "expiresInDays": 366}"#,
                EXPIRY.into(),
            ),
            (
                r#"{"label": "a", "scopes": ["mail:read"], "expiresInDays": -1}"#,
                EXPIRY.into(),
            ),
        ] {
            let refused = create_token(&host, &posted(body)).unwrap_err();
            assert_eq!(refused, failure(400, &text), "{body}");
        }
        for days in ["1.5", "\"30\"", "true", "99999999999999999999"] {
            let body =
                format!(r#"{{"label": "a", "scopes": ["mail:read"], "expiresInDays": {days}}}"#);
            let refused = create_token(&host, &posted(&body)).unwrap_err();
            assert_eq!(refused.status, 400, "{days}");
            assert!(
                refused.text.starts_with("expiresInDays must be"),
                "{}",
                refused.text
            );
        }
        assert_eq!(host.calls(), 0);
    }

    #[test]
    fn each_error_of_the_host_has_its_status() {
        let host = FakeHost::new();
        let body = posted(r#"{"label": "a", "scopes": ["mail:read"]}"#);
        for _ in 0..20 {
            create_token(&host, &body).unwrap();
        }
        let full = create_token(&host, &body).unwrap_err();
        let text = "You already have 20 API tokens; revoke one before creating another";
        assert_eq!(full, failure(409, text));
        let revoke = request(&[("id", "t")], &[], "");
        let gone = revoke_token(&host, &revoke).unwrap_err();
        assert_eq!(
            gone,
            Failure::not_found(codes::TOKEN_NOT_FOUND, "Token not found")
        );
        let broken = revoke_token(&FakeHost::failing(Error::Internal), &revoke).unwrap_err();
        assert_eq!(
            broken,
            Failure::new(500, codes::TOKEN_REVOKE_FAILED, "Failed to revoke token")
        );
    }
}
