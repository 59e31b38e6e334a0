//! Opens connections with TCP and TLS, reads the greeting and the capabilities, and logs in with
//! [`super::log_in`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use imap_proto::{Response, Status};
use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_core::mail_server_start;
use latchmail_net::endpoint::Endpoint;
use tokio::time::timeout;

use super::Error;
use super::capabilities::Capabilities;
use super::command_timer::{CONNECT, CommandTimer};
use super::log_in::log_in;
use super::session::Session;
use super::wire::{Wire, parse};

/// The address of the mail server and the settings of its connections.
#[derive(Clone, Debug)]
pub struct Connector {
    endpoint: Endpoint,
    timeout: Duration,
    /// `true` after the missing extensions have been logged.
    logged_missing: Arc<AtomicBool>,
    /// The result of the last test for X-GUID, and the server's capabilities at the time of the
    /// test. `None` before the first test.
    guid: Arc<Mutex<Option<(Capabilities, bool)>>>,
}

impl Connector {
    /// Creates the connector from the configuration. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address is invalid.
    pub fn new(config: &config::Imap) -> Result<Self, StartError> {
        Ok(Self {
            endpoint: Endpoint::new("imap.address", &config.address, config.tls)?,
            timeout: config.timeout,
            logged_missing: Arc::default(),
            guid: Arc::default(),
        })
    }

    /// Connects and reads the greeting.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the server is unreachable or sends no valid greeting.
    pub async fn ping(&self) -> Result<(), Error> {
        self.within(async {
            let (mut wire, _) = self.greet().await?;
            // The greeting proves that the server works, so the response to LOGOUT is not needed.
            wire.queue("LOGOUT");
            wire.flush().await
        })
        .await
    }

    /// Connects, and logs in with `credential`.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the server rejects the credential. Returns
    /// [`Error::Unavailable`] if the log-in fails for another reason.
    pub async fn logged_in(&self, credential: &MailCredential) -> Result<Session, Error> {
        self.within(async {
            let (mut wire, greeted) = self.greet().await?;
            let before = match greeted {
                Some(capabilities) => capabilities,
                None => query_capabilities(&mut wire).await?,
            };
            let after = log_in(&mut wire, before, credential).await?;
            let mut capabilities = match after {
                Some(capabilities) => capabilities,
                None => query_capabilities(&mut wire).await?,
            };
            capabilities.guid = self.supports_guid(&mut wire, capabilities).await?;
            self.log_missing_extensions(capabilities);
            Ok(Session::new(wire, capabilities, self.timeout))
        })
        .await
    }

    /// Returns `true` if the server supports X-GUID. Tests the server at the first log-in. Repeats
    /// the test if the capabilities have changed, because a changed list means an updated or
    /// replaced server.
    async fn supports_guid(
        &self,
        wire: &mut Wire,
        capabilities: Capabilities,
    ) -> Result<bool, Error> {
        let before = *self.guid.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, supports)) = before
            && of == capabilities
        {
            return Ok(supports);
        }
        let tags = [wire.queue("STATUS INBOX (X-GUID)")];
        let mut supports = false;
        let outcomes = wire
            .finish(&tags, &mut |_, frame| {
                supports |= frame.id.is_some();
                Ok(())
            })
            .await?;
        // NO means that the server cannot open INBOX. In that case it is unknown whether the server
        // supports X-GUID.
        if !outcomes.iter().any(|o| matches!(o.status, Status::No)) {
            let mut guid = self.guid.lock().unwrap_or_else(PoisonError::into_inner);
            *guid = Some((capabilities, supports));
        }
        Ok(supports)
    }

    /// Logs the missing required extensions once per process.
    fn log_missing_extensions(&self, capabilities: Capabilities) {
        if self.logged_missing.swap(true, Ordering::Relaxed) {
            return;
        }
        for (extension, effect) in capabilities.missing_extensions() {
            tracing::warn!(server = %self.endpoint, "the mail server does not offer {extension}: {effect}");
        }
    }

    /// Runs `work` with a timeout. `work` must only connect and log in. Therefore every failure
    /// except a rejected credential becomes [`Error::Unavailable`].
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match timeout(self.timeout, work).await {
            Ok(Err(Error::Lost(why) | Error::Protocol(why) | Error::No(why))) => {
                Err(Error::Unavailable(why))
            }
            Ok(done) => done,
            Err(_) => Err(Error::Unavailable(format!(
                "{} did not respond in time",
                self.endpoint
            ))),
        }
    }

    /// Connects and reads the greeting. Returns the capabilities if the greeting lists
    /// capabilities.
    pub(crate) async fn greet(&self) -> Result<(Wire, Option<Capabilities>), Error> {
        let timer = CommandTimer::start(CONNECT);
        let io =
            self.endpoint.connect().await.map_err(|e| {
                Error::Unavailable(format!("{} cannot be reached: {e}", self.endpoint))
            })?;
        let mut wire = Wire::new(io);
        let greeting = wire.reply().await?;
        match parse(&greeting)? {
            Response::Data {
                status: Status::Ok,
                outcome,
            } => {
                if let Some(timer) = timer {
                    timer.finish(&Status::Ok);
                }
                mail_server_start::set_reached();
                Ok((wire, Capabilities::in_code(outcome.code.as_ref())))
            }
            _ => Err(Error::Unavailable(format!(
                "{} did not send an IMAP greeting",
                self.endpoint
            ))),
        }
    }
}

async fn query_capabilities(wire: &mut Wire) -> Result<Capabilities, Error> {
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
