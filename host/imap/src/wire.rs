//! Reads whole replies and writes whole commands. Implements the framing of RFC 3501 (lines and literals) and does not interpret the content.

use std::fmt;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use imap_proto::{Response, ResponseCode, Status};
use latchmail_net::dial::Io;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Error;
use super::bounds;
use super::command::Command;
use super::framing::{Framing, literal, too_large};
use super::server_ids;

/// A connection that reads replies and writes commands.
pub(crate) struct Wire {
    io: Box<dyn Io>,
    read: BytesMut,
    written: Vec<u8>,
    last_tag: u32,
}

/// The outcome of a command (RFC 3501, section 7.1).
#[derive(Debug)]
pub(crate) struct Outcome {
    /// OK, NO or BAD.
    pub(crate) status: Status,
    /// The response code, if `imap-proto` supports it.
    pub(crate) code: Option<ResponseCode<'static>>,
    /// The rest of the line. Begins with the response code if `imap-proto` does not support it.
    pub(crate) text: String,
}

/// A reply with its literals, but without the id that [`server_ids`] removed.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// The id of the folder or message, if the reply has one.
    pub(crate) id: Option<String>,
}

/// A callback for the untagged replies.
pub(crate) type On<'a> = &'a mut (dyn FnMut(&Response<'_>, &Frame) -> Result<(), Error> + Send);

/// The result of writing a command with literals.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The command is written and has this tag.
    Whole(String),
    /// The server rejected a literal.
    Refused(Outcome),
}

impl Outcome {
    fn of(status: Status, told: imap_proto::Outcome<'_>) -> Self {
        Self {
            status,
            text: told.information.unwrap_or_default().into_owned(),
            code: told.code.map(ResponseCode::into_owned),
        }
    }

    /// Returns `true` if the response code is `name`.
    pub(crate) fn says(&self, name: &str) -> bool {
        self.text
            .strip_prefix('[')
            .and_then(|rest| rest.split([' ', ']']).next())
            .is_some_and(|code| code.eq_ignore_ascii_case(name))
    }

    /// Returns the outcome if it is OK, otherwise an error.
    pub(crate) fn ok(self) -> Result<Self, Error> {
        match self.status {
            Status::Ok => Ok(self),
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
        }
    }

    /// Queues a command for the next write and returns its tag.
    pub(crate) fn queue(&mut self, command: &str) -> String {
        let tag = self.queue_tag();
        self.queue_line(command);
        tag
    }

    fn queue_tag(&mut self) -> String {
        self.last_tag += 1;
        let tag = format!("L{}", self.last_tag);
        self.written.extend_from_slice(tag.as_bytes());
        self.written.push(b' ');
        tag
    }

    /// Queues a line without a tag, such as the reply to a continuation.
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

    /// Writes the queue and reads until all `tags` are complete, in any order: Dovecot completes a NOOP after a FETCH that was sent after it. `on` receives all
    /// other replies. The outcomes are in the order of `tags`.
    pub(crate) async fn finish(
        &mut self,
        tags: &[String],
        on: On<'_>,
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
                    let place = tags.iter().position(|t| *t == tag.0).ok_or_else(|| {
                        Error::Protocol(format!("a response with the unknown tag {}", tag.0))
                    })?;
                    outcomes[place] = Some(Outcome::of(status, outcome));
                }
                other => on(&other, &frame)?,
            }
        }
        Ok(outcomes.into_iter().flatten().collect())
    }

    /// Like [`Wire::finish`], for one command.
    pub(crate) async fn finish_one(&mut self, tag: String, on: On<'_>) -> Result<Outcome, Error> {
        let outcome = self.finish(&[tag], on).await?.pop();
        outcome.ok_or_else(|| Error::Protocol("no response to a command".into()))
    }

    /// Returns `true` if there is no unread data and the server has not closed the connection, as far as is known without waiting.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.read.is_empty() && self.more(0).now_or_never().is_none()
    }

    /// Writes a command with its literals and queues the text after the last literal. `at_once` means that the server accepts literals without a continuation
    /// (RFC 7888). Otherwise each literal is sent after the server has requested it.
    pub(crate) async fn queue_command(
        &mut self,
        command: &Command,
        at_once: bool,
        on: On<'_>,
    ) -> Result<Sent, Error> {
        let sent = self.queue_literals(command, at_once, on).await?;
        if let Sent::Whole(_) = sent {
            self.queue_line(&command.end);
        }
        Ok(sent)
    }

    /// Writes a command with its literals, without the text after the last one. The server executes the command only after that text.
    pub(crate) async fn queue_literals(
        &mut self,
        command: &Command,
        at_once: bool,
        on: On<'_>,
    ) -> Result<Sent, Error> {
        let tag = self.queue_tag();
        for (text, literal) in &command.literals {
            self.written.extend_from_slice(text.as_bytes());
            let plus = if at_once { "+" } else { "" };
            self.queue_line(&format!("{{{}{plus}}}", literal.len()));
            if at_once && literal.len() <= SMALL {
                self.written.extend_from_slice(literal);
                continue;
            }
            self.flush().await?;
            if !at_once && let Some(refused) = self.asked(on).await? {
                return Ok(Sent::Refused(refused));
            }
            self.io.write_all(literal).await?;
        }
        Ok(Sent::Whole(tag))
    }

    /// Waits for a continuation request. Returns `None` after one, or the command's outcome if the command ended instead.
    pub(crate) async fn asked(&mut self, on: On<'_>) -> Result<Option<Outcome>, Error> {
        loop {
            let frame = self.frame().await?;
            match parse(&frame.bytes)? {
                Response::Continue(_) => return Ok(None),
                Response::Done {
                    status, outcome, ..
                } => return Ok(Some(Outcome::of(status, outcome))),
                other => on(&other, &frame)?,
            }
        }
    }

    pub(crate) async fn frame(&mut self) -> Result<Frame, Error> {
        let mut reply = self.whole().await?;
        let id = server_ids::take(&mut reply);
        Ok(Frame {
            bytes: reply.freeze(),
            id,
        })
    }

    /// Returns the next reply, including its literals.
    pub(crate) async fn reply(&mut self) -> Result<Bytes, Error> {
        Ok(self.whole().await?.freeze())
    }

    async fn whole(&mut self) -> Result<BytesMut, Error> {
        let mut framing = Framing::default();
        loop {
            if let Some(length) = framing.end(&self.read)? {
                return Ok(self.read.split_to(length));
            }
            self.more(framing.missing(&self.read)).await?;
        }
    }

    /// Reads at least one byte, after reserving `room` bytes in the buffer.
    async fn more(&mut self, room: usize) -> Result<(), Error> {
        self.read.reserve(room);
        match self.io.read_buf(&mut self.read).await? {
            0 => Err(Error::Lost("the server closed the connection".into())),
            _ => Ok(()),
        }
    }
}

/// The next item when a literal is read in pieces.
#[derive(Debug)]
pub(crate) enum Next {
    /// A reply without literals.
    Reply(Bytes),
    /// A reply up to its first literal, and the length of that literal in bytes.
    Literal(usize),
}

impl Wire {
    /// Returns the next reply, or the length of its first literal. [`Wire::some`] then returns the literal's bytes.
    pub(crate) async fn next(&mut self) -> Result<Next, Error> {
        loop {
            if let Some(end) = memmem::find(&self.read, b"\r\n") {
                let line = self.read.split_to(end + 2).freeze();
                return Ok(match literal(&line, &line[..end])? {
                    Some(length) => Next::Literal(length),
                    None => Next::Reply(line),
                });
            }
            if self.read.len() > bounds::REPLY_LINE {
                return Err(too_large());
            }
            self.more(self.room()).await?;
        }
    }

    /// Returns the next bytes: at least one, at most `most`.
    pub(crate) async fn some(&mut self, most: usize) -> Result<Bytes, Error> {
        if self.read.is_empty() {
            self.more(self.room()).await?;
        }
        let there = self.read.len().min(most);
        Ok(self.read.split_to(there).freeze())
    }

    /// Returns how many bytes to reserve for a literal that is read in pieces: none while the buffer has enough space.
    fn room(&self) -> usize {
        if self.read.capacity() - self.read.len() < LEAST {
            LARGE
        } else {
            0
        }
    }
}

/// Maximum size of a literal that is sent in one write with the text around it, in bytes.
pub(crate) const SMALL: usize = 64 * 1024;

/// The number of bytes to reserve, and the free space below which they are reserved.
const LARGE: usize = 256 * 1024;
const LEAST: usize = 16 * 1024;

/// Does not show the buffers, because they can contain a password.
impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// Parses a reply. BYE is an error, because the server closes the connection.
pub(crate) fn parse(frame: &[u8]) -> Result<Response<'_>, Error> {
    if server_ids::is_nested_deeper(frame, DEPTH) {
        return Err(Error::Protocol("a reply with lists nested too deep".into()));
    }
    // `imap-proto` 0.17 panics on some invalid replies, for example if a character outside ASCII follows the response code.
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

/// How deep lists in a reply may be nested. `imap-proto` parses them by recursion. Replies to our commands have at most four levels.
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

    #[test]
    fn a_reply_on_which_the_parser_panics_is_invalid() {
        let refused = parse("* OK [UIDVALIDITY 1]\u{3414} ok\r\n".as_bytes()).map(drop);
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    }
}
