//! Waits for changes of a mailbox that the server reports: with NOTIFY (RFC 5465) in all folders,
//! otherwise with IDLE (RFC 2177) in INBOX. The reports are not parsed, because a report only
//! causes a sync.

use std::time::Duration;

use imap_proto::Response;
use tokio::time::timeout;

use super::open::OpenMode;
use super::session::Session;
use super::state::Idle;
use super::wire::{Frame, Wire};
use super::{Error, INBOX};

/// The time after which a command is sent, so that neither the server nor a firewall closes the
/// connection. A server can close a connection after 30 minutes (RFC 3501, section 5.4).
const KEEP_ALIVE: Duration = Duration::from_mins(9);

/// Dovecot refuses `MessageNew` without `MessageExpunge`.
const NOTIFY: &str = "NOTIFY SET (selected (MessageNew (UID FLAGS) MessageExpunge FlagChange)) \
    (personal (MessageNew MessageExpunge FlagChange MailboxName))";

/// A connection on which the server reports changes.
#[derive(Debug)]
pub struct Watch {
    wire: Wire,
    /// Timeout for the response to a command.
    timeout: Duration,
    /// `true` if the server sends reports at any time. Otherwise the client must send IDLE.
    notifies: bool,
    /// The tag of the current IDLE.
    idle: Option<String>,
}

impl Watch {
    /// Makes the server report changes on the connection of `session`. Returns `None` if the server
    /// does not support this.
    ///
    /// # Errors
    /// Returns an [`Error`] if a command fails.
    pub async fn start(mut session: Session) -> Result<Option<Self>, Error> {
        let capabilities = session.connection.capabilities;
        if !capabilities.notify && !capabilities.idle {
            return Ok(None);
        }
        if session
            .open_path(OpenMode::Examine, INBOX, None)
            .await?
            .is_none()
        {
            return Ok(None);
        }
        let mut notifies = false;
        if capabilities.notify {
            let commands = [NOTIFY.to_owned()];
            let mut outcomes = session
                .connection
                .run(&commands, &mut |_, _| Ok(()))
                .await?;
            notifies = outcomes.pop().is_some_and(|outcome| outcome.ok().is_ok());
        }
        if !notifies && !capabilities.idle {
            return Ok(None);
        }
        let timeout = session.connection.timeout;
        let Idle { wire, .. } = session.connection.take_idle()?;
        Ok(Some(Self {
            wire,
            timeout,
            notifies,
            idle: None,
        }))
    }

    /// Waits until the server reports a change. If this call is cancelled, the connection cannot be
    /// used any longer.
    ///
    /// # Errors
    /// Returns an [`Error`] if the connection fails.
    pub async fn changed(&mut self) -> Result<(), Error> {
        loop {
            if !self.notifies && self.idle.is_none() {
                self.idle = Some(self.wire.queue("IDLE"));
                self.wire.flush().await?;
            }
            if let Ok(report) = timeout(KEEP_ALIVE, self.report()).await {
                return report;
            }
            if self.keep_alive().await? {
                return Ok(());
            }
        }
    }

    /// Reads until an untagged reply arrives. The reply to IDLE begins with `+`.
    async fn report(&mut self) -> Result<(), Error> {
        loop {
            let reply = self.wire.reply().await?;
            if reply.starts_with(b"* BYE") {
                return Err(Error::Lost("the server ended the session".into()));
            }
            if reply.starts_with(b"* OK [NOTIFICATIONOVERFLOW]") {
                // The server sends no further reports (RFC 5465, section 5.8).
                return Err(Error::Lost("the server stopped its reports".into()));
            }
            if reply.starts_with(b"* OK") {
                // Dovecot sends `* OK Still here` during IDLE.
                continue;
            }
            if reply.starts_with(b"*") {
                return Ok(());
            }
            if !reply.starts_with(b"+") {
                return Err(Error::Protocol("the server refused IDLE".into()));
            }
        }
    }

    /// Sends a command. Returns `true` if the server reports a change before the result.
    async fn keep_alive(&mut self) -> Result<bool, Error> {
        let mut has_changed = false;
        let exchange = async {
            let tag = match self.idle.take() {
                Some(tag) => {
                    self.wire.queue_line("DONE");
                    tag
                }
                None => self.wire.queue("NOOP"),
            };
            let mut on_reply = |_: &Response<'_>, _: &Frame| {
                has_changed = true;
                Ok(())
            };
            self.wire.finish_one(tag, &mut on_reply).await?.ok()
        };
        let outcome = timeout(self.timeout, exchange).await;
        outcome.map_err(|_| Error::Unavailable("the mail server did not respond".into()))??;
        Ok(has_changed)
    }
}
