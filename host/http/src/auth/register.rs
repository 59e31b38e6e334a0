//! `POST /api/v1/auth/register`: creates an account and signs it in.

use http::StatusCode;
use latchmail_accounts::auth::Form;
use secrecy::SecretString;
use serde::Deserialize;
use utoipa::ToSchema;

use super::auth_tokens::AuthTokens;
use super::secret::secret;
use crate::app::App;
use crate::message::{self, Request, Response};
use crate::rejection::Rejection;

/// The data of a new account.
#[derive(Deserialize, ToSchema)]
pub struct RegisterBody {
    /// The user name. It consists of letters, digits, dots, hyphens and underscores. It starts and
    /// ends with a letter or a digit, has no two dots in a row, and is not a reserved name. The
    /// service converts it to lower case.
    #[schema(
        min_length = 2,
        max_length = 64,
        pattern = r"^[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.))*[A-Za-z0-9]$"
    )]
    local_part: String,
    /// The domain of the new address. It must be one of the registration domains.
    domain: String,
    /// The password. It needs at least one upper-case letter, one lower-case letter and one digit.
    /// Its length is at most 1,024 bytes.
    #[serde(deserialize_with = "secret")]
    #[schema(
        value_type = String,
        format = "password",
        min_length = 8,
        max_length = 1024,
        pattern = r"^[\s\S]*(?:[a-z][\s\S]*[A-Z][\s\S]*[0-9]|[a-z][\s\S]*[0-9][\s\S]*[A-Z]|[A-Z][\s\S]*[a-z][\s\S]*[0-9]|[A-Z][\s\S]*[0-9][\s\S]*[a-z]|[0-9][\s\S]*[a-z][\s\S]*[A-Z]|[0-9][\s\S]*[A-Z][\s\S]*[a-z])[\s\S]*$"
    )]
    password: SecretString,
    /// The first name. Leading and trailing white space is removed.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
    )]
    first_name: String,
    /// The last name. Leading and trailing white space is removed.
    #[schema(
        min_length = 1,
        max_length = 64,
        pattern = r"^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$"
    )]
    last_name: String,
    /// The date of birth, in the form `YYYY-MM-DD`. The user must be at least 13 years old.
    #[schema(format = "date")]
    dob: String,
}

/// Registers an account.
///
/// Creates a mailbox, an account with its profile, and the first web session of the account. If one
/// of these steps fails, nothing is created.
///
/// # Errors
/// Returns 403 if registration is disabled, even if the body is invalid. Returns 400 with the name
/// of the first invalid field. Returns 409 if the address is taken.
#[utoipa::path(
    post,
    path = "/api/v1/auth/register",
    operation_id = "register",
    tag = "Authentication",
    request_body = RegisterBody,
    responses(
        (status = 201, description = "The account's first tokens", body = AuthTokens),
        (status = 400, description = "A field is missing or invalid; the message names the field", body = ref("#/components/schemas/Error")),
        (status = 403, description = "`Registration is currently disabled`", body = ref("#/components/schemas/Error")),
        (status = 409, description = "`This email address is already taken`", body = ref("#/components/schemas/Error")),
    ),
)]
pub async fn register(app: &App, request: &Request) -> Result<Response, Rejection> {
    app.auth.registration.registration_open()?;
    let body: RegisterBody = request.json()?;
    let form = Form {
        local_part: body.local_part,
        domain: body.domain,
        password: body.password,
        first_name: body.first_name,
        last_name: body.last_name,
        dob: body.dob,
    };
    let registered = app
        .auth
        .registration
        .register(form, &request.origin())
        .await?;
    let names = (registered.first_name, registered.last_name);
    message::json(
        StatusCode::CREATED,
        &AuthTokens::new(registered.signed_in, Some(names)),
    )
}
