//! The layout of the operator's pages: the sections in the navigation, and the error page. The page
//! with charts is the only page that allows a script.

use latchmail_http::App;
use latchmail_http::message::Response;
use latchmail_http::rejection::Rejection;
use latchmail_http::response;
use maud::html;

use super::paths;
pub(super) use crate::elements::{Confirmation, button, search, table, time, time_of_text, token};
use crate::shell::{Shell, Site};

/// The policy of a page that loads a script of this listener. The script can send requests only to
/// this listener.
pub(super) const POLICY_WITH_SCRIPT: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The operator's page.
pub(super) static SITE: Site = Site {
    name: "administration",
    style: paths::STYLE,
    sign_out: paths::SIGN_OUT,
    sections: &[
        (paths::MODULES, "Modules"),
        (paths::ACCOUNTS, "Accounts"),
        (paths::DOMAINS, "Domains"),
        (paths::MAIL_SERVER, "Mail server"),
        (paths::LIMITS, "Rate limits"),
        (paths::LOG, "Log"),
    ],
};

/// A section of the operator's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Modules,
    Accounts,
    Domains,
    MailServer,
    Limits,
    Log,
}

impl Section {
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Modules => paths::MODULES,
            Self::Accounts => paths::ACCOUNTS,
            Self::Domains => paths::DOMAINS,
            Self::MailServer => paths::MAIL_SERVER,
            Self::Limits => paths::LIMITS,
            Self::Log => paths::LOG,
        }
    }
}

/// Renders an error as a page of the operator's listener, and logs the error.
pub(super) fn error_page(app: &App, rejection: &Rejection) -> Response {
    let page = Shell {
        site: &SITE,
        status: rejection.status,
        title: "The request was refused",
        section: None,
        notice: None,
        signed_in: None,
        body: &html! {
            p role="alert" { (rejection.text) }
            p { a href=(paths::MODULES) { "Back to the modules" } }
        },
    };
    let mut response = page.render(app);
    response.headers.extend(rejection.headers.iter().cloned());
    response::log(rejection);
    response
}
