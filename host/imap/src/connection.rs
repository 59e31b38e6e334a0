//! A connection to the mail server after the log-in. Commands and replies are exchanged on this
//! connection.
//!
//! [`Connection::exchange`] runs every exchange with the server. The connection is in the state
//! `Broken` from the start of an exchange until the exchange has succeeded. Therefore a connection
//! is not usable after a failed or cancelled command.

use std::mem;
use std::time::Duration;

use tokio::time::timeout;

use super::Error;
use super::capabilities::Capabilities;
use super::command::Command;
use super::selected::Selected;
use super::state::{Idle, State};
use super::wire::{OnReply, Outcome, Sent, Wire};

/// Timeout factor for commands that can take longer than others: a search can make the server read
/// every message, an appended message can have 25 MB, and a sync can read the flags of all
/// messages.
pub(crate) const LITERAL_TIMEOUT_FACTOR: u32 = 4;

/// An authenticated connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) capabilities: Capabilities,
    pub(crate) timeout: Duration,
    state: State,
}

impl Connection {
    pub(crate) fn new(wire: Wire, capabilities: Capabilities, timeout: Duration) -> Self {
        Self {
            capabilities,
            timeout,
            state: State::Idle(Idle {
                wire,
                selected: None,
            }),
        }
    }

    /// Removes and returns the state for an exchange. The connection is broken until the exchange
    /// has succeeded.
    pub(crate) fn take(&mut self) -> State {
        mem::take(&mut self.state)
    }

    /// Removes and returns the idle connection for an exchange. The connection is broken until the
    /// exchange has succeeded. Returns an error if the connection is not idle.
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

    /// Works like [`Connection::take_idle`], but also returns the open folder. Returns an error if
    /// no folder is open.
    pub(crate) fn take_selected(&mut self) -> Result<(Wire, Selected), Error> {
        let Idle { wire, selected } = self.take_idle()?;
        let selected = selected.ok_or_else(|| Error::Protocol("no folder is open".into()))?;
        Ok((wire, selected))
    }

    /// Runs one exchange with the server within `limit`. The exchange owns the connection and
    /// returns the next state. If the exchange fails, times out or is cancelled, the connection
    /// stays broken and closes.
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

    /// Works like [`Connection::run`]. If no folder is open, sends nothing and returns an error.
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

    /// Like [`Connection::selected`], but returns a mutable reference.
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

    /// Returns `true` if the server has sent nothing since its last reply and has not closed the
    /// connection.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match &mut self.state {
            State::Idle(idle) => idle.wire.is_quiet(),
            _ => false,
        }
    }

    /// Returns `true` if no command is in progress and the connection is usable. After an error in
    /// the server, the connection is not usable.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(&self.state, State::Idle(idle) if !idle.wire.has_server_error())
    }
}
