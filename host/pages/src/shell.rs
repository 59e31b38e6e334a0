//! The frame of the pages that people use after a sign-in: the head, the navigation, the style
//! sheet and the content security policy. The policy forbids scripts, frames and resources of other
//! hosts. The elements in the content of such pages are in [`crate::elements`].

use http::{HeaderValue, StatusCode};
use latchmail_http::App;
use latchmail_http::message::Response;
use maud::{Markup, html};

use crate::elements::token;
use crate::layout::{asset, document, page_response};

const STYLE: &str = include_str!("shell.css");

const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Pages with a common navigation.
pub(crate) struct Site {
    /// The words after the name of the service, for example `administration`.
    pub(crate) name: &'static str,
    /// The path of the style sheet.
    pub(crate) style: &'static str,
    /// The path to which the form with the button "Sign out" is sent.
    pub(crate) sign_out: &'static str,
    /// The paths and the names of the sections in the navigation.
    pub(crate) sections: &'static [(&'static str, &'static str)],
}

/// The parts of a page.
pub(crate) struct Shell<'a> {
    pub(crate) site: &'static Site,
    pub(crate) status: StatusCode,
    /// The title in the browser's tab and the heading of the page.
    pub(crate) title: &'a str,
    /// The path of the current section, which is marked in the navigation.
    pub(crate) section: Option<&'static str>,
    /// The result of the last action.
    pub(crate) notice: Option<&'a str>,
    /// The email address of the user, and the token of the forms. `None` if the user is not signed
    /// in. In this case, the page has no navigation.
    pub(crate) signed_in: Option<(&'a str, &'a str)>,
    /// The content below the heading.
    pub(crate) body: &'a Markup,
}

impl Shell<'_> {
    pub(crate) fn render(&self, app: &App) -> Response {
        let (service, site) = (&app.config.service_name, self.site);
        let style = html! { link rel="stylesheet" href=(site.style); };
        let body = html! {
            a.skip href="#content" { "Skip to the content" }
            header {
                p.service { (service) " " (site.name) }
                @if let Some((address, csrf)) = self.signed_in {
                    nav aria-label="Sections" {
                        ul {
                            @for (path, name) in site.sections {
                                li {
                                    a href=(path) aria-current=[(self.section == Some(*path)).then_some("page")] {
                                        (name)
                                    }
                                }
                            }
                        }
                    }
                    form.account method="post" action=(site.sign_out) {
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
        let title = format!("{} – {service} {}", self.title, site.name);
        let policy = HeaderValue::from_static(POLICY);
        page_response(self.status, policy, document(&title, &style, &body))
    }
}

/// Returns the style sheet.
pub(crate) fn style_sheet() -> Response {
    asset("text/css", STYLE)
}
