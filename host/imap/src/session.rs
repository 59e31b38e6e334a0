//! An authenticated IMAP connection, and the exchange of commands and replies on it.
//!
//! [`Session::exchange`] runs every exchange with the server. The session is broken from the start
//! of an exchange until the exchange has succeeded. Therefore a session is not usable after a
//! failed or cancelled command. The commands are in other modules, for example `open`, `read` and
//! `change`.

use std::mem;
use std::time::Duration;

use tokio::time::timeout;

use super::capabilities::Capabilities;
use super::command::Command;
use super::selected::Selected;
use super::state::{Idle, State};
use super::wire::{OnReply, Outcome, Sent, Wire};
use super::{Error, INBOX};

/// Timeout factor for commands with literals. A search reads every message, and an appended message
/// can have 25 MB.
pub(crate) const LITERAL_TIMEOUT_FACTOR: u32 = 4;

/// An authenticated IMAP connection.
#[derive(Debug)]
pub struct Session {
    pub(crate) capabilities: Capabilities,
    pub(crate) timeout: Duration,
    state: State,
    /// A folder with many recent messages, which is slow to open. The session opens this folder
    /// once with SELECT, because SELECT clears `\Recent`.
    pub(crate) slow_folder: Option<String>,
    /// `true` after `ENABLE QRESYNC`. From then on, the server sends VANISHED instead of EXPUNGE.
    pub(crate) qresync_enabled: bool,
    /// `true` after the log contains that folders were omitted from a list.
    pub(crate) reported_omitted: bool,
}

impl Session {
    pub(crate) fn new(wire: Wire, capabilities: Capabilities, timeout: Duration) -> Self {
        Self {
            capabilities,
            timeout,
            state: State::Idle(Idle {
                wire,
                selected: None,
            }),
            slow_folder: None,
            qresync_enabled: false,
            reported_omitted: false,
        }
    }

    /// Removes and returns the state for an exchange. The session is broken until the exchange has
    /// succeeded.
    pub(crate) fn take(&mut self) -> State {
        mem::take(&mut self.state)
    }

    /// Removes and returns the idle connection for an exchange. The session is broken until the
    /// exchange has succeeded. Returns an error if the session is not idle.
    pub(crate) fn take_idle(&mut self) -> Result<Idle, Error> {
        match self.take() {
            State::Idle(idle) => Ok(idle),
            State::Streaming(_) | State::Appending(_) => Err(Error::Protocol(
                "another command is in progress on the connection".into(),
            )),
            State::Broken => Err(Error::Protocol(
                "an earlier command made the connection unusable".into(),
            )),
        }
    }

    /// Works like [`Session::take_idle`], but also returns the open folder. Returns an error if no
    /// folder is open.
    pub(crate) fn take_selected(&mut self) -> Result<(Wire, Selected), Error> {
        let Idle { wire, selected } = self.take_idle()?;
        let selected = selected.ok_or_else(|| Error::Protocol("no folder is open".into()))?;
        Ok((wire, selected))
    }

    /// Runs one exchange with the server within `limit`. The exchange owns the connection and
    /// returns the next state. If the exchange fails, times out or is cancelled, the session stays
    /// broken and the connection closes.
    pub(crate) async fn exchange<T>(
        &mut self,
        limit: Duration,
        exchange: impl Future<Output = Result<(State, T), Error>>,
    ) -> Result<T, Error> {
        let (state, value) = timeout(limit, exchange)
            .await
            .map_err(|_| Error::Unavailable("the mail server did not respond in time".into()))??;
        self.state = state;
        Ok(value)
    }

    /// Sends commands in one write and reads all replies.
    pub(crate) async fn run(
        &mut self,
        commands: &[String],
        on: OnReply<'_>,
    ) -> Result<Vec<Outcome>, Error> {
        let idle = self.take_idle()?;
        self.run_on(idle, commands, on).await
    }

    /// Works like [`Session::run`]. If no folder is open, sends nothing and returns an error.
    pub(crate) async fn run_in_folder(
        &mut self,
        commands: &[String],
        on: OnReply<'_>,
    ) -> Result<Vec<Outcome>, Error> {
        let (wire, selected) = self.take_selected()?;
        let selected = Some(selected);
        self.run_on(Idle { wire, selected }, commands, on).await
    }

    async fn run_on(
        &mut self,
        mut idle: Idle,
        commands: &[String],
        on: OnReply<'_>,
    ) -> Result<Vec<Outcome>, Error> {
        let exchange = async move {
            let tags: Vec<String> = commands.iter().map(|c| idle.wire.queue(c)).collect();
            let outcomes = idle.wire.finish(&tags, on).await?;
            Ok((State::Idle(idle), outcomes))
        };
        self.exchange(self.timeout, exchange).await
    }

    /// Sends one command and reads its replies. The command can contain literals.
    pub(crate) async fn run_one(
        &mut self,
        command: &Command,
        on: OnReply<'_>,
    ) -> Result<Outcome, Error> {
        let mut idle = self.take_idle()?;
        let literal_plus = self.capabilities.literal_plus;
        let exchange = async move {
            let outcome = match idle.wire.queue_command(command, literal_plus, on).await? {
                Sent::Complete(tag) => idle.wire.finish_one(tag, on).await?,
                Sent::Refused(outcome) => outcome,
            };
            Ok((State::Idle(idle), outcome))
        };
        self.exchange(self.timeout * LITERAL_TIMEOUT_FACTOR, exchange)
            .await
    }

    /// Returns the open folder, if no command is in progress.
    pub(crate) fn selected(&self) -> Option<&Selected> {
        match &self.state {
            State::Idle(idle) => idle.selected.as_ref(),
            _ => None,
        }
    }

    /// Like [`Session::selected`], but returns a mutable reference.
    pub(crate) fn selected_mut(&mut self) -> Option<&mut Selected> {
        match &mut self.state {
            State::Idle(idle) => idle.selected.as_mut(),
            _ => None,
        }
    }

    /// Removes and returns the open folder, if no command is in progress.
    pub(crate) fn deselect(&mut self) -> Option<Selected> {
        match &mut self.state {
            State::Idle(idle) => idle.selected.take(),
            _ => None,
        }
    }

    /// Returns the commands that close the open folder without changing the folder. The caller can
    /// ignore the outcomes of these commands.
    ///
    /// The client must close a folder before STATUS, because the STATUS of an open folder might be
    /// outdated (RFC 3501, section 6.3.10). If the folder was replaced, Dovecot would return the
    /// state of the old folder.
    pub(crate) fn closing(&mut self) -> Vec<String> {
        match self
            .deselect()
            .and_then(|folder| super::quoted(&folder.name))
        {
            None => Vec::new(),
            Some(_) if self.capabilities.unselect => vec!["UNSELECT".to_owned()],
            // CLOSE expunges nothing in a folder that was opened with EXAMINE.
            Some(name) => vec![format!("EXAMINE {name}"), "CLOSE".to_owned()],
        }
    }

    /// Returns `true` if the server has sent nothing since its last reply and has not closed the
    /// connection.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match &mut self.state {
            State::Idle(idle) => idle.wire.is_quiet(),
            _ => false,
        }
    }

    /// Returns `true` if no command is in progress and the connection is usable.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle(_))
    }

    /// Returns `true` if `path` is INBOX, and INBOX is open with `uid_validity`. INBOX cannot be
    /// deleted or created again (RFC 3501, sections 6.3.4 and 6.3.5).
    pub(crate) fn has_inbox_open(&self, path: &str, uid_validity: u32) -> bool {
        path == INBOX
            && self.selected().is_some_and(|selected| {
                selected.name == INBOX && selected.uid_validity == uid_validity
            })
    }

    /// Returns `true` if this folder is open.
    #[must_use]
    pub fn has_open(&self, folder: &str) -> bool {
        self.selected()
            .is_some_and(|selected| selected.name == super::utf7::encode(folder))
    }
}

#[cfg(test)]
mod tests {
    use crate::fuzzing::{block_on, session};
    use crate::{Error, MessageRef};

    const EXAMINE: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 1] ok\r\n";
    const FETCH: &str = "* 1 FETCH (UID 1 BODY[]<0> {4}\r\nabcd)\r\n";
    const MESSAGE: MessageRef<'_> = MessageRef {
        path: "a",
        uid_validity: 1,
        uid: 1,
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
        let refused = block_on(session.longer_headers(&[1])).map(drop);
        assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
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
    fn no_other_command_is_possible_while_bytes_arrive() {
        let mut session = session(&[EXAMINE, FETCH, ""]);
        let range = 0..100;
        block_on(session.start_stream_at(MESSAGE, &range)).unwrap();
        assert!(block_on(session.list()).is_err());
        assert!(block_on(session.next_bytes()).is_err());
    }
}
