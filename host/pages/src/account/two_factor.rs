//! `/account/two-factor`: the owner enables and disables two-factor sign-in, and replaces the
//! recovery codes. A new secret is stored only when the owner has entered a code of it. Until then,
//! it is in the form, sealed for this account.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use latchmail_accounts::auth::account::Confirmation;
use latchmail_accounts::auth::second_factor_settings::{SecondFactorChange, SecondFactorState};
use latchmail_accounts::auth::two_factor::{Enrolment, RecoveryCodes};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::{Markup, html};
use qrcode::{Color, QrCode};
use secrecy::{ExposeSecret as _, SecretString};

use super::paths;
use super::visit::{Refusal, Visit, act, show};
use crate::elements::{time, token};
use crate::page_session::Fields;

const TITLE: &str = "Two-factor sign-in";

/// The width of the border around a QR code, in modules (ISO/IEC 18004).
const QUIET_ZONE: usize = 4;

/// Shows the state of two-factor sign-in. If it is off, shows a new secret.
pub(super) async fn state(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let address = &visit.caller.address;
        let state = app
            .auth
            .verifier
            .second_factor_state(visit.account(), address);
        let body = match state.await? {
            SecondFactorState::AtProvider => html! {
                p { "You sign in at an identity provider. Set up two-factor sign-in there." }
            },
            SecondFactorState::On {
                since,
                recovery_codes,
            } => html! {
                p { span.good { "On" } " since " (time(since.millis())) "." }
                p { "Unused recovery codes: " (recovery_codes) "." }
                ul {
                    li { a href={ (paths::TWO_FACTOR) "/recovery-codes" } { "Create new recovery codes" } }
                    li { a href={ (paths::TWO_FACTOR) "/disable" } { "Switch two-factor sign-in off" } }
                }
            },
            SecondFactorState::Off => {
                let service = &app.config.service_name;
                let keys = app.auth.keys();
                let enrolment = Enrolment::generate(&keys, visit.account(), address, service)?;
                enrolment_form(visit.csrf(), &enrolment, None)
            }
        };
        visit.page(paths::TWO_FACTOR, TITLE, &body)
    });
    show(app, request, page).await
}

/// Receives a code of the new secret, and enables two-factor sign-in.
pub(super) async fn enable(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let enrolment = submitted(&visit, &fields)?;
        let code = code(&fields)?;
        let confirmation = confirmation(&visit, &fields, code.as_ref())?;
        let verifier = &app.auth.verifier;
        let change = verifier
            .enable_second_factor(
                confirmation,
                &visit.caller.address,
                enrolment,
                &visit.origin(),
            )
            .await?;
        let problem = match change {
            SecondFactorChange::Done(codes) => {
                return show_codes(visit, "Two-factor sign-in is on", &codes);
            }
            SecondFactorChange::Unchanged => {
                return visit.done(paths::TWO_FACTOR, "Two-factor sign-in is already on.");
            }
            SecondFactorChange::WrongCode => "This is not a current code of the new secret",
            SecondFactorChange::WrongPassword => "The password is wrong",
        };
        let again = submitted(&visit, &fields)?;
        let body = enrolment_form(visit.csrf(), &again, Some(problem));
        visit.page_with_status(StatusCode::FORBIDDEN, paths::TWO_FACTOR, TITLE, &body)
    });
    act(app, request, page).await
}

/// Returns the second factor whose sealed secret is in the form.
fn submitted(visit: &Visit<'_>, fields: &Fields) -> Result<Enrolment, Refusal> {
    let invalid = || Rejection::bad_request(codes::INVALID_FIELD, "The form is invalid");
    let sealed = fields.one("secret")?.ok_or_else(invalid)?;
    let sealed = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| invalid())?;
    let (address, service) = (&visit.caller.address, &visit.app.config.service_name);
    let keys = visit.app.auth.keys();
    let enrolment = Enrolment::reopen(&keys, visit.account(), address, service, sealed)?;
    Ok(enrolment.ok_or_else(invalid)?)
}

fn enrolment_form(csrf: &str, enrolment: &Enrolment, problem: Option<&str>) -> Markup {
    let url = enrolment.url.expose_secret();
    let sealed = URL_SAFE_NO_PAD.encode(&enrolment.sealed_secret);
    html! {
        @if let Some(problem) = problem { p role="alert" { (problem) "." } }
        p { "Two-factor sign-in is off. Scan this code with an authenticator app, or open the link on the device with the app, or type the secret." }
        (qr_code(url))
        dl {
            dt { "Secret" }
            dd { code { (enrolment.secret.expose_secret()) } }
            dt { "Link" }
            dd { a href=(url) { "Open in an authenticator app" } }
        }
        p { "Then enter the code that the app shows, and your password." }
        form.narrow method="post" action={ (paths::TWO_FACTOR) "/enable" } {
            (token(csrf))
            input type="hidden" name="secret" value=(sealed);
            (confirmation_fields("Six digits from the app."))
            button.primary type="submit" { "Switch on" }
        }
    }
}

/// Renders a QR code as an image of vectors. Renders nothing if the text is too long.
fn qr_code(text: &str) -> Markup {
    let Ok(code) = QrCode::new(text) else {
        return html! {};
    };
    let width = code.width();
    let size = width + 2 * QUIET_ZONE;
    let mut squares = String::new();
    for (at, color) in code.to_colors().into_iter().enumerate() {
        if color == Color::Dark {
            let (x, y) = (at % width + QUIET_ZONE, at / width + QUIET_ZONE);
            // Writing to a string does not fail.
            let _ = write!(squares, "M{x} {y}h1v1h-1z");
        }
    }
    html! {
        svg.qr role="img" aria-label="QR code with the secret" viewBox={ "0 0 " (size) " " (size) } {
            rect width=(size) height=(size) fill="#ffffff" {}
            path d=(squares) fill="#000000" {}
        }
    }
}

/// Shows the form that switches two-factor sign-in off.
pub(super) async fn confirm_disable(app: &App, request: &Request) -> Result<Response, Rejection> {
    show_form(app, request, &DISABLE).await
}

/// Switches two-factor sign-in off.
pub(super) async fn disable(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let code = code(&fields)?;
        let confirmation = confirmation(&visit, &fields, code.as_ref())?;
        let verifier = &app.auth.verifier;
        let change = verifier
            .disable_second_factor(confirmation, &visit.origin())
            .await;
        match change {
            Ok(SecondFactorChange::Done(()) | SecondFactorChange::Unchanged) => {
                visit.done(paths::TWO_FACTOR, "Two-factor sign-in was switched off.")
            }
            Ok(_) => DISABLE.again(visit, None),
            Err(failure) => DISABLE.again(visit, Some(failure)),
        }
    });
    act(app, request, page).await
}

/// Shows the form that creates new recovery codes.
pub(super) async fn confirm_codes(app: &App, request: &Request) -> Result<Response, Rejection> {
    show_form(app, request, &RENEW).await
}

/// Creates new recovery codes. Only the response to this request contains them.
pub(super) async fn renew_codes(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, fields) = Visit::of_form(app, request).await?;
        let code = code(&fields)?;
        let confirmation = confirmation(&visit, &fields, code.as_ref())?;
        let verifier = &app.auth.verifier;
        let change = verifier
            .renew_recovery_codes(confirmation, &visit.origin())
            .await;
        match change {
            Ok(SecondFactorChange::Done(codes)) => show_codes(visit, "New recovery codes", &codes),
            Ok(SecondFactorChange::Unchanged) => {
                visit.done(paths::TWO_FACTOR, "Two-factor sign-in is off.")
            }
            Ok(_) => RENEW.again(visit, None),
            Err(failure) => RENEW.again(visit, Some(failure)),
        }
    });
    act(app, request, page).await
}

/// A form that asks for the password and a code.
struct ConfirmationForm {
    title: &'static str,
    /// The last segment of the path.
    verb: &'static str,
    button: &'static str,
    text: &'static str,
}

const DISABLE: ConfirmationForm = ConfirmationForm {
    title: "Switch two-factor sign-in off?",
    verb: "disable",
    button: "Switch off",
    text: "After that, the password alone is enough to sign in. The recovery codes become invalid.",
};

const RENEW: ConfirmationForm = ConfirmationForm {
    title: "Create new recovery codes?",
    verb: "recovery-codes",
    button: "Create",
    text: "The old recovery codes become invalid.",
};

impl ConfirmationForm {
    fn render(&self, csrf: &str, problem: Option<&str>) -> Markup {
        html! {
            @if let Some(problem) = problem { p role="alert" { (problem) "." } }
            p { (self.text) }
            form.narrow method="post" action={ (paths::TWO_FACTOR) "/" (self.verb) } {
                (token(csrf))
                (confirmation_fields("Six digits or a recovery code."))
                p.actions {
                    button.danger type="submit" { (self.button) }
                    a.button href=(paths::TWO_FACTOR) { "Cancel" }
                }
            }
        }
    }

    /// Shows the form again after a wrong password or code. `failure` is the failure of the check.
    fn again(&self, visit: Visit<'_>, failure: Option<Failure>) -> Result<Response, Refusal> {
        let problem = match failure {
            None => "The password or the code is wrong",
            Some(failure) if failure.code == codes::TWO_FACTOR_CODE_REQUIRED => {
                "Enter your two-factor code, and enter your password again"
            }
            Some(failure) => return Err(failure.into()),
        };
        let body = self.render(visit.csrf(), Some(problem));
        visit.page_with_status(StatusCode::FORBIDDEN, paths::TWO_FACTOR, self.title, &body)
    }
}

async fn show_form(
    app: &App,
    request: &Request,
    form: &ConfirmationForm,
) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let visit = Visit::of(app, request).await?;
        let body = form.render(visit.csrf(), None);
        visit.page(paths::TWO_FACTOR, form.title, &body)
    });
    show(app, request, page).await
}

fn show_codes(visit: Visit<'_>, title: &str, codes: &RecoveryCodes) -> Result<Response, Refusal> {
    let body = html! {
        p.notice role="status" { "Store these recovery codes in a safe place. Each is valid once instead of a code, if you lose your device. They are not shown again." }
        ul.codes { @for code in codes.shown() { li { code { (code.as_str()) } } } }
        p { a href=(paths::TWO_FACTOR) { "Back to two-factor sign-in" } }
    };
    visit.page(paths::TWO_FACTOR, title, &body)
}

fn confirmation_fields(hint: &str) -> Markup {
    html! {
        label for="password" { "Password" }
        input #password type="password" name="password" autocomplete="current-password" required maxlength="1024";
        label for="code" { "Two-factor code" }
        p.soft #code-hint { (hint) }
        input #code type="text" name="code" autocomplete="one-time-code" aria-describedby="code-hint" required maxlength="64" autocapitalize="none" spellcheck="false";
    }
}

fn code(fields: &Fields) -> Result<Option<SecretString>, Rejection> {
    Ok(fields.one("code")?.map(SecretString::from))
}

fn confirmation<'v>(
    visit: &'v Visit<'_>,
    fields: &Fields,
    code: Option<&'v SecretString>,
) -> Result<Confirmation<'v>, Rejection> {
    let password = fields.one("password")?.unwrap_or_default();
    Ok(Confirmation {
        session: visit.session(),
        password: SecretString::from(password),
        code,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_is_an_image_without_styles() {
        let image =
            qr_code("otpauth://totp/Latchmail:ada%40example%2Eorg?secret=AAAA").into_string();
        assert!(
            image.starts_with("<svg class=\"qr\" role=\"img\""),
            "{image}"
        );
        assert!(
            image.contains("viewBox=\"0 0 ") && !image.contains("style"),
            "{image}"
        );
        assert_eq!(qr_code(&"a".repeat(10_000)).into_string(), "");
    }
}
