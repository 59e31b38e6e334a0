//! `[smtp]`: connections to the mail server's submission service.

use std::time::Duration;

use super::values::{seconds, section};
use crate::error::StartError;

section! {
    /// The section `[smtp]` of the configuration.
    pub struct Smtp {
        /// `host:port` of the submission service.
        pub address: String = "127.0.0.1:587".into(),
        /// Whether connections use TLS from the first byte (implicit TLS, RFC 8314).
        pub tls: bool,
        /// Whether connections start without TLS and then switch to TLS (STARTTLS, RFC 3207).
        /// Excludes `tls`.
        pub starttls: bool,
        /// Whether an unencrypted connection to another machine is allowed.
        pub insecure: bool,
        /// The timeout for connecting, and for each command, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub timeout: Duration = Duration::from_secs(15),
        /// The maximum number of connections of one account.
        pub connections_per_account: usize = 4,
        /// The maximum number of idle connections of all accounts. Each connection uses a process
        /// of the mail server.
        pub idle_connections: usize = 20,
        /// The time after which an idle connection is closed, in seconds. The value must be less
        /// than the time that the submission service waits for a command.
        #[serde(deserialize_with = "seconds")]
        pub idle_timeout: Duration = Duration::from_mins(1),
    }
}

impl Smtp {
    /// Checks that at most one kind of TLS is configured.
    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.tls && self.starttls {
            return Err(StartError::new(
                "`smtp.tls` and `smtp.starttls` exclude each other: `tls` is for port 465, `starttls` for port 587",
            ));
        }
        Ok(())
    }
}
