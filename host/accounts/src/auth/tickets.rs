//! Tickets: credentials for one request with one method and path. A ticket is part of a URL that an
//! agent passes on, for example to download an attachment. So the bytes do not pass through the
//! agent's model, and the agent's token is not in the URL.
//!
//! The database has the hash of a ticket, and the `Authorization` header of the request that
//! created it, sealed with a key that is derived from the ticket. A request with a ticket is
//! processed as a request with this header. So the current rights of the credential apply, and a
//! ticket ends with its credential.

use std::time::Duration;

use http::HeaderValue;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config::Config;
use latchmail_core::error::Failure;
use latchmail_core::sealing::{Purpose, SealingKey};
use latchmail_core::secrets::Prefixed;
use latchmail_directory::Directory;
use latchmail_directory::tickets::{self as directory, NewTicket};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::ExposeSecret as _;

/// The time after which a ticket expires. An access token in the ticket can expire earlier.
const LIFETIME: Duration = Duration::from_mins(5);

/// The first characters of a ticket.
const PREFIX: &str = "lmu_";

/// HKDF label for the derivation of the sealing key from a ticket.
const SEALING: &str = "latchmail v1 ticket XChaCha20-Poly1305";

/// The request that a ticket permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    method: &'static str,
    path: String,
    /// The query without the ticket, encoded. The ticket is not bound to it.
    query: String,
}

impl Target {
    /// Returns the request that downloads an attachment.
    #[must_use]
    pub fn attachment(uid: u64, index: u32) -> Self {
        Self {
            method: "GET",
            path: format!("/api/v1/mail/messages/{uid}/attachments/{index}"),
            query: String::new(),
        }
    }

    /// Returns the request that uploads a file with this name.
    #[must_use]
    pub fn upload(filename: &str) -> Self {
        let filename = utf8_percent_encode(filename, NON_ALPHANUMERIC);
        Self {
            method: "POST",
            path: "/api/v1/mail/uploads".into(),
            query: format!("filename={filename}&"),
        }
    }
}

/// Returns the text of a target in the database.
fn stored(method: &str, path: &str) -> String {
    format!("{method} {path}")
}

/// A URL with a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketUrl {
    /// The URL.
    pub url: String,
    /// The time at which the ticket expires.
    pub expires_at: Timestamp,
}

/// Creates and accepts tickets.
#[derive(Debug)]
pub struct Tickets {
    directory: directory::Tickets,
    clock: Clock,
    /// The URL of the service.
    base_url: String,
}

impl Tickets {
    pub(super) fn new(config: &Config, directory: &Directory, clock: Clock) -> Self {
        Self {
            directory: directory.tickets.clone(),
            clock,
            base_url: config.base_url(),
        }
    }

    /// Creates a ticket for a caller. `authorization` is the header of the caller's request.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn issue(
        &self,
        account: &str,
        authorization: &HeaderValue,
        target: &Target,
    ) -> Result<TicketUrl, Failure> {
        let ticket = Prefixed::generate(PREFIX)?;
        let sealed =
            key(&ticket)?.seal_bytes(Purpose::Ticket, ticket.hash(), authorization.as_bytes())?;
        let expires_at = self.clock.now().plus(LIFETIME);
        let ticket_target = stored(target.method, &target.path);
        let new = NewTicket {
            hash: ticket.hash(),
            account,
            target: &ticket_target,
            sealed: &sealed,
            expires_at,
        };
        self.directory.add(new).await?;
        let (base, secret) = (&self.base_url, ticket.secret().expose_secret());
        let Target { path, query, .. } = target;
        Ok(TicketUrl {
            url: format!("{base}{path}?{query}ticket={secret}"),
            expires_at,
        })
    }

    /// Uses a ticket, and returns the `Authorization` header with which the request is processed.
    /// Returns `None` if the ticket is invalid, expired or used, or if it is for another method or
    /// path.
    ///
    /// # Errors
    /// Returns 500 for an internal error.
    pub async fn redeem(
        &self,
        method: &str,
        path: &str,
        ticket: &str,
    ) -> Result<Option<HeaderValue>, Failure> {
        let Some(ticket) = Prefixed::parse(PREFIX, ticket) else {
            return Ok(None);
        };
        let target = stored(method, path);
        let sealed = self
            .directory
            .take(ticket.hash(), &target, self.clock.now())
            .await?;
        let Some(sealed) = sealed else {
            return Ok(None);
        };
        let header = key(&ticket)?.open_bytes(Purpose::Ticket, ticket.hash(), &sealed);
        let header = header.and_then(|bytes| HeaderValue::from_bytes(&bytes).ok());
        Ok(header.map(|mut header| {
            header.set_sensitive(true);
            header
        }))
    }
}

fn key(ticket: &Prefixed) -> Result<SealingKey, Failure> {
    SealingKey::derive(ticket.secret().expose_secret().as_bytes(), SEALING)
}
