//! Connections to the submission service (RFC 6409), logged in and kept. lettre speaks the protocol; here a message goes to everybody or to
//! nobody, and which recipient was refused is told.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io, net};

use lettre::Address;
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Ehlo, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};
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
    state: State,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between two messages.
    Whole,
    /// In the middle of one. All that was asked is answered.
    Begun,
    /// The same, and it was asked to take the message and has not answered.
    Asked,
    /// An answer is missing, so that none to come can be told from it.
    Cut,
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
            AsyncSmtpConnection::connect_with_transport(Box::new(Stream::new(stream)), &hello)
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
            state: State::Whole,
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
        self.state == State::Whole
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
        self.state = State::Begun;
        // Whoever did not answer in time may do so later, to another command: that connection is not used again.
        let ready = timeout(self.timeout, self.prepare(envelope, message))
            .await
            .map_err(|_| Error::Unavailable("it does not answer in time".into()))?;
        if let Err(error) = ready {
            if self.state != State::Cut
                && matches!(error, Error::Rejected(_) | Error::Unavailable(_))
            {
                // Ready for the next message, unless it is not there any more.
                let reset = timeout(self.timeout, self.reset()).await;
                if let Ok(Ok(())) = reset {
                    self.state = State::Whole;
                }
            }
            return Err(error);
        }
        // The end of the last line is part of what ends a message (RFC 5321, section 4.1.1.4).
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
            // Not with the others: where some are refused, whoever is not would get what follows (RFC 2920, section 3.1).
            return self.begun().await;
        }
        // The only recipient is accepted, or there is nobody who would get anything.
        self.state = State::Asked;
        self.named(envelope, Together(mail, recipients, Some(Data)))
            .await?;
        self.state = State::Begun;
        let begun = self.connection.read_response().await;
        self.heard(begun, None)?
    }

    /// Makes it ready for the next message after one that was refused.
    async fn reset(&mut self) -> Result<(), Error> {
        if self.state == State::Asked {
            let begun = self.connection.read_response().await;
            if self.heard(begun, None)?.is_ok() {
                // It waits for the message that is for nobody.
                let nothing = self.connection.command(NOTHING).await;
                self.heard(nothing, None)?.ok();
            }
        }
        let reset = self.connection.command(Rset).await;
        self.heard(reset, None)?
    }

    /// Asks for the message to be taken.
    async fn begun(&mut self) -> Result<(), Error> {
        let begun = self.connection.command(Data).await;
        self.heard(begun, None)?
    }

    /// Names the sender and the recipients to a server that wants to answer each command before the next.
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

    /// Names them all at once: fifty recipients take as long on the way as one. The answer to what follows them is not heard here.
    async fn named(&mut self, envelope: &Envelope, together: Together) -> Result<(), Error> {
        let begun = self.connection.command(together).await;
        let mut said = self.heard(begun, Some(&envelope.from))?;
        // Every answer is heard, so that none is taken for a later command's; the first that is not yes counts.
        for to in &envelope.to {
            let answer = self.connection.read_response().await;
            match self.heard(answer, Some(to)) {
                Ok(answer) => said = said.and(answer),
                // A server that refused and hung up has said enough.
                Err(lost) => return said.and(Err(lost)),
            }
        }
        said
    }

    /// An answer, of whom, where it is about one; what is wrong with it is within. An error where there is none, nor will be.
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

/// A message without a line.
const NOTHING: &str = ".\r\n";

/// MAIL, and what goes with it.
struct Together(Mail, Vec<Rcpt>, Option<Data>);

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        self.1.iter().try_for_each(|rcpt| rcpt.fmt(f))?;
        self.2.iter().try_for_each(|data| data.fmt(f))
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

/// Bytes that are on their way at once. A message that has more goes as it is written.
const AT_ONCE: usize = 16 * 1024;

/// A stream as lettre takes it: what was written is on its way when an answer to it is waited for, so that a message and the dot behind it, which lettre writes
/// apart, wake the server once.
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

    /// There is nothing to do before an answer is waited for.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
