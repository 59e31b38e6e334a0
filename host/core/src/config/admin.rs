//! `[admin]`: the operator's page, and changes to modules while the service runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::Config;
use crate::error::StartError;

/// `[admin]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Admin {
    /// The address and port of the operator's page. It must be a loopback address unless TLS is configured. If `None`, there is no such page.
    pub listen: Option<SocketAddr>,
    /// The path of the Unix socket for `latchmail module …`. Only the owner of the socket can connect. If empty, there is no socket.
    pub socket: PathBuf,
    /// Whether the main listener has the routes of module administration, in addition to the
    /// socket.
    pub public_api: bool,
    /// The number of previous versions of each module that are stored.
    pub versions: u32,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: None,
            socket: "latchmail.sock".into(),
            public_api: true,
            versions: 10,
        }
    }
}

impl Admin {
    /// Checks that passwords of administrators do not cross a network without encryption.
    pub(super) fn check(&self, config: &Config) -> Result<(), StartError> {
        match self.listen {
            Some(address) if !address.ip().to_canonical().is_loopback() && !config.serves_tls() => {
                Err(StartError::new(format!(
                    "`admin.listen` is {address}, which other machines can reach, and the service does not use TLS: configure `tls` or `acme`, or use a loopback address such as 127.0.0.1:8081"
                )))
            }
            _ => Ok(()),
        }
    }
}
