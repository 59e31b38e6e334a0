//! Clients of Dovecot's authentication service: [`client`] verifies passwords, and [`lookup`] looks
//! up users.
//!
//! The protocols are those of Dovecot's design documents "Authentication Protocol v1.2" and "Auth
//! master protocol". Each message is one line with fields that are separated by tabs. The byte 1
//! escapes other bytes in a field. Both clients were compared with Dovecot 2.3.19 and 2.4.1.
//!
//! This module decides nothing about accounts. It does not log names, passwords or replies.

pub mod client;
pub mod lookup;

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Maximum length of a line from the server, in bytes.
const MAX_LINE: u64 = 64 * 1024;
/// Maximum number of lines before the handshake is complete.
const MAX_HANDSHAKE: usize = 100;
/// The timeout of one connection or one request. Dovecot delays a reply by up to 17 seconds after
/// failed attempts of the same client.
const TIMEOUT: Duration = Duration::from_secs(25);

/// The reason why the server gave no usable reply. The text is for the log. The request can succeed
/// later.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server could not handle this request. The connection is still usable.
    #[error("{0}")]
    Failed(String),
    /// The connection is not usable.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    fn new(text: impl Into<String>) -> Self {
        Self::Broken(text.into())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Broken(format!("Dovecot's authentication service failed: {error}"))
    }
}

/// A line from the server: the command, and its fields without escapes.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    command: String,
    fields: Vec<String>,
}

impl Line {
    fn parse(line: &str) -> Self {
        // Dovecot 2.3 sends empty fields between some groups of fields.
        let mut parts = line.split('\t');
        Self {
            command: parts.next().unwrap_or_default().to_owned(),
            fields: parts
                .filter(|field| !field.is_empty())
                .map(unescape)
                .collect(),
        }
    }

    /// Returns the value of the field `name=value`.
    fn value(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns `true` if the line has the flag. Dovecot 2.3 sends `name`, and Dovecot 2.4 sends
    /// `name=`.
    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field == name) || self.value(name).is_some()
    }
}

/// Escapes a field: the bytes that have a meaning in the protocol become the byte 1 and a letter or
/// digit.
fn escape(field: &str) -> String {
    let mut escaped = String::with_capacity(field.len());
    for character in field.chars() {
        match character {
            '\0' => escaped.push_str("\u{1}0"),
            '\u{1}' => escaped.push_str("\u{1}1"),
            '\t' => escaped.push_str("\u{1}t"),
            '\r' => escaped.push_str("\u{1}r"),
            '\n' => escaped.push_str("\u{1}n"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn unescape(field: &str) -> String {
    let mut plain = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        if character != '\u{1}' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('0') => plain.push('\0'),
            Some('1') => plain.push('\u{1}'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('n') => plain.push('\n'),
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

/// A connection to one of Dovecot's sockets.
#[derive(Debug)]
struct Connection<S> {
    stream: BufReader<S>,
}

impl Connection<UnixStream> {
    async fn open(socket: &Path) -> Result<Self, Error> {
        let connected = within(async { Ok(UnixStream::connect(socket).await?) }).await;
        let stream = connected.map_err(|error| {
            Error::new(format!("cannot connect to {}: {error}", socket.display()))
        })?;
        Ok(Self::of(stream))
    }
}

impl<S: AsyncWrite + tokio::io::AsyncRead + Unpin> Connection<S> {
    fn of(stream: S) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Reads a line. Returns an error if the server closes the connection or sends a line that is
    /// too long.
    async fn read(&mut self) -> Result<Line, Error> {
        read_line(&mut self.stream).await
    }

    /// Checks the server's version, which must be the first line.
    async fn read_version(&mut self) -> Result<(), Error> {
        let line = self.read().await?;
        if line.command == "VERSION" && line.fields.first().is_some_and(|major| major == "1") {
            return Ok(());
        }
        Err(Error::new(
            "the socket does not speak version 1 of Dovecot's authentication protocol",
        ))
    }
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Line, Error> {
    let mut bytes = Vec::new();
    stream.take(MAX_LINE).read_until(b'\n', &mut bytes).await?;
    let Some(line) = bytes.strip_suffix(b"\n") else {
        return Err(Error::new(
            "Dovecot's authentication service closed the connection or sent a line that is too long",
        ));
    };
    let line = std::str::from_utf8(line).map_err(|_| {
        Error::new("Dovecot's authentication service sent a line that is not UTF-8")
    })?;
    Ok(Line::parse(line))
}

/// Runs `work` with the timeout of a request.
async fn within<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(TIMEOUT, work).await.unwrap_or_else(|_| {
        Err(Error::new(format!(
            "Dovecot's authentication service did not respond within {} s",
            TIMEOUT.as_secs()
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_the_same_after_escaping_and_unescaping() {
        for text in ["", "ada", "a\tb\r\nc\u{1}d\0e", "\u{1}", "ü\t", "\u{1}t"] {
            let escaped = escape(text);
            assert!(!escaped.contains(['\t', '\r', '\n', '\0']), "{text:?}");
            assert_eq!(unescape(&escaped), text);
        }
        assert_eq!(escape("a\tb\u{1}"), "a\u{1}tb\u{1}1");
    }

    #[test]
    fn an_incomplete_or_unknown_escape_is_accepted() {
        assert_eq!(unescape("a\u{1}"), "a");
        assert_eq!(unescape("a\u{1}x"), "ax");
    }

    #[test]
    fn a_line_has_a_command_and_fields() {
        let line = Line::parse("OK\t7\tuser=a\u{1}tb\t\tnologin\tproxy=\tx=1=2");
        assert_eq!(line.command, "OK");
        assert_eq!(line.value("user"), Some("a\tb"));
        assert_eq!(line.value("x"), Some("1=2"));
        assert!(line.has("nologin") && line.has("proxy"));
        assert!(!line.has("use") && !line.has("login"));
        assert_eq!(Line::parse("").command, "");
    }

    #[tokio::test]
    async fn a_line_without_end_or_above_the_limit_is_an_error() {
        let long = vec![b'x'; usize::try_from(MAX_LINE).unwrap() + 1];
        for bytes in [&b"OK\t1"[..], b"", b"\xff\n", &long] {
            let mut stream = bytes;
            read_line(&mut stream).await.unwrap_err();
        }
        let mut stream = &b"DONE\nOK\t1\n"[..];
        assert_eq!(read_line(&mut stream).await.unwrap().command, "DONE");
        assert_eq!(read_line(&mut stream).await.unwrap().fields, ["1"]);
    }
}
