//! The session of a person on pages with forms: the cookie that identifies the session, the token
//! in forms, and the redirect to the sign-in page.
//!
//! The cookie contains the id of the session and the token of the forms, and is encrypted with the
//! service's keys. A cookie alone does not prove a session: each request also looks up the session
//! in the database.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_core::{Code, codes};
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::oauth::form;
use latchmail_http::rejection::Rejection;
use latchmail_oauth::parameters::Parameters;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::layout::see_other_to;

/// The time after which a cookie expires. Each page sends a new cookie, so a user who requests no
/// page for this time must sign in again.
const IDLE: Duration = Duration::from_hours(1);

/// The length of the token in forms, in characters.
const CSRF_LENGTH: usize = 43;

/// The cookie of a group of pages.
pub(crate) struct Cookies<'a> {
    pub(crate) app: &'a App,
    /// Whether browsers reach the pages over TLS.
    pub(crate) has_tls: bool,
    /// The name of the cookie without TLS. With TLS, the name has the prefix `__Host-`. Browsers
    /// accept such a cookie only from this exact host and over TLS.
    pub(crate) name: &'static str,
    /// The purpose for which the cookie is sealed.
    pub(crate) purpose: Purpose,
    /// The value of the attribute `SameSite`.
    pub(crate) same_site: &'static str,
}

/// The reason why a request for a page is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The browser has no session. The user must sign in.
    SignInRequired,
    /// The request is invalid, or the operation failed.
    Rejected(Box<Rejection>),
}

impl<E: Into<Rejection>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Rejected(Box::new(error.into()))
    }
}

/// The content of the cookie.
#[derive(Serialize, Deserialize)]
pub(crate) struct Browser {
    /// The token that every form of this browser contains.
    pub(crate) csrf: String,
    /// The id of the session. `None` before the sign-in.
    pub(crate) sid: Option<String>,
    /// The result of the last action, which the next page shows once.
    pub(crate) notice: Option<String>,
    /// The time at which the cookie was sent, in milliseconds since the Unix epoch.
    sent_at: i64,
}

impl Browser {
    /// Creates the content of a new cookie. `sid` is the id of the session.
    pub(crate) fn new(sid: Option<String>) -> Result<Self, Failure> {
        Ok(Self {
            csrf: secrets::letters_and_digits(CSRF_LENGTH)?
                .as_str()
                .to_owned(),
            sid,
            notice: None,
            sent_at: 0,
        })
    }
}

impl Cookies<'_> {
    /// Reads the cookie of a request. Returns `None` if the request has no valid cookie, or if the
    /// cookie was sent more than `IDLE` ago.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Option<Browser> {
        let value = cookie_value(headers, &self.full_name())?;
        let sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let keys = self.app.auth.keys();
        let opened = keys.open_bytes(self.purpose, self.name, &sealed)?;
        let browser: Browser = serde_json::from_slice(&opened).ok()?;
        let idle_since = self.app.clock.now().minus(IDLE).millis();
        (browser.sent_at > idle_since).then_some(browser)
    }

    /// Returns the `Set-Cookie` header that stores the cookie.
    pub(crate) fn set(&self, browser: &mut Browser) -> Result<HeaderValue, Failure> {
        browser.sent_at = self.app.clock.now().millis();
        let plain = serde_json::to_vec(browser).map_err(Failure::internal)?;
        let keys = self.app.auth.keys();
        let sealed = keys.seal_bytes(self.purpose, self.name, &plain)?;
        self.header(&URL_SAFE_NO_PAD.encode(sealed), "")
    }

    /// Returns the `Set-Cookie` header that deletes the cookie.
    pub(crate) fn delete(&self) -> Result<HeaderValue, Failure> {
        self.header("", "; Max-Age=0")
    }

    fn header(&self, value: &str, more: &str) -> Result<HeaderValue, Failure> {
        let (name, same_site) = (self.full_name(), self.same_site);
        let secure = if self.has_tls { "; Secure" } else { "" };
        let cookie =
            format!("{name}={value}; Path=/; HttpOnly; SameSite={same_site}{secure}{more}");
        HeaderValue::from_str(&cookie).map_err(Failure::internal)
    }

    fn full_name(&self) -> String {
        let prefix = if self.has_tls { "__Host-" } else { "" };
        format!("{prefix}{}", self.name)
    }
}

/// Returns the value of the first cookie with this name.
pub(crate) fn cookie_value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let all = headers.get_all(header::COOKIE).iter();
    let mut pairs = all
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The fields of a form whose token was checked.
pub(crate) struct Fields(pub(crate) Parameters);

impl Fields {
    /// Reads the fields of a submitted form, and checks the form's token.
    ///
    /// # Errors
    /// Returns 403 if the token of the form is missing or is not the token of the browser. Returns
    /// 400 if the body is not a form.
    pub(crate) fn read(request: &Request, browser: &Browser) -> Result<Self, Rejection> {
        let fields = form(request)
            .map_err(|refusal| Rejection::bad_request(codes::INVALID_FIELD, refusal.description))?;
        let fields = Self(Parameters::new(fields));
        let expected = Sha256::digest(&browser.csrf);
        let sent = fields.one("csrf")?.map(Sha256::digest);
        if sent != Some(expected) {
            return Err(forbidden(
                codes::FORM_EXPIRED,
                "This form has expired or comes from another site. Go back and reload the page.",
            ));
        }
        Ok(fields)
    }

    /// Returns the value of a field, or `None` if the field is missing or empty.
    ///
    /// # Errors
    /// Returns 400 if the field is repeated.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Rejection> {
        self.0.one(name).map_err(|_| {
            Rejection::bad_request(
                codes::PARAMETER_REPEATED,
                format!("{name} must not be repeated"),
            )
        })
    }

    /// Returns `true` if the form contains the user's confirmation of the action.
    ///
    /// # Errors
    /// Returns 400 if the field is repeated.
    pub(crate) fn are_confirmed(&self) -> Result<bool, Rejection> {
        Ok(self.one("confirm")? == Some("yes"))
    }
}

/// Returns the rejection of a form that was sent from a page of another origin.
pub(crate) fn foreign_origin() -> Rejection {
    forbidden(
        codes::FOREIGN_ORIGIN,
        "This form was sent from another site",
    )
}

fn forbidden(code: Code, text: &'static str) -> Rejection {
    Rejection::new(StatusCode::FORBIDDEN, code, text)
}

/// Returns `true` if a browser loads the page into a frame.
fn is_framed(headers: &HeaderMap) -> bool {
    let destination = headers.get(HeaderName::from_static("sec-fetch-dest"));
    let frames: [&[u8]; 5] = [b"frame", b"iframe", b"embed", b"object", b"fencedframe"];
    destination.is_some_and(|value| frames.contains(&value.as_bytes()))
}

/// Returns the result of the future `page`. If the browser has no session, or if the session ends
/// during the request, redirects the browser to `sign_in`, the URL of the sign-in page.
pub(crate) async fn respond(
    request: &Request,
    sign_in: &str,
    page: impl Future<Output = Result<Response, Refusal>>,
) -> Result<Response, Rejection> {
    if is_framed(&request.headers) {
        return Err(forbidden(
            codes::FOREIGN_ORIGIN,
            "This page cannot be shown in a frame",
        ));
    }
    match page.await {
        Err(Refusal::SignInRequired) => Ok(see_other_to(sign_in)?),
        Err(Refusal::Rejected(rejection)) if rejection.status == StatusCode::UNAUTHORIZED => {
            Ok(see_other_to(sign_in)?)
        }
        Err(Refusal::Rejected(rejection)) => Err(*rejection),
        Ok(response) => Ok(response),
    }
}
