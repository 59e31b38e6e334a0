//! The pages' frame: plain HTML that needs no script, in no other site's frame, loading nothing, and sending its forms nowhere but here and to where the
//! client is.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::form::Browser;
use crate::app::App;
use crate::caller::Scope;
use crate::error::Failure;
use crate::http::{Reply, Request, answer};
use crate::limits::{Area, Key};
use crate::modules::Content;
use crate::oauth::document;

const STYLE: &str = include_str!("page.css");

/// The style as the policy names it: by its hash, so that no other is taken.
static STYLE_HASH: LazyLock<String> =
    LazyLock::new(|| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE))));

/// A page.
pub(super) struct Page<'a> {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// What it is called, in the browser's frame and on top.
    pub(super) title: &'a str,
    /// What is below that.
    pub(super) body: Markup,
    /// Where its form may lead beside here, as a content policy calls it.
    pub(super) leads_to: Option<String>,
    /// The browser that it is for, where it has a form.
    pub(super) browser: Option<&'a Browser>,
}

impl Page<'_> {
    /// The page as an answer.
    pub(super) fn reply(self, app: &App) -> Result<Reply, Failure> {
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
        Ok(Reply {
            status: self.status,
            headers,
            body: Content::Bytes(Bytes::from(document.into_string())),
        })
    }
}

/// What the pages of signing in ask for: the account's address, its password, and its code.
pub(super) fn credentials(address: &str, wants_code: bool) -> Markup {
    html! {
        label for="email" { "Email address" }
        input #email type="email" name="email" value=(address) autocomplete="username" required maxlength="320" autocapitalize="none" spellcheck="false" autofocus[address.is_empty()];
        label for="password" { "Password" }
        input #password type="password" name="password" autocomplete="current-password" required maxlength="1024" autofocus[!address.is_empty()];
        label for="code" { "Two-factor code" }
        p #code-hint .soft {
            "Six digits, or a recovery code."
            @if !wants_code { " Leave it empty if two-factor sign-in is off for you." }
        }
        input #code type="text" name="code" autocomplete="one-time-code" aria-describedby="code-hint" maxlength="64" autocapitalize="none" spellcheck="false" required[wants_code];
    }
}

/// What went wrong, told at once by a screen reader.
pub(super) fn alert(sentence: Option<&str>) -> Markup {
    html! {
        @if let Some(sentence) = sentence {
            p role="alert" { (sentence) }
        }
    }
}

/// A failure on a page of its own.
fn failed(app: &App, failure: &Failure) -> Result<Reply, Failure> {
    let page = Page {
        status: failure.status,
        title: "That did not work",
        body: html! { p role="alert" { (failure.text) } },
        leads_to: None,
        browser: None,
    };
    let mut reply = page.reply(app)?;
    reply.headers.extend(failure.headers.iter().cloned());
    answer::log(failure);
    Ok(reply)
}

/// A page that counts towards a budget itself, so that whoever is over it is told so on a page; so is whoever it fails.
pub(super) async fn within(
    app: &App,
    request: &Request,
    area: Area,
    page: impl Future<Output = Result<Reply, Failure>>,
) -> Result<Reply, Failure> {
    let key = Key::client(request.client);
    let verdict = match app.http.limits.check(area, &key).admit() {
        Ok(verdict) => verdict,
        Err(failure) => return failed(app, &failure),
    };
    let mut reply = page.await.or_else(|failure| failed(app, &failure))?;
    verdict.write(&mut reply.headers);
    Ok(reply)
}

/// What the client can do through each interface with the scopes of this list, and the condition `only_if` for signing in.
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

/// What scopes allow through the REST API.
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

/// What scopes allow through MCP, which has no tool that changes mail.
fn by_mcp(scopes: &[Scope]) -> Vec<&'static str> {
    let has = |scope| scopes.contains(&scope);
    let mail = has(Scope::MailRead).then_some("read and search your mail");
    let aliases = has(Scope::AliasesRead).then_some("list and create aliases");
    let send = has(Scope::MailSend).then_some("send mail as you");
    [mail, aliases, send].into_iter().flatten().collect()
}

/// Where a client is described, where it has such an address: nobody else can have it, and anybody may call himself anything.
pub(super) fn described(client_id: &str) -> Markup {
    html! {
        @if document::is_address(client_id) {
            dt { "Described at" }
            dd { (client_id) }
        }
    }
}

/// What a client is called on a page.
pub(super) fn named(client: &str) -> &str {
    if client.is_empty() {
        "An application without a name"
    } else {
        client
    }
}
