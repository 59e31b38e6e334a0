//! Reads and validates the configuration of an external authorization server at startup.

use std::time::Duration;

use http::Uri;
use latchmail_core::config::{self, Config};
use latchmail_core::error::StartError;
use latchmail_core::secret_file;
use latchmail_net::fetch::{self, Fetch, Host, Hosts, Target};

use super::introspection::Introspection;
use super::response::Expected;
use crate::auth::audience::Audiences;

/// Returns the introspection client and the expected values. Returns `None` if the service uses its
/// own authorization server.
///
/// # Errors
/// Returns an error that names the configuration key if a setting is invalid.
pub(super) fn read(
    config: &Config,
    fetch: Fetch,
) -> Result<Option<(Introspection, Expected)>, StartError> {
    let (base_url, auth_url) = (config.base_url(), config.auth_url());
    let auth_origin = origin(&auth_url);
    let is_external =
        auth_url != base_url && (auth_origin.is_none() || auth_origin != origin(&base_url));
    let has_own_listener = config.oauth.listen.is_some();
    let configured = match (&config.oauth.introspection, is_external, has_own_listener) {
        (None, false, false) | (None, true, true) => return Ok(None),
        (Some(configured), true, false) => configured,
        (None, false, true) => {
            return Err(StartError::new(
                "`oauth.listen` needs an `auth_url` for the authorization server that differs from `base_url`",
            ));
        }
        (Some(_), _, true) => {
            return Err(StartError::new(
                "`oauth.listen` and `[oauth.introspection]` exclude each other: one configures the service's own authorization server, the other an external one",
            ));
        }
        (None, true, false) => {
            return Err(StartError::new(format!(
                "`auth_url` {auth_url} differs from `base_url` {base_url}: configure `[oauth.introspection]` for an external authorization server or `oauth.listen` for the service's own, or remove `auth_url`"
            )));
        }
        (Some(_), false, false) => {
            return Err(StartError::new(
                "`[oauth.introspection]` is for an external authorization server, but `auth_url` is the service's own URL",
            ));
        }
    };
    if !auth_origin.is_some_and(|origin| is_safe(&origin)) {
        return Err(StartError::new(format!(
            "`auth_url` {auth_url} must be an https origin such as https://auth.example.com (http is allowed only for a loopback address)"
        )));
    }
    let expected = expected(configured, &base_url, &auth_url)?;
    Ok(Some((introspection(configured, fetch)?, expected)))
}

fn introspection(
    configured: &config::Introspection,
    fetch: Fetch,
) -> Result<Introspection, StartError> {
    let wrong =
        |key: &str, why: &str| StartError::new(format!("`oauth.introspection.{key}` {why}"));
    let url = &configured.url;
    let server = origin(url).filter(is_safe).ok_or_else(|| {
        wrong(
            "url",
            "must be an absolute https URL (http is allowed only for a loopback address)",
        )
    })?;
    let hosts = Hosts::only(server);
    if configured.client_id.is_empty() {
        return Err(wrong("client_id", "is missing"));
    }
    let text = secret_file::read_text("the file", &configured.client_secret_file)
        .map_err(|error| wrong("client_secret_file", &format!("cannot be used: {error}")))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() || secret.contains(char::is_control) {
        return Err(wrong(
            "client_secret_file",
            "must contain the secret as one line",
        ));
    }
    let longest = fetch::MAX_TIMEOUT;
    if configured.timeout < Duration::from_millis(1) || configured.timeout > longest {
        return Err(wrong(
            "timeout",
            &format!(
                "must be more than 0 and at most {} seconds",
                longest.as_secs()
            ),
        ));
    }
    Ok(Introspection::new(
        fetch,
        url,
        hosts,
        &configured.client_id,
        secret,
        configured.timeout,
    ))
}

fn expected(
    configured: &config::Introspection,
    base_url: &str,
    auth_url: &str,
) -> Result<Expected, StartError> {
    if configured.username_claim.is_empty() {
        return Err(StartError::new(
            "`oauth.introspection.username_claim` is empty; it must be the name of the JSON member that contains the account's address",
        ));
    }
    Ok(Expected {
        audiences: Audiences::new(base_url),
        other_audiences: configured.audience.clone(),
        audience_required: configured.audience_required,
        issuers: if configured.issuer.is_empty() {
            vec![auth_url.to_owned(), format!("{auth_url}/")]
        } else {
            vec![configured.issuer.clone()]
        },
        scopes: configured
            .scope
            .split_ascii_whitespace()
            .map(ToOwned::to_owned)
            .collect(),
        username_claim: configured.username_claim.clone(),
        trust_missing_email_verified: configured.trust_missing_email_verified,
    })
}

fn origin(url: &str) -> Option<Target> {
    Target::of(&url.parse::<Uri>().ok()?)
}

/// Returns `true` if no other machine can read a token on the way to the server. The connection
/// must use TLS or a loopback address.
fn is_safe(server: &Target) -> bool {
    server.tls || matches!(server.host, Host::Address(address) if address.is_loopback())
}
