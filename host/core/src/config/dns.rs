//! `[dns]`: the DNS resolver.

use std::time::Duration;

use super::values::{seconds, section};
use crate::error::StartError;

section! {
    /// The section `[dns]` of the configuration.
    pub struct Dns {
        /// `address:port` of the resolver. If empty, the service uses the resolver of the operating
        /// system.
        pub server: String,
        /// The timeout of one lookup, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub timeout: Duration = Duration::from_secs(5),
        /// The maximum number of attempts for one query within the timeout.
        pub attempts: u32 = 3,
        /// The public name of the mail server. The MX record and the SPF record of a custom domain
        /// must contain this name. If empty, [`Config::mail_host`](super::Config::mail_host)
        /// returns the default.
        pub mail_host: String,
    }
}

impl Dns {
    /// Checks that the timeout does not exceed the maximum.
    pub(super) fn check(&self) -> Result<(), StartError> {
        let longest = Duration::from_secs(6);
        if self.timeout > longest {
            return Err(StartError::new(
                "`dns.timeout` must be at most 6 seconds, because one request can need several lookups",
            ));
        }
        Ok(())
    }
}
