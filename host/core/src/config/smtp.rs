//! `[smtp]`: the mail server's submission side.

use std::time::Duration;

use serde::Deserialize;

use super::values::seconds;

/// `[smtp]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Smtp {
    /// `host:port` of the submission service.
    pub address: String,
    /// TLS from the first byte (RFC 8314).
    pub tls: bool,
    /// Whether an unencrypted connection to another machine is allowed.
    pub insecure: bool,
    /// The timeout of connecting and of one command, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
    /// The maximum number of connections of one account.
    pub connections_per_account: usize,
    /// The time after which an idle connection is closed, in seconds. It must be less than the submission service's timeout for a command.
    #[serde(deserialize_with = "seconds")]
    pub idle_timeout: Duration,
}

impl Default for Smtp {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:587".into(),
            tls: false,
            insecure: false,
            timeout: Duration::from_secs(15),
            connections_per_account: 4,
            idle_timeout: Duration::from_mins(1),
        }
    }
}
