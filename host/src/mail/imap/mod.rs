//! IMAP (RFC 3501), as far as a mailbox needs it: typed commands out, typed answers back.
//!
//! Replies are parsed by `imap-proto`; the lines themselves are read and written here ([`wire`]), so that several commands can
//! leave in one write, every reply is bounded, and a refusal keeps its response code. Nothing that comes from a client is
//! written as it came: see [`quoted`].

pub(super) mod capabilities;
pub(super) mod change;
pub(super) mod client;
mod command;
pub(super) mod fetch;
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

/// Why a command did not give its answer. Every one but [`Error::Refused`], [`Error::No`] and [`Error::Lacks`] leaves the connection unusable.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server does not accept the credential.
    #[error("the credential was refused")]
    Refused,
    /// The server cannot be reached, or does not let anybody in at the moment.
    #[error("{0}")]
    Unavailable(String),
    /// The connection ended under the command.
    #[error("the connection ended: {0}")]
    Lost(String),
    /// The server understood and would not.
    #[error("the server answered NO: {0}")]
    No(String),
    /// The server said what cannot be understood, or did not understand.
    #[error("{0}")]
    Protocol(String),
    /// The server cannot do what is to be asked of it. Nothing was.
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

/// `text` as a quoted string (RFC 3501, section 4.3); none where it holds what a quoted string cannot.
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
