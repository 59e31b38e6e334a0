//! Checks that the identity provider of `[sign_in.oidc]` serves its metadata and keys. Does not
//! check the client secret, which only the provider knows.

use std::path::PathBuf;
use std::sync::Arc;

use latchmail_core::clock::Clock;
use latchmail_core::config::Config;
use latchmail_core::error::StartError;
use latchmail_net::dns::Dns;
use latchmail_net::fetch::Fetch;
use latchmail_oidc::Provider;
use tokio::time::timeout;

use super::TIMEOUT;
use super::finding::Finding;

const CHECK: &str = "identity-provider";

/// Requests the metadata. Returns `None` if no domain uses an identity provider.
pub(super) async fn check(config: &Config) -> Option<Finding> {
    let provider = match provider(config) {
        Ok(provider) => provider?,
        Err(error) => {
            let remedy = "correct the section `[sign_in.oidc]` of the configuration";
            return Some(Finding::failed(CHECK, error.to_string(), remedy));
        }
    };
    let issuer = provider.issuer();
    let problem = match timeout(TIMEOUT, provider.check()).await {
        Ok(Ok(())) => return Some(Finding::ok(CHECK, format!("{issuer} serves its metadata"))),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {} s", TIMEOUT.as_secs()),
    };
    Some(Finding::warning(
        CHECK,
        format!("{issuer}: {problem}"),
        "start the identity provider, and check `sign_in.oidc.issuer`. People cannot sign in there until it responds",
    ))
}

fn provider(config: &Config) -> Result<Option<Provider>, StartError> {
    let mut config = config.clone();
    // Do not read the client secret: only the service's user may read this file, and another user
    // can run this command.
    config.sign_in.oidc.client_secret_file = PathBuf::new();
    let dns = Arc::new(Dns::new(&config.dns, &config.mail_host())?);
    Provider::new(&config, Fetch::new(dns)?, Clock::system())
}
