//! The states of an IMAP connection after the log-in.

use super::selected::Selected;
use super::wire::{Sent, Wire};

/// The state of the connection. Each variant owns the connection, so an operation for one state
/// cannot run in another state.
#[derive(Debug, Default)]
pub(crate) enum State {
    /// No command is in progress.
    Idle(Idle),
    /// The server is sending bytes of a message.
    Streaming(Streaming),
    /// The client has sent an APPEND command without the last line.
    Appending(Appending),
    /// An exchange is in progress, has failed or was cancelled. This variant has no connection,
    /// because the connection is closed on failure.
    #[default]
    Broken,
}

/// A connection without a command in progress.
#[derive(Debug)]
pub(crate) struct Idle {
    pub(crate) wire: Wire,
    /// The open folder (RFC 3501, section 3.3), or `None` in the authenticated state (section 3.2).
    pub(crate) selected: Option<Selected>,
}

/// A connection on which the server is sending bytes of a message.
#[derive(Debug)]
pub(crate) struct Streaming {
    pub(crate) wire: Wire,
    pub(crate) selected: Selected,
    /// The tag of the FETCH command.
    pub(crate) tag: String,
    /// The number of bytes that have not been read.
    pub(crate) remaining: usize,
}

/// A connection on which the client has sent an APPEND command without the last line. The server
/// discards the message if the connection closes.
#[derive(Debug)]
pub(crate) struct Appending {
    pub(crate) idle: Idle,
    /// The server's name of the folder.
    pub(crate) name: String,
    pub(crate) sent: Sent,
    /// The last line of the command.
    pub(crate) end: String,
}
