//! `POST /api/v1/auth/refresh`: exchanges a refresh token for a new access token and a new refresh
//! token.

use http::StatusCode;
use latchmail_core::codes;
use secrecy::ExposeSecret;
use serde::Serialize;
use utoipa::ToSchema;

use super::refresh_body::{RefreshBody, refresh_token};
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The new access token and the new refresh token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefreshedTokens {
    /// The access token of the web session. It is a JWT and valid for 15 minutes.
    access_token: String,
    /// The refresh token. It can be exchanged only once.
    refresh_token: String,
}

/// Exchanges a refresh token for a new access token and a new refresh token.
///
/// A refresh token can be used once. If the same token is used again within 10 seconds, the second
/// request is rejected, and the session continues. If the same token is used again later, the
/// session ends.
///
/// # Errors
/// Returns 400 if the token is missing, and 401 if it is invalid.
#[utoipa::path(
    post,
    path = "/api/v1/auth/refresh",
    operation_id = "refresh",
    tag = "Authentication",
    request_body = RefreshBody,
    responses(
        (status = 200, description = "The new tokens", body = RefreshedTokens),
        (status = 400, description = "`Missing refresh token`", body = ref("#/components/schemas/Error")),
        (status = 401, description = "`Invalid or expired refresh token`", body = ref("#/components/schemas/Error")),
    ),
)]
pub async fn refresh(app: &App, request: &Request) -> Result<Response, Rejection> {
    let presented = refresh_token(
        request,
        (codes::MISSING_REFRESH_TOKEN, "Missing refresh token"),
    )?;
    let tokens = app
        .auth
        .sessions
        .refresh(&presented, &request.origin())
        .await?;
    let body = RefreshedTokens {
        access_token: tokens.access.expose_secret().to_owned(),
        refresh_token: tokens.refresh.expose_secret().to_owned(),
    };
    message::json(StatusCode::OK, &body)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use http::HeaderMap;
    use latchmail_runtime::modules::Verified;

    use super::*;

    fn token_of(body: &'static [u8]) -> Result<String, String> {
        let request = Request {
            id: String::new(),
            uri: http::Uri::default(),
            path: Vec::new(),
            query: Vec::new(),
            headers: HeaderMap::new(),
            blobs: Vec::new(),
            body: body.into(),
            client: IpAddr::V4(Ipv4Addr::LOCALHOST),
            caller: None,
            verified: Verified::default(),
        };
        refresh_token(&request, (codes::MISSING_REFRESH_TOKEN, "missing"))
            .map(|token| token.expose_secret().to_owned())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_missing_token_and_invalid_json_have_different_errors() {
        assert_eq!(
            token_of(br#"{"refreshToken": "abc", "more": 1}"#).as_deref(),
            Ok("abc")
        );
        for body in [
            &b""[..],
            b" \n",
            b"{}",
            b"null",
            b"7",
            b"\"abc\"",
            br#"["abc"]"#,
            br#"{"refreshToken": ""}"#,
            br#"{"refreshToken": null}"#,
            br#"{"refreshToken": 7}"#,
            br#"{"refresh_token": "abc"}"#,
        ] {
            assert_eq!(token_of(body).unwrap_err(), "400 missing", "{body:?}");
        }
        for body in [
            &b"{"[..],
            b"abc",
            b"refreshToken=abc",
            br#"{"refreshToken": "abc"} x"#,
        ] {
            assert_eq!(
                token_of(body).unwrap_err(),
                "400 Invalid JSON body",
                "{body:?}"
            );
        }
    }
}
