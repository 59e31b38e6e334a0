//! `POST /api/v1/auth/login`: starts a web session. The request contains an address, a password,
//! and a two-factor code if the account requires one.

use std::net::IpAddr;

use http::StatusCode;
use latchmail_accounts::auth::passwords;
use latchmail_core::codes;
use latchmail_core::limits::{Attempt, record_rejection};
use latchmail_core::metrics;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::auth_tokens::AuthTokens;
use super::secret::secret;
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The credentials of an account.
#[derive(Deserialize, ToSchema)]
pub struct LoginBody {
    /// The account's address. Upper and lower case are equivalent. If the operator has set a
    /// default domain, a user name without a domain is also accepted.
    #[schema(
        format = "email",
        max_length = 254,
        pattern = r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-](?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|\.(?![.@])){0,63}@[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$"
    )]
    email: String,
    /// The account's password.
    #[serde(deserialize_with = "secret")]
    #[schema(value_type = String, format = "password", min_length = 1, max_length = 1024)]
    password: SecretString,
    /// The current six-digit code or a recovery code, if two-factor sign-in is enabled for the
    /// account. Each code can be used once. Spaces, hyphens and case are ignored. If two-factor
    /// sign-in is disabled, this member is ignored.
    #[serde(default, deserialize_with = "optional_secret")]
    #[schema(value_type = String, required = false)]
    code: Option<SecretString>,
}

/// Deserializes an optional member. A present member must be a string and not null.
fn optional_secret<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecretString>, D::Error> {
    secret(deserializer).map(Some)
}

/// Signs in.
///
/// Starts a web session, which expires 30 days after its last refresh. If two-factor sign-in is
/// enabled for the account and the password is correct, a request without `code` returns 401
/// `Two-factor code required`. The client must then ask the user for the code, and send the
/// address, the password and the code.
///
/// # Errors
/// Returns 400 for an invalid body, and 401 for wrong credentials or a missing code. Returns 403 if
/// the user signs in at an identity provider. Returns 429 after too many attempts for one address.
/// Returns 503 if the credentials are correct but the mail server is not available.
#[utoipa::path(
    post,
    path = "/api/v1/auth/login",
    operation_id = "login",
    tag = "Authentication",
    request_body = LoginBody,
    responses(
        (status = 200, description = "The session's tokens", body = AuthTokens),
        (status = 400, description = "`Invalid email or password format`", body = ref("#/components/schemas/Error")),
        (status = 401, description = "`Invalid credentials`; `Two-factor code required` if the password is correct and the required code is missing", body = ref("#/components/schemas/Error")),
        (status = 403, description = "The user signs in at an identity provider; the message contains the URL", body = ref("#/components/schemas/Error")),
        (status = 503, description = "The mail server is starting or cannot be reached", body = ref("#/components/schemas/Error")),
    ),
)]
pub async fn login(app: &App, request: &Request) -> Result<Response, Rejection> {
    let body =
        credentials(&request.body, |text| app.auth.sign_in_address(text)).ok_or_else(|| {
            Rejection::bad_request(
                codes::INVALID_LOGIN_FORMAT,
                "Invalid email or password format",
            )
        })?;
    let attempt = start_attempt(app, &body.email, request.client).await?;
    let signed_in = app
        .auth
        .sessions
        .sign_in(
            &body.email,
            body.password,
            body.code.as_ref(),
            &request.origin(),
        )
        .await;
    attempt.finish(&signed_in).await;
    message::json(StatusCode::OK, &AuthTokens::new(signed_in?, None))
}

/// Starts an attempt to sign in to an address. If an earlier sign-in from the client's network
/// succeeded, failed attempts from other networks do not count towards the limit for this client.
/// So an attacker in another network cannot lock out the user.
///
/// # Errors
/// Returns 429 if there were too many failed attempts for the address.
pub async fn start_attempt<'a>(
    app: &'a App,
    address: &str,
    client: IpAddr,
) -> Result<Attempt<'a>, Rejection> {
    let limits = &app.http.limits;
    let attempt = match limits.sign_in_attempt(address, client, false).await {
        Err(_) if app.directory.events.signed_in_from(address, client).await? => {
            limits.sign_in_attempt(address, client, true).await
        }
        attempt => attempt,
    };
    if attempt.is_err() {
        record_rejection(metrics::SIGN_IN_ADDRESS, app.clock.now());
    }
    Ok(attempt?)
}

/// Parses the body, and converts the address with `address`. Returns `None` if the address or the
/// password is malformed.
fn credentials(body: &[u8], address: impl Fn(&str) -> Option<String>) -> Option<LoginBody> {
    let body: LoginBody = latchmail_shape::read(body).ok()?;
    let email = address(&body.email)?;
    passwords::has_valid_length(&body.password).then_some(LoginBody { email, ..body })
}

#[cfg(test)]
mod tests {
    use latchmail_core::address;
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_members_are_ignored() {
        let body = json!({"email": "Ada@Example.org", "password": " P4ss ", "more": {}});
        let body = credentials(body.to_string().as_bytes(), address::fold).unwrap();
        assert_eq!(
            (body.email.as_str(), body.password.expose_secret()),
            ("ada@example.org", " P4ss ")
        );
        assert!(body.code.is_none());
    }

    #[test]
    fn the_two_factor_code_must_be_a_string() {
        let with = |code| json!({"email": "ada@example.org", "password": "P4ss", "code": code});
        for code in ["123456", "", "abcd-efgh"] {
            let body =
                credentials(with(json!(code)).to_string().as_bytes(), address::fold).unwrap();
            assert_eq!(body.code.unwrap().expose_secret(), code);
        }
        for code in [json!(123_456), json!(null), json!(["123456"]), json!({})] {
            let body = with(code).to_string();
            assert!(
                credentials(body.as_bytes(), address::fold).is_none(),
                "{body}"
            );
        }
    }

    #[test]
    fn bodies_without_valid_credentials_are_rejected() {
        for body in [
            json!({}),
            json!({"email": "ada@example.org"}),
            json!({"password": "Passw0rd"}),
            json!({"email": "ada@example.org", "password": ""}),
            json!({"email": "ada@example.org", "password": "x".repeat(1025)}),
            json!({"email": "ada@example.org", "password": 1}),
            json!({"email": "ada@example.org", "password": null}),
            json!({"email": ["ada@example.org"], "password": "Passw0rd"}),
            json!({"email": "ada", "password": "Passw0rd"}),
            json!({"email": "", "password": "Passw0rd"}),
            json!(["ada@example.org", "Passw0rd"]),
            json!(["ada@example.org", "Passw0rd", 3]),
            json!("ada@example.org"),
            json!(null),
        ] {
            assert!(
                credentials(body.to_string().as_bytes(), address::fold).is_none(),
                "{body}"
            );
        }
        for body in [&b""[..], b"{", b"email=ada@example.org", b"\xFF"] {
            assert!(credentials(body, address::fold).is_none());
        }
    }
}
