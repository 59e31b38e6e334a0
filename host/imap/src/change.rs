//! Changes messages with STORE, MOVE (RFC 6851) and UID EXPUNGE (RFC 4315). The messages must be in
//! the folder that is open for writing. The commands do not check the folder's UIDVALIDITY.

use std::collections::BTreeSet;

use imap_proto::{MailboxDatum, Response, ResponseCode, Status};
use latchmail_core::message_number::Uid;

use super::flag::Flag;
use super::open::OpenMode;
use super::selected::Writable;
use super::session::{SelectedFolder, Session};
use super::set::{members, set};
use super::{Error, INBOX, quoted, utf7};

/// The new locations of moved messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// The UIDVALIDITY of the destination folder. The new UIDs are valid for this UIDVALIDITY.
    pub uid_validity: u32,
    /// The old and the new UID of each message.
    pub uids: Vec<(Uid, Uid)>,
}

impl Session {
    /// Opens a folder for writing. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn select(&mut self, path: &str) -> Result<Option<Writable>, Error> {
        let Some(opening) = self.open_path(OpenMode::Select, path, None).await? else {
            return Ok(None);
        };
        let folder = Writable {
            opened: opening.opened,
            permanent: opening.permanent,
        };
        if path == INBOX
            && let Some(selected) = self.connection.selected_mut()
        {
            selected.writable = Some(folder.clone());
        }
        Ok(Some(folder))
    }

    /// Returns `true` if STORE can be sent without a new SELECT of `path`. All of these conditions
    /// must be met:
    ///
    /// - `path` is INBOX, and INBOX was opened for writing with `uid_validity`.
    /// - All `uids` are below the UIDNEXT that the server reported.
    /// - The server stores `flags` permanently.
    /// - The server has sent nothing since its last reply.
    ///
    /// Under these conditions, the messages exist. If a message was removed, the server reports the
    /// removal in the response to the next command.
    ///
    /// INBOX cannot be deleted or created again (RFC 3501, sections 6.3.4 and 6.3.5). Any other
    /// folder can be replaced by a new folder with the same name. Dovecot finds the transaction log
    /// of a folder by the folder's name. Therefore Dovecot would write the change to the log of the
    /// new folder.
    pub fn can_store_without_select(
        &mut self,
        path: &str,
        uid_validity: u32,
        uids: &[Uid],
        flags: &[Flag],
    ) -> bool {
        let selected = self.connection.selected();
        let Some(folder) = selected.and_then(|selected| selected.writable.as_ref()) else {
            return false;
        };
        self.has_inbox_open(path, uid_validity)
            && uids.iter().all(|uid| uid.0 < folder.opened.uid_next)
            && folder.first_unsupported(flags).is_none()
            && self.connection.is_quiet()
    }
}

impl SelectedFolder<'_> {
    /// Adds or removes flags. Returns the UIDs of the messages that exist.
    ///
    /// A search after the change finds the messages that exist. If the server reports removed
    /// messages, the search is repeated. Dovecot can return a removed message in a search result
    /// and report the removal after the result.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn store(
        &mut self,
        uids: &[Uid],
        flags: &[Flag],
        add: bool,
    ) -> Result<BTreeSet<Uid>, Error> {
        let sign = if add { '+' } else { '-' };
        let flags: Vec<&str> = flags.iter().map(Flag::as_str).collect();
        let uids = set(uids);
        let store = format!("UID STORE {uids} {sign}FLAGS.SILENT ({})", flags.join(" "));
        let search = format!("UID SEARCH UID {uids}");
        let (found, expunged) = self.run_search(&[store, search.clone()]).await?;
        if expunged {
            return Ok(self.run_search(&[search]).await?.0);
        }
        Ok(found)
    }

    /// Deletes messages permanently. Returns the UIDs of the messages that existed.
    ///
    /// # Errors
    /// Returns [`Error::MissingExtension`] if the server has no UIDPLUS. Returns another [`Error`]
    /// if the command fails.
    pub async fn expunge(&mut self, uids: &[Uid]) -> Result<BTreeSet<Uid>, Error> {
        if !self.session.connection.capabilities.uid_plus {
            return Err(missing_extension("UIDPLUS (RFC 4315)"));
        }
        let uids = set(uids);
        let commands = [
            format!("UID STORE {uids} +FLAGS.SILENT (\\Deleted)"),
            format!("UID SEARCH UID {uids}"),
            format!("UID EXPUNGE {uids}"),
        ];
        Ok(self.run_search(&commands).await?.0)
    }

    /// Runs commands that include one search. Returns the search result, and `true` if the server
    /// reported removed messages. Returns an error if a command fails.
    async fn run_search(&mut self, commands: &[String]) -> Result<(BTreeSet<Uid>, bool), Error> {
        let (mut found, mut expunged, mut flags_unchanged) = (Vec::new(), false, true);
        let outcomes = self
            .session
            .connection
            .run_in_folder(commands, &mut |reply, _| {
                match reply {
                    Response::MailboxData(MailboxDatum::Search(uids)) => {
                        found.extend(uids.iter().copied().map(Uid));
                    }
                    Response::Expunge(_) | Response::Vanished { .. } => expunged = true,
                    Response::Data { outcome, .. } if has_permanent_flags(outcome) => {
                        flags_unchanged = false;
                    }
                    _ => {}
                }
                Ok(())
            })
            .await?;
        if !flags_unchanged && let Some(selected) = self.session.connection.selected_mut() {
            selected.writable = None;
        }
        for outcome in outcomes {
            outcome.ok()?;
        }
        Ok((found.into_iter().collect(), expunged))
    }

    /// Moves messages to the folder `destination`. Returns `None` if this folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error::MissingExtension`] if the server has no MOVE or no UIDPLUS. Returns another
    /// [`Error`] if the command fails.
    pub async fn move_to(
        &mut self,
        uids: &[Uid],
        destination: &str,
    ) -> Result<Option<Moved>, Error> {
        if !self.session.connection.capabilities.r#move
            || !self.session.connection.capabilities.uid_plus
        {
            return Err(missing_extension("MOVE (RFC 6851) with UIDPLUS (RFC 4315)"));
        }
        let Some(mut name) = utf7::name(destination) else {
            return Ok(None);
        };
        for retried in [false, true] {
            let quoted =
                quoted(&name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
            let mut moved = None;
            let command = format!("UID MOVE {} {quoted}", set(uids));
            let outcome = self
                .session
                .connection
                .run_in_folder(&[command], &mut |reply, _| {
                    if let Response::Data { outcome, .. } = reply {
                        moved = moved
                            .take()
                            .or(parse_copyuid(outcome.code.as_ref(), uids.len()));
                    }
                    Ok(())
                })
                .await?
                .pop()
                .ok_or_else(|| Error::Protocol("no response to MOVE".into()))?;
            match outcome.status {
                Status::Ok => {
                    let none = || Moved {
                        uid_validity: 0,
                        uids: Vec::new(),
                    };
                    let tagged = parse_copyuid(outcome.code.as_ref(), uids.len());
                    return Ok(Some(moved.or(tagged).unwrap_or_else(none)));
                }
                Status::No if !retried && outcome.is_missing_folder() => {
                    match self.session.find_name(destination).await? {
                        Some(other) if other != name => name = other,
                        _ => return Ok(None),
                    }
                }
                _ => {
                    outcome.ok()?;
                }
            }
        }
        Ok(None)
    }
}

/// Returns `true` if the reply reports the permanent flags of the folder.
fn has_permanent_flags(outcome: &imap_proto::Outcome<'_>) -> bool {
    matches!(outcome.code, Some(ResponseCode::PermanentFlags(_)))
}

/// Returns the new locations in a COPYUID response code (RFC 4315, section 3). Returns `None` if
/// the code contains more than `limit` messages.
fn parse_copyuid(code: Option<&ResponseCode<'_>>, limit: usize) -> Option<Moved> {
    let Some(ResponseCode::CopyUid(uid_validity, from, to)) = code else {
        return None;
    };
    let (from, to) = (members(from, limit)?, members(to, limit)?);
    (from.len() == to.len()).then(|| Moved {
        uid_validity: *uid_validity,
        uids: from.into_iter().zip(to).collect(),
    })
}

fn missing_extension(extension: &str) -> Error {
    Error::MissingExtension(format!("the mail server does not offer {extension}"))
}
