//! The layout of the operator's pages: the head, the navigation and the style sheet. The content
//! security policy forbids frames and resources of other hosts. It also forbids scripts, except on
//! the page with charts.

use http::{HeaderValue, StatusCode};
use latchmail_core::clock::Timestamp;
use latchmail_http::App;
use latchmail_http::message::Response;
use latchmail_http::rejection::Rejection;
use latchmail_http::response;
use maud::{Markup, html};

use super::paths;
use crate::layout::{document, page_response};

const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The policy of a page that loads a script of this listener. The script can send requests only to
/// this listener.
pub(super) const POLICY_WITH_SCRIPT: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

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
    const ALL: [Self; 6] = [
        Self::Modules,
        Self::Accounts,
        Self::Domains,
        Self::MailServer,
        Self::Limits,
        Self::Log,
    ];

    const fn path(self) -> &'static str {
        match self {
            Self::Modules => paths::MODULES,
            Self::Accounts => paths::ACCOUNTS,
            Self::Domains => paths::DOMAINS,
            Self::MailServer => paths::MAIL_SERVER,
            Self::Limits => paths::LIMITS,
            Self::Log => paths::LOG,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Modules => "Modules",
            Self::Accounts => "Accounts",
            Self::Domains => "Domains",
            Self::MailServer => "Mail server",
            Self::Limits => "Rate limits",
            Self::Log => "Log",
        }
    }
}

/// The parts of a page.
pub(super) struct Layout<'a> {
    pub(super) status: StatusCode,
    /// The title in the browser's tab and the heading of the page.
    pub(super) title: &'a str,
    /// The current section, which is marked in the navigation.
    pub(super) section: Option<Section>,
    /// The result of the last action.
    pub(super) notice: Option<&'a str>,
    /// The email address of the administrator, and the token of the forms. `None` if the user is
    /// not signed in. In this case, the page has no navigation.
    pub(super) signed_in: Option<(&'a str, &'a str)>,
    /// The content below the heading.
    pub(super) body: &'a Markup,
}

impl Layout<'_> {
    pub(super) fn render(&self, app: &App) -> Response {
        let service = &app.config.service_name;
        let style = html! { link rel="stylesheet" href=(paths::STYLE); };
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header {
                p.service { (service) " administration" }
                @if let Some((address, csrf)) = self.signed_in {
                    nav aria-label="Sections" {
                        ul {
                            @for section in Section::ALL {
                                li {
                                    a href=(section.path()) aria-current=[(self.section == Some(section)).then_some("page")] {
                                        (section.name())
                                    }
                                }
                            }
                        }
                    }
                    form.account method="post" action=(paths::SIGN_OUT) {
                        (token(csrf))
                        span { (address) }
                        button type="submit" { "Sign out" }
                    }
                }
            }
            main #content tabindex="-1" {
                h1 { (self.title) }
                @if let Some(notice) = self.notice {
                    p.notice role="status" { (notice) }
                }
                (self.body)
            }
        };
        let title = format!("{} – {service} administration", self.title);
        let policy = HeaderValue::from_static(POLICY);
        page_response(self.status, policy, document(&title, &style, &body))
    }
}

/// Renders an error as a page of the operator's listener, and logs the error.
pub(super) fn error_page(app: &App, rejection: &Rejection) -> Response {
    let page = Layout {
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

/// Renders the hidden field of a form with the token against cross-site request forgery.
pub(super) fn token(csrf: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf); }
}

/// Renders a form that consists of one button. `described_by` is the id of the HTML element that
/// names the item that the action changes.
pub(super) fn button(csrf: &str, action: &str, name: &str, described_by: &str) -> Markup {
    html! {
        form method="post" action=(action) {
            (token(csrf))
            button type="submit" aria-describedby=(described_by) { (name) }
        }
    }
}

/// Renders a form with one field that filters a list. `value` is the current value of the field.
pub(super) fn search(csrf: &str, action: &str, field: &str, label: &str, value: &str) -> Markup {
    html! {
        form.search method="post" action=(action) role="search" {
            (token(csrf))
            div {
                label for=(field) { (label) }
                input #(field) type="text" name=(field) value=(value) maxlength="320" autocapitalize="none" spellcheck="false";
            }
            button.primary type="submit" { "Search" }
        }
    }
}

/// The page that asks the user to confirm an action.
pub(super) struct Confirmation<'a> {
    /// The path of the action.
    pub(super) action: &'a str,
    /// The name of the button.
    pub(super) button: &'a str,
    /// The path of the page to which the user returns without the action.
    pub(super) back: &'a str,
    /// Names and values of additional hidden fields of the form.
    pub(super) fields: &'a [(&'a str, &'a str)],
    /// The consequences of the action.
    pub(super) text: Markup,
}

impl Confirmation<'_> {
    pub(super) fn render(&self, csrf: &str) -> Markup {
        html! {
            (self.text)
            form.confirmation method="post" action=(self.action) {
                (token(csrf))
                input type="hidden" name="confirm" value="yes";
                @for (name, value) in self.fields {
                    input type="hidden" name=(name) value=(value);
                }
                button.danger type="submit" { (self.button) }
                a.button href=(self.back) { "Cancel" }
            }
        }
    }
}

/// Renders a table. If the table is wider than the screen, users can scroll it with the keyboard.
/// `caption` names the table.
pub(super) fn table(caption: &str, headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll role="region" aria-label=(caption) tabindex="0" {
            table {
                caption { (caption) }
                thead {
                    tr {
                        @for heading in headings { th scope="col" { (heading) } }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}

/// Renders a time as text in UTC. `millis` is the time in milliseconds since the Unix epoch.
pub(super) fn time(millis: i64) -> Markup {
    time_of_text(&Timestamp::from_millis(millis).to_string())
}

/// Renders a time from a text in RFC 3339 format, for example the text of a [`Timestamp`].
pub(super) fn time_of_text(text: &str) -> Markup {
    // The text has the form `2026-01-31T12:00:00.000Z`.
    let shown = match (text.get(..10), text.get(11..19)) {
        (Some(date), Some(time)) => format!("{date} {time} UTC"),
        _ => text.to_owned(),
    };
    html! { time datetime=(text) { (shown) } }
}
