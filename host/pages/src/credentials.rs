//! The fields of a sign-in form: the email address, the password and the two-factor code.

use http::StatusCode;
use latchmail_accounts::auth::passwords;
use latchmail_core::codes;
use latchmail_core::limits::Attempt;
use latchmail_http::App;
use latchmail_http::auth::login::start_attempt;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_oauth::parameters::Parameters;
use maud::{Markup, html};
use secrecy::SecretString;

/// The unchecked credentials from a submitted form.
pub(crate) struct Credentials {
    /// The email address.
    pub(crate) address: String,
    pub(crate) password: SecretString,
    /// The two-factor code. `None` if the field is empty.
    pub(crate) code: Option<SecretString>,
}

/// Renders the fields for the account's email address, password and two-factor code.
pub(crate) fn fields(app: &App, address: &str, wants_code: bool) -> Markup {
    // If the configuration has a default domain, users can enter a name without a domain. Browsers
    // reject such a name in a field of the type `email`.
    let kind = match app.config.sign_in.mailserver.default_domain.as_str() {
        "" => "email",
        _ => "text",
    };
    html! {
        label for="email" { "Email address" }
        input #email type=(kind) name="email" value=(address) autocomplete="username" required maxlength="320" autocapitalize="none" spellcheck="false" autofocus[address.is_empty()];
        label for="password" { "Password" }
        input #password type="password" name="password" autocomplete="current-password" required maxlength="1024" autofocus[!address.is_empty()];
        label for="code" { "Two-factor code" }
        p #code-hint .soft {
            "Six digits or a recovery code."
            @if !wants_code { " Leave this field empty if you do not use two-factor sign-in." }
        }
        input #code type="text" name="code" autocomplete="one-time-code" aria-describedby="code-hint" maxlength="64" autocapitalize="none" spellcheck="false" required[wants_code];
    }
}

/// Returns the credentials from the fields of a submitted form. Returns `None` if a required field
/// is missing or if a field is repeated.
pub(crate) fn read_credentials(fields: &Parameters) -> Option<Credentials> {
    let code = fields.one("code").ok()?;
    Some(Credentials {
        address: fields.one("email").ok()??.to_owned(),
        password: SecretString::from(fields.one("password").ok()??),
        code: code.map(SecretString::from),
    })
}

/// Checks the format of the credentials, and starts a sign-in attempt. Returns the normalized email
/// address, the credentials and the attempt.
///
/// # Errors
/// Returns 400 if the address or the password is malformed, and 429 if too many attempts to sign in
/// with this address have failed.
pub(crate) async fn begin_attempt<'a>(
    app: &'a App,
    request: &Request,
    credentials: Option<&'a Credentials>,
) -> Result<(String, &'a Credentials, Attempt<'a>), Rejection> {
    let credentials = credentials
        .filter(|credentials| passwords::has_valid_length(&credentials.password))
        .ok_or_else(|| {
            Rejection::bad_request(
                codes::INVALID_LOGIN_FORMAT,
                "Invalid email or password format",
            )
        })?;
    let address = app
        .auth
        .sign_in_address(credentials.address.trim())
        .ok_or_else(|| {
            Rejection::bad_request(
                codes::INVALID_LOGIN_FORMAT,
                "Invalid email or password format",
            )
        })?;
    let attempt = start_attempt(app, &address, request.client).await?;
    Ok((address, credentials, attempt))
}

/// Renders the sign-in page again after a failed sign-in. The page contains the email address that
/// the user entered.
///
/// # Errors
/// Returns `rejection` unchanged if its status is 500 or higher.
pub(crate) fn show_again(
    rejection: Rejection,
    credentials: Option<&Credentials>,
    page: impl FnOnce(&str, &Rejection) -> Result<Response, Rejection>,
) -> Result<Response, Rejection> {
    if rejection.status.is_server_error() {
        return Err(rejection);
    }
    let address = credentials.map_or("", |credentials| &credentials.address);
    let mut response = page(address, &rejection)?;
    response.headers.extend(rejection.headers);
    Ok(response)
}

/// Returns `true` if the sign-in failed only because the two-factor code is missing.
pub(crate) fn needs_code(rejection: Option<&Rejection>) -> bool {
    rejection.is_some_and(|rejection| rejection.code == codes::TWO_FACTOR_CODE_REQUIRED)
}

/// Returns the HTTP status and the error message of a sign-in page. Wrong credentials get the
/// status 403 and not 401, because 401 would require the header `WWW-Authenticate`, which does not
/// apply to forms.
pub(crate) fn status_and_message(rejection: Option<&Rejection>) -> (StatusCode, Option<String>) {
    let Some(rejection) = rejection else {
        return (StatusCode::OK, None);
    };
    let (status, message) = match rejection.status {
        StatusCode::UNAUTHORIZED if rejection.code == codes::TWO_FACTOR_CODE_REQUIRED => (
            StatusCode::FORBIDDEN,
            "Enter your two-factor code, and enter your password again",
        ),
        StatusCode::UNAUTHORIZED => (
            StatusCode::FORBIDDEN,
            "Incorrect email address, password or two-factor code",
        ),
        StatusCode::BAD_REQUEST => (
            StatusCode::BAD_REQUEST,
            "Enter your full email address and your password",
        ),
        status => (status, &*rejection.text),
    };
    (status, Some(message.to_owned()))
}
