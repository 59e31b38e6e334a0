//! An IMAP client (RFC 3501) for the commands that mailboxes need.
//!
//! `imap-proto` only parses the replies. This crate itself reads the replies and finds the end of
//! each reply (module `framing`). Therefore this crate can send several commands in one write,
//! limit the size of replies, and return the response code of a NO. The crate encodes client input
//! before it writes a command: see [`quoted`].
//!
//! This crate has no pool of connections and no cache. The crate identifies messages by the
//! server's UIDs, and does not parse messages.
//!
//! ```no_run
//! # use latchmail_core::caller::MailCredential;
//! # async fn example(credential: MailCredential) -> Result<(), Box<dyn std::error::Error>> {
//! use latchmail_core::config::Imap;
//! use latchmail_imap::Connector;
//! use latchmail_imap::list::COUNTS;
//!
//! let connector = Connector::new(&Imap::default())?;
//! let mut session = connector.logged_in(&credential).await?;
//! for folder in session.folders(COUNTS).await? {
//!     println!("{}", folder.path);
//! }
//! # Ok(())
//! # }
//! ```

mod append;
pub mod bounds;
pub mod capabilities;
pub mod change;
pub mod client;
mod command;
mod command_timer;
mod connection;
pub mod fetch;
pub mod flag;
pub mod folder_change;
mod framing;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
pub mod list;
mod listed;
mod log_in;
mod open;
mod page;
mod probe;
pub mod quota;
mod read;
mod search;
mod selected;
mod server_ids;
pub mod session;
mod set;
mod state;
mod stream;
pub mod sync;
pub mod utf7;
mod watch;
mod wire;

pub use latchmail_core::message_number::Uid;

pub use append::{Appended, NewMessage, Stored};
pub use client::Connector;
pub use fetch::Fetched;
pub use page::PageTop;
pub use probe::Probe;
pub use read::{MessageRef, beginning, beginning_in_open_folder, header_fields};
pub use search::{SearchKey, identity_of_stored, uids_between, undeleted};
pub use selected::{Opened, Writable};
pub use session::{SelectedFolder, Session};
pub use stream::{end_stream, next_piece};
pub use watch::Watch;

/// The name of the inbox, which every mailbox has (RFC 3501, section 5.1).
pub const INBOX: &str = "INBOX";

/// The reason why a command failed. Only [`Error::Refused`], [`Error::No`], [`Error::OverQuota`],
/// [`Error::TooManyFolders`] and [`Error::MissingExtension`] leave the connection usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// The server rejected the command, because the quota of the mailbox does not permit it
    /// (response code OVERQUOTA, RFC 5530 and RFC 9208). The server stored no message.
    #[error("the mail server returned NO: the mailbox is over its quota")]
    OverQuota,
    /// The server's reply is invalid, or the server did not understand the command.
    #[error("{0}")]
    Protocol(String),
    /// The mailbox has more than [`bounds::FOLDERS`] folders.
    #[error("The mailbox has more than {} folders", bounds::FOLDERS)]
    TooManyFolders,
    /// The server lacks a required extension. The client sent no command.
    #[error("{0}")]
    MissingExtension(String),
}

impl Error {
    /// Returns `true` if the server rejected the command because another client has deleted the
    /// folder since it was opened. Dovecot 2.3 returns these texts without a response code.
    #[must_use]
    pub fn is_deleted_folder(&self) -> bool {
        let texts = ["deleted under us", "Mailbox doesn't exist"];
        matches!(self, Self::No(text) if texts.iter().any(|part| text.contains(part)))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// Returns `text` as a quoted string (RFC 3501, section 4.3). Returns `None` if `text` contains a
/// character that is not printable ASCII.
#[must_use]
pub fn quoted(text: &str) -> Option<String> {
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
