//! Making a connection: TCP, TLS where configured, the greeting, and the log-in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use imap_proto::{Response, ResponseCode, Status};
use rustls_platform_verifier::BuilderVerifierExt;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use zeroize::Zeroizing;

use super::capabilities::Capabilities;
use super::session::Session;
use super::wire::{Io, Outcome, Wire, parse};
use super::{Error, quoted};
use crate::caller::MailCredential;
use crate::config;
use crate::error::StartError;

/// Where the mail server is and how it is spoken to.
#[derive(Clone)]
pub(in crate::mail) struct Connector {
    address: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("address", &self.address)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// Reads the configuration. Nothing is connected.
    pub(in crate::mail) fn new(config: &config::Imap) -> Result<Self, StartError> {
        let unusable = |why: &str| {
            StartError::new(format!(
                "imap.address {:?} cannot be used: {why}",
                config.address
            ))
        };
        let (host, port) = config
            .address
            .rsplit_once(':')
            .ok_or_else(|| unusable("it is not host:port"))?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(unusable("it is not host:port"));
        }
        let tls = if config.tls {
            let host = host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned();
            let name = ServerName::try_from(host).map_err(|e| unusable(&e.to_string()))?;
            let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .and_then(BuilderVerifierExt::with_platform_verifier)
                .map_err(|e| {
                    StartError::new(format!("TLS towards the mail server cannot be used: {e}"))
                })?
                .with_no_client_auth();
            Some((TlsConnector::from(Arc::new(client)), name))
        } else {
            None
        };
        Ok(Self {
            address: config.address.clone(),
            tls,
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

    /// Connects and logs in.
    pub(in crate::mail) async fn connect(
        &self,
        credential: &MailCredential,
    ) -> Result<Session, Error> {
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
                self.address
            ))),
        }
    }

    async fn greeted(&self) -> Result<(Wire, Option<Capabilities>), Error> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|e| Error::Unavailable(format!("{} cannot be reached: {e}", self.address)))?;
        stream.set_nodelay(true)?;
        let io: Box<dyn Io> = match &self.tls {
            Some((tls, name)) => Box::new(tls.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        };
        let mut wire = Wire::new(io);
        let greeting = wire.reply().await?;
        match parse(&greeting)? {
            Response::Data {
                status: Status::Ok,
                outcome,
            } => Ok((wire, named(outcome.code.as_ref()))),
            _ => Err(Error::Unavailable(format!(
                "{} does not greet as a mail server does",
                self.address
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
