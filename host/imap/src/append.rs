//! Stores a new message with APPEND (RFC 3501, section 6.3.11) in two steps. The server stores the
//! message only after the second step. Therefore the caller can repeat the first step if the
//! connection fails.

use bytes::Bytes;
use imap_proto::Status;

use super::command::Command;
use super::connection::LITERAL_TIMEOUT_FACTOR;
use super::session::Session;
use super::state::{Appending, State};
use super::wire::{OnReply, SMALL_LITERAL, Sent};
use super::{Error, quoted, utf7};

impl Session {
    /// Uploads a message with the flag `\Seen` for the folder `path`. Returns `false` if the path
    /// is not a valid folder name. The next command must be [`Session::end_append`], which stores
    /// the message.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn begin_append(&mut self, path: &str, message: Bytes) -> Result<bool, Error> {
        let Some(name) = utf7::name(path).and_then(|name| quoted(&name)) else {
            return Ok(false);
        };
        let command = Command::new(format!("APPEND {name} (\\Seen) ")).literal(message);
        let limit = if command
            .literals
            .iter()
            .all(|(_, l)| l.len() <= SMALL_LITERAL)
        {
            self.connection.timeout
        } else {
            self.connection.timeout * LITERAL_TIMEOUT_FACTOR
        };
        let literal_plus = self.connection.capabilities.literal_plus;
        let mut idle = self.connection.take_idle()?;
        let exchange = async move {
            let wire = &mut idle.wire;
            let on: OnReply<'_> = &mut |_, _| Ok(());
            // The client must receive a response that proves that the connection works. Without
            // LITERAL+, this response is the continuation request. With LITERAL+, the server sends
            // no continuation request, so the client also sends CAPABILITY. NOOP is not suitable,
            // because Dovecot can delay the response to NOOP until the next command has ended.
            let capability = literal_plus.then(|| wire.queue("CAPABILITY"));
            let sent = wire.queue_literals(&command, literal_plus, on).await?;
            for outcome in wire.finish(capability.as_slice(), on).await? {
                outcome.ok()?;
            }
            let end = command.end;
            Ok((State::Appending(Appending { idle, sent, end }), true))
        };
        self.connection.exchange(limit, exchange).await
    }

    /// Stores the uploaded message. Returns `false` if the folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn end_append(&mut self) -> Result<bool, Error> {
        let State::Appending(Appending {
            mut idle,
            sent,
            end,
        }) = self.connection.take()
        else {
            return Err(Error::Protocol("no message was uploaded".into()));
        };
        let exchange = async move {
            let outcome = match sent {
                Sent::Complete(tag) => {
                    idle.wire.queue_line(&end);
                    idle.wire.finish_one(tag, &mut |_, _| Ok(())).await?
                }
                Sent::Refused(outcome) => outcome,
            };
            Ok((State::Idle(idle), outcome))
        };
        let outcome = self
            .connection
            .exchange(self.connection.timeout * LITERAL_TIMEOUT_FACTOR, exchange)
            .await?;
        if outcome.status == Status::No && outcome.is_missing_folder() {
            return Ok(false);
        }
        outcome.ok()?;
        Ok(true)
    }
}
