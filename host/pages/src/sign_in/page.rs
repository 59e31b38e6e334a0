//! The layout of the sign-in pages. The pages are plain HTML without scripts and external
//! resources. The content security policy forbids other sites to show the pages in frames. The
//! policy allows forms to be sent only to this service. It allows this service to redirect the
//! browser after a form only to a URL with the scheme of the client or of the identity provider.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use latchmail_accounts::auth::oauth_tokens::read_stored_scopes;
use latchmail_core::caller::Scope;
use latchmail_core::config::AgentTools;
use latchmail_core::error::Failure;
use latchmail_http::App;
use latchmail_http::message::Response;
use latchmail_http::rejection::Rejection;
use latchmail_http::response;
use latchmail_oauth::document;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::browser::Browser;
use crate::account::GRANTS;
use crate::layout::{document, page_response};
use crate::policy_words::policy_list;

const STYLE: &str = include_str!("page.css");

/// The hash of the style sheet. The content security policy contains this hash, so browsers apply
/// no other style.
static STYLE_HASH: LazyLock<String> =
    LazyLock::new(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE))));

pub(super) struct Page<'a> {
    pub(super) status: StatusCode,
    /// The title in the browser's tab and the heading of the page.
    pub(super) title: &'a str,
    /// The content below the heading.
    pub(super) body: Markup,
    /// Additional sources for `form-action` in the content security policy, separated by spaces. If
    /// this service redirects the browser to a client or to the identity provider after the form,
    /// this field contains a source expression for each target of the redirect.
    pub(super) form_action: Option<String>,
    /// The browser that requested the page. The response sets the cookie of this browser. `None` if
    /// the page has no form.
    pub(super) browser: Option<&'a Browser>,
}

impl Page<'_> {
    pub(super) fn into_response(self, app: &App) -> Result<Response, Rejection> {
        let service = &app.config.service_name;
        let style = html! { style { (PreEscaped(STYLE)) } };
        let body = html! {
            main {
                p.service { (service) }
                h1 { (self.title) }
                (self.body)
            }
        };
        let policy = format!(
            "default-src 'none'; style-src {}; form-action 'self'{}{}; frame-ancestors 'none'; base-uri 'none'",
            *STYLE_HASH,
            if self.form_action.is_some() { " " } else { "" },
            self.form_action.unwrap_or_default(),
        );
        let policy = HeaderValue::from_str(&policy).map_err(Failure::internal)?;
        let title = format!("{} – {service}", self.title);
        let response = page_response(self.status, policy, document(&title, &style, &body));
        Ok(match self.browser {
            Some(browser) => response.with(header::SET_COOKIE, browser.cookie(app)?),
            None => response,
        })
    }
}

/// Returns a page without a form.
pub(crate) fn page_without_form(
    app: &App,
    status: StatusCode,
    title: &str,
    body: Markup,
) -> Result<Response, Rejection> {
    let page = Page {
        status,
        title,
        body,
        form_action: None,
        browser: None,
    };
    page.into_response(app)
}

/// Renders an error message that screen readers announce.
pub(super) fn alert(message: Option<&str>) -> Markup {
    html! {
        @if let Some(message) = message {
            p role="alert" { (message) }
        }
    }
}

/// Renders an error as a page with the layout of the sign-in pages, and logs the error.
pub(crate) fn error_page(app: &App, rejection: &Rejection) -> Result<Response, Rejection> {
    let body = html! { p role="alert" { (rejection.text) } };
    let mut response = page_without_form(app, rejection.status, "Something went wrong", body)?;
    response.headers.extend(rejection.headers.iter().cloned());
    response::log(rejection);
    Ok(response)
}

/// Renders the response to a form that has expired or belongs to another browser.
pub(super) fn expired_page(app: &App) -> Result<Response, Rejection> {
    let page = Page {
        status: StatusCode::FORBIDDEN,
        title: "This page has expired",
        body: html! {
            p role="alert" { "You opened the page too long ago, in another browser or at another URL of this service, or your browser blocks cookies. Return to the application and start again." }
        },
        form_action: None,
        browser: None,
    };
    page.into_response(app)
}

/// Renders the permissions that the scopes grant in each interface, the policy of a new grant, and
/// the condition under which the user should continue. `scope` is a stored list of scopes.
pub(super) fn consent(app: &App, scope: &str, condition: &str) -> Markup {
    let scopes = read_stored_scopes(scope);
    let has_all_tools = app.config.mcp.tools == AgentTools::Full;
    let mcp = mcp_access(&scopes, has_all_tools);
    html! {
        p { "The application gets access to your mailbox through these interfaces:" }
        dl {
            @for (interface, grants) in [("REST API", rest_access(&scopes)), ("MCP", mcp)] {
                @if !grants.is_empty() {
                    dt { (interface) }
                    dd { (grants.join(", and ")) }
                }
            }
        }
        (new_grant_policy(app))
        p { "Continue only if " (condition) "." }
    }
}

/// Renders the policy that a new grant gets.
fn new_grant_policy(app: &App) -> Markup {
    html! {
        @match app.config.grants.default_policy {
            Some(preset) => {
                p { "A new application gets the policy “" (preset.name()) "”, which limits these permissions:" }
                (policy_list(Some(&preset.policy())))
            }
            None => { p { "No policy limits these permissions." } }
        }
        p.soft { "You can change the policy of each application at " (app.config.base_url()) (GRANTS) "." }
    }
}

/// Returns the permissions of the scopes in the REST API.
fn rest_access(scopes: &[Scope]) -> Vec<&'static str> {
    let has = |scope| scopes.contains(&scope);
    let mail = match (has(Scope::MailRead), has(Scope::MailWrite)) {
        (true, true) => Some("read, flag, move and delete your mail"),
        (true, false) => Some("read your mail"),
        (false, true) => Some("flag, move and delete your mail"),
        (false, false) => None,
    };
    let aliases = has(Scope::AliasesRead).then_some("list your aliases");
    let send = has(Scope::MailSend).then_some("send mail as you");
    [mail, aliases, send].into_iter().flatten().collect()
}

/// Returns the permissions of the scopes in MCP. MCP has tools that change mail only if the
/// operator offers all tools.
fn mcp_access(scopes: &[Scope], has_all_tools: bool) -> Vec<&'static str> {
    let has = |scope| scopes.contains(&scope);
    let changes = has_all_tools && has(Scope::MailWrite);
    let mail = match (has(Scope::MailRead), changes) {
        (true, true) => Some("read, search, flag, move and delete your mail"),
        (true, false) => Some("read and search your mail"),
        (false, true) => Some("flag, move and delete your mail"),
        (false, false) => None,
    };
    let aliases = match (has(Scope::AliasesRead), has(Scope::AliasesWrite)) {
        (true, true) => Some("list and create aliases"),
        (true, false) => Some("list your aliases"),
        (false, true) => Some("create aliases"),
        (false, false) => None,
    };
    let send = has(Scope::MailSend).then_some("send mail as you");
    [mail, aliases, send].into_iter().flatten().collect()
}

/// Renders the client's id if the id is a URL. Another client can use the same name, but cannot use
/// the same URL.
pub(super) fn client_url(client_id: &str) -> Markup {
    html! {
        @if document::is_url(client_id) {
            dt { "Application URL" }
            dd { (client_id) }
        }
    }
}

/// Returns the name of a client as the pages show it.
pub(super) fn display_name(client_name: &str) -> &str {
    if client_name.is_empty() {
        "Unnamed application"
    } else {
        client_name
    }
}
