//! An authenticated IMAP session. Other modules contain the commands of [`Session`], for example
//! `open`, `read` and `change`. [`SelectedFolder`] has the commands that need an open folder.

use std::time::Duration;

use super::capabilities::Capabilities;
use super::connection::Connection;
use super::wire::Wire;
use super::{Error, INBOX};

/// An authenticated IMAP session. A session is not usable after a failed or cancelled command.
#[derive(Debug)]
pub struct Session {
    pub(crate) connection: Connection,
    /// A folder with many recent messages, which is slow to open. The session opens this folder
    /// once with SELECT, because SELECT clears `\Recent`.
    pub(crate) slow_folder: Option<String>,
    /// `true` after `ENABLE QRESYNC`. From then on, the server sends VANISHED instead of EXPUNGE.
    pub(crate) qresync_enabled: bool,
    /// `true` after the session has logged that a folder list omits folders.
    pub(crate) reported_omitted: bool,
}

impl Session {
    pub(crate) fn new(wire: Wire, capabilities: Capabilities, timeout: Duration) -> Self {
        Self {
            connection: Connection::new(wire, capabilities, timeout),
            slow_folder: None,
            qresync_enabled: false,
            reported_omitted: false,
        }
    }

    /// Returns the commands that close the open folder without changing the folder. The caller can
    /// ignore the outcomes of these commands.
    ///
    /// The client must close a folder before STATUS, because the STATUS of an open folder might be
    /// outdated (RFC 3501, section 6.3.10). If a new folder with the same name has replaced the
    /// open folder, Dovecot would return the state of the old folder.
    pub(crate) fn closing(&mut self) -> Vec<String> {
        match self
            .connection
            .deselect()
            .and_then(|folder| super::quoted(&folder.name))
        {
            None => Vec::new(),
            Some(_) if self.connection.capabilities.unselect => vec!["UNSELECT".to_owned()],
            // CLOSE expunges nothing in a folder that was opened with EXAMINE.
            Some(name) => vec![format!("EXAMINE {name}"), "CLOSE".to_owned()],
        }
    }

    /// Returns `true` if no command is in progress and the connection is usable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.connection.is_idle()
    }

    /// Returns `true` if `path` is INBOX, and INBOX is open with `uid_validity`. INBOX cannot be
    /// deleted or created again (RFC 3501, sections 6.3.4 and 6.3.5).
    pub(crate) fn has_inbox_open(&self, path: &str, uid_validity: u32) -> bool {
        path == INBOX
            && self.connection.selected().is_some_and(|selected| {
                selected.name == INBOX && selected.uid_validity == uid_validity
            })
    }

    /// Returns `true` if the folder with the path `folder` is open.
    #[must_use]
    pub fn has_open(&self, folder: &str) -> bool {
        self.connection
            .selected()
            .is_some_and(|selected| selected.name == super::utf7::encode(folder))
    }

    /// Returns the open folder.
    ///
    /// # Errors
    /// Returns [`Error::Protocol`] if no folder is open, or if another command is in progress.
    pub fn selected_folder(&mut self) -> Result<SelectedFolder<'_>, Error> {
        match self.connection.selected() {
            Some(_) => Ok(SelectedFolder { session: self }),
            None => Err(Error::Protocol("no folder is open".into())),
        }
    }
}

/// The open folder of a session, with the commands that read and change its messages. The UIDs in
/// these commands are valid for the UIDVALIDITY with which the folder was opened.
#[derive(Debug)]
pub struct SelectedFolder<'s> {
    pub(crate) session: &'s mut Session,
}

#[cfg(test)]
mod tests {
    use crate::fuzzing::{block_on, session};
    use crate::{Error, MessageRef, Uid, end_stream, next_piece};

    const EXAMINE: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 1] ok\r\n";
    const FETCH: &str = "* 1 FETCH (UID 1 BODY[]<0> {4}\r\nabcd)\r\n";
    const MESSAGE: MessageRef<'_> = MessageRef {
        path: "a",
        uid_validity: 1,
        uid: Uid(1),
    };

    #[test]
    fn a_session_cannot_be_used_after_an_error() {
        let mut session = session(&[]);
        let lost = block_on(session.list()).map(drop);
        assert!(matches!(lost, Err(Error::Lost(_))), "{lost:?}");
        assert!(!session.is_idle());
        let unusable = block_on(session.list()).map(drop);
        assert!(matches!(unusable, Err(Error::Protocol(_))), "{unusable:?}");
    }

    #[test]
    fn a_command_for_an_open_folder_is_not_sent_without_one() {
        // The server rejects EXAMINE and the FETCH that was sent with it.
        let mut session = session(&["! NO [NONEXISTENT] no\r\n", "! BAD no folder\r\n", FETCH]);
        assert!(block_on(session.message(MESSAGE)).unwrap().is_none());
        assert!(session.is_idle() && !session.has_open("a"));
        let refused = session.selected_folder().map(drop);
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
    }

    #[test]
    fn a_session_is_not_used_again_after_an_error_in_the_server() {
        let mut listed = session(&["! NO [SERVERBUG] failed\r\n"]);
        let failed = block_on(listed.list()).map(drop);
        assert!(matches!(failed, Err(Error::No(_))), "{failed:?}");
        assert!(!listed.is_idle());

        let mut streamed = session(&[EXAMINE, "! NO [SERVERBUG] failed\r\n"]);
        let started = block_on(streamed.start_stream_at(MESSAGE, &(0..100)));
        assert!(matches!(started, Ok(None)), "{started:?}");
        assert!(!streamed.is_idle());
    }

    #[test]
    fn a_session_is_idle_again_after_the_last_byte_of_a_stream() {
        let mut session = session(&[EXAMINE, FETCH, ""]);
        let range = 0..100;
        assert_eq!(
            block_on(session.start_stream_at(MESSAGE, &range)).unwrap(),
            Some(4)
        );
        assert!(!session.is_idle());
        let mut bytes = Vec::new();
        while bytes.len() < 4 {
            bytes.extend(block_on(session.next_bytes()).unwrap());
        }
        assert_eq!(bytes, b"abcd");
        assert!(session.is_idle() && session.has_open("a"));
        assert!(block_on(session.next_bytes()).is_err());
    }

    #[test]
    fn the_last_bytes_are_returned_before_the_end_of_the_command() {
        let closing = format!("{FETCH}* BYE closing\r\n");
        let started = || {
            let mut session = session(&[EXAMINE, &closing]);
            let range = 0..100;
            block_on(session.start_stream_at(MESSAGE, &range)).unwrap();
            session
        };
        let mut early = started();
        let (bytes, is_last) = block_on(next_piece(&mut early)).unwrap();
        assert!(&bytes[..] == b"abcd" && is_last);
        assert!(block_on(end_stream(&mut early)).is_err() && !early.is_idle());
        assert!(block_on(started().next_bytes()).is_err());
        assert!(block_on(end_stream(&mut started())).is_err());
    }

    #[test]
    fn no_other_command_is_possible_while_bytes_arrive() {
        let mut session = session(&[EXAMINE, FETCH, ""]);
        let range = 0..100;
        block_on(session.start_stream_at(MESSAGE, &range)).unwrap();
        assert!(block_on(session.list()).is_err());
        assert!(block_on(session.next_bytes()).is_err());
    }
}
