//! Stores the state of a page in a hidden field of the page's form. The value of the field is
//! encrypted, expires, and is bound to the cookie of one browser. The service rejects a form from
//! another site or another browser, which prevents cross-site request forgery.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use latchmail_core::error::Failure;
use latchmail_core::sealing::Purpose;
use latchmail_core::secrets;
use latchmail_http::App;
use latchmail_http::message::Request;
use latchmail_http::oauth::form;
use latchmail_http::rejection::Rejection;
use latchmail_oauth::parameters::Parameters;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::page_session::cookie_value;

/// The time for which a form is valid.
const LIFETIME: Duration = Duration::from_mins(30);

/// The length of the cookie's value, in characters.
const COOKIE_LENGTH: usize = 43;

/// A browser that a cookie identifies.
pub(super) struct Browser {
    /// The value of the cookie.
    secret: String,
}

/// The content of the hidden field before encryption.
#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    /// The path of the page that contains the form.
    page: String,
    /// The time at which the form expires, in milliseconds since the Unix epoch.
    until: i64,
    page_state: T,
}

impl Browser {
    /// Returns the browser that sent the request. If the request has no valid cookie, creates the
    /// value of a new cookie.
    pub(super) fn get_or_create(app: &App, request: &Request) -> Result<Self, Rejection> {
        match Self::from_cookie(app, request) {
            Some(browser) => Ok(browser),
            None => Ok(Self {
                secret: secrets::letters_and_digits(COOKIE_LENGTH)?
                    .as_str()
                    .to_owned(),
            }),
        }
    }

    /// Returns the browser that sent the request, or `None` if the request has no valid cookie.
    pub(super) fn from_cookie(app: &App, request: &Request) -> Option<Self> {
        let secret = secret_cookie(&request.headers, cookie_name(is_secure(app)))?;
        Some(Self { secret })
    }

    /// Returns the `Set-Cookie` header. Scripts cannot read the cookie. The attribute
    /// `SameSite=Lax` is necessary, because users reach the pages through links on other sites.
    pub(super) fn cookie(&self, app: &App) -> Result<HeaderValue, Rejection> {
        let secure = is_secure(app);
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Lax{}",
            cookie_name(secure),
            self.secret,
            if secure { "; Secure" } else { "" },
        );
        Ok(HeaderValue::from_str(&cookie).map_err(Failure::internal)?)
    }

    /// Encrypts the state of a page for its hidden field.
    pub(super) fn seal<T: Serialize>(
        &self,
        app: &App,
        page: &str,
        page_state: T,
    ) -> Result<String, Rejection> {
        let sealed = Sealed {
            page: page.to_owned(),
            until: app.clock.now().plus(LIFETIME).millis(),
            page_state,
        };
        let sealed = serde_json::to_vec(&sealed).map_err(Failure::internal)?;
        let keys = app.auth.keys();
        let sealed = keys.seal_bytes(Purpose::SignInPage, &self.secret, &sealed)?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Decrypts the state of a page. Returns `None` if the state has expired, or if it belongs to
    /// another browser or another page.
    pub(super) fn open<T: DeserializeOwned>(
        &self,
        app: &App,
        page: &str,
        sealed: &str,
    ) -> Option<T> {
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let keys = app.auth.keys();
        let opened = keys.open_bytes(Purpose::SignInPage, &self.secret, &sealed)?;
        let opened: Sealed<T> = serde_json::from_slice(&opened).ok()?;
        let is_valid = opened.page == page && app.clock.now().millis() < opened.until;
        is_valid.then_some(opened.page_state)
    }
}

/// Reads a submitted form. Returns the browser, the state of the page and the fields of the form.
/// Returns `None` if the form has expired or belongs to another browser.
pub(super) fn open_form<T: DeserializeOwned>(
    app: &App,
    page: &str,
    request: &Request,
) -> Option<(Browser, T, Parameters)> {
    if !is_same_origin(app, &request.headers) {
        return None;
    }
    let browser = Browser::from_cookie(app, request)?;
    let fields = Parameters::new(form(request).ok()?);
    let sealed = fields.one("request").ok()??;
    let page_state = browser.open(app, page, sealed)?;
    Some((browser, page_state, fields))
}

/// Returns `false` if the headers show that the form was sent from a page of another origin.
pub(crate) fn is_same_origin(app: &App, headers: &HeaderMap) -> bool {
    // The pages of the authorization server can be at another URL than the pages for the sign-in at
    // the identity provider.
    let own = [app.oauth.issuer(), &app.config.base_url()];
    let origin = headers.get(header::ORIGIN);
    let site = headers.get(header::HeaderName::from_static("sec-fetch-site"));
    origin.is_none_or(|origin| own.iter().any(|own| origin == own))
        && site.is_none_or(|site| site == "same-origin")
}

/// Returns `true` if browsers reach the pages over TLS.
fn is_secure(app: &App) -> bool {
    // With an external authorization server, the issuer is the URL of that server. The pages of
    // this service are then at `base_url`.
    if app.config.oauth.introspection.is_some() {
        return app.config.base_url().starts_with("https://");
    }
    app.oauth.issuer().starts_with("https://")
}

/// Returns the name of the cookie. Browsers accept a cookie with the prefix `__Host-` only from
/// this exact host and over TLS.
fn cookie_name(secure: bool) -> &'static str {
    if secure {
        "__Host-latchmail-sign-in"
    } else {
        "latchmail-sign-in"
    }
}

/// Returns the value of the cookie `name`. Returns `None` if the cookie is missing or malformed.
fn secret_cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let secret = cookie_value(headers, name)?;
    let is_well_formed =
        secret.len() == COOKIE_LENGTH && secret.bytes().all(|b| b.is_ascii_alphanumeric());
    is_well_formed.then(|| secret.to_owned())
}
