//! Requests of owners: the session, and the check that a form was sent from a page of this service.
//! The cookie and the token in forms are in [`crate::page_session`].

use std::pin::Pin;

use http::{StatusCode, header};
use latchmail_accounts::auth::account::Session;
use latchmail_core::caller::{Caller, Origin};
use latchmail_core::sealing::Purpose;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::rejection::Rejection;
use latchmail_http::response;
use latchmail_mailbox::Access;
use maud::{Markup, html};

use super::paths;
use crate::layout::see_other_to;
pub(super) use crate::page_session::Refusal;
use crate::page_session::{self, Browser, Cookies, Fields, foreign_origin};
use crate::shell::{Shell, Site};
use crate::sign_in::is_same_origin;

/// The owner's page.
static SITE: Site = Site {
    name: "account",
    style: paths::STYLE,
    sign_out: paths::SIGN_OUT,
    sections: &[
        (paths::START, "Overview"),
        (paths::HOLDS, "Held mail"),
        (paths::GRANTS, "Agents and tokens"),
        (paths::APP_PASSWORDS, "App passwords"),
        (paths::SESSIONS, "Sessions"),
        (paths::ALIASES, "Aliases"),
        (paths::TWO_FACTOR, "Two-factor"),
        (paths::MODULES, "Modules"),
    ],
};

/// The future of a page.
pub(super) type Page<'a> = Pin<Box<dyn Future<Output = Result<Response, Refusal>> + Send + 'a>>;

/// Returns the cookie of the owner's page. Browsers send it with links from other sites, because
/// owners reach the pages through links in mail. Requests with `GET` change nothing, and forms need
/// a token.
fn cookies(app: &App) -> Cookies<'_> {
    Cookies {
        app,
        has_tls: app.config.base_url().starts_with("https://"),
        name: "latchmail-account",
        purpose: Purpose::AccountPage,
        same_site: "Lax",
    }
}

/// Redirects the browser to the owner's page `next` with the cookie of the new session `sid`.
pub(crate) fn begin(app: &App, sid: String, next: &str) -> Result<Response, Rejection> {
    let cookie = cookies(app).set(&mut Browser::new(Some(sid))?)?;
    Ok(see_other_to(next)?.with(header::SET_COOKIE, cookie))
}

/// Returns `true` if the browser has a session on the owner's page.
pub(crate) async fn has_session(app: &App, request: &Request) -> Result<bool, Rejection> {
    match Visit::of(app, request).await {
        Ok(_) => Ok(true),
        Err(Refusal::SignInRequired) => Ok(false),
        // A session that the service can no longer use must not prevent a new one.
        Err(Refusal::Rejected(rejection)) if rejection.status == StatusCode::UNAUTHORIZED => {
            Ok(false)
        }
        Err(Refusal::Rejected(rejection)) => Err(*rejection),
    }
}

/// A request of an owner with a session.
pub(super) struct Visit<'a> {
    pub(super) app: &'a App,
    pub(super) caller: Caller,
    pub(super) browser: Browser,
    sid: String,
    request: &'a Request,
}

impl<'a> Visit<'a> {
    /// Finds the session of a request.
    ///
    /// # Errors
    /// Returns [`Refusal::SignInRequired`] if the browser has no session.
    pub(super) async fn of(app: &'a App, request: &'a Request) -> Result<Self, Refusal> {
        let browser = cookies(app).read(&request.headers);
        let browser = browser.ok_or(Refusal::SignInRequired)?;
        let sid = browser.sid.clone().ok_or(Refusal::SignInRequired)?;
        let caller = app.auth.page_caller(&sid).await?;
        Ok(Self {
            app,
            caller: caller.ok_or(Refusal::SignInRequired)?,
            browser,
            sid,
            request,
        })
    }

    /// Finds the session of a submitted form, and returns the fields of the form.
    ///
    /// # Errors
    /// Returns [`Refusal::SignInRequired`] if the browser has no session. Returns 403 if the form
    /// was sent from a page of another site, or if the form has a wrong token.
    pub(super) async fn of_form(
        app: &'a App,
        request: &'a Request,
    ) -> Result<(Self, Fields), Refusal> {
        if !is_same_origin(app, &request.headers) {
            return Err(foreign_origin().into());
        }
        let visit = Self::of(app, request).await?;
        let fields = Fields::read(request, &visit.browser)?;
        Ok((visit, fields))
    }

    /// Returns the id of the account.
    pub(super) fn account(&self) -> &str {
        &self.caller.account
    }

    /// Returns the token of the forms.
    pub(super) fn csrf(&self) -> &str {
        &self.browser.csrf
    }

    /// Returns the session for operations on the account.
    pub(super) fn session(&self) -> Session<'_> {
        Session {
            account: &self.caller.account,
            sid: &self.sid,
        }
    }

    /// Returns the id of the session.
    pub(super) fn sid(&self) -> &str {
        &self.sid
    }

    /// Returns the access of the owner to the mailbox.
    pub(super) fn access(&self) -> Access {
        let (account, credential) = (self.caller.account.clone(), self.caller.mail.clone());
        Access {
            is_person: true,
            ..Access::of_owner(account, credential)
        }
    }

    /// Returns the origin of the owner's action for audit events.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            actor: self.caller.address.clone(),
            credential: Some(self.caller.mail.id.clone()),
            ..self.request.origin()
        }
    }

    /// Returns the value of the path's first named segment.
    pub(super) fn id(&self) -> &'a str {
        let first = self.request.path.first();
        first.map_or("", |(_, value)| value)
    }

    /// Returns the response with a page, which also shows the result of the last action. `section`
    /// is the path of a section in the navigation.
    pub(super) fn page(
        self,
        section: &'static str,
        title: &str,
        body: &Markup,
    ) -> Result<Response, Refusal> {
        self.page_with_status(StatusCode::OK, section, title, body)
    }

    /// Returns the response with a page and a status, for example after a wrong password.
    pub(super) fn page_with_status(
        mut self,
        status: StatusCode,
        section: &'static str,
        title: &str,
        body: &Markup,
    ) -> Result<Response, Refusal> {
        let notice = self.browser.notice.take();
        let page = Shell {
            site: &SITE,
            status,
            title,
            section: Some(section),
            notice: notice.as_deref(),
            signed_in: Some((&self.caller.address, &self.browser.csrf)),
            body,
        };
        let response = page.render(self.app);
        let cookie = cookies(self.app).set(&mut self.browser)?;
        Ok(response.with(header::SET_COOKIE, cookie))
    }

    /// Redirects the browser to the page `path` after an action. The next page shows `notice` once.
    pub(super) fn done(
        mut self,
        path: &str,
        notice: impl Into<String>,
    ) -> Result<Response, Refusal> {
        self.browser.notice = Some(notice.into());
        let cookie = cookies(self.app).set(&mut self.browser)?;
        Ok(see_other_to(path)?.with(header::SET_COOKIE, cookie))
    }
}

/// Ends the session, and redirects the browser to the sign-in page.
pub(super) async fn sign_out(app: &App, request: &Request) -> Result<Response, Rejection> {
    let page = Box::pin(async {
        let (visit, _) = Visit::of_form(app, request).await?;
        let (account, id) = (visit.account(), &visit.caller.mail.id);
        let credentials = &app.auth.credentials;
        credentials
            .revoke_app_password(account, id, visit.origin())
            .await?;
        let cookie = cookies(app).delete()?;
        Ok(see_other_to(paths::SIGN_IN)?.with(header::SET_COOKIE, cookie))
    });
    act(app, request, page).await
}

/// Returns the result of the future `page` of a request with `GET`. After the sign-in, the browser
/// returns to this page.
pub(super) async fn show(
    app: &App,
    request: &Request,
    page: Page<'_>,
) -> Result<Response, Rejection> {
    respond(app, request, request.uri.path(), page).await
}

/// Returns the result of the future `page` of a submitted form. After the sign-in, the browser
/// returns to the first page, and the user must submit the form again.
pub(super) async fn act(
    app: &App,
    request: &Request,
    page: Page<'_>,
) -> Result<Response, Rejection> {
    respond(app, request, paths::START, page).await
}

async fn respond(
    app: &App,
    request: &Request,
    next: &str,
    page: Page<'_>,
) -> Result<Response, Rejection> {
    match page_session::respond(request, &paths::sign_in(next), page).await {
        Err(rejection) => Ok(error_page(app, &rejection)),
        response => response,
    }
}

/// Renders an error as a page, and logs the error.
fn error_page(app: &App, rejection: &Rejection) -> Response {
    let page = Shell {
        site: &SITE,
        status: rejection.status,
        title: "The request was refused",
        section: None,
        notice: None,
        signed_in: None,
        body: &html! {
            p role="alert" { (rejection.text) }
            p { a href=(paths::START) { "Back to your account" } }
        },
    };
    let mut response = page.render(app);
    response.headers.extend(rejection.headers.iter().cloned());
    response::log(rejection);
    response
}
