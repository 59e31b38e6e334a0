//! Making a connection: TCP, TLS where configured, the greeting, and the log-in.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imap_proto::{Response, ResponseCode, Status};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::session::Session;
use super::wire::{Outcome, Wire, parse};
use super::{Error, quoted};
use crate::caller::MailCredential;
use crate::config;
use crate::dial::Dial;
use crate::error::StartError;
use crate::mail::pool;

/// Where the mail server is and how it is spoken to.
#[derive(Clone, Debug)]
pub(in crate::mail) struct Connector {
    dial: Dial,
    timeout: Duration,
}

impl pool::Connect for Connector {
    type Session = Session;

    async fn connect(&self, credential: &MailCredential) -> Result<Session, crate::mail::Error> {
        Ok(self.logged_in(credential).await?)
    }
}

impl Connector {
    /// Reads the configuration. Nothing is connected.
    pub(in crate::mail) fn new(config: &config::Imap) -> Result<Self, StartError> {
        Ok(Self {
            dial: Dial::new("imap.address", &config.address, config.tls)?,
            timeout: config.timeout,
        })
    }

    /// Connects and reads the greeting.
    pub(in crate::mail) async fn ping(&self) -> Result<(), Error> {
        self.within(async {
            let (mut wire, _) = self.greeted().await?;
            // What it answers does not matter: it has greeted.
            wire.queue("LOGOUT");
            wire.flush().await
        })
        .await
    }

    async fn logged_in(&self, credential: &MailCredential) -> Result<Session, Error> {
        self.within(async {
            let (mut wire, greeted) = self.greeted().await?;
            let before = match greeted {
                Some(capabilities) => capabilities,
                None => asked(&mut wire).await?,
            };
            let after = log_in(
                &mut wire,
                before,
                &credential.username,
                &credential.password,
            )
            .await?;
            let capabilities = match after {
                Some(capabilities) => capabilities,
                None => asked(&mut wire).await?,
            };
            Ok(Session::new(wire, capabilities, self.timeout))
        })
        .await
    }

    /// Whatever goes wrong before the log-in is done means that nothing was begun.
    async fn within<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match timeout(self.timeout, work).await {
            Ok(Err(Error::Lost(why) | Error::Protocol(why) | Error::No(why))) => {
                Err(Error::Unavailable(why))
            }
            Ok(done) => done,
            Err(_) => Err(Error::Unavailable(format!(
                "{} did not answer in time",
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
                "{} does not greet as a mail server does",
                self.dial
            ))),
        }
    }
}

fn named(code: Option<&ResponseCode<'_>>) -> Option<Capabilities> {
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

/// Logs in and answers the capabilities that the server names on that occasion.
async fn log_in(
    wire: &mut Wire,
    can: Capabilities,
    username: &str,
    password: &SecretString,
) -> Result<Option<Capabilities>, Error> {
    let password = password.expose_secret();
    if username.contains('\0') || password.contains('\0') {
        return Err(Error::Refused);
    }
    let mut told = None;
    let tag = if can.auth_plain {
        // RFC 4616: authorization identity (none), name, password.
        let plain = Zeroizing::new(format!("\0{username}\0{password}"));
        let response = Zeroizing::new(STANDARD.encode(plain.as_bytes()));
        if can.sasl_ir {
            wire.queue(&Zeroizing::new(format!(
                "AUTHENTICATE PLAIN {}",
                response.as_str()
            )))
        } else {
            let tag = wire.queue("AUTHENTICATE PLAIN");
            wire.flush().await?;
            let go = wire.reply().await?;
            match parse(&go)? {
                Response::Continue(_) => wire.queue_line(&response),
                Response::Done { outcome, .. } => {
                    return Err(Error::Unavailable(
                        outcome.information.unwrap_or_default().into_owned(),
                    ));
                }
                _ => return Err(Error::Protocol("AUTHENTICATE was not taken up".into())),
            }
            tag
        }
    } else if can.login_disabled {
        return Err(Error::Unavailable(
            "the mail server allows no log-in without TLS".into(),
        ));
    } else {
        let (Some(username), Some(password)) = (quoted(username), quoted(password)) else {
            return Err(Error::Refused);
        };
        let password = Zeroizing::new(password);
        wire.queue(&Zeroizing::new(format!(
            "LOGIN {username} {}",
            password.as_str()
        )))
    };
    let outcomes = wire
        .finish(&[tag], &mut |reply, _| {
            if let Response::Capabilities(all) = reply {
                told = Some(Capabilities::of(all));
            }
            Ok(())
        })
        .await?;
    for outcome in outcomes {
        told = named(outcome.code.as_ref()).or(told);
        accepted(outcome)?;
    }
    Ok(told)
}

/// Tells a credential that is wrong from a server that lets nobody in at the moment (RFC 5530).
fn accepted(outcome: Outcome) -> Result<(), Error> {
    let refused = ["AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED"]
        .iter()
        .any(|code| outcome.says(code));
    match outcome.status {
        Status::Ok => Ok(()),
        Status::No if refused || !outcome.text.starts_with('[') => Err(Error::Refused),
        _ => Err(Error::Unavailable(outcome.text)),
    }
}
