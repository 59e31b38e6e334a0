//! `[imap]`: connections to the mail server's IMAP service and to Dovecot's doveadm API.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::values::{seconds, section};

section! {
    /// The section `[imap]` of the configuration.
    pub struct Imap {
        /// `host:port` of the IMAP service.
        pub address: String = "127.0.0.1:143".into(),
        /// Whether connections use TLS from the first byte (implicit TLS, RFC 8314).
        pub tls: bool,
        /// Whether an unencrypted connection to another machine is allowed.
        pub insecure: bool,
        /// The timeout for connecting, and for each command, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub timeout: Duration = Duration::from_secs(15),
        /// The maximum number of connections of one account. The value must be less than the limit
        /// of the mail server.
        pub connections_per_account: usize = 8,
        /// The maximum number of idle connections of all accounts. Each connection uses a process
        /// of the mail server.
        pub idle_connections: usize = 256,
        /// The time after which an idle connection is closed, in seconds.
        #[serde(deserialize_with = "seconds")]
        pub idle_timeout: Duration = Duration::from_mins(4),
        /// `host:port` of Dovecot's doveadm API (HTTP without TLS). The service uses this API to
        /// end the IMAP sessions of revoked credentials. If empty, the service does not end these
        /// sessions.
        pub doveadm: String,
        /// The path of the file with the key of the doveadm API. The key is the complete content of
        /// the file, as in Dovecot.
        pub doveadm_key_file: PathBuf,
        /// The user name of IMAP sessions at the mail server.
        pub session_names: SessionNames,
    }
}

/// The user name of IMAP sessions at the mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionNames {
    /// The address, a slash, and the id of the app password. The service can end the sessions of a
    /// single app password.
    #[default]
    AppPassword,
    /// The login name of the user. The service can only end all sessions of a user together.
    User,
}
