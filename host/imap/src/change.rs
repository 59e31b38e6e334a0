//! Changes and copies messages with STORE, COPY, MOVE (RFC 6851) and UID EXPUNGE (RFC 4315). The
//! messages must be in the folder that is open for writing. The commands do not check the folder's
//! UIDVALIDITY.

use std::collections::BTreeSet;

use imap_proto::{MailboxDatum, Response, ResponseCode, Status};
use latchmail_core::message_number::Uid;

use super::flag::Flag;
use super::open::OpenMode;
use super::selected::Writable;
use super::session::{SelectedFolder, Session};
use super::set::{members, set};
use super::wire::Outcome;
use super::{Error, INBOX, quoted, utf7};

/// The change that STORE makes to the flags of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Sets the flags.
    Add,
    /// Removes the flags.
    Remove,
    /// Sets the flags and removes all other flags, except `\Recent`.
    Replace,
}

impl StoreMode {
    /// Returns the data item of the command (RFC 3501, section 6.4.6).
    fn item(self) -> &'static str {
        match self {
            Self::Add => "+FLAGS.SILENT",
            Self::Remove => "-FLAGS.SILENT",
            Self::Replace => "FLAGS.SILENT",
        }
    }
}

/// The result of STORE.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The UIDs of the messages that exist.
    pub existing: BTreeSet<Uid>,
    /// The UIDs of the messages that were not changed, because their MODSEQ is too high.
    pub modified: BTreeSet<Uid>,
}

/// The new locations of moved or copied messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// The UIDVALIDITY of the destination folder. The new UIDs are valid for this UIDVALIDITY.
    pub uid_validity: u32,
    /// The old and the new UID of each message. For a copy, the old UID is the original's.
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
    /// Changes flags. With `unchanged_since`, skips the messages with a higher MODSEQ (RFC 7162,
    /// section 3.1.3). The server must have CONDSTORE in that case.
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
        flags: &[impl AsRef<str>],
        mode: StoreMode,
        unchanged_since: Option<u64>,
    ) -> Result<Stored, Error> {
        let store = store_command(uids, flags, mode, unchanged_since);
        let search = format!("UID SEARCH UID {}", set(uids));
        let found = self
            .run_search(&[store, search.clone()], uids.len())
            .await?;
        let existing = if found.expunged {
            self.run_search(&[search], 0).await?.uids
        } else {
            found.uids
        };
        Ok(Stored {
            existing,
            modified: found.modified,
        })
    }

    /// Deletes messages permanently. Returns the UIDs of the messages that existed.
    ///
    /// # Errors
    /// Returns [`Error::MissingExtension`] if the server has no UIDPLUS. Returns another [`Error`]
    /// if the command fails.
    pub async fn expunge(&mut self, uids: &[Uid]) -> Result<BTreeSet<Uid>, Error> {
        self.require_uid_plus()?;
        let commands = [
            store_command(uids, &[DELETED], StoreMode::Add, None),
            format!("UID SEARCH UID {}", set(uids)),
            format!("UID EXPUNGE {}", set(uids)),
        ];
        let expunged = self.run_search(&commands, 0).await;
        Ok(self.undelete_if_refused(uids, expunged).await?.uids)
    }

    /// Deletes a message permanently, if its MODSEQ is at most `unchanged_since`. Returns the UID
    /// of the message if the message existed. Returns `None` and deletes nothing if its MODSEQ is
    /// higher. The server must have CONDSTORE.
    ///
    /// # Errors
    /// Returns [`Error::MissingExtension`] if the server has no UIDPLUS. Returns another [`Error`]
    /// if the command fails.
    pub async fn expunge_unchanged(
        &mut self,
        uid: Uid,
        unchanged_since: u64,
    ) -> Result<Option<BTreeSet<Uid>>, Error> {
        self.require_uid_plus()?;
        let since = Some(unchanged_since);
        let stored = self
            .store(&[uid], &[DELETED], StoreMode::Add, since)
            .await?;
        if !stored.modified.is_empty() {
            return Ok(None);
        }
        let commands = [
            format!("UID SEARCH UID {uid}"),
            format!("UID EXPUNGE {uid}"),
        ];
        let expunged = self.run_search(&commands, 0).await;
        let expunged = self.undelete_if_refused(&[uid], expunged).await?;
        Ok(Some(expunged.uids))
    }

    /// Removes the flag `\\Deleted` from messages if the server has refused to expunge them.
    /// Otherwise another client's EXPUNGE would delete the messages later. A `\\Deleted` that
    /// another client set before is removed too, because the server no longer reports who set it.
    async fn undelete_if_refused(
        &mut self,
        uids: &[Uid],
        expunged: Result<Found, Error>,
    ) -> Result<Found, Error> {
        let Err(Error::No(refusal)) = expunged else {
            return expunged;
        };
        let undelete = store_command(uids, &[DELETED], StoreMode::Remove, None);
        match self.run_search(&[undelete], 0).await {
            // A refused STORE has set no flag, so a second refusal has the same reason.
            Ok(_) | Err(Error::No(_)) => Err(Error::No(refusal)),
            Err(error) => Err(error),
        }
    }

    fn require_uid_plus(&self) -> Result<(), Error> {
        if self.session.connection.capabilities.uid_plus {
            return Ok(());
        }
        Err(missing_extension("UIDPLUS (RFC 4315)"))
    }

    /// Runs commands that include one search. Returns an error if a command fails. `limit` is the
    /// maximum number of messages that a conditional STORE can skip.
    async fn run_search(&mut self, commands: &[String], limit: usize) -> Result<Found, Error> {
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
        let mut modified = BTreeSet::new();
        for outcome in outcomes {
            // A server can respond with OK or NO (RFC 7162, section 3.1.3).
            match parse_modified(&outcome, limit) {
                Some(uids) => modified.extend(uids),
                None => drop(outcome.ok()?),
            }
        }
        Ok(Found {
            uids: found.into_iter().collect(),
            expunged,
            modified,
        })
    }

    /// Copies messages to the folder `destination`. Either all messages that exist are copied or
    /// none (RFC 3501, section 6.4.7). Returns `None` if this folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error::MissingExtension`] if the server has no UIDPLUS. Returns
    /// [`Error::Protocol`] if the server does not report the UIDs of the copies. Returns another
    /// [`Error`] if the command fails.
    pub async fn copy_to(
        &mut self,
        uids: &[Uid],
        destination: &str,
    ) -> Result<Option<Moved>, Error> {
        self.require_uid_plus()?;
        let copied = self.transfer("COPY", uids, destination).await?;
        if let Some(copied) = &copied
            && copied.uids.is_empty()
        {
            // A server omits COPYUID if no message exists, but also if the UIDs of the destination
            // folder are not permanent.
            let search = format!("UID SEARCH UID {}", set(uids));
            if !self.run_search(&[search], 0).await?.uids.is_empty() {
                let text = "the mail server did not report the UIDs of the copies";
                return Err(Error::Protocol(text.into()));
            }
        }
        Ok(copied)
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
        self.transfer("MOVE", uids, destination).await
    }

    /// Runs COPY or MOVE. Returns `None` if the destination folder does not exist.
    async fn transfer(
        &mut self,
        verb: &str,
        uids: &[Uid],
        destination: &str,
    ) -> Result<Option<Moved>, Error> {
        let Some(mut name) = utf7::name(destination) else {
            return Ok(None);
        };
        for retried in [false, true] {
            let quoted =
                quoted(&name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
            let mut moved = None;
            let command = format!("UID {verb} {} {quoted}", set(uids));
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
                .ok_or_else(|| Error::Protocol(format!("no response to {verb}")))?;
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

/// The flag of messages that EXPUNGE removes.
const DELETED: &str = "\\Deleted";

/// The result of commands that include one search.
struct Found {
    uids: BTreeSet<Uid>,
    /// `true` if the server reported removed messages.
    expunged: bool,
    /// The messages that a conditional STORE has skipped.
    modified: BTreeSet<Uid>,
}

fn store_command(
    uids: &[Uid],
    flags: &[impl AsRef<str>],
    mode: StoreMode,
    unchanged_since: Option<u64>,
) -> String {
    let flags: Vec<&str> = flags.iter().map(AsRef::as_ref).collect();
    let (uids, item, flags) = (set(uids), mode.item(), flags.join(" "));
    match unchanged_since {
        None => format!("UID STORE {uids} {item} ({flags})"),
        Some(modseq) => format!("UID STORE {uids} (UNCHANGEDSINCE {modseq}) {item} ({flags})"),
    }
}

/// Returns the UIDs in the response code MODIFIED (RFC 7162, section 3.1.3). Returns `None` if the
/// outcome has no such code. `imap-proto` does not support this code. If the set is invalid or has
/// more than `limit` UIDs, returns the UID 0, which no message has.
fn parse_modified(outcome: &Outcome, limit: usize) -> Option<Vec<Uid>> {
    if !outcome.has_code("MODIFIED") {
        return None;
    }
    let unknown = || vec![Uid(0)];
    let (_, rest) = outcome.text.split_once(' ')?;
    let uids = rest.split_once(']').map(|(uids, _)| uids);
    let ranges = uids.into_iter().flat_map(|uids| uids.split(','));
    let mut modified = Vec::new();
    for range in ranges {
        let (first, last) = range.split_once(':').unwrap_or((range, range));
        let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>())
        else {
            return Some(unknown());
        };
        let left = limit.saturating_sub(modified.len()) + 1;
        modified.extend((first.min(last)..=first.max(last)).take(left).map(Uid));
        if modified.len() > limit {
            return Some(unknown());
        }
    }
    Some(modified)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    const SELECT: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 1] ok\r\n";

    fn stored(reply: &str) -> Result<Stored, Error> {
        let mut session = session(&[SELECT, reply, "* SEARCH 7 9\r\n"]);
        block_on(session.select("a")).unwrap();
        let mut folder = session.selected_folder().unwrap();
        let uids = [Uid(7), Uid(9)];
        block_on(folder.store(&uids, &["a"], StoreMode::Replace, Some(3)))
    }

    #[test]
    fn a_conditional_store_reports_the_messages_that_it_skipped() {
        let modified = |reply: &str| {
            let modified = stored(reply).unwrap().modified;
            modified.into_iter().map(|uid| uid.0).collect::<Vec<_>>()
        };
        assert!(modified("").is_empty());
        assert_eq!(
            modified("! OK [MODIFIED 7,9] Conditional STORE failed\r\n"),
            [7, 9]
        );
        assert_eq!(modified("! NO [MODIFIED 9] failed\r\n"), [9]);
        assert_eq!(modified("! OK [MODIFIED 7:9] failed\r\n"), [0]);
        assert_eq!(modified("! OK [MODIFIED x] failed\r\n"), [0]);
        assert!(stored("! NO [SERVERBUG] failed\r\n").is_err());
    }

    #[test]
    fn the_condition_is_a_part_of_the_command() {
        let command = |since| store_command(&[Uid(7)], &["a", "\\Seen"], StoreMode::Add, since);
        assert_eq!(command(None), "UID STORE 7 +FLAGS.SILENT (a \\Seen)");
        assert_eq!(
            command(Some(5)),
            "UID STORE 7 (UNCHANGEDSINCE 5) +FLAGS.SILENT (a \\Seen)"
        );
        let none: [&str; 0] = [];
        let empty = store_command(&[Uid(7)], &none, StoreMode::Replace, None);
        assert_eq!(empty, "UID STORE 7 FLAGS.SILENT ()");
    }
}
