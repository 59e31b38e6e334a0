//! Mbox files in the form "mboxrd" (RFC 4155, appendix A): each message follows a line that begins
//! with `From `, and ends with an empty line. Lines of a message that begin with `From `, after any
//! number of `>`, get another `>`.
//!
//! In memory, messages have the line ends of IMAP. In mbox files, lines end with `\n` alone. This
//! module does not parse messages.

use std::io::{self, BufRead, Read, Write};

use chrono::DateTime;
use latchmail_core::clock::Timestamp;
use latchmail_core::hexadecimal;
use sha2::{Digest as _, Sha256};

/// Maximum size of a message that [`Reader`] returns, in bytes.
pub const MAX_MESSAGE: usize = 128 * 1024 * 1024;
/// Maximum size of a piece of a line that [`Reader`] reads at a time.
const PIECE: u64 = 64 * 1024;
const FROM: &[u8; 5] = b"From ";

/// The facts about the bytes of a message that an mbox file loses.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    digest: Sha256,
    size: u64,
    last: Option<u8>,
    has_bare_line_feed: bool,
}

impl Scan {
    /// Adds the next bytes of the message.
    pub fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.size += bytes.len() as u64;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let before = if end == 0 {
                self.last
            } else {
                bytes.get(end - 1).copied()
            };
            self.has_bare_line_feed |= before != Some(b'\r');
        }
        self.last = bytes.last().copied().or(self.last);
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns `true` if each line feed follows a carriage return.
    #[must_use]
    pub fn has_network_line_ends(&self) -> bool {
        !self.has_bare_line_feed
    }

    /// Returns `true` if the message ends with a line feed, or is empty.
    #[must_use]
    pub fn ends_with_line_feed(&self) -> bool {
        self.last.is_none_or(|last| last == b'\n')
    }

    /// Returns the SHA-256 of the bytes, lower-case hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        hexadecimal::lower(&self.digest.clone().finalize())
    }
}

/// The position of a [`MessageWriter`] in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// After `>` signs only, and this number of bytes of `From `, which are not written yet.
    Beginning(usize),
    /// The rest of the line.
    Inside,
}

/// Writes one message to an mbox file.
#[derive(Debug)]
pub struct MessageWriter<'w, W> {
    output: &'w mut W,
    position: Position,
    /// Whether the carriage returns before line feeds are omitted.
    omits_returns: bool,
    /// `true` after a carriage return that is not written yet.
    has_return: bool,
    /// The last byte of the message so far.
    last: Option<u8>,
}

impl<'w, W: Write> MessageWriter<'w, W> {
    /// Begins a message. `network_line_ends` is the result of [`Scan::has_network_line_ends`].
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn begin(
        output: &'w mut W,
        received_at: Option<Timestamp>,
        network_line_ends: bool,
    ) -> io::Result<Self> {
        let date = received_at.map_or(0, Timestamp::millis);
        let date = DateTime::from_timestamp_millis(date).unwrap_or_default();
        // RFC 4155 requires the time zone UTC and the form of `asctime`.
        let date = date.format("%a %b %e %H:%M:%S %Y");
        writeln!(output, "From MAILER-DAEMON {date}")?;
        Ok(Self {
            output,
            position: Position::Beginning(0),
            omits_returns: network_line_ends,
            has_return: false,
            last: None,
        })
    }

    /// Writes the next bytes of the message.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.last = bytes.last().copied().or(self.last);
        while let Some(first) = bytes.first() {
            match self.position {
                Position::Beginning(matched) if FROM.get(matched) == Some(first) => {
                    bytes = &bytes[1..];
                    self.position = Position::Beginning(matched + 1);
                    if matched + 1 == FROM.len() {
                        self.output.write_all(b">From ")?;
                        self.position = Position::Inside;
                    }
                }
                Position::Beginning(0) if *first == b'>' => {
                    self.output.write_all(b">")?;
                    bytes = &bytes[1..];
                }
                Position::Beginning(matched) => {
                    self.output.write_all(&FROM[..matched])?;
                    self.position = Position::Inside;
                }
                Position::Inside => {
                    if let Some(end) = memchr::memchr(b'\n', bytes) {
                        self.write_text(&bytes[..end])?;
                        self.has_return = false;
                        self.output.write_all(b"\n")?;
                        self.position = Position::Beginning(0);
                        bytes = &bytes[end + 1..];
                    } else {
                        self.write_text(bytes)?;
                        bytes = &[];
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the message. Adds a line end if the message has none at its end.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn end(self) -> io::Result<()> {
        if let Position::Beginning(matched) = self.position {
            self.output.write_all(&FROM[..matched])?;
        }
        if self.has_return {
            self.output.write_all(b"\r")?;
        }
        if self.last.is_some_and(|last| last != b'\n') {
            self.output.write_all(b"\n")?;
        }
        self.output.write_all(b"\n")
    }

    /// Writes a part of a line without its line feed. Keeps a carriage return at the end back.
    fn write_text(&mut self, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.has_return {
            self.output.write_all(b"\r")?;
        }
        self.has_return = self.omits_returns && text.ends_with(b"\r");
        let end = text.len() - usize::from(self.has_return);
        self.output.write_all(&text[..end])
    }
}

/// A message of an mbox file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The date of the line before the message, in UTC. `None` if the date has another form than
    /// that of `asctime`.
    pub date: Option<Timestamp>,
    /// The bytes with the line ends of the file, without the quotation of lines. `None` if the
    /// message exceeds [`MAX_MESSAGE`].
    pub bytes: Option<Vec<u8>>,
}

/// Reads the messages of an mbox file, one at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// The line before the next message, if it was read already.
    separator: Option<Vec<u8>>,
    has_begun: bool,
}

impl<R: BufRead> Reader<R> {
    /// Creates a reader.
    pub fn new(input: R) -> Self {
        Self {
            input,
            separator: None,
            has_begun: false,
        }
    }

    /// Returns the next message. Returns `None` at the end of the file.
    ///
    /// # Errors
    /// Returns an error if the input fails, or if the file does not begin with `From `.
    pub fn read_message(&mut self) -> io::Result<Option<Message>> {
        let Some(separator) = self.first_line()? else {
            return Ok(None);
        };
        let (mut content, mut is_too_large) = (Vec::new(), false);
        // `true` if the next piece is the beginning of a line, and if the last line was empty.
        let (mut begins_line, mut is_after_empty) = (true, false);
        loop {
            let mut piece = Vec::new();
            (&mut self.input)
                .take(PIECE)
                .read_until(b'\n', &mut piece)?;
            if piece.is_empty() {
                break;
            }
            if begins_line && is_after_empty && piece.starts_with(FROM) {
                self.separator = Some(piece);
                break;
            }
            is_after_empty = begins_line && matches!(&*piece, b"\n" | b"\r\n");
            let quoted = begins_line && is_quoted(&piece);
            begins_line = piece.ends_with(b"\n");
            if content.len() + piece.len() > MAX_MESSAGE {
                is_too_large = true;
                content.clear();
            }
            if !is_too_large {
                content.extend_from_slice(&piece[usize::from(quoted)..]);
            }
        }
        remove_empty_line(&mut content);
        Ok(Some(Message {
            date: date(&separator),
            bytes: (!is_too_large).then_some(content),
        }))
    }

    /// Returns the line before the next message. Returns `None` at the end of the file.
    fn first_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(separator) = self.separator.take() {
            return Ok(Some(separator));
        }
        if self.has_begun {
            return Ok(None);
        }
        self.has_begun = true;
        let mut line = Vec::new();
        (&mut self.input).take(PIECE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.starts_with(FROM) {
            return Ok(Some(line));
        }
        let text = "the file is not an mbox file: its first line does not begin with `From `";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }
}

/// Returns `true` if a line begins with `From ` after at least one `>`.
fn is_quoted(line: &[u8]) -> bool {
    let text = line.iter().position(|byte| *byte != b'>');
    text.is_some_and(|text| text > 0 && line[text..].starts_with(FROM))
}

/// Removes the empty line that ends a message in the file.
fn remove_empty_line(content: &mut Vec<u8>) {
    let end = content.len();
    for line_end in [&b"\r\n"[..], b"\n"] {
        let Some(rest) = content.strip_suffix(line_end) else {
            continue;
        };
        if rest.is_empty() || rest.ends_with(b"\n") {
            content.truncate(end - line_end.len());
        }
        return;
    }
}

/// Returns the date at the end of a separator line.
fn date(separator: &[u8]) -> Option<Timestamp> {
    let line = std::str::from_utf8(separator).ok()?.trim_end();
    let words: Vec<&str> = line.split_whitespace().collect();
    // The sender can contain spaces, and some programs add a time zone.
    let start = words.len().checked_sub(5)?;
    let text = words.get(start..)?.join(" ");
    let parsed = chrono::NaiveDateTime::parse_from_str(&text, "%a %b %e %H:%M:%S %Y").ok()?;
    Some(Timestamp::from_millis(parsed.and_utc().timestamp_millis()))
}

/// Restores the bytes of a message from an mbox file of an archive. With `network_line_ends`, each
/// line feed gets a carriage return. Without `has_last_line_end`, the last line end is removed.
#[must_use]
pub fn restore(mut content: Vec<u8>, network_line_ends: bool, has_last_line_end: bool) -> Vec<u8> {
    if !has_last_line_end && content.ends_with(b"\n") {
        content.pop();
    }
    if !network_line_ends {
        return content;
    }
    let lines = memchr::memchr_iter(b'\n', &content).count();
    let mut restored = Vec::with_capacity(content.len() + lines);
    let mut rest = &content[..];
    while let Some(end) = memchr::memchr(b'\n', rest) {
        restored.extend_from_slice(&rest[..end]);
        restored.extend_from_slice(b"\r\n");
        rest = &rest[end + 1..];
    }
    restored.extend_from_slice(rest);
    restored
}

#[cfg(test)]
mod tests;
