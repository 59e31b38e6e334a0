//! `[events]`: streams of events, and the notices of the mail server about changes.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::values::{seconds, section};
use crate::error::StartError;

section! {
    /// The section `[events]` of the configuration.
    pub struct Events {
        /// The address of a separate listener for the notices of the mail server: a loopback or
        /// private IP address, and a port. If `None`, the service opens a connection to the mail
        /// server for each watched mailbox.
        pub listen: Option<SocketAddr>,
        /// The path of the file with the URL to which the mail server sends notices. The last
        /// segment of the URL's path is the key of notices. The URL is the complete content of the
        /// file, as in Dovecot.
        pub url_file: PathBuf,
        /// The interval at which a watched mailbox is checked without a notice, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub check_interval: Duration = Duration::from_secs(30),
        /// The maximum number of mailboxes that this host watches.
        pub mailboxes: usize = 10_000,
        /// The maximum number of open streams of this host. Includes requests that wait for a
        /// change. Streams use at most three quarters of the allowed connections, so that the
        /// others remain for short requests.
        pub streams: usize = 5_000,
        /// The maximum number of open streams of one credential.
        pub streams_per_credential: usize = 10,
        /// The maximum number of open streams of one account.
        pub streams_per_account: usize = 50,
        /// The maximum number of open streams of one client.
        pub streams_per_client: usize = 100,
    }
}

impl Events {
    /// Returns `true` if the mail server sends notices to the service.
    #[must_use]
    pub fn has_notices(&self) -> bool {
        self.listen.is_some()
    }

    /// Checks that notices have a URL, and that the listener is not reachable from the internet.
    pub(super) fn check(&self) -> Result<(), StartError> {
        let Some(address) = self.listen else {
            return Ok(());
        };
        if !is_private(address.ip()) {
            return Err(StartError::new(format!(
                "`events.listen` must be a loopback or private IP address, not {}",
                address.ip()
            )));
        }
        if self.url_file.as_os_str().is_empty() {
            return Err(StartError::new(
                "`events.listen` is set, so `events.url_file` must be the path of the file with the URL of notices",
            ));
        }
        Ok(())
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Events, StartError> {
        Config::parse(text, "test", HashMap::new()).map(|config| config.events)
    }

    #[test]
    fn notices_need_a_url_and_a_private_address() {
        assert!(!parse("").unwrap().has_notices());
        for address in ["127.0.0.1:7000", "10.1.2.3:1", "[::1]:7000", "[fd00::1]:1"] {
            let text = format!("events.listen = '{address}'\nevents.url_file = '/k'");
            assert!(parse(&text).unwrap().has_notices(), "{address}");
        }
        for (text, key) in [
            ("events.listen = '127.0.0.1:7000'", "`events.url_file`"),
            (
                "events.listen = '192.0.2.1:1'\nevents.url_file = '/k'",
                "`events.listen`",
            ),
            (
                "events.listen = '0.0.0.0:1'\nevents.url_file = '/k'",
                "`events.listen`",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
