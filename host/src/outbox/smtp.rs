//! Connections to the submission service (RFC 6409), logged in and kept. lettre speaks the protocol; here a message goes to everybody or to
//! nobody, and which recipient was refused is told.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io, net};

use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Ehlo, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::{Error, log_in};
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
    /// Whether several commands may be on their way at once (RFC 2920).
    pipelining: bool,
    timeout: Duration,
    /// Whether an answer is missing, so that none to come can be told from it.
    cut: bool,
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
        log_in::log_in(&mut connection, &hello, credential)
            .await
            .map_err(|error| match error {
                log_in::Error::Refused => mail::Error::CredentialRefused,
                log_in::Error::Unavailable(why) => away(why),
            })?;
        // Asked once more: lettre keeps to itself what it does not use.
        let offered = connection.command(Ehlo::new(hello)).await;
        let offered = offered.map_err(|e| away(e.to_string()))?;
        Ok(Session {
            connection,
            pipelining: offered.message().skip(1).any(is_pipelining),
            timeout: self.timeout,
            cut: false,
            whole: true,
        })
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
    /// [`Error::Lost`] where the connection was dead and nothing was sent; [`Error::Rejected`] and [`Error::Unavailable`] where nothing was sent;
    /// [`Error::Unknown`] where that cannot be told.
    pub(super) async fn send(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        self.whole = false;
        // Whoever did not answer in time may do so later, to another command: that connection is not used again.
        let ready = timeout(self.timeout, self.prepare(envelope, message))
            .await
            .map_err(|_| Error::Unavailable("it does not answer in time".into()))?;
        if let Err(error) = ready {
            if !self.cut && matches!(error, Error::Rejected(_) | Error::Unavailable(_)) {
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
        self.named(envelope, mail).await?;
        // Never with the others: where some are refused, whoever is not would get what follows (RFC 2920, section 3.1).
        let data = self.connection.command(Data).await;
        data.map(drop).map_err(|error| answered(None, &error))
    }

    /// Names the sender and the recipients. Where the server lets it, all at once: fifty recipients take as long on the way as one.
    async fn named(&mut self, envelope: &Envelope, mail: Mail) -> Result<(), Error> {
        let recipients = envelope
            .to
            .iter()
            .map(|to| Rcpt::new(to.clone(), Vec::new()));
        if !self.pipelining {
            let begun = self.connection.command(mail).await;
            begun.map_err(|error| answered(Some(&envelope.from), &error))?;
            for (to, recipient) in envelope.to.iter().zip(recipients) {
                let answer = self.connection.command(recipient).await;
                answer.map_err(|error| answered(Some(to), &error))?;
            }
            return Ok(());
        }
        let together = Together(mail, recipients.collect());
        let begun = self.connection.command(together).await;
        let mut said = heard(begun, &envelope.from)?;
        // Every answer is heard, so that none is taken for a later command's; the first that is not yes counts.
        for to in &envelope.to {
            match heard(self.connection.read_response().await, to) {
                Ok(answer) => said = said.and(answer),
                // A server that refused and hung up has said enough.
                Err(lost) => {
                    self.cut = true;
                    return said.and(Err(lost));
                }
            }
        }
        said
    }

    fn offers(&self, extension: Extension) -> bool {
        self.connection.server_info().supports_feature(extension)
    }
}

/// MAIL, and what goes with it.
struct Together(Mail, Vec<Rcpt>);

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        self.1.iter().try_for_each(|rcpt| rcpt.fmt(f))
    }
}

/// One of several answers; what is wrong with it is within. An error where there is none, nor will be.
fn heard(answer: Result<Response, SmtpError>, whom: &Address) -> Result<Result<(), Error>, Error> {
    match answer.map_err(|error| answered(Some(whom), &error)) {
        Err(lost @ Error::Lost(_)) => Err(lost),
        answer => Ok(answer.map(drop)),
    }
}

/// Whether a line of the answer to EHLO offers it.
fn is_pipelining(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("PIPELINING")
}

/// What an answer that is not yes means; of whom, where it is about one. [`Error::Lost`] where there is no answer, or none that can be read.
fn answered(whom: Option<&Address>, error: &SmtpError) -> Error {
    if error.status().is_none() {
        return Error::Lost(error.to_string());
    }
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
