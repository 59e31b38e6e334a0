//! Opens folders with EXAMINE and SELECT (RFC 3501, sections 6.3.1 and 6.3.2). The same write can
//! contain a command that reads from the folder.

use std::fmt;

use imap_proto::{MailboxDatum, Response, ResponseCode, Status};
use latchmail_core::message_number::Uid;

use super::Error;
use super::bounds;
use super::connection::LITERAL_TIMEOUT_FACTOR;
use super::fetch::Collected;
use super::listed;
use super::selected::{Opened, Selected};
use super::session::Session;
use super::state::{Idle, State};
use super::wire::{Frame, Outcome, Wire};

/// The mode in which a folder is opened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OpenMode {
    /// Read-only.
    Examine,
    /// For writing.
    Select,
}

impl fmt::Display for OpenMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Examine => "EXAMINE",
            Self::Select => "SELECT",
        })
    }
}

/// The result of EXAMINE or SELECT, and the result of the command that was sent in the same write.
#[derive(Debug, Default)]
pub(crate) struct OpenResult {
    pub(crate) opened: Opened,
    /// The permanent flags (RFC 3501, section 7.1, PERMANENTFLAGS), or `None` if the server does
    /// not report permanent flags.
    pub(crate) permanent: Option<Vec<String>>,
    /// The HIGHESTMODSEQ (RFC 7162, section 3.1.2.1). `None` if the server does not report
    /// HIGHESTMODSEQ.
    pub(crate) highest_modseq: Option<u64>,
    /// The number of recent messages. A message is recent if no earlier session opened the folder
    /// with SELECT after the message arrived (RFC 3501, section 2.3.2).
    recent: u32,
    /// The outcome of the command that was queued before EXAMINE or SELECT ([`open_after`]).
    pub(crate) earlier: Option<Outcome>,
    /// The NO response, if the folder could not be opened.
    pub(crate) refused: Option<Outcome>,
    /// The outcome of the command that was sent after EXAMINE or SELECT.
    pub(crate) outcome: Option<Outcome>,
    /// The messages that the command after EXAMINE or SELECT fetched.
    pub(crate) collected: Collected,
    /// The UIDs that the command found, in the server's order.
    pub(crate) searched: Vec<Uid>,
    /// The folders that the command listed.
    pub(crate) listed: listed::Collected,
}

impl OpenResult {
    fn add(&mut self, reply: &Response<'_>, frame: &Frame) {
        match reply {
            // The first EXISTS is the state at opening. A later EXISTS includes messages that
            // arrived after the opening.
            Response::MailboxData(MailboxDatum::Exists(n)) if !self.collected.has_messages() => {
                self.opened.exists = *n;
            }
            Response::MailboxData(MailboxDatum::Recent(n)) => self.recent = *n,
            Response::MailboxData(MailboxDatum::Search(uids)) => {
                self.searched.extend(uids.iter().copied().map(Uid));
            }
            Response::Data {
                status: Status::Ok,
                outcome,
            } => match &outcome.code {
                Some(ResponseCode::UidValidity(n)) => self.opened.uid_validity = *n,
                Some(ResponseCode::UidNext(n)) => self.opened.uid_next = *n,
                Some(ResponseCode::HighestModSeq(n)) => {
                    self.highest_modseq = Some(*n).filter(|n| *n > 0);
                }
                Some(ResponseCode::PermanentFlags(flags)) => {
                    self.permanent = Some(flags.iter().map(ToString::to_string).collect());
                }
                _ => {}
            },
            Response::Fetch(seq, attributes) => self.collected.add(*seq, attributes, frame),
            _ => self.listed.add(reply, frame),
        }
    }
}

impl Session {
    /// Opens the folder `name` and sends `command` in the same write.
    ///
    /// Also reopens a folder that is already open. Otherwise the client could miss new messages,
    /// changed flags, or a renamed folder. Opening a folder takes 0.2 ms. If `command` is a FETCH,
    /// opening the folder needs no additional round trip.
    pub(crate) async fn open(
        &mut self,
        mode: OpenMode,
        name: &str,
        command: Option<&str>,
    ) -> Result<OpenResult, Error> {
        let Idle { wire, .. } = self.connection.take_idle()?;
        open_after(self, wire, None, (mode, name), command).await
    }

    /// Opens the folder with this path. Returns `None` if the folder does not exist.
    pub(crate) async fn open_path(
        &mut self,
        mode: OpenMode,
        path: &str,
        command: Option<&str>,
    ) -> Result<Option<OpenResult>, Error> {
        let Some(mut name) = super::utf7::name(path) else {
            return Ok(None);
        };
        for retried in [false, true] {
            let mut opening = self.open(mode, &name, command).await?;
            match opening.refused.take() {
                None => return Ok(Some(opening)),
                Some(no) if !retried => match self.resolve_refused(path, &no).await? {
                    Some(other) => name = other,
                    None => return Ok(None),
                },
                Some(no) => return Err(Error::No(no.text)),
            }
        }
        Ok(None)
    }

    /// Finds the folder with this path in LIST after the server refused to open the folder. Returns
    /// the server's name of the folder, with which the caller tries once more. The server can list
    /// the refused name, for example if another client has just created the folder. Returns `None`
    /// if LIST contains no folder with this path that can be opened.
    ///
    /// Uses LIST, because the text of a NO is not standardized. Some servers send no response code,
    /// and Dovecot does not send a response code for every missing folder.
    pub(crate) async fn resolve_refused(
        &mut self,
        path: &str,
        refused: &Outcome,
    ) -> Result<Option<String>, Error> {
        if refused.has_code("NONEXISTENT") || refused.has_code("CANNOT") {
            return Ok(None);
        }
        self.find_name(path).await
    }
}

/// Works like [`Session::open`], on an idle connection on which an earlier command is queued.
/// `earlier` is the tag of this command. The result contains the outcome of this command, also if
/// the folder cannot be opened.
pub(crate) async fn open_after(
    session: &mut Session,
    mut wire: Wire,
    earlier: Option<String>,
    (mode, name): (OpenMode, &str),
    command: Option<&str>,
) -> Result<OpenResult, Error> {
    let quoted =
        super::quoted(name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
    // Use SELECT once for a folder with many recent messages, because these messages make EXAMINE
    // slow (see [`bounds::RECENT`]). SELECT clears `\Recent` and changes nothing else.
    let mode = if session.slow_folder.take_if(|slow| slow == name).is_some() {
        OpenMode::Select
    } else {
        mode
    };
    let has_earlier = earlier.is_some();
    let exchange = async move {
        let mut tags: Vec<String> = earlier.into_iter().collect();
        tags.push(wire.queue(&format!("{mode} {quoted}")));
        tags.extend(command.map(|command| wire.queue(command)));
        let mut opening = OpenResult::default();
        let outcomes = wire
            .finish(&tags, &mut |reply, frame| {
                opening.add(reply, frame);
                Ok(())
            })
            .await?;
        let mut outcomes = outcomes.into_iter();
        if has_earlier {
            opening.earlier = outcomes.next();
        }
        let opened = outcomes
            .next()
            .ok_or_else(|| Error::Protocol(format!("no response to {mode}")))?;
        opening.outcome = outcomes.next();
        let selected = match opened.status {
            Status::Ok => Some(Selected {
                name: name.to_owned(),
                uid_validity: opening.opened.uid_validity,
                exists: opening.opened.exists,
                has_modseqs: opening.highest_modseq.is_some(),
                writable: None,
            }),
            // After a NO, no folder is open (RFC 3501, section 6.3.1).
            Status::No => {
                opening = OpenResult {
                    refused: Some(opened),
                    earlier: opening.earlier,
                    outcome: opening.outcome,
                    listed: opening.listed,
                    ..OpenResult::default()
                };
                None
            }
            _ => {
                return Err(Error::Protocol(format!(
                    "the server rejected {mode} with BAD: {}",
                    opened.text
                )));
            }
        };
        Ok((State::Idle(Idle { wire, selected }), opening))
    };
    let timeout = session.connection.timeout;
    let limit = if has_earlier {
        timeout * LITERAL_TIMEOUT_FACTOR
    } else {
        timeout
    };
    let opening = session.connection.exchange(limit, exchange).await?;
    if matches!(mode, OpenMode::Examine) && opening.recent > bounds::RECENT {
        session.slow_folder = Some(name.to_owned());
    }
    Ok(opening)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    const MISSING: &str = "! NO Mailbox doesn't exist: a\r\n";
    const LISTED: &str = "* LIST () \"/\" a\r\n";
    const OPENED: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n";

    /// Another client creates the folder after the server has refused to open it.
    #[test]
    fn a_folder_that_is_created_again_meanwhile_is_opened() {
        let mut session = session(&[MISSING, LISTED, OPENED]);
        let opening = block_on(session.open_path(OpenMode::Examine, "a", None)).unwrap();
        assert_eq!(opening.unwrap().opened.uid_validity, 7);
    }

    #[test]
    fn a_folder_that_the_server_lists_and_refuses_is_an_error() {
        let mut session = session(&[MISSING, LISTED, MISSING]);
        let opening = block_on(session.open_path(OpenMode::Examine, "a", None)).map(drop);
        assert!(matches!(opening, Err(Error::No(_))), "{opening:?}");
    }

    #[test]
    fn a_folder_that_the_server_does_not_list_does_not_exist() {
        let mut session = session(&[MISSING, ""]);
        let opening = block_on(session.open_path(OpenMode::Examine, "a", None)).unwrap();
        assert!(opening.is_none());
    }
}
