//! What a page carries from one request to the next: sealed in a hidden field of its form, for a while, and for the browser alone whose cookie it was
//! sealed with. A form that another site made, or that was taken from another browser, opens nothing (CSRF).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::auth::sealing::Purpose;
use crate::auth::secrets;
use crate::error::Failure;
use crate::http::Request;

/// How long a page may stay open.
const LIFETIME: Duration = Duration::from_mins(30);

/// Symbols of the cookie.
const LENGTH: usize = 43;

/// A browser that a page was given to.
pub(super) struct Browser {
    secret: String,
}

#[derive(Serialize, Deserialize)]
struct Sealed<T> {
    /// The page that it is for.
    page: String,
    until: i64,
    what: T,
}

impl Browser {
    /// The one that asks, with a cookie of its own where it has none yet.
    pub(super) fn of(app: &App, request: &Request) -> Result<Self, Failure> {
        match Self::known(app, request) {
            Some(known) => Ok(known),
            None => Ok(Self {
                secret: secrets::letters_and_digits(LENGTH)?.as_str().to_owned(),
            }),
        }
    }

    /// The one that asks, where it has a cookie.
    pub(super) fn known(app: &App, request: &Request) -> Option<Self> {
        let secret = cookie(&request.headers, name(is_secure(app)))?;
        Some(Self { secret })
    }

    /// The cookie, for this server alone and for no script; it comes along where another site leads here, which is how people get here.
    pub(super) fn cookie(&self, app: &App) -> Result<HeaderValue, Failure> {
        let secure = is_secure(app);
        let cookie = format!(
            "{}={}; Path=/; HttpOnly; SameSite=Lax{}",
            name(secure),
            self.secret,
            if secure { "; Secure" } else { "" },
        );
        HeaderValue::from_str(&cookie).map_err(Failure::internal)
    }

    /// What is kept in the form of a page.
    pub(super) fn seal<T: Serialize>(
        &self,
        app: &App,
        page: &str,
        what: T,
    ) -> Result<String, Failure> {
        let sealed = Sealed {
            page: page.to_owned(),
            until: app.clock.now().plus(LIFETIME).millis(),
            what,
        };
        let sealed = serde_json::to_vec(&sealed).map_err(Failure::internal)?;
        let keys = app.auth.keys();
        let sealed = keys.seal_bytes(Purpose::SignInPage, &self.secret, &sealed)?;
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// What was kept there; none where it was for another browser or another page, or too long ago.
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
        let good = opened.page == page && app.clock.now().millis() < opened.until;
        good.then_some(opened.what)
    }
}

/// Whether a form comes from a page of this server, as far as the browser says.
pub(super) fn is_own(app: &App, headers: &HeaderMap) -> bool {
    let says = |name, own: &str| headers.get(name).is_none_or(|value| value == own);
    says(header::ORIGIN, app.oauth.issuer())
        && says(
            header::HeaderName::from_static("sec-fetch-site"),
            "same-origin",
        )
}

fn is_secure(app: &App) -> bool {
    app.oauth.issuer().starts_with("https://")
}

/// A browser takes the first from nobody but this very host, over TLS.
fn name(secure: bool) -> &'static str {
    if secure {
        "__Host-latchmail-sign-in"
    } else {
        "latchmail-sign-in"
    }
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter();
    let mut pairs = all
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, secret) = pairs.find(|(key, _)| *key == name)?;
    let shaped = secret.len() == LENGTH && secret.bytes().all(|b| b.is_ascii_alphanumeric());
    shaped.then(|| secret.to_owned())
}
