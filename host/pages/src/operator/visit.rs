//! Requests of administrators: the session, and the check that a form was sent from a page of this
//! listener. The cookie and the token in forms are in [`crate::page_session`].

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use latchmail_accounts::auth::administrator::Administrator;
use latchmail_core::caller::Origin;
use latchmail_core::sealing::Purpose;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use maud::Markup;

use super::layout::{SITE, Section};
use super::paths;
use super::state::PageState;
use crate::layout::see_other;
pub(super) use crate::page_session::Refusal;
use crate::page_session::{self, Browser, Cookies, Fields, foreign_origin};
use crate::shell::Shell;

/// Returns the cookie of the operator's page. Browsers never send it with requests that other sites
/// cause.
pub(super) fn cookies(state: &PageState) -> Cookies<'_> {
    Cookies {
        app: &state.app,
        has_tls: state.has_tls(),
        name: "latchmail-admin",
        purpose: Purpose::OperatorPage,
        same_site: "Strict",
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
        let browser = cookies(state).read(&request.headers);
        let browser = browser.ok_or(Refusal::SignInRequired)?;
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
        let page = Shell {
            site: &SITE,
            status: StatusCode::OK,
            title,
            section: section.map(Section::path),
            notice: notice.as_deref(),
            signed_in: Some((&self.administrator.address, &self.browser.csrf)),
            body,
        };
        let response = page.render(self.app);
        let cookie = cookies(self.state).set(&mut self.browser)?;
        Ok(response.with(header::SET_COOKIE, cookie))
    }

    /// Redirects the browser to the page `path` after an action. The next page shows `notice` once.
    pub(super) fn done(
        mut self,
        path: &'static str,
        notice: impl Into<String>,
    ) -> Result<Response, Refusal> {
        self.browser.notice = Some(notice.into());
        let cookie = cookies(self.state).set(&mut self.browser)?;
        Ok(see_other(path).with(header::SET_COOKIE, cookie))
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
    Err(foreign_origin())
}

/// Returns the result of the future `page`. Redirects a browser without a session to the sign-in
/// page.
pub(super) fn respond(
    request: &Request,
    page: impl Future<Output = Result<Response, Refusal>>,
) -> impl Future<Output = Result<Response, Rejection>> {
    // The futures of some pages are large.
    page_session::respond(request, paths::SIGN_IN, Box::pin(page))
}
