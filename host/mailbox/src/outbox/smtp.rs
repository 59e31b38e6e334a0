//! Pooled, authenticated connections to the submission service (RFC 6409). lettre implements the protocol. This module ensures that a message goes to all
//! recipients or to none, and reports the rejected recipient.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io, net};

use latchmail_core::caller::MailCredential;
use latchmail_net::endpoint::{Endpoint, Io};
use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Ehlo, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};
use tokio::time::timeout;

use super::{Error, log_in};
use crate::pool;

/// Timeout factor for the transfer of a message, which can have 25 MB.
const LONG: u32 = 6;

/// Opens connections.
#[derive(Debug)]
pub(super) struct Connector {
    endpoint: Endpoint,
    timeout: Duration,
}

/// An authenticated connection.
pub(super) struct Session {
    connection: AsyncSmtpConnection,
    /// `true` if several commands can be sent at once (RFC 2920).
    pipelining: bool,
    timeout: Duration,
    state: State,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No message is in progress.
    Whole,
    /// A message is in progress and all replies have been read.
    Begun,
    /// DATA was sent and its reply has not been read.
    Asked,
    /// A reply is missing, so later replies cannot be matched to commands.
    Cut,
}

/// The sender and the recipients of a message.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) from: Address,
    pub(super) to: Vec<Address>,
}

impl Connector {
    pub(super) fn new(endpoint: Endpoint, timeout: Duration) -> Self {
        Self { endpoint, timeout }
    }

    async fn logged_in(&self, credential: &MailCredential) -> Result<Session, crate::Error> {
        let away = |why: String| crate::Error::Unavailable(format!("{}: {why}", self.endpoint));
        let stream = self
            .endpoint
            .connect()
            .await
            .map_err(|e| away(e.to_string()))?;
        let hello = ClientId::Ipv4(net::Ipv4Addr::LOCALHOST);
        let mut connection =
            AsyncSmtpConnection::connect_with_transport(Box::new(Stream::new(stream)), &hello)
                .await
                .map_err(|e| away(e.to_string()))?;
        log_in::log_in(&mut connection, &hello, credential)
            .await
            .map_err(|error| match error {
                log_in::Error::Refused => crate::Error::CredentialRefused,
                log_in::Error::Unavailable(why) => away(why),
            })?;
        // Send EHLO again, because lettre does not expose the extensions that it does not use.
        let offered = connection.command(Ehlo::new(hello)).await;
        let offered = offered.map_err(|e| away(e.to_string()))?;
        Ok(Session {
            connection,
            pipelining: offered.message().skip(1).any(is_pipelining),
            timeout: self.timeout,
            state: State::Whole,
        })
    }
}

impl pool::Connect for Connector {
    type Session = Session;

    async fn connect(&self, credential: &MailCredential) -> Result<Session, crate::Error> {
        timeout(self.timeout, self.logged_in(credential))
            .await
            .unwrap_or_else(|_| {
                Err(crate::Error::Unavailable(
                    "the server did not respond in time".into(),
                ))
            })
    }
}

impl pool::Session for Session {
    fn is_whole(&self) -> bool {
        self.state == State::Whole
    }

    fn had_open(&self, _folder: &str) -> bool {
        true
    }
}

impl Session {
    /// Sends a message to all recipients, or to none if one is rejected.
    ///
    /// # Errors
    /// Returns [`Error::Lost`] if the connection was closed and nothing was sent, [`Error::Rejected`] or [`Error::Unavailable`] if nothing was sent, and
    /// [`Error::Unknown`] if the outcome is unknown.
    pub(super) async fn send(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        self.state = State::Begun;
        // After a timeout the connection is not used again, because the late reply would be taken for that of another command.
        let ready = timeout(self.timeout, self.prepare(envelope, message))
            .await
            .map_err(|_| Error::Unavailable("the server did not respond in time".into()))?;
        if let Err(error) = ready {
            if self.state != State::Cut
                && matches!(error, Error::Rejected(_) | Error::Unavailable(_))
            {
                // Reset the connection for the next message, if it still works.
                let reset = timeout(self.timeout, self.reset()).await;
                if let Ok(Ok(())) = reset {
                    self.state = State::Whole;
                }
            }
            return Err(error);
        }
        // The last line break is part of the end of the message (RFC 5321, section 4.1.1.4).
        let message = message.strip_suffix(b"\r\n").unwrap_or(message);
        let sent = timeout(self.timeout * LONG, self.connection.message(message)).await;
        match sent {
            Ok(Ok(_)) => {
                self.state = State::Whole;
                Ok(())
            }
            Ok(Err(error)) if error.is_permanent() || error.is_transient() => {
                self.state = State::Whole;
                Err(answered(None, &error))
            }
            Ok(Err(error)) => Err(Error::Unknown(error.to_string())),
            Err(_) => Err(Error::Unknown("the server did not respond in time".into())),
        }
    }

    async fn prepare(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        let mut parameters = Vec::new();
        let people = || std::iter::once(&envelope.from).chain(&envelope.to);
        if let Some(beyond) = people().find(|one| !one.to_string().is_ascii()) {
            if !self.offers(Extension::SmtpUtfEight) {
                return Err(Error::Rejected(format!(
                    "{beyond}: the mail server does not support internationalized addresses"
                )));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if !message.is_ascii() {
            if !self.offers(Extension::EightBitMime) {
                return Err(Error::Rejected(
                    "The mail server supports only ASCII messages".into(),
                ));
            }
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        let mail = Mail::new(Some(envelope.from.clone()), parameters);
        let recipients = envelope
            .to
            .iter()
            .map(|to| Rcpt::new(to.clone(), Vec::new()))
            .collect();
        if !self.pipelining {
            self.named_singly(envelope, mail, recipients).await?;
            return self.begun().await;
        }
        if envelope.to.len() > 1 {
            self.named(envelope, Together(mail, recipients, None))
                .await?;
            // Send DATA separately: if some recipients are rejected, the others would get the message (RFC 2920, section 3.1).
            return self.begun().await;
        }
        // With one recipient, DATA can be sent in the same write: if it is rejected, no recipient can get the message.
        self.state = State::Asked;
        self.named(envelope, Together(mail, recipients, Some(Data)))
            .await?;
        self.state = State::Begun;
        let begun = self.connection.read_response().await;
        self.heard(begun, None)?
    }

    /// Resets the connection after a rejected message.
    async fn reset(&mut self) -> Result<(), Error> {
        if self.state == State::Asked {
            let begun = self.connection.read_response().await;
            if self.heard(begun, None)?.is_ok() {
                // The server waits for a message without recipients. Send an empty one.
                let nothing = self.connection.command(NOTHING).await;
                self.heard(nothing, None)?.ok();
            }
        }
        let reset = self.connection.command(Rset).await;
        self.heard(reset, None)?
    }

    /// Sends DATA.
    async fn begun(&mut self) -> Result<(), Error> {
        let begun = self.connection.command(Data).await;
        self.heard(begun, None)?
    }

    /// Sends sender and recipients one by one, for a server without pipelining.
    async fn named_singly(
        &mut self,
        envelope: &Envelope,
        mail: Mail,
        recipients: Vec<Rcpt>,
    ) -> Result<(), Error> {
        let begun = self.connection.command(mail).await;
        self.heard(begun, Some(&envelope.from))??;
        for (to, recipient) in envelope.to.iter().zip(recipients) {
            let answer = self.connection.command(recipient).await;
            self.heard(answer, Some(to))??;
        }
        Ok(())
    }

    /// Sends sender and recipients at once, so that many recipients need only one round trip. Does not read the reply to DATA.
    async fn named(&mut self, envelope: &Envelope, together: Together) -> Result<(), Error> {
        let begun = self.connection.command(together).await;
        let mut said = self.heard(begun, Some(&envelope.from))?;
        // Read every reply, so that none is taken for that of a later command. The first rejection is returned.
        for to in &envelope.to {
            let answer = self.connection.read_response().await;
            match self.heard(answer, Some(to)) {
                Ok(answer) => said = said.and(answer),
                // The server rejected a command and closed the connection. Return the rejection.
                Err(lost) => return said.and(Err(lost)),
            }
        }
        said
    }

    /// Converts a reply. `whom` is the address that the command was about. The inner result is the server's rejection. The outer error means that no reply can
    /// be read any more.
    fn heard(
        &mut self,
        answer: Result<Response, SmtpError>,
        whom: Option<&Address>,
    ) -> Result<Result<(), Error>, Error> {
        match answer.map_err(|error| answered(whom, &error)) {
            Err(lost @ Error::Lost(_)) => {
                self.state = State::Cut;
                Err(lost)
            }
            answer => Ok(answer.map(drop)),
        }
    }

    fn offers(&self, extension: Extension) -> bool {
        self.connection.server_info().supports_feature(extension)
    }
}

/// An empty message.
const NOTHING: &str = ".\r\n";

/// MAIL, RCPT and optionally DATA in one write.
struct Together(Mail, Vec<Rcpt>, Option<Data>);

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        self.1.iter().try_for_each(|rcpt| rcpt.fmt(f))?;
        self.2.iter().try_for_each(|data| data.fmt(f))
    }
}

/// Returns `true` if a line of the EHLO response offers pipelining.
fn is_pipelining(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("PIPELINING")
}

/// Converts a negative reply. `whom` is the address that the command was about. Returns [`Error::Lost`] if there is no readable reply.
fn answered(whom: Option<&Address>, error: &SmtpError) -> Error {
    if error.status().is_none() {
        return Error::Lost(error.to_string());
    }
    let said = error.source().map(ToString::to_string).unwrap_or_default();
    let sentence = match (whom, crate::said(&said)) {
        (Some(whom), said) => format!("{whom}: {said}"),
        (None, said) => said,
    };
    if error.is_permanent() {
        Error::Rejected(sentence)
    } else {
        Error::Unavailable(sentence)
    }
}

/// Size of the write buffer, in bytes. Larger writes bypass it.
const AT_ONCE: usize = 16 * 1024;

/// A buffered stream for lettre that is flushed only when a reply is read. lettre writes the message and the final dot separately, and this way the server
/// receives both at once.
struct Stream(BufWriter<Box<dyn Io>>);

impl Stream {
    fn new(stream: Box<dyn Io>) -> Self {
        Self(BufWriter::with_capacity(AT_ONCE, stream))
    }
}

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
        ready!(Pin::new(&mut self.0).poll_flush(cx))?;
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

    /// Does nothing, because `poll_read` flushes the buffer.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
