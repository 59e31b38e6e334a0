//! Writes commands and reads replies on a connection. This module numbers commands, assigns
//! outcomes to commands and sends literals. The module does not interpret commands.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use imap_proto::{Response, ResponseCode, Status};
use latchmail_net::endpoint::Io;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::Error;
use super::bounds;
use super::command::Command;
use super::command_timer::CommandTimer;
use super::framing::{Framing, literal, too_large};
use super::server_ids;

/// A connection that reads replies and writes commands.
pub(crate) struct Wire {
    io: Box<dyn Io>,
    read: BytesMut,
    written: Vec<u8>,
    last_tag: u32,
    /// The commands without a result, with their tags.
    unfinished: Vec<(u32, CommandTimer)>,
    has_server_error: bool,
}

/// The outcome of a command (RFC 3501, section 7.1).
#[derive(Debug)]
pub(crate) struct Outcome {
    /// OK, NO or BAD.
    pub(crate) status: Status,
    /// The response code, if `imap-proto` supports it.
    pub(crate) code: Option<ResponseCode<'static>>,
    /// The text after the status. The text begins with the response code if `imap-proto` does not
    /// support the code.
    pub(crate) text: String,
}

/// A reply with its literals. [`server_ids`] has removed the server's id of the folder or message
/// from the bytes.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// The server's id of the folder or message, if the reply contained an id.
    pub(crate) id: Option<String>,
}

/// A callback that receives the untagged replies.
pub(crate) type OnReply<'a> =
    &'a mut (dyn FnMut(&Response<'_>, &Frame) -> Result<(), Error> + Send);

/// The result of writing a command with literals.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The command is written. The value is the command's tag.
    Complete(String),
    /// The server rejected a literal.
    Refused(Outcome),
}

impl Outcome {
    fn of(status: Status, outcome: imap_proto::Outcome<'_>) -> Self {
        Self {
            status,
            text: outcome.information.unwrap_or_default().into_owned(),
            code: outcome.code.map(ResponseCode::into_owned),
        }
    }

    /// Returns `true` if the response code is `name`.
    pub(crate) fn has_code(&self, name: &str) -> bool {
        self.text
            .strip_prefix('[')
            .and_then(|rest| rest.split([' ', ']']).next())
            .is_some_and(|code| code.eq_ignore_ascii_case(name))
    }

    /// Returns `true` if the response code means that the folder does not exist (RFC 3501, section
    /// 7.1; RFC 5530).
    pub(crate) fn is_missing_folder(&self) -> bool {
        matches!(self.code, Some(ResponseCode::TryCreate))
            || self.has_code("TRYCREATE")
            || self.has_code("NONEXISTENT")
            || self.has_code("CANNOT")
    }

    /// Returns the outcome if the status is OK, otherwise an error.
    pub(crate) fn ok(self) -> Result<Self, Error> {
        match self.status {
            Status::Ok => Ok(self),
            Status::No if self.has_code("OVERQUOTA") => Err(Error::OverQuota),
            Status::No => Err(Error::No(self.text)),
            _ => Err(Error::Protocol(format!(
                "the mail server returned BAD: {}",
                self.text
            ))),
        }
    }
}

impl Wire {
    pub(crate) fn new(io: Box<dyn Io>) -> Self {
        Self {
            io,
            read: BytesMut::new(),
            written: Vec::new(),
            last_tag: 0,
            unfinished: Vec::new(),
            has_server_error: false,
        }
    }

    /// Returns `true` if a command failed because of an error in the server (`SERVERBUG`, RFC
    /// 5530). Such a session of Dovecot can fail again and again, while a new one succeeds.
    pub(crate) fn has_server_error(&self) -> bool {
        self.has_server_error
    }

    /// Queues a command for the next write and returns its tag.
    pub(crate) fn queue(&mut self, command: &str) -> String {
        let tag = self.queue_tag(command);
        self.queue_line(command);
        tag
    }

    /// Queues the tag of a command. `command` begins with the name of the command.
    fn queue_tag(&mut self, command: &str) -> String {
        self.last_tag += 1;
        if let Some(timer) = CommandTimer::start(command) {
            self.unfinished.push((self.last_tag, timer));
        }
        let tag = format!("L{}", self.last_tag);
        self.written.extend_from_slice(tag.as_bytes());
        self.written.push(b' ');
        tag
    }

    /// Returns the outcome of a command. Ends its measurement for metrics and traces, and notes an
    /// error in the server.
    pub(crate) fn complete(
        &mut self,
        tag: &str,
        status: Status,
        outcome: imap_proto::Outcome<'_>,
    ) -> Outcome {
        let number = tag.strip_prefix('L').and_then(|number| number.parse().ok());
        let index = self
            .unfinished
            .iter()
            .position(|(tag, _)| Some(*tag) == number);
        if let Some(index) = index {
            self.unfinished.remove(index).1.finish(&status);
        }
        let outcome = Outcome::of(status, outcome);
        self.has_server_error |= outcome.has_code("SERVERBUG");
        outcome
    }

    /// Queues a line without a tag, for example the response to a continuation request.
    pub(crate) fn queue_line(&mut self, line: &str) {
        self.written.extend_from_slice(line.as_bytes());
        self.written.extend_from_slice(b"\r\n");
    }

    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        let written = std::mem::take(&mut self.written);
        self.io.write_all(&written).await?;
        self.io.flush().await?;
        Ok(())
    }

    /// Writes the queue and reads replies until all commands with `tags` are complete. Returns the
    /// outcomes in the order of `tags`. `on` receives all other replies.
    ///
    /// The commands can complete in any order. For example, if NOOP is followed by FETCH, Dovecot
    /// can complete the FETCH first.
    pub(crate) async fn finish(
        &mut self,
        tags: &[String],
        on: OnReply<'_>,
    ) -> Result<Vec<Outcome>, Error> {
        self.flush().await?;
        let mut outcomes: Vec<Option<Outcome>> = tags.iter().map(|_| None).collect();
        while outcomes.iter().any(Option::is_none) {
            let frame = self.frame().await?;
            match parse(&frame.bytes)? {
                Response::Done {
                    tag,
                    status,
                    outcome,
                } => {
                    let index = tags.iter().position(|t| *t == tag.0).ok_or_else(|| {
                        Error::Protocol(format!("a response with the unknown tag {}", tag.0))
                    })?;
                    outcomes[index] = Some(self.complete(&tag.0, status, outcome));
                }
                other => on(&other, &frame)?,
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Works like [`Wire::finish`], for one command.
    pub(crate) async fn finish_one(
        &mut self,
        tag: String,
        on: OnReply<'_>,
    ) -> Result<Outcome, Error> {
        let outcome = self.finish(&[tag], on).await?.pop();
        outcome.ok_or_else(|| Error::Protocol("no response to a command".into()))
    }

    /// Returns `true` if no unread data has arrived and the server has not closed the connection.
    /// Does not wait.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.read.is_empty() && self.read_more(0).now_or_never().is_none()
    }

    /// Writes a command with its literals and queues the text after the last literal. If
    /// `literal_plus` is `true`, sends literals without waiting for the server (RFC 7888).
    /// Otherwise waits for a continuation request before each literal.
    pub(crate) async fn queue_command(
        &mut self,
        command: &Command,
        literal_plus: bool,
        on: OnReply<'_>,
    ) -> Result<Sent, Error> {
        let sent = self.queue_literals(command, literal_plus, on).await?;
        if let Sent::Complete(_) = sent {
            self.queue_line(&command.end);
        }
        Ok(sent)
    }

    /// Writes a command with its literals, but not the text after the last literal. The server
    /// executes the command only after it has received this text.
    pub(crate) async fn queue_literals(
        &mut self,
        command: &Command,
        literal_plus: bool,
        on: OnReply<'_>,
    ) -> Result<Sent, Error> {
        let start = command
            .literals
            .first()
            .map_or(&command.end, |(text, _)| text);
        let tag = self.queue_tag(start);
        for (text, literal) in &command.literals {
            self.written.extend_from_slice(text.as_bytes());
            let plus = if literal_plus { "+" } else { "" };
            self.queue_line(&format!("{{{}{plus}}}", literal.len()));
            if literal_plus && literal.len() <= SMALL_LITERAL {
                self.written.extend_from_slice(literal);
                continue;
            }
            self.flush().await?;
            if !literal_plus && let Some(refused) = self.continuation(on).await? {
                return Ok(Sent::Refused(refused));
            }
            self.io.write_all(literal).await?;
        }
        Ok(Sent::Complete(tag))
    }

    /// Waits for a continuation request (RFC 3501, section 7.5). Returns `None` if the request
    /// arrives. Returns the outcome of the command if the server ends the command.
    pub(crate) async fn continuation(&mut self, on: OnReply<'_>) -> Result<Option<Outcome>, Error> {
        loop {
            let frame = self.frame().await?;
            match parse(&frame.bytes)? {
                Response::Continue(_) => return Ok(None),
                Response::Done {
                    tag,
                    status,
                    outcome,
                } => {
                    return Ok(Some(self.complete(&tag.0, status, outcome)));
                }
                other => on(&other, &frame)?,
            }
        }
    }

    /// Returns the next reply, including its literals. Moves the id of the folder or message from
    /// the reply's bytes to [`Frame::id`].
    pub(crate) async fn frame(&mut self) -> Result<Frame, Error> {
        let mut reply = self.next_frame().await?;
        let id = server_ids::take(&mut reply);
        Ok(Frame {
            bytes: reply.freeze(),
            id,
        })
    }

    /// Returns the next reply, including its literals.
    pub(crate) async fn reply(&mut self) -> Result<Bytes, Error> {
        Ok(self.next_frame().await?.freeze())
    }

    async fn next_frame(&mut self) -> Result<BytesMut, Error> {
        let mut framing = Framing::default();
        loop {
            if let Some(length) = framing.end(&self.read)? {
                return Ok(self.read.split_to(length));
            }
            self.read_more(framing.missing(&self.read)).await?;
        }
    }

    /// Reserves `reserve` bytes in the buffer and reads at least one byte.
    async fn read_more(&mut self, reserve: usize) -> Result<(), Error> {
        self.read.reserve(reserve);
        match self.io.read_buf(&mut self.read).await? {
            0 => Err(Error::Lost("the server closed the connection".into())),
            _ => Ok(()),
        }
    }
}

/// The result of [`Wire::next_item`].
#[derive(Debug)]
pub(crate) enum Item {
    /// A reply without literals.
    Reply(Bytes),
    /// The beginning of a reply up to its first literal. The value is the length of the literal, in
    /// bytes.
    Literal(usize),
}

impl Wire {
    /// Returns the next reply if it has no literals. Otherwise returns the length of the first
    /// literal. The caller then reads the literal with [`Wire::literal_bytes`].
    pub(crate) async fn next_item(&mut self) -> Result<Item, Error> {
        loop {
            if let Some(end) = memmem::find(&self.read, b"\r\n") {
                let line = self.read.split_to(end + 2).freeze();
                return Ok(match literal(&line, &line[..end])? {
                    Some(length) => Item::Literal(length),
                    None => Item::Reply(line),
                });
            }
            if self.read.len() > bounds::REPLY_LINE {
                return Err(too_large());
            }
            self.read_more(self.reserve_size()).await?;
        }
    }

    /// Returns the next bytes of a literal. The result has at least one byte and at most `limit`
    /// bytes. If fewer than [`PIECE`] bytes have arrived, waits up to [`COLLECT_TIME`] for more
    /// bytes. Otherwise, a server that writes small blocks would cause many small writes to the
    /// client.
    pub(crate) async fn literal_bytes(&mut self, limit: usize) -> Result<Bytes, Error> {
        if self.read.is_empty() {
            self.read_more(PIECE).await?;
        }
        let wanted = limit.min(PIECE);
        let collect = async {
            while self.read.len() < wanted {
                self.read_more(PIECE - self.read.len()).await?;
            }
            Ok::<(), Error>(())
        };
        if let Ok(collected) = timeout(COLLECT_TIME, collect).await {
            collected?;
        }
        let length = self.read.len().min(limit);
        let piece = self.read.split_to(length);
        if length < PIECE / 2 {
            // A slice would keep the complete buffer in memory, and the next bytes would need
            // another buffer.
            return Ok(Bytes::copy_from_slice(&piece));
        }
        Ok(piece.freeze())
    }

    /// Returns the number of bytes to reserve for the beginning of a reply. Returns 0 if the buffer
    /// has enough space.
    fn reserve_size(&self) -> usize {
        if self.read.capacity() - self.read.len() < MIN_FREE {
            RESERVE
        } else {
            0
        }
    }
}

/// Maximum size of a literal that is sent in one write together with the text before and after the
/// literal, in bytes.
pub(crate) const SMALL_LITERAL: usize = 64 * 1024;

/// The number of bytes of a literal that are returned together, if they arrive within
/// [`COLLECT_TIME`] after the first bytes.
const PIECE: usize = 64 * 1024;
const COLLECT_TIME: Duration = Duration::from_millis(1);

/// The number of bytes to reserve if the buffer has less than [`MIN_FREE`] bytes of free space.
const RESERVE: usize = 256 * 1024;
const MIN_FREE: usize = 16 * 1024;

/// Omits the buffers `read` and `written`, because the buffers can contain a password.
impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// Parses a reply. Returns an error for BYE, because the server closes the connection after BYE.
pub(crate) fn parse(frame: &[u8]) -> Result<Response<'_>, Error> {
    if server_ids::is_nested_deeper(frame, DEPTH) {
        return Err(Error::Protocol(
            "the lists in a reply are nested too deeply".into(),
        ));
    }
    // `imap-proto` 0.17 panics on some invalid replies, for example on a non-ASCII character after
    // the response code.
    match std::panic::catch_unwind(|| Response::parse(frame)) {
        Ok(Ok((
            [],
            Response::Data {
                status: Status::Bye,
                outcome,
            },
        ))) => Err(Error::Lost(
            outcome.information.unwrap_or_default().into_owned(),
        )),
        Ok(Ok(([], response))) => Ok(response),
        _ => Err(Error::Protocol(format!(
            "invalid reply: {:?}",
            String::from_utf8_lossy(frame.get(..80).unwrap_or(frame))
        ))),
    }
}

/// Maximum nesting depth of lists in a reply. `imap-proto` parses lists by recursion, so a deeper
/// reply could overflow the stack. Expected replies have at most four levels.
const DEPTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_cannot_be_nested_deeper_than_the_stack() {
        let nested = |unit: &str| format!("* 1 FETCH (BODYSTRUCTURE {}\r\n", unit.repeat(100_000));
        for unit in ["(", "(1 ", "(\"a)\" ", "({1}\r\n) "] {
            let refused = parse(nested(unit).as_bytes()).map(drop);
            assert!(matches!(refused, Err(Error::Protocol(_))), "{unit}");
        }
        let literal = format!(
            "* 1 FETCH (UID 1 BODY[] {{1000}}\r\n{})\r\n",
            "(".repeat(1000)
        );
        assert!(parse(literal.as_bytes()).is_ok());
    }

    #[tokio::test]
    async fn blocks_of_a_literal_are_returned_together() {
        const BLOCKS: [&[u8]; 2] = [&[b'a'; 1000], &[b'b'; 1000]];
        let server = tokio::io::join(BLOCKS[0].chain(BLOCKS[1]), tokio::io::sink());
        let mut wire = Wire::new(Box::new(server));
        assert_eq!(wire.literal_bytes(2000).await.unwrap(), BLOCKS.concat());
    }

    #[tokio::test]
    async fn the_bytes_of_a_slow_server_are_returned_before_the_others_arrive() {
        let (client, mut server) = tokio::io::duplex(100);
        server.write_all(b"abc").await.unwrap();
        let mut wire = Wire::new(Box::new(client));
        let bytes = wire.literal_bytes(2000).await.unwrap();
        assert_eq!(bytes, "abc");
        // A few bytes that wait for a client must not keep a buffer of 64 KiB.
        drop(wire);
        assert!(bytes.try_into_mut().unwrap().capacity() < 100);
    }

    #[test]
    fn a_reply_on_which_the_parser_panics_is_invalid() {
        let refused = parse("* OK [UIDVALIDITY 1]\u{3414} ok\r\n".as_bytes()).map(drop);
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    }
}
