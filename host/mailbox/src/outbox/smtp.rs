//! Authenticated connections to the submission service (RFC 6409). lettre implements the protocol.
//! This module sends a message to all recipients or to no recipient. If the server rejects a
//! recipient, the error contains the address of this recipient.

use std::error::Error as _;
use std::fmt::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io, net};

use latchmail_core::caller::MailCredential;
use latchmail_core::config;
use latchmail_core::error::StartError;
use latchmail_net::endpoint::{Endpoint, Io};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Ehlo, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension};
use lettre::transport::smtp::response::Response;
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};
use tokio::time::timeout;

use super::envelope::{Envelope, EnvelopeAddress, Reports};
use super::result::Error;
use super::{login, starttls};
use crate::connections::pool;
use crate::connections::server_text;
use crate::error::Error as MailboxError;

/// Timeout factor for the transfer of a message. A message can have 25 MB.
const TRANSFER_FACTOR: u32 = 6;

/// The address of the submission service and the settings of its connections.
#[derive(Debug)]
pub(super) struct Connector {
    endpoint: Endpoint,
    /// Whether connections switch to TLS with STARTTLS.
    starttls: bool,
    timeout: Duration,
}

/// An authenticated connection.
pub(super) struct Session {
    connection: AsyncSmtpConnection,
    /// `true` if the client can send several commands without waiting for replies (RFC 2920).
    pipelining: bool,
    /// `true` if the server reports deliveries (RFC 3461).
    pub(super) dsn: bool,
    timeout: Duration,
    state: State,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No message is in progress.
    Idle,
    /// A message is in progress, and the client has read all replies.
    InTransaction,
    /// The client has sent DATA but has not read the reply.
    AwaitingDataReply,
    /// A reply is missing. Therefore the client cannot assign further replies to commands.
    Broken,
}

impl Connector {
    /// Creates the connector from the configuration. Does not connect.
    ///
    /// # Errors
    /// Returns an error if the address or the TLS configuration is invalid.
    pub(super) fn new(config: &config::Smtp) -> Result<Self, StartError> {
        let tls = config.tls || config.starttls;
        Ok(Self {
            endpoint: Endpoint::new("smtp.address", &config.address, tls)?,
            starttls: config.starttls,
            timeout: config.timeout,
        })
    }

    /// Connects, reads the greeting and sends EHLO. Starts TLS if TLS is configured. The error is
    /// the reason of the failure.
    pub(super) async fn open(&self, hello: &ClientId) -> Result<AsyncSmtpConnection, String> {
        let stream = if self.starttls {
            let stream = starttls::connect(&self.endpoint).await?;
            // lettre expects a greeting, but the server sends no greeting after STARTTLS.
            BufferedStream::new(stream, b"220 STARTTLS\r\n")
        } else {
            let stream = self.endpoint.connect().await.map_err(|e| e.to_string())?;
            BufferedStream::new(stream, b"")
        };
        AsyncSmtpConnection::connect_with_transport(Box::new(stream), hello)
            .await
            .map_err(|e| e.to_string())
    }

    async fn connect_and_log_in(
        &self,
        credential: &MailCredential,
    ) -> Result<Session, MailboxError> {
        let unavailable =
            |why: String| MailboxError::Unavailable(format!("{}: {why}", self.endpoint));
        let hello = ClientId::Ipv4(net::Ipv4Addr::LOCALHOST);
        let mut connection = self.open(&hello).await.map_err(unavailable)?;
        login::log_in(&mut connection, &hello, credential)
            .await
            .map_err(|error| match error {
                login::Error::Refused => MailboxError::CredentialRefused,
                login::Error::Unavailable(why) => unavailable(why),
            })?;
        // Send a second EHLO, because lettre exposes only the extensions that lettre uses.
        let ehlo = connection.command(Ehlo::new(hello)).await;
        let ehlo = ehlo.map_err(|e| unavailable(e.to_string()))?;
        Ok(Session {
            connection,
            pipelining: ehlo.message().skip(1).any(is_pipelining),
            dsn: ehlo.message().skip(1).any(is_dsn),
            timeout: self.timeout,
            state: State::Idle,
        })
    }
}

/// Sends one message over its own connection. For checks of the mail server, without an account of
/// the service.
///
/// # Errors
/// Returns an error if the address of the sender or of the recipient is invalid, the log-in fails,
/// or the server rejects the message.
pub async fn submit(
    config: &config::Smtp,
    credential: &MailCredential,
    (from, to): (&str, &str),
    message: &[u8],
) -> Result<(), StartError> {
    let failed = |reason: String| StartError::new(format!("{}: {reason}", config.address));
    let address = |text: &str| {
        EnvelopeAddress::parse(text).ok_or_else(|| failed(format!("`{text}` is not an address")))
    };
    let envelope = Envelope {
        from: address(from)?,
        to: vec![address(to)?],
        reports: Reports::Default,
    };
    let connector = Connector::new(config)?;
    let session = pool::Connect::connect(&connector, credential).await;
    let mut session = session.map_err(|error| failed(error.to_string()))?;
    let sent = session.send(&envelope, message).await;
    sent.map_err(|error| failed(error.to_string()))
}

impl pool::Connect for Connector {
    type Session = Session;

    async fn connect(&self, credential: &MailCredential) -> Result<Session, MailboxError> {
        timeout(self.timeout, self.connect_and_log_in(credential))
            .await
            .unwrap_or_else(|_| {
                Err(MailboxError::Unavailable(
                    "the server did not respond in time".into(),
                ))
            })
    }
}

impl pool::Session for Session {
    fn is_reusable(&self) -> bool {
        self.state == State::Idle
    }

    fn has_folder_open(&self, _folder: &str) -> bool {
        true
    }
}

impl Session {
    /// Sends a message to all recipients. If the server rejects a recipient, sends the message to
    /// no recipient.
    ///
    /// # Errors
    /// - Returns [`Error::Lost`] if the connection was closed and the message was not sent.
    /// - Returns [`Error::Rejected`] or [`Error::Unavailable`] if the message was not sent for
    ///   another reason.
    /// - Returns [`Error::Unknown`] if it is unknown whether the message was sent.
    pub(super) async fn send(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        self.state = State::InTransaction;
        // Do not reuse the connection after a timeout, because a late reply would be assigned to
        // another command.
        let prepared = timeout(self.timeout, self.prepare(envelope, message))
            .await
            .map_err(|_| Error::Unavailable("the server did not respond in time".into()))?;
        if let Err(error) = prepared {
            if self.state != State::Broken
                && matches!(error, Error::Rejected(_) | Error::Unavailable(_))
            {
                // If the connection works, reset the connection for the next message.
                let reset = timeout(self.timeout, self.reset()).await;
                if let Ok(Ok(())) = reset {
                    self.state = State::Idle;
                }
            }
            return Err(error);
        }
        // Remove the last line break, because lettre sends this line break as part of the end of
        // the message (RFC 5321, section 4.1.1.4).
        let message = message.strip_suffix(b"\r\n").unwrap_or(message);
        let sent = timeout(
            self.timeout * TRANSFER_FACTOR,
            self.connection.message(message),
        )
        .await;
        match sent {
            Ok(Ok(_)) => {
                self.state = State::Idle;
                Ok(())
            }
            Ok(Err(error)) if error.is_permanent() || error.is_transient() => {
                self.state = State::Idle;
                Err(convert_error(None, &error))
            }
            Ok(Err(error)) => Err(Error::Unknown(error.to_string())),
            Err(_) => Err(Error::Unknown("the server did not respond in time".into())),
        }
    }

    async fn prepare(&mut self, envelope: &Envelope, message: &[u8]) -> Result<(), Error> {
        let mut parameters = String::new();
        let mut addresses = std::iter::once(&envelope.from).chain(&envelope.to);
        if let Some(address) = addresses.find(|address| !address.as_str().is_ascii()) {
            if !self.offers(Extension::SmtpUtfEight) {
                return Err(Error::Rejected(format!(
                    "{address}: the mail server does not support internationalized addresses"
                )));
            }
            parameters.push_str(" SMTPUTF8");
        }
        if !message.is_ascii() {
            if !self.offers(Extension::EightBitMime) {
                // Only an attached message can contain bytes that are not ASCII. An attached
                // message must not be encoded (RFC 2046, section 5.2.1).
                return Err(Error::Rejected(
                    "The mail server supports only ASCII messages; attach the message as application/octet-stream".into(),
                ));
            }
            parameters.push_str(" BODY=8BITMIME");
        }
        let reports = if self.dsn {
            &envelope.reports
        } else {
            &Reports::Default
        };
        match reports {
            Reports::Default => {}
            // A server that ignores the request for no report must not return the text.
            Reports::Never => parameters.push_str(" RET=HDRS"),
            Reports::Tracked(id) => {
                parameters.push_str(" ENVID=");
                parameters.push_str(id.as_str());
            }
        }
        let commands = Commands {
            envelope,
            parameters: &parameters,
            reports,
            with_data: false,
        };
        if !self.pipelining {
            self.send_envelope_singly(commands).await?;
            return self.start_data().await;
        }
        if envelope.to.len() > 1 {
            self.send_envelope(commands).await?;
            // Send DATA separately. Otherwise a message with a rejected recipient would reach the
            // accepted recipients (RFC 2920, section 3.1).
            return self.start_data().await;
        }
        // DATA can be in the same write if there is only one recipient. If this recipient is
        // rejected, no recipient gets the message.
        self.state = State::AwaitingDataReply;
        self.send_envelope(Commands {
            with_data: true,
            ..commands
        })
        .await?;
        self.state = State::InTransaction;
        let reply = self.connection.read_response().await;
        self.handle_reply(reply, None)?
    }

    /// Resets the connection after a rejected message.
    async fn reset(&mut self) -> Result<(), Error> {
        if self.state == State::AwaitingDataReply {
            let reply = self.connection.read_response().await;
            if self.handle_reply(reply, None)?.is_ok() {
                // The server expects the message, although the message has no recipients. Send an
                // empty message.
                let reply = self.connection.command(EMPTY_MESSAGE).await;
                self.handle_reply(reply, None)?.ok();
            }
        }
        let reply = self.connection.command(Rset).await;
        self.handle_reply(reply, None)?
    }

    async fn start_data(&mut self) -> Result<(), Error> {
        let reply = self.connection.command(Data).await;
        self.handle_reply(reply, None)?
    }

    /// Sends the commands with the sender and the recipients one by one. Used for servers without
    /// pipelining.
    async fn send_envelope_singly(&mut self, commands: Commands<'_>) -> Result<(), Error> {
        let envelope = commands.envelope;
        let reply = self.connection.command(commands.mail()).await;
        self.handle_reply(reply, Some(&envelope.from))??;
        for to in &envelope.to {
            let reply = self.connection.command(commands.rcpt(to)).await;
            self.handle_reply(reply, Some(to))??;
        }
        Ok(())
    }

    /// Sends the pipelined commands in one write, which needs only one round trip. Reads all
    /// replies except the reply to DATA.
    async fn send_envelope(&mut self, commands: Commands<'_>) -> Result<(), Error> {
        let envelope = commands.envelope;
        let reply = self.connection.command(commands).await;
        let mut result = self.handle_reply(reply, Some(&envelope.from))?;
        // Read every reply, so that no reply is assigned to another command. The loop returns the
        // first rejection.
        for to in &envelope.to {
            let reply = self.connection.read_response().await;
            match self.handle_reply(reply, Some(to)) {
                Ok(reply) => result = result.and(reply),
                // If the server rejected a command and then closed the connection, return the
                // rejection.
                Err(lost) => return result.and(Err(lost)),
            }
        }
        result
    }

    /// Converts the reply to a command. `address` is the address in the command. The inner result
    /// is an error if the server rejected the command. The outer result is an error if the
    /// connection was lost.
    fn handle_reply(
        &mut self,
        reply: Result<Response, SmtpError>,
        address: Option<&EnvelopeAddress>,
    ) -> Result<Result<(), Error>, Error> {
        match reply.map_err(|error| convert_error(address, &error)) {
            Err(lost @ Error::Lost(_)) => {
                self.state = State::Broken;
                Err(lost)
            }
            reply => Ok(reply.map(drop)),
        }
    }

    fn offers(&self, extension: Extension) -> bool {
        self.connection.server_info().supports_feature(extension)
    }
}

/// Maximum length of an encoded address in ORCPT: 500 characters with the type (RFC 3461, section
/// 4.2).
const MAX_ORCPT: usize = 493;

const EMPTY_MESSAGE: &str = ".\r\n";

/// The commands MAIL, RCPT and optionally DATA in one write. This type replaces the commands of
/// lettre, which accept only addresses with a short local part.
#[derive(Clone, Copy)]
struct Commands<'a> {
    envelope: &'a Envelope,
    parameters: &'a str,
    /// The requested reports. [`Reports::Default`] if the server does not support requests.
    reports: &'a Reports,
    with_data: bool,
}

impl Commands<'_> {
    fn mail(self) -> String {
        format!("MAIL FROM:<{}>{}\r\n", self.envelope.from, self.parameters)
    }

    fn rcpt(self, to: &EnvelopeAddress) -> String {
        match self.reports {
            Reports::Default => return format!("RCPT TO:<{to}>\r\n"),
            Reports::Never => return format!("RCPT TO:<{to}> NOTIFY=NEVER\r\n"),
            Reports::Tracked(_) => {}
        }
        // Without ORCPT, Postfix reports the address itself. ORCPT with other characters than ASCII
        // needs another syntax (RFC 6533, section 3).
        let original = xtext(to.as_str());
        let original = original.map_or_else(String::new, |to| format!(" ORCPT=rfc822;{to}"));
        format!("RCPT TO:<{to}> NOTIFY=SUCCESS,FAILURE,DELAY{original}\r\n")
    }
}

impl fmt::Display for Commands<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mail())?;
        let mut recipients = self.envelope.to.iter();
        recipients.try_for_each(|to| f.write_str(&self.rcpt(to)))?;
        if self.with_data { Data.fmt(f) } else { Ok(()) }
    }
}

/// Encodes an address for the parameter ORCPT (RFC 3461, section 4). Returns `None` if the address
/// contains other characters than ASCII, or if the encoded address is too long (section 4.2).
fn xtext(address: &str) -> Option<String> {
    let mut encoded = String::with_capacity(address.len());
    for byte in address.bytes() {
        match byte {
            // Writing to a string does not fail.
            b'+' | b'=' | b' ' => drop(write!(encoded, "+{byte:02X}")),
            b'!'..=b'~' => encoded.push(char::from(byte)),
            _ => return None,
        }
    }
    (encoded.len() <= MAX_ORCPT).then_some(encoded)
}

/// Returns `true` if the EHLO response line offers pipelining.
fn is_pipelining(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("PIPELINING")
}

/// Returns `true` if the EHLO response line offers delivery reports.
pub(super) fn is_dsn(line: &str) -> bool {
    line.trim().eq_ignore_ascii_case("DSN")
}

/// Converts the error of an SMTP command. `address` is the address in the command. Returns
/// [`Error::Lost`] if the client received no valid reply.
fn convert_error(address: Option<&EnvelopeAddress>, error: &SmtpError) -> Error {
    if error.status().is_none() {
        return Error::Lost(error.to_string());
    }
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    let text = server_text::sanitize(&text);
    let sentence = match address {
        Some(address) => format!("{address}: {text}"),
        None => text,
    };
    if error.is_permanent() {
        Error::Rejected(sentence)
    } else {
        Error::Unavailable(sentence)
    }
}

/// Size of the write buffer, in bytes. Larger writes bypass the buffer.
const WRITE_BUFFER: usize = 16 * 1024;

/// A buffered stream for lettre. The stream flushes its buffer only before it reads a reply. lettre
/// writes the message and the final dot separately, and the buffer combines them into one write.
struct BufferedStream {
    stream: BufWriter<Box<dyn Io>>,
    /// Text that is read before the server's replies.
    greeting: &'static [u8],
}

impl BufferedStream {
    fn new(stream: Box<dyn Io>, greeting: &'static [u8]) -> Self {
        Self {
            stream: BufWriter::with_capacity(WRITE_BUFFER, stream),
            greeting,
        }
    }
}

impl fmt::Debug for BufferedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferedStream").finish_non_exhaustive()
    }
}

impl AsyncTokioStream for BufferedStream {
    fn peer_addr(&self) -> io::Result<net::SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for BufferedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.greeting.is_empty() {
            let length = self.greeting.len().min(buffer.remaining());
            let (next, rest) = self.greeting.split_at(length);
            buffer.put_slice(next);
            self.greeting = rest;
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BufferedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    /// Does nothing, because `poll_read` flushes the buffer.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
