//! `[dns]`: the DNS resolver.

use std::time::Duration;

use serde::Deserialize;

use super::seconds;

/// `[dns]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dns {
    /// `address:port` of the resolver; empty: the system's.
    pub server: String,
    /// How long one look-up may take.
    #[serde(deserialize_with = "seconds")]
    pub timeout: Duration,
    /// How often a query is sent within that time.
    pub attempts: u32,
    /// The mail server's name in the world: what custom domains have in MX and include in SPF. Empty: `mail.` and the first registration domain.
    pub mail_host: String,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            server: String::new(),
            timeout: Duration::from_secs(5),
            attempts: 3,
            mail_host: String::new(),
        }
    }
}
