//! Replies of a ManageSieve server (RFC 5804, section 4): reads lines with literals, within limits.

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

use super::Error;

/// Maximum length of a line without its literals, in bytes.
const MAX_LINE: usize = 16 * 1024;
/// Maximum number of lines of a reply.
const MAX_LINES: usize = 1000;

/// A word of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// An atom, for example `OK`, or a code in parentheses.
    Atom(String),
    /// A quoted string or a literal.
    Text(String),
}

impl Word {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Atom(_) => None,
        }
    }

    pub(crate) fn is_atom(&self, name: &str) -> bool {
        matches!(self, Self::Atom(atom) if atom.eq_ignore_ascii_case(name))
    }
}

/// The end of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    No,
    Bye,
}

/// A complete reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    /// The response code without parentheses, for example `NONEXISTENT`. Empty if there is none.
    pub(crate) code: String,
    /// The text for people. Empty if there is none.
    pub(crate) text: String,
    /// The lines before the status.
    pub(crate) lines: Vec<Vec<Word>>,
}

/// A connection. After an error, the connection must not be used again.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    io: BufReader<S>,
    /// Maximum total size of the literals of a reply, in bytes.
    max_literals: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(io: S, max_literals: usize) -> Self {
        Self {
            io: BufReader::new(io),
            max_literals,
        }
    }

    /// Returns the stream, or `None` if the server has sent bytes that were not read.
    pub(crate) fn into_inner(self) -> Option<S> {
        self.io.buffer().is_empty().then(|| self.io.into_inner())
    }

    /// Sends bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let send = async {
            self.io.write_all(bytes).await?;
            self.io.flush().await
        };
        send.await.map_err(|error| lost(&error))
    }

    /// Reads a reply to its end.
    pub(crate) async fn reply(&mut self) -> Result<Reply, Error> {
        let mut lines = Vec::new();
        let mut literals = 0;
        loop {
            let words = self.line(&mut literals).await?;
            let status = match words.first() {
                Some(word) if word.is_atom("OK") => Status::Ok,
                Some(word) if word.is_atom("NO") => Status::No,
                Some(word) if word.is_atom("BYE") => Status::Bye,
                _ if lines.len() == MAX_LINES => {
                    return Err(Error::Protocol("the reply has too many lines".into()));
                }
                _ => {
                    lines.push(words);
                    continue;
                }
            };
            let code = match words.get(1) {
                Some(Word::Atom(code)) => code.clone(),
                _ => String::new(),
            };
            let text = words.iter().skip(1).filter_map(Word::text).next_back();
            let text = text.unwrap_or_default().to_owned();
            return Ok(Reply {
                status,
                code,
                text,
                lines,
            });
        }
    }

    /// Reads a line with its literals.
    pub(crate) async fn line(&mut self, literals: &mut usize) -> Result<Vec<Word>, Error> {
        let mut words = Vec::new();
        loop {
            let line = self.raw_line().await?;
            let Some(length) = parse(&line, &mut words)? else {
                return Ok(words);
            };
            *literals = literals.saturating_add(length);
            if *literals > self.max_literals {
                return Err(Error::Protocol("the reply is too large".into()));
            }
            let mut bytes = vec![0; length];
            let read = self.io.read_exact(&mut bytes).await;
            read.map_err(|error| lost(&error))?;
            words.push(Word::Text(to_text(bytes)?));
        }
    }

    async fn raw_line(&mut self) -> Result<String, Error> {
        let mut line = Vec::new();
        let mut limited = (&mut self.io).take(MAX_LINE as u64);
        let read = limited.read_until(b'\n', &mut line).await;
        read.map_err(|error| lost(&error))?;
        if line.pop() != Some(b'\n') {
            return Err(match line.len() + 1 {
                MAX_LINE => Error::Protocol("a line is too long".into()),
                _ => Error::Unavailable("the server closed the connection".into()),
            });
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        to_text(line)
    }
}

fn lost(error: &std::io::Error) -> Error {
    Error::Unavailable(format!("the connection failed: {error}"))
}

fn to_text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::Protocol("a text is not UTF-8".into()))
}

/// Parses the words of a line. Returns the length of the literal that follows the line, if any.
fn parse(line: &str, words: &mut Vec<Word>) -> Result<Option<usize>, Error> {
    let invalid = || Error::Protocol("a line is malformed".into());
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        match first {
            '"' => {
                let (text, after) = quoted(&rest[1..]).ok_or_else(invalid)?;
                words.push(Word::Text(text));
                rest = after;
            }
            '{' => {
                let number = rest[1..].strip_suffix('}').ok_or_else(invalid)?;
                let number = number.strip_suffix('+').unwrap_or(number);
                return number.parse().map(Some).map_err(|_| invalid());
            }
            '(' => {
                // A code can have arguments, for example `TAG {…}`. The client needs only the name.
                let inner = &rest[1..];
                let end = inner.find([')', ' ']).ok_or_else(invalid)?;
                words.push(Word::Atom(inner[..end].to_owned()));
                let close = inner.find(')').ok_or_else(invalid)?;
                rest = &inner[close + 1..];
            }
            _ => {
                let end = rest.find([' ', '(', '"']).unwrap_or(rest.len());
                words.push(Word::Atom(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        rest = rest.trim_start();
    }
    Ok(None)
}

/// Parses a quoted string after its first quotation mark. Returns the rest of the line too.
fn quoted(rest: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((text, &rest[at + 1..])),
            '\\' => text.push(characters.next()?.1),
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    async fn read(bytes: &[u8]) -> Result<Reply, Error> {
        Wire::new(Cursor::new(bytes.to_vec()), 1000).reply().await
    }

    #[tokio::test]
    async fn a_reply_has_lines_a_code_and_a_text() {
        let reply = read(b"\"a \\\"b\" ACTIVE\r\n{3}\r\nc\r\n\r\nOK (WARNINGS) \"Done.\"\r\n");
        let reply = reply.await.unwrap();
        assert_eq!(reply.status, Status::Ok);
        assert_eq!(
            (reply.code.as_str(), reply.text.as_str()),
            ("WARNINGS", "Done.")
        );
        assert_eq!(reply.lines[0][0], Word::Text("a \"b".into()));
        assert!(reply.lines[0][1].is_atom("active"));
        assert_eq!(reply.lines[1], [Word::Text("c\r\n".into())]);
        let reply = read(b"NO (TAG {1}) {5}\r\nwrong\r\n").await.unwrap();
        assert_eq!((reply.status, reply.text.as_str()), (Status::No, "wrong"));
        assert_eq!(read(b"BYE\r\n").await.unwrap().status, Status::Bye);
    }

    #[tokio::test]
    async fn a_reply_without_end_or_beyond_a_limit_is_an_error() {
        let long = vec![b'a'; 2 * MAX_LINE];
        let many = "\"a\"\r\n".repeat(MAX_LINES + 1);
        for bytes in [
            &b""[..],
            b"OK",
            b"\"a\r\n",
            b"{1001}\r\n",
            b"{99999999999999999999}\r\n",
            b"{x}\r\n",
            b"OK (A\r\n",
            b"\"\xff\"\r\n",
            &long,
            many.as_bytes(),
        ] {
            read(bytes).await.unwrap_err();
        }
    }

    proptest! {
        #[test]
        fn no_line_causes_a_panic(line in "[\"(){}+ \\\\a1é]{0,30}") {
            let _ = parse(&line, &mut Vec::new());
        }
    }
}
