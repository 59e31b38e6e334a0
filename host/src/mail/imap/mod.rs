//! An IMAP client (RFC 3501) for the commands that mailboxes need.
//!
//! `imap-proto` parses the replies. This module frames them itself ([`wire`]), so that several commands can be sent in one write, every reply has a maximum
//! size, and a NO keeps its response code. Client input is always encoded before it is written: see [`quoted`] and [`command`].

pub(super) mod capabilities;
pub(super) mod change;
pub(super) mod client;
mod command;
pub(super) mod fetch;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
pub(super) mod list;
mod log_in;
mod search;
mod server_ids;
pub(super) mod session;
mod set;
pub(super) mod utf7;
pub(super) mod wire;

pub(super) use client::Connector;
pub(super) use fetch::Fetched;
pub(super) use session::{Opened, Session, Spot, Unended};

/// The reason why a command failed. Only after [`Error::Refused`], [`Error::No`] and [`Error::Lacks`] can the connection be used again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server rejected the credential.
    #[error("the mail server rejected the credential")]
    Refused,
    /// The server is unreachable or accepts no log-ins at the moment.
    #[error("{0}")]
    Unavailable(String),
    /// The connection failed during a command.
    #[error("connection to the mail server lost: {0}")]
    Lost(String),
    /// The server rejected the command.
    #[error("the mail server returned NO: {0}")]
    No(String),
    /// The server's reply is invalid, or the server did not understand the command.
    #[error("{0}")]
    Protocol(String),
    /// The server lacks a required extension. Nothing has been sent.
    #[error("{0}")]
    Lacks(String),
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

impl From<Error> for super::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused => Self::CredentialRefused,
            Error::Unavailable(why) => Self::Unavailable(why),
            Error::Lost(_) => Self::Unavailable(error.to_string()),
            Error::No(_) | Error::Protocol(_) | Error::Lacks(_) => {
                Self::Internal(error.to_string())
            }
        }
    }
}

/// Returns `text` as a quoted string (RFC 3501, section 4.3), or `None` if it contains characters that a quoted string cannot contain.
pub(super) fn quoted(text: &str) -> Option<String> {
    if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return None;
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    Some(quoted)
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_quoted_string_cannot_be_left() {
        assert_eq!(quoted(r#"a"b\c"#).unwrap(), r#""a\"b\\c""#);
        assert_eq!(quoted("").unwrap(), r#""""#);
        for hostile in ["a\r\nb", "a\nb", "a\0b", "é", "\x7f"] {
            assert_eq!(quoted(hostile), None);
        }
    }
}
