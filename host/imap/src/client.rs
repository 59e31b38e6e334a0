//! Opens connections: TCP, TLS if configured, the greeting and the capabilities. [`super::log_in`] does the log-in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use imap_proto::{Response, ResponseCode, Status};
use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_net::dial::Dial;
use tokio::time::timeout;

use super::Error;
use super::capabilities::Capabilities;
use super::log_in::log_in;
use super::session::Session;
use super::wire::{Wire, parse};

/// The address of the mail server and the settings of its connections.
#[derive(Clone, Debug)]
pub struct Connector {
    dial: Dial,
    timeout: Duration,
    /// Set when the missing required extensions have been logged.
    told: Arc<AtomicBool>,
    /// Whether a server with these capabilities supports X-GUID. `None` before the first test.
    guid: Arc<Mutex<Option<(Capabilities, bool)>>>,
}

impl Connector {
    /// Creates the connector from the configuration. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub fn new(config: &config::Imap) -> Result<Self, StartError> {
        Ok(Self {
            dial: Dial::new("imap.address", &config.address, config.tls)?,
            timeout: config.timeout,
            told: Arc::default(),
            guid: Arc::default(),
        })
    }

    /// Connects and reads the greeting.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn ping(&self) -> Result<(), Error> {
        self.within(async {
            let (mut wire, _) = self.greeted().await?;
            // The response does not matter, because the greeting has arrived.
            wire.queue("LOGOUT");
            wire.flush().await
        })
        .await
    }

    /// Connects, and logs in with `credential`.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn logged_in(&self, credential: &MailCredential) -> Result<Session, Error> {
        self.within(async {
            let (mut wire, greeted) = self.greeted().await?;
            let before = match greeted {
                Some(capabilities) => capabilities,
                None => asked(&mut wire).await?,
            };
            let after = log_in(&mut wire, before, credential).await?;
            let mut capabilities = match after {
                Some(capabilities) => capabilities,
                None => asked(&mut wire).await?,
            };
            capabilities.guid = self.knows_guid(&mut wire, capabilities).await?;
            self.tell_what_is_missing(capabilities);
            Ok(Session::new(wire, capabilities, self.timeout))
        })
        .await
    }

    /// Returns `true` if the server supports X-GUID. This is tested at the first log-in and again when the capabilities change, because the server was then
    /// updated or replaced.
    async fn knows_guid(&self, wire: &mut Wire, can: Capabilities) -> Result<bool, Error> {
        let before = *self.guid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, knows)) = before
            && of == can
        {
            return Ok(knows);
        }
        let tags = [wire.queue("STATUS INBOX (X-GUID)")];
        let mut knows = false;
        let outcomes = wire
            .finish(&tags, &mut |_, frame| {
                knows |= frame.id.is_some();
                Ok(())
            })
            .await?;
        // NO concerns the folder, not the item.
        if !outcomes.iter().any(|o| matches!(o.status, Status::No)) {
            let mut guid = self.guid.lock().unwrap_or_else(PoisonError::into_inner);
            *guid = Some((can, knows));
        }
        Ok(knows)
    }

    /// Logs the missing required extensions, once after each start.
    fn tell_what_is_missing(&self, capabilities: Capabilities) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        for (extension, effect) in capabilities.lacks() {
            tracing::warn!(server = %self.dial, "the mail server does not offer {extension}: {effect}");
        }
    }

    /// Runs work up to the log-in with a timeout. All failures become [`Error::Unavailable`], because nothing has started.
    async fn within<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match timeout(self.timeout, work).await {
            Ok(Err(Error::Lost(why) | Error::Protocol(why) | Error::No(why))) => {
                Err(Error::Unavailable(why))
            }
            Ok(done) => done,
            Err(_) => Err(Error::Unavailable(format!(
                "{} did not respond in time",
                self.dial
            ))),
        }
    }

    async fn greeted(&self) -> Result<(Wire, Option<Capabilities>), Error> {
        let io = self
            .dial
            .connect()
            .await
            .map_err(|e| Error::Unavailable(format!("{} cannot be reached: {e}", self.dial)))?;
        let mut wire = Wire::new(io);
        let greeting = wire.reply().await?;
        match parse(&greeting)? {
            Response::Data {
                status: Status::Ok,
                outcome,
            } => Ok((wire, named(outcome.code.as_ref()))),
            _ => Err(Error::Unavailable(format!(
                "{} did not send an IMAP greeting",
                self.dial
            ))),
        }
    }
}

pub(crate) fn named(code: Option<&ResponseCode<'_>>) -> Option<Capabilities> {
    match code {
        Some(ResponseCode::Capabilities(named)) => Some(Capabilities::of(named)),
        _ => None,
    }
}

async fn asked(wire: &mut Wire) -> Result<Capabilities, Error> {
    let tags = [wire.queue("CAPABILITY")];
    let mut capabilities = Capabilities::default();
    let outcomes = wire
        .finish(&tags, &mut |reply, _| {
            if let Response::Capabilities(named) = reply {
                capabilities = Capabilities::of(named);
            }
            Ok(())
        })
        .await?;
    for outcome in outcomes {
        outcome.ok()?;
    }
    Ok(capabilities)
}
