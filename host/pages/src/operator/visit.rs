//! Requests of administrators: the cookie that identifies the session, the token in forms, and the
//! check that a form was sent from a page of this listener.
//!
//! The cookie contains the id of the session and the token of the forms, and is encrypted with the
//! service's keys. A cookie alone does not prove a session: each request also looks up the session
//! in the database.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use latchmail_accounts::auth::administrator::Administrator;
use latchmail_core::caller::Origin;
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_core::{Code, codes};
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::oauth::form;
use latchmail_http::rejection::Rejection;
use latchmail_oauth::parameters::Parameters;
use maud::Markup;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::layout::{Layout, Section};
use super::paths;
use super::state::PageState;
use crate::layout::see_other;

/// The time after which a cookie expires. Each page sends a new cookie, so an administrator who
/// requests no page for this time must sign in again.
const IDLE: Duration = Duration::from_hours(1);

/// The length of the token in forms, in characters.
const CSRF_LENGTH: usize = 43;

/// The name of the cookie. With TLS, the name has the prefix `__Host-`. Browsers accept such a
/// cookie only from this exact host and over TLS.
const COOKIE: &str = "latchmail-admin";
const SECURE_COOKIE: &str = "__Host-latchmail-admin";

/// The reason why a request of an administrator is refused.
#[derive(Debug)]
pub(super) enum Refusal {
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
pub(super) struct Browser {
    /// The token that every form of this browser contains.
    pub(super) csrf: String,
    /// The id of the session. `None` before the sign-in.
    sid: Option<String>,
    /// The result of the last action, which the next page shows once.
    notice: Option<String>,
    /// The time at which the cookie was sent, in milliseconds since the Unix epoch.
    sent_at: i64,
}

impl Browser {
    /// Creates the content of a new cookie. `sid` is the id of the session.
    pub(super) fn new(sid: Option<String>) -> Result<Self, Failure> {
        Ok(Self {
            csrf: secrets::letters_and_digits(CSRF_LENGTH)?
                .as_str()
                .to_owned(),
            sid,
            notice: None,
            sent_at: 0,
        })
    }

    /// Reads the cookie of a request. Returns `None` if the request has no valid cookie, or if the
    /// cookie was sent more than `IDLE` ago.
    pub(super) fn of(state: &PageState, headers: &HeaderMap) -> Option<Self> {
        let name = cookie_name(state);
        let all = headers.get_all(header::COOKIE).iter();
        let mut pairs = all
            .filter_map(|cookies| cookies.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        let sealed = URL_SAFE_NO_PAD.decode(value).ok()?;
        let keys = state.app.auth.keys();
        let opened = keys.open_bytes(Purpose::OperatorPage, COOKIE, &sealed)?;
        let browser: Self = serde_json::from_slice(&opened).ok()?;
        let idle_since = state.app.clock.now().minus(IDLE).millis();
        (browser.sent_at > idle_since).then_some(browser)
    }

    /// Returns the `Set-Cookie` header that stores the cookie.
    pub(super) fn cookie(&mut self, state: &PageState) -> Result<HeaderValue, Failure> {
        self.sent_at = state.app.clock.now().millis();
        let plain = serde_json::to_vec(self).map_err(Failure::internal)?;
        let keys = state.app.auth.keys();
        let sealed = keys.seal_bytes(Purpose::OperatorPage, COOKIE, &plain)?;
        set_cookie(state, &URL_SAFE_NO_PAD.encode(sealed), "")
    }
}

/// Returns the `Set-Cookie` header that deletes the cookie.
pub(super) fn delete_cookie(state: &PageState) -> Result<HeaderValue, Failure> {
    set_cookie(state, "", "; Max-Age=0")
}

fn set_cookie(state: &PageState, value: &str, more: &str) -> Result<HeaderValue, Failure> {
    let secure = if state.has_tls() { "; Secure" } else { "" };
    let name = cookie_name(state);
    let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
    HeaderValue::from_str(&cookie).map_err(Failure::internal)
}

fn cookie_name(state: &PageState) -> &'static str {
    if state.has_tls() {
        SECURE_COOKIE
    } else {
        COOKIE
    }
}

/// A request of an administrator with a session.
pub(super) struct Visit<'a> {
    pub(super) state: &'a PageState,
    pub(super) app: &'a App,
    pub(super) administrator: Administrator,
    pub(super) browser: Browser,
    request: &'a Request,
}

impl<'a> Visit<'a> {
    /// Finds the session of a request.
    ///
    /// # Errors
    /// Returns [`Refusal::SignInRequired`] if the browser has no session.
    pub(super) async fn of(state: &'a PageState, request: &'a Request) -> Result<Self, Refusal> {
        let browser = Browser::of(state, &request.headers).ok_or(Refusal::SignInRequired)?;
        let sid = browser.sid.as_deref().ok_or(Refusal::SignInRequired)?;
        let administrator = state.app.auth.administrators.administrator(sid).await?;
        Ok(Self {
            state,
            app: &state.app,
            administrator: administrator.ok_or(Refusal::SignInRequired)?,
            browser,
            request,
        })
    }

    /// Finds the session of a submitted form, and returns the fields of the form.
    ///
    /// # Errors
    /// Returns [`Refusal::SignInRequired`] if the browser has no session. Returns 403 if the form
    /// was sent from a page of another site, or if the form has a wrong token.
    pub(super) async fn of_form(
        state: &'a PageState,
        request: &'a Request,
    ) -> Result<(Self, Fields), Refusal> {
        require_same_origin(state, &request.headers)?;
        let visit = Self::of(state, request).await?;
        let fields = Fields::read(request, &visit.browser)?;
        Ok((visit, fields))
    }

    /// Returns the origin of the administrator's action for audit events.
    pub(super) fn origin(&self) -> Origin {
        self.administrator.origin(self.request.origin())
    }

    /// Returns the response with a page, which also shows the result of the last action.
    pub(super) fn page(
        mut self,
        section: Option<Section>,
        title: &str,
        body: &Markup,
    ) -> Result<Response, Refusal> {
        let notice = self.browser.notice.take();
        let page = Layout {
            status: StatusCode::OK,
            title,
            section,
            notice: notice.as_deref(),
            signed_in: Some((&self.administrator.address, &self.browser.csrf)),
            body,
        };
        let response = page.render(self.app);
        let cookie = self.browser.cookie(self.state)?;
        Ok(response.with(header::SET_COOKIE, cookie))
    }

    /// Redirects the browser to the page `path` after an action. The next page shows `notice` once.
    pub(super) fn done(
        mut self,
        path: &'static str,
        notice: impl Into<String>,
    ) -> Result<Response, Refusal> {
        self.browser.notice = Some(notice.into());
        let cookie = self.browser.cookie(self.state)?;
        Ok(see_other(path).with(header::SET_COOKIE, cookie))
    }
}

/// The fields of a form whose token was checked.
pub(super) struct Fields(pub(super) Parameters);

impl Fields {
    /// Reads the fields of a submitted form, and checks the form's token.
    ///
    /// # Errors
    /// Returns 403 if the token of the form is missing or is not the token of the browser. Returns
    /// 400 if the body is not a form.
    pub(super) fn read(request: &Request, browser: &Browser) -> Result<Self, Rejection> {
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
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, Rejection> {
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
    pub(super) fn are_confirmed(&self) -> Result<bool, Rejection> {
        Ok(self.one("confirm")? == Some("yes"))
    }
}

/// Checks that a form was sent from a page of this listener.
///
/// # Errors
/// Returns 403 if the browser reports another origin.
pub(super) fn require_same_origin(state: &PageState, headers: &HeaderMap) -> Result<(), Rejection> {
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    let is_own = |origin: &HeaderValue| {
        let origin = origin.as_bytes();
        // If this listener has no TLS, a proxy on this machine can add TLS. The browser then
        // reports an origin with the scheme `https`.
        let plain = origin.strip_prefix(b"http://").filter(|_| !state.has_tls());
        let authority = plain.or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some() && authority == host
    };
    let is_same_site = |site: &HeaderValue| site == "same-origin";
    let sites = headers.get_all(HeaderName::from_static("sec-fetch-site"));
    if headers.get_all(header::ORIGIN).iter().all(is_own) && sites.iter().all(is_same_site) {
        return Ok(());
    }
    Err(forbidden(
        codes::FOREIGN_ORIGIN,
        "This form was sent from another site",
    ))
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

/// Returns the result of the future `page`. Redirects a browser without a session to the sign-in
/// page.
pub(super) async fn respond(
    request: &Request,
    page: impl Future<Output = Result<Response, Refusal>>,
) -> Result<Response, Rejection> {
    if is_framed(&request.headers) {
        return Err(forbidden(
            codes::FOREIGN_ORIGIN,
            "This page cannot be shown in a frame",
        ));
    }
    match page.await {
        Err(Refusal::SignInRequired) => Ok(see_other(paths::SIGN_IN)),
        Err(Refusal::Rejected(rejection)) => Err(*rejection),
        Ok(response) => Ok(response),
    }
}
