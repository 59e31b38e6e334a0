//! Connections to the submission service (RFC 6409), logged in and kept. lettre speaks the protocol; here a message goes to everybody or to
//! nobody, and which recipient was refused is told.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io, net};

use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::Error;
use crate::caller::MailCredential;
use crate::dial::{Dial, Io};
use crate::mail::{self, pool};

/// Handing over a message of 25 MB may take so many times as long as a command.
const LONG: u32 = 6;

/// Makes connections.
#[derive(Debug)]
pub(super) struct Connector {
    dial: Dial,
    timeout: Duration,
}

/// A connection that is logged in.
pub(super) struct Session {
    connection: AsyncSmtpConnection,
    timeout: Duration,
    /// Whether it stands between two messages.
    whole: bool,
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) from: Address,
    pub(super) to: Vec<Address>,
}

impl Connector {
    pub(super) fn new(dial: Dial, timeout: Duration) -> Self {
        Self { dial, timeout }
    }

    async fn logged_in(&self, credential: &MailCredential) -> Result<Session, mail::Error> {
        let away = |why: String| mail::Error::Unavailable(format!("{}: {why}", self.dial));
        let stream = self.dial.connect().await.map_err(|e| away(e.to_string()))?;
        let hello = ClientId::Ipv4(net::Ipv4Addr::LOCALHOST);
        let mut connection =
            AsyncSmtpConnection::connect_with_transport(Box::new(Stream(stream)), &hello)
                .await
                .map_err(|e| away(e.to_string()))?;
        let password = credential.password.expose_secret().to_owned();
        let credentials = Credentials::new(credential.username.clone(), password);
        let mechanisms = [Mechanism::Plain, Mechanism::Login];
        match connection.auth(&mechanisms, &credentials).await {
            Ok(_) => Ok(Session {
                connection,
                timeout: self.timeout,
                whole: true,
            }),
            // RFC 4954, section 6: 535 is a credential that is wrong, 454 a server that cannot tell.
            Err(error) if error.is_permanent() => Err(mail::Error::CredentialRefused),
            Err(error) => Err(away(error.to_string())),
        }
    }
}

impl pool::Connect for Connector {
    type Session = Session;

    async fn connect(&self, credential: &MailCredential) -> Result<Session, mail::Error> {
        timeout(self.timeout, self.logged_in(credential))
            .await
            .unwrap_or_else(|_| {
                Err(mail::Error::Unavailable(
                    "it does not answer in time".into(),
                ))
            })
    }
}

impl pool::Session for Session {
    fn is_whole(&self) -> bool {
        self.whole
    }

    fn had_open(&self, _folder: &str) -> bool {
        true
    }
}

impl Session {
    /// Hands a message over. Nobody gets it where anybody is refused.
    ///
    /// # Errors
    /// [`Error::Lost`] where the connection was dead and nothing was begun; [`Error::Rejected`] and [`Error::Unavailable`] where nothing was sent;
    /// [`Error::Unknown`] where that cannot be told.
    pub(super) async fn send(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        self.whole = false;
        let ready = timeout(self.timeout, self.prepare(envelope, message))
            .await
            .unwrap_or_else(|_| Err(Error::Unavailable("it does not answer in time".into())));
        if let Err(error) = ready {
            if matches!(error, Error::Rejected(_) | Error::Unavailable(_)) {
                // Ready for the next message, unless it is not there any more.
                let reset = timeout(self.timeout, self.connection.command(Rset)).await;
                self.whole = matches!(reset, Ok(Ok(_)));
            }
            return Err(error);
        }
        // The end of the last line is part of what ends a message (RFC 5321, section 4.1.1.4).
        let message = message.strip_suffix(b"\r\n").unwrap_or(message);
        let sent = timeout(self.timeout * LONG, self.connection.message(message)).await;
        match sent {
            Ok(Ok(_)) => {
                self.whole = true;
                Ok(())
            }
            Ok(Err(error)) if error.is_permanent() || error.is_transient() => {
                self.whole = true;
                Err(answered(None, &error))
            }
            Ok(Err(error)) => Err(Error::Unknown(error.to_string())),
            Err(_) => Err(Error::Unknown("it did not answer in time".into())),
        }
    }

    async fn prepare(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        let mut parameters = Vec::new();
        let people = || std::iter::once(&envelope.from).chain(&envelope.to);
        if let Some(beyond) = people().find(|one| !one.to_string().is_ascii()) {
            if !self.offers(Extension::SmtpUtfEight) {
                return Err(Error::Rejected(format!(
                    "{beyond}: the mail server does not take internationalized addresses"
                )));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if !message.is_ascii() {
            if !self.offers(Extension::EightBitMime) {
                return Err(Error::Rejected(
                    "The mail server takes ASCII messages only".into(),
                ));
            }
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        let mail = Mail::new(Some(envelope.from.clone()), parameters);
        if let Err(error) = self.connection.command(mail).await {
            return Err(match error.status() {
                Some(_) => answered(Some(&envelope.from), &error),
                // The first command on a connection that was idle.
                None => Error::Lost(error.to_string()),
            });
        }
        for one in &envelope.to {
            let rcpt = Rcpt::new(one.clone(), Vec::new());
            let answer = self.connection.command(rcpt).await;
            answer.map_err(|error| answered(Some(one), &error))?;
        }
        let data = self.connection.command(Data).await;
        data.map(drop).map_err(|error| answered(None, &error))
    }

    fn offers(&self, extension: Extension) -> bool {
        self.connection.server_info().supports_feature(extension)
    }
}

/// What an answer that is not yes means; of whom, where it is about one.
fn answered(whom: Option<&Address>, error: &SmtpError) -> Error {
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    let sentence = match (whom, mail::said(&said)) {
        (Some(whom), said) => format!("{whom}: {said}"),
        (None, said) => said,
    };
    if error.is_permanent() {
        Error::Rejected(sentence)
    } else {
        Error::Unavailable(sentence)
    }
}

/// A stream as lettre takes it.
struct Stream(Box<dyn Io>);

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl AsyncTokioStream for Stream {
    fn peer_addr(&self) -> io::Result<net::SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
