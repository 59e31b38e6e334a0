//! Checks that the service receives the notices of the mail server about changes
//! (`events.listen`). Cannot check that Dovecot sends them, because it does so only after a change.

use std::path::Path;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::Full;
use latchmail_core::config::Config;
use latchmail_core::network::is_on_this_machine;
use latchmail_core::secret_file;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use super::TIMEOUT;
use super::finding::Finding;
use super::programs::output;
use super::user::ServiceUser;
use crate::health::send;

const CHECK: &str = "notices";

/// A notice about no mailbox.
const NOTICE: &str = r#"{"fields":{"user":""}}"#;

/// Reads the URL of notices. Sends a notice to it if the service is running. Checks that Dovecot
/// reads the same URL if its configuration can be read.
pub(super) async fn check(config: &Config, user: &ServiceUser, is_running: bool) -> Finding {
    let file = &config.events.url_file;
    let Some(address) = config.events.listen else {
        return Finding::warning(
            CHECK,
            "`events.listen` is not configured, so the service opens an IMAP connection for each mailbox for which a client waits",
            "if Dovecot delivers the mail, configure notices; see docs/mailserver.md",
        );
    };
    let url = match secret_file::read_text_as("the file `events.url_file`", file, user.id) {
        Ok(url) => url,
        Err(error) => {
            let remedy = "create the file for the service's user, see docs/mailserver.md, or remove `events.listen`";
            return Finding::failed(CHECK, error.to_string(), remedy);
        }
    };
    let file = file.display();
    if is_running && let Err(error) = post(&url).await {
        return Finding::warning(
            CHECK,
            format!("the service receives no notice at the URL in {file}: {error:#}"),
            "compare the URL with `events.listen`, and restart the service",
        );
    }
    if is_on_this_machine(&config.imap.address)
        && is_in_dovecot(&config.events.url_file).await == Some(false)
    {
        return Finding::warning(
            CHECK,
            format!("Dovecot's configuration does not contain the path {file}"),
            "install notices.conf with this path and reload Dovecot, see docs/mailserver.md, or remove `events.listen`",
        );
    }
    Finding::ok(CHECK, format!("received at {address}"))
}

/// Sends a notice as Dovecot does.
async fn post(url: &str) -> anyhow::Result<()> {
    let url = Url::parse(url)?;
    let addresses = url.socket_addrs(|| None)?;
    let request = Request::post(url.path())
        .header(HOST, url.authority())
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from_static(NOTICE.as_bytes())))?;
    let exchange = async {
        let stream = TcpStream::connect(&*addresses).await?;
        send(Box::new(stream), request).await
    };
    let status = timeout(TIMEOUT, exchange).await.context("no response")??;
    if status != StatusCode::NO_CONTENT {
        bail!("status {status}");
    }
    Ok(())
}

/// Returns whether Dovecot's configuration contains the path of the file. Reads the configuration
/// beside the file if there is one, otherwise the default one. Returns `None` if the configuration
/// cannot be read.
async fn is_in_dovecot(url_file: &Path) -> Option<bool> {
    let url_file = std::path::absolute(url_file).ok()?;
    let beside = url_file.with_file_name("dovecot.conf");
    let settings = if beside.is_file() {
        output("doveconf", &["-n", "-c", beside.to_str()?]).await?
    } else {
        output("doveconf", &["-n"]).await?
    };
    Some(settings.contains(url_file.to_str()?))
}
