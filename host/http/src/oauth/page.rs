//! The layout of the pages: plain HTML without scripts and external resources. The content security policy forbids framing by other sites, and allows forms to
//! be sent to this server and to redirect to the client only.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use latchmail_core::caller::Scope;
use latchmail_core::error::Failure;
use latchmail_core::limits::{Bucket, Key};
use latchmail_oauth::document;
use latchmail_runtime::modules::Content;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::form::Browser;
use crate::App;
use crate::rate_limit;
use crate::rejection::Rejection;
use crate::{Request, Response, answer};

const STYLE: &str = include_str!("page.css");

/// The hash of the style in the content security policy, so that browsers accept no other style.
static STYLE_HASH: LazyLock<String> =
    LazyLock::new(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE))));

/// A page.
pub(super) struct Page<'a> {
    /// The status of the response.
    pub(super) status: StatusCode,
    /// The title in the browser's tab and the heading of the page.
    pub(super) title: &'a str,
    /// The content below the heading.
    pub(super) body: Markup,
    /// An additional source for `form-action` in the content security policy.
    pub(super) leads_to: Option<String>,
    /// The browser that receives the cookie, if the page has a form.
    pub(super) browser: Option<&'a Browser>,
}

impl Page<'_> {
    /// Renders the page to a response.
    pub(super) fn reply(self, app: &App) -> Result<Response, Rejection> {
        let service = &app.config.service_name;
        let document = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    title { (self.title) " – " (service) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        p.service { (service) }
                        h1 { (self.title) }
                        (self.body)
                    }
                }
            }
        };
        let policy = format!(
            "default-src 'none'; style-src {}; form-action 'self'{}{}; frame-ancestors 'none'; base-uri 'none'",
            *STYLE_HASH,
            if self.leads_to.is_some() { " " } else { "" },
            self.leads_to.unwrap_or_default(),
        );
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "same-origin"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (
                HeaderName::from_static("cross-origin-opener-policy"),
                "same-origin",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let policy = HeaderValue::from_str(&policy).map_err(Failure::internal)?;
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        if let Some(browser) = self.browser {
            headers.insert(header::SET_COOKIE, browser.cookie(app)?);
        }
        Ok(Response {
            status: self.status,
            headers,
            body: Content::Bytes(Bytes::from(document.into_string())),
        })
    }
}

/// Renders the fields for the account's email address, password and two-factor code.
pub(super) fn credentials(address: &str, wants_code: bool) -> Markup {
    html! {
        label for="email" { "Email address" }
        input #email type="email" name="email" value=(address) autocomplete="username" required maxlength="320" autocapitalize="none" spellcheck="false" autofocus[address.is_empty()];
        label for="password" { "Password" }
        input #password type="password" name="password" autocomplete="current-password" required maxlength="1024" autofocus[!address.is_empty()];
        label for="code" { "Two-factor code" }
        p #code-hint .soft {
            "Six digits or a recovery code."
            @if !wants_code { " Leave this field empty if you do not use two-factor sign-in." }
        }
        input #code type="text" name="code" autocomplete="one-time-code" aria-describedby="code-hint" maxlength="64" autocapitalize="none" spellcheck="false" required[wants_code];
    }
}

/// Renders an error message that screen readers announce.
pub(super) fn alert(sentence: Option<&str>) -> Markup {
    html! {
        @if let Some(sentence) = sentence {
            p role="alert" { (sentence) }
        }
    }
}

/// Renders a failure as a page.
fn failed(app: &App, failure: &Rejection) -> Result<Response, Rejection> {
    let page = Page {
        status: failure.status,
        title: "Something went wrong",
        body: html! { p role="alert" { (failure.text) } },
        leads_to: None,
        browser: None,
    };
    let mut reply = page.reply(app)?;
    reply.headers.extend(failure.headers.iter().cloned());
    answer::log(failure);
    Ok(reply)
}

/// Counts a request towards a rate limit and returns the page. An exceeded limit and a failure of the page are returned as pages too.
pub(super) async fn within(
    app: &App,
    request: &Request,
    bucket: Bucket,
    page: impl Future<Output = Result<Response, Rejection>>,
) -> Result<Response, Rejection> {
    let key = Key::client(request.client);
    let verdict = match app.http.limits.check(bucket, &key).admit() {
        Ok(verdict) => verdict,
        Err(failure) => return failed(app, &failure.into()),
    };
    let mut reply = page.await.or_else(|failure| failed(app, &failure))?;
    rate_limit::write(verdict, &mut reply.headers);
    Ok(reply)
}

/// Renders what the client can do through each interface with the scopes of a list, and the condition for the user to continue.
pub(super) fn agreement(scope: &str, only_if: &str) -> Markup {
    let scopes = Scope::read_list(scope);
    html! {
        p { "The application gets access to your mailbox through these interfaces:" }
        dl {
            @for (interface, grants) in [("REST API", by_rest(&scopes)), ("MCP", by_mcp(&scopes))] {
                @if !grants.is_empty() {
                    dt { (interface) }
                    dd { (grants.join(", and ")) }
                }
            }
        }
        p { "Continue only if " (only_if) "." }
    }
}

/// Describes what scopes allow through the REST API.
fn by_rest(scopes: &[Scope]) -> Vec<&'static str> {
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

/// Describes what scopes allow through MCP, which has no tool that changes mail.
fn by_mcp(scopes: &[Scope]) -> Vec<&'static str> {
    let has = |scope| scopes.contains(&scope);
    let mail = has(Scope::MailRead).then_some("read and search your mail");
    let aliases = has(Scope::AliasesRead).then_some("list and create aliases");
    let send = has(Scope::MailSend).then_some("send mail as you");
    [mail, aliases, send].into_iter().flatten().collect()
}

/// Renders the client's id if it is a URL. Unlike a client's name, such an id cannot be used by another client.
pub(super) fn described(client_id: &str) -> Markup {
    html! {
        @if document::is_url(client_id) {
            dt { "Application URL" }
            dd { (client_id) }
        }
    }
}

/// Returns the client's name for a page.
pub(super) fn named(client: &str) -> &str {
    if client.is_empty() {
        "Unnamed application"
    } else {
        client
    }
}
