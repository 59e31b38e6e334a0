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
use super::fetch::{self, Fetched};
use super::flag::Flag;
use super::open::{OpenMode, open_after};
use super::session::Session;
use super::set::members;
use super::state::{Appending, State};
use super::wire::{OnReply, Outcome, SMALL_LITERAL, Sent, Wire};
use super::{Error, quoted, utf7};

/// Maximum number of messages whose data [`Session::end_append`] reads, because other messages can
/// have arrived before the stored one. Without ids of messages, the data of a message can have 256
/// KiB.
const MAX_ARRIVALS: u32 = 8;

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

/// A stored message.
#[derive(Debug)]
pub struct Stored {
    /// The location. `None` if the server does not report the location.
    pub location: Option<Appended>,
    /// The flags of the message, and the data from which the message's identity is computed. `None`
    /// if the data was not requested, or if other messages arrived at the same time.
    pub message: Option<Fetched>,
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
        let Some(name) = utf7::name(message.path) else {
            return Ok(false);
        };
        let Some(folder) = quoted(&name) else {
            return Ok(false);
        };
        let flags: Vec<&str> = message.flags.iter().map(Flag::as_str).collect();
        let date = message.received_at.and_then(date_time).unwrap_or_default();
        let command = Command::new(format!("APPEND {folder} ({}) {date}", flags.join(" ")));
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
            let appending = Appending {
                idle,
                name,
                sent,
                end: command.end,
            };
            Ok((State::Appending(appending), true))
        };
        self.connection.exchange(limit, exchange).await
    }

    /// Stores the uploaded message. Returns `None` if the folder does not exist.
    ///
    /// `uid_next` is the UIDNEXT of the folder before the upload. If it is set and no folder is
    /// open, this function also opens the folder and reads the data from which the identity of the
    /// message is computed, in the same round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn end_append(&mut self, uid_next: Option<u32>) -> Result<Option<Stored>, Error> {
        let State::Appending(Appending {
            mut idle,
            name,
            sent,
            end,
        }) = self.connection.take()
        else {
            return Err(Error::Protocol("no message was uploaded".into()));
        };
        let from = uid_next.filter(|uid_next| *uid_next > 0 && idle.selected.is_none());
        if let (Some(from), Sent::Complete(tag)) = (from, &sent) {
            idle.wire.queue_line(&end);
            return identify(self, idle.wire, tag.clone(), &name, from).await;
        }
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
        stored(outcome)
    }
}

/// Writes the queued end of the command with the tag `tag`, and reads the first messages from the
/// UID `from` upwards in the folder `name`. Dovecot (2.3, 2.4) executes the commands in their order
/// if no folder is open. If a server executes them in another order (RFC 3501, section 5.5), the
/// data of the message is missing in the result.
async fn identify(
    session: &mut Session,
    wire: Wire,
    tag: String,
    name: &str,
    from: u32,
) -> Result<Option<Stored>, Error> {
    let ids = session.connection.capabilities.message_ids();
    let last = from.saturating_add(MAX_ARRIVALS - 1);
    let command = fetch::identities(&format!("{from}:{last}"), ids);
    let folder = (OpenMode::Examine, name);
    let opening = open_after(session, wire, Some(tag), folder, Some(&command)).await?;
    let no_response = || Error::Protocol("no response to APPEND".into());
    let mut result = stored(opening.earlier.ok_or_else(no_response)?)?;
    let uid_validity = opening.opened.uid_validity;
    // After a NO, the header of a message can be NIL.
    let is_complete = opening.outcome.is_some_and(|o| o.status == Status::Ok);
    if is_complete
        && let Some(stored) = &mut result
        && let Some(location) = stored.location
        && location.uid_validity == uid_validity
    {
        let mut fetched = opening.collected.with_identities(ids).into_iter();
        stored.message = fetched.find(|message| message.uid == location.uid);
    }
    Ok(result)
}

/// Returns the result of an APPEND command. Returns `None` if the folder does not exist.
fn stored(outcome: Outcome) -> Result<Option<Stored>, Error> {
    if outcome.status == Status::No && outcome.is_missing_folder() {
        return Ok(None);
    }
    let outcome = match outcome.ok() {
        Err(error) if error.is_deleted_folder() => return Ok(None),
        outcome => outcome?,
    };
    let location = match &outcome.code {
        Some(ResponseCode::AppendUid(uid_validity, uids)) => {
            let uid = members(uids, 1).and_then(|uids| uids.first().copied());
            uid.map(|uid| Appended {
                uid_validity: *uid_validity,
                uid,
            })
        }
        _ => None,
    };
    Ok(Some(Stored {
        location,
        message: None,
    }))
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
            let stored = block_on(session.end_append(None)).unwrap();
            assert!(stored.is_none(), "{reply}");
            assert!(session.is_idle());
        }
    }

    #[test]
    fn the_data_of_the_stored_message_is_read_with_the_command_that_stores_it() {
        const APPENDED: &str = "L1 OK [APPENDUID 7 6] stored\r\n!";
        const OPENED: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n";
        const REPLACED: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 8] ok\r\n";
        const TWO: &str = "* 2 FETCH (UID 5 FLAGS () X-GUID other)\r\n\
            * 3 FETCH (UID 6 FLAGS (\\Seen) X-GUID stored)\r\n";
        let message = NewMessage {
            path: "a",
            flags: &[],
            received_at: None,
            bytes: Bytes::from_static(b"Subject: a\r\n\r\n"),
        };
        let location = Some(Appended {
            uid_validity: 7,
            uid: Uid(6),
        });
        let expunged = format!("{TWO}! NO [EXPUNGEISSUED] expunged\r\n");
        for (opened, fetched, expected) in [
            (OPENED, TWO, Some("stored")),
            // Another folder has replaced the folder.
            (REPLACED, TWO, None),
            (
                "! NO Mailbox doesn't exist: a\r\n",
                "! BAD no folder\r\n",
                None,
            ),
            // The server has executed FETCH first.
            (OPENED, "", None),
            // Another client has expunged one of the messages.
            (OPENED, expunged.as_str(), None),
        ] {
            let mut session = session(&[APPENDED, opened, fetched]);
            session.connection.capabilities.guid = true;
            assert!(block_on(session.begin_append(message.clone(), false)).unwrap());
            let stored = block_on(session.end_append(Some(5))).unwrap().unwrap();
            assert_eq!(stored.location, location);
            let id = stored.message.and_then(|message| message.id);
            assert_eq!(id.as_deref(), expected);
            assert_eq!(session.has_open("a"), !opened.starts_with('!'));
        }
        let mut refused = session(&["L1 NO [OVERQUOTA] full\r\n!", OPENED, ""]);
        assert!(block_on(refused.begin_append(message, false)).unwrap());
        let error = block_on(refused.end_append(Some(5))).map(drop);
        assert!(matches!(error, Err(Error::OverQuota)), "{error:?}");
        assert!(refused.is_idle());
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
