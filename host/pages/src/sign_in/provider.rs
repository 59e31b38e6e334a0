//! Redirects a browser to the identity provider. The service stores the request that continues
//! after the sign-in. The stored request is encrypted for this browser. The parameter `state`
//! identifies the stored request, and can be used once within ten minutes.

use std::net::IpAddr;
use std::time::Duration;

use http::header;
use latchmail_core::secrets::sha256_hex;
use latchmail_http::App;
use latchmail_http::message::{Request, Response};
use latchmail_http::oauth::{provider, unavailable};
use latchmail_http::rejection::Rejection;
use latchmail_oauth::authorization::Authorization;
use latchmail_oauth::parameters::Parameters;
use latchmail_oauth::redirect;
use latchmail_oauth::single_sign_on::ClientRequest;
use latchmail_oidc::{Pending, Provider};
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use url::Url;

use super::browser::Browser;
use crate::layout::see_other_to;

/// The path to which the provider redirects the browser.
pub(super) const CALLBACK_PATH: &str = "/auth/oidc/callback";

/// Maximum time between the redirect to the provider and the return of the browser to the callback.
const LIFETIME: Duration = Duration::from_mins(10);

/// The request that continues after the sign-in at the provider.
#[derive(Serialize, Deserialize)]
pub(super) enum Destination {
    /// A client receives a web session.
    Client(ClientRequest),
    /// An agent receives an authorization code. The user gave consent on the sign-in page.
    Agent(Authorization),
    /// The device that shows this user code receives a grant. The user gave consent on the page for
    /// devices.
    Device(String),
    /// The owner's page with this path.
    Account(String),
}

/// The stored state of a sign-in that continues at the identity provider.
#[derive(Serialize, Deserialize)]
pub(super) struct Continuation {
    pub(super) destination: Destination,
    pub(super) pending: Pending,
}

/// The ways in which users can sign in on a page.
pub(super) struct ProviderChoice {
    /// Whether the page has the fields for an address and a password.
    pub(super) passwords: bool,
    /// The host name of the identity provider, and the source expression that allows redirects to
    /// the provider. `None` if no user signs in at a provider.
    provider: Option<(String, String)>,
}

impl ProviderChoice {
    pub(super) fn of(app: &App) -> Self {
        let issuer = app.auth.single_sign_on.provider().map(Provider::issuer);
        let provider = issuer.map(|issuer| {
            let url = Url::parse(issuer).ok();
            let host = url.as_ref().and_then(Url::host_str).unwrap_or(issuer);
            (host.to_owned(), redirect::form_action(issuer))
        });
        Self {
            passwords: app.config.sign_in.uses_passwords(),
            provider,
        }
    }

    /// Renders the button that continues at the provider. `also` is what the button does in
    /// addition, for example ` and allow`. Renders nothing if no user signs in at a provider.
    pub(super) fn button(&self, also: &str) -> Markup {
        html! {
            @if let Some((host, _)) = &self.provider {
                @if self.passwords { p.soft { "If your organization signs in at " (host) ", continue there." } }
                button type="submit" name="provider" value="yes" formnovalidate { "Sign in at " (host) (also) }
            }
        }
    }

    /// Renders the button of a page on which the user can only continue at the provider.
    pub(super) fn confirmation(&self) -> Markup {
        html! {
            @if let Some((host, _)) = &self.provider {
                button type="submit" { "Sign in at " (host) }
            }
        }
    }

    /// Returns the sources for `form-action` in the content security policy: `client`, and the
    /// source expression that allows redirects to the provider. Chromium applies `form-action` to
    /// all redirects after a form is submitted. A provider can redirect the browser to further
    /// origins, so the expression for the provider contains only a scheme.
    pub(super) fn form_action(&self, client: Option<String>) -> Option<String> {
        let provider = self.provider.as_ref().map(|(_, source)| source.clone());
        let sources: Vec<String> = client.into_iter().chain(provider).collect();
        (!sources.is_empty()).then(|| sources.join(" "))
    }
}

/// Redirects the browser to the provider. `client` is the browser's IP address. `login_hint` is the
/// address that the person entered.
///
/// # Errors
/// Returns 503 if the provider does not respond.
pub(super) async fn continue_at_provider(
    app: &App,
    client: IpAddr,
    browser: &Browser,
    destination: Destination,
    login_hint: Option<&str>,
) -> Result<Response, Rejection> {
    let base = match destination {
        Destination::Client(_) | Destination::Account(_) => app.config.base_url(),
        // The authorization server can have another URL than `base_url`. The callback must be at
        // the URL of the page that starts the sign-in, because the browser sends the cookie only to
        // that host.
        Destination::Agent(_) | Destination::Device(_) => app.oauth.issuer().to_owned(),
    };
    let redirect_uri = format!("{base}{CALLBACK_PATH}");
    let request = provider(app)?.begin(&redirect_uri, login_hint).await;
    let request = request.map_err(unavailable)?;
    let continuation = Continuation {
        destination,
        pending: request.pending,
    };
    let sealed = browser.seal(app, CALLBACK_PATH, continuation)?;
    let expires_at = app.clock.now().plus(LIFETIME);
    let state_hash = sha256_hex(&request.state);
    let stored =
        app.directory
            .single_sign_on
            .add_provider_sign_in(&state_hash, &sealed, expires_at, client);
    stored.await?;
    let response = see_other_to(&request.url)?;
    Ok(response.with(header::SET_COOKIE, browser.cookie(app)?))
}

/// Removes the stored state of the sign-in that continues in this browser, and returns the state.
/// Returns `None` if `state` is wrong, expired or already used, or belongs to another browser.
pub(super) async fn take_continuation(
    app: &App,
    request: &Request,
    state: &str,
) -> Result<Option<Continuation>, Rejection> {
    let Some(browser) = Browser::from_cookie(app, request) else {
        return Ok(None);
    };
    let (state_hash, now) = (sha256_hex(state), app.clock.now());
    let sealed = app
        .directory
        .single_sign_on
        .take_provider_sign_in(&state_hash, now)
        .await?;
    Ok(sealed.and_then(|sealed| browser.open(app, CALLBACK_PATH, &sealed)))
}

/// The address that a user entered before the sign-in at the identity provider. `None` if the user
/// pressed the button of the provider.
pub(super) struct LoginHint(pub(super) Option<String>);

/// Returns a login hint if the sign-in must continue at the identity provider. This is the case if
/// the user pressed the button of the provider, or entered the address of a user who signs in at
/// the provider.
pub(super) fn provider_sign_in(app: &App, fields: &Parameters) -> Option<LoginHint> {
    app.auth.single_sign_on.provider()?;
    if matches!(fields.one("provider"), Ok(Some(_))) {
        return Some(LoginHint(None));
    }
    let entered = fields.one("email").ok()??;
    let address = app.auth.sign_in_address(entered.trim())?;
    let is_at_provider = app.auth.single_sign_on.is_at_provider(&address);
    is_at_provider.then_some(LoginHint(Some(address)))
}
