//! `[scim]`: the listener of SCIM, for identity providers.

use std::net::SocketAddr;

use super::Config;
use super::values::section;
use crate::error::StartError;

section! {
    /// The section `[scim]` of the configuration.
    pub struct Scim {
        /// The address and port of SCIM. The address must be a loopback address unless TLS is
        /// configured. If `None`, the listener of the operator's page has the routes of SCIM.
        pub listen: Option<SocketAddr>,
    }
}

impl Scim {
    /// Checks that operator tokens do not cross a network without encryption.
    pub(super) fn check(&self, config: &Config) -> Result<(), StartError> {
        match self.listen {
            Some(address) if !address.ip().to_canonical().is_loopback() && !config.serves_tls() => {
                Err(StartError::new(format!(
                    "`scim.listen` is {address}, which other machines can reach, and the service does not use TLS: configure `tls` or `acme`, or use a loopback address such as 127.0.0.1:8082"
                )))
            }
            _ => Ok(()),
        }
    }
}
