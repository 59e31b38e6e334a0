//! `[inbound]`: incoming mail.

use std::net::SocketAddr;

use ipnet::IpNet;
use serde::Deserialize;

use super::values::{list, section};
use crate::error::StartError;
use crate::network;

section! {
    /// The section `[inbound]` of the configuration.
    pub struct Inbound {
        /// The name (authserv-id) of the mail server in `Authentication-Results` headers (RFC
        /// 8601). If empty, no such header is trusted.
        pub authserv_id: String,
        /// The filter that writes `Authentication-Results` headers. The default is
        /// [`Filter::Other`] if the mail server has its own users, and otherwise
        /// [`Filter::Latchmail`].
        pub filter: Option<Filter>,
        /// The name of the header that the mail server's spam filter writes, such as
        /// `X-Spam-Status`. If empty, no such header is trusted.
        pub spam_header: String,
        /// Whether the mail server passes its own delivery reports through `latchmail milter`. The
        /// service then requests reports about the messages that it sends. By default, `true` if
        /// the filter is [`Filter::Latchmail`] and `authserv_id` is not empty.
        pub delivery_reports: Option<bool>,
        /// The loopback address that `latchmail milter` listens on.
        pub listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 8892)),
        /// The action for mail that comes from another mail server and has a sender address on a
        /// local domain. The action applies if the milter cannot verify that the domain authorized
        /// the mail.
        pub local_from: LocalFrom = LocalFrom::Reject,
        /// The IP addresses and networks of mailing list servers. Messages from these servers are
        /// marked instead of rejected.
        #[serde(deserialize_with = "list")]
        pub list_servers: Vec<String>,
    }
}

/// The filter that writes `Authentication-Results` headers with [`Inbound::authserv_id`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Filter {
    /// `latchmail milter`. A header is trusted only if it has the milter's mark for the message.
    Latchmail,
    /// Another program. Each header with the authserv-id is trusted.
    Other,
}

/// The action for mail that comes from another mail server and has a sender address on a local
/// domain. The action applies if the milter cannot verify that the domain authorized the mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocalFrom {
    /// Reject the message.
    Reject,
    /// Deliver the message with the authentication result `fail`.
    Mark,
}

impl Inbound {
    /// Checks the characters in `authserv_id` and `spam_header`.
    ///
    /// # Errors
    /// Returns an error that names the configuration key if a character is not allowed.
    pub(super) fn check(&self) -> Result<(), StartError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !self.spam_header.bytes().all(plain) {
            return Err(StartError::new(format!(
                "`inbound.spam_header` is `{}`: it must be the name of a header, for example X-Spam-Status",
                self.spam_header
            )));
        }
        if self.authserv_id.bytes().all(plain) {
            return Ok(());
        }
        Err(StartError::new(format!(
            "`inbound.authserv_id` is `{}`: it must contain only letters, digits, dots, hyphens and underscores, for example mail.example.org",
            self.authserv_id
        )))
    }

    /// Returns the networks of `list_servers`.
    ///
    /// # Errors
    /// Returns an error if an entry is invalid. The error names the first invalid entry.
    pub fn list_networks(&self) -> Result<Vec<IpNet>, StartError> {
        network::parse_all("inbound.list_servers", &self.list_servers)
    }
}
