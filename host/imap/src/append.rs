//! Stores a new message with APPEND (RFC 3501, section 6.3.11) in two steps. The server stores the
//! message only after the second step. Therefore the caller can repeat the first step if the
//! connection fails.

use bytes::Bytes;
use chrono::DateTime;
use imap_proto::{ResponseCode, Status};
use latchmail_core::clock::Timestamp;
use latchmail_core::message_number::Uid;

use super::command::Command;
use super::connection::LITERAL_TIMEOUT_FACTOR;
use super::flag::Flag;
use super::session::Session;
use super::set::members;
use super::state::{Appending, State};
use super::wire::{OnReply, SMALL_LITERAL, Sent};
use super::{Error, quoted, utf7};

/// A new message for a folder.
#[derive(Clone, Debug)]
pub struct NewMessage<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The flags of the message.
    pub flags: &'a [Flag],
    /// The arrival time (INTERNALDATE). `None` is the time of the command.
    pub received_at: Option<Timestamp>,
    /// The bytes of the message.
    pub bytes: Bytes,
}

/// The location of a stored message (RFC 4315, section 3, APPENDUID).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The UIDVALIDITY of the folder.
    pub uid_validity: u32,
    /// The UID of the message.
    pub uid: Uid,
}

impl Session {
    /// Uploads a message. Returns `false` if the path is not a valid folder name. The next command
    /// must be [`Session::end_append`], which stores the message.
    ///
    /// `has_replied` is `true` if the caller has just received a reply on this connection. In that
    /// case, this function waits for a proof that the connection works only if the server has sent
    /// data or closed the connection since.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn begin_append(
        &mut self,
        message: NewMessage<'_>,
        has_replied: bool,
    ) -> Result<bool, Error> {
        let Some(name) = utf7::name(message.path).and_then(|name| quoted(&name)) else {
            return Ok(false);
        };
        let flags: Vec<&str> = message.flags.iter().map(Flag::as_str).collect();
        let date = message.received_at.and_then(date_time).unwrap_or_default();
        let command = Command::new(format!("APPEND {name} ({}) {date}", flags.join(" ")));
        let command = command.literal(message.bytes);
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
        let needs_reply = literal_plus && !(has_replied && self.connection.is_quiet());
        let mut idle = self.connection.take_idle()?;
        let exchange = async move {
            let wire = &mut idle.wire;
            let on: OnReply<'_> = &mut |_, _| Ok(());
            // The client must receive a response that proves that the connection works. Without
            // LITERAL+, this response is the continuation request. With LITERAL+, the server sends
            // no continuation request, so the client also sends CAPABILITY. NOOP is not suitable,
            // because Dovecot can delay the response to NOOP until the next command has ended.
            let capability = needs_reply.then(|| wire.queue("CAPABILITY"));
            let sent = wire.queue_literals(&command, literal_plus, on).await?;
            if let Some(capability) = capability {
                wire.finish_one(capability, on).await?.ok()?;
            }
            let end = command.end;
            Ok((State::Appending(Appending { idle, sent, end }), true))
        };
        self.connection.exchange(limit, exchange).await
    }

    /// Stores the uploaded message. Returns `None` if the folder does not exist. Returns
    /// `Some(None)` if the message was stored and the server does not report its location.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn end_append(&mut self) -> Result<Option<Option<Appended>>, Error> {
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
            return Ok(None);
        }
        let outcome = match outcome.ok() {
            Err(error) if error.is_deleted_folder() => return Ok(None),
            outcome => outcome?,
        };
        let Some(ResponseCode::AppendUid(uid_validity, uids)) = &outcome.code else {
            return Ok(Some(None));
        };
        let uid = members(uids, 1).and_then(|uids| uids.first().copied());
        Ok(Some(uid.map(|uid| Appended {
            uid_validity: *uid_validity,
            uid,
        })))
    }
}

/// Returns the `date-time` of RFC 3501 with a space after it, for example
/// `"17-Jul-1996 09:44:25 +0000" `. Returns `None` for a time that IMAP cannot represent.
fn date_time(time: Timestamp) -> Option<String> {
    let time = DateTime::from_timestamp(time.seconds(), 0)?;
    let year = time.format("%Y").to_string();
    let is_valid = year.len() == 4 && !year.starts_with('-');
    is_valid.then(|| time.format("\"%e-%b-%Y %H:%M:%S +0000\" ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    #[test]
    fn a_folder_that_is_deleted_during_the_upload_does_not_exist() {
        // The test server takes the tag from the line that ends a command. The last line of APPEND
        // has none.
        for reply in [
            "L1 NO [TRYCREATE] Mailbox doesn't exist: a\r\n!",
            "L1 NO Mailbox was deleted under us (0.001 + 0.001 secs).\r\n!",
        ] {
            let mut session = session(&[reply]);
            let message = NewMessage {
                path: "a",
                flags: &[],
                received_at: None,
                bytes: Bytes::from_static(b"Subject: a\r\n\r\n"),
            };
            assert!(block_on(session.begin_append(message, false)).unwrap());
            assert_eq!(block_on(session.end_append()).unwrap(), None, "{reply}");
            assert!(session.is_idle());
        }
    }

    #[test]
    fn a_time_of_arrival_is_written_as_imap_requires() {
        let written = |seconds: i64| date_time(Timestamp::from_millis(seconds * 1000));
        let expected = "\"17-Jul-1996 09:44:25 +0000\" ";
        assert_eq!(written(837_596_665).as_deref(), Some(expected));
        let expected = "\" 7-Jul-1996 09:44:25 +0000\" ";
        assert_eq!(written(836_732_665).as_deref(), Some(expected));
        assert_eq!(written(253_402_300_800), None);
    }
}
