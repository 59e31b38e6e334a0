//! Commands that change messages of a folder: STORE, MOVE (RFC 6851) and EXPUNGE of some messages (RFC 4315). The commands act on the folder that is open for writing. The caller has checked its UIDVALIDITY.

use std::collections::BTreeSet;

use imap_proto::{MailboxDatum, Response, ResponseCode, Status};

use super::INBOX;
use super::open::{Open, Opened};
use super::session::Session;
use super::set::{members, set};
use super::wire::Outcome;
use super::{Error, quoted, utf7};
use crate::flag::Flag;

/// A folder that is open for writing.
#[derive(Clone, Debug)]
pub struct Writable {
    /// What the server reported about the folder.
    pub opened: Opened,
    /// The flags that the server stores permanently, or `None` if it does not say. In that case it stores all flags (RFC 3501, section 6.3.1).
    permanent: Option<Vec<String>>,
}

impl Writable {
    /// Returns the first of `flags` that the server does not store permanently.
    #[must_use]
    pub fn forgets<'f>(&self, flags: &'f [Flag]) -> Option<&'f Flag> {
        let permanent = self.permanent.as_ref()?;
        let any = permanent.iter().any(|kept| kept == "\\*");
        flags.iter().find(|flag| {
            let kept = permanent
                .iter()
                .any(|kept| kept.eq_ignore_ascii_case(flag.as_str()));
            !(kept || (any && flag.is_keyword()))
        })
    }
}

/// The new locations of moved messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Moved {
    /// The UIDVALIDITY of the new UIDs.
    pub uid_validity: u32,
    /// The old and the new UID of each message.
    pub uids: Vec<(u32, u32)>,
}

impl Session {
    /// Opens a folder for writing. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn select(&mut self, path: &str) -> Result<Option<Writable>, Error> {
        let Some(opening) = self.open_path(Open::Select, path, None).await? else {
            return Ok(None);
        };
        let folder = Writable {
            opened: opening.opened,
            permanent: opening.permanent,
        };
        if path == INBOX
            && let Some(selected) = self.selected_mut()
        {
            selected.writable = Some(folder.clone());
        }
        Ok(Some(folder))
    }

    /// Returns `true` if STORE can be sent without opening `path` again: the folder was opened for writing with `uid_validity`, all `uids` are below its
    /// UIDNEXT, it stores `flags` permanently, and the server has sent nothing since. Such a message exists, or the next command reports its removal.
    ///
    /// Only for INBOX, which cannot be deleted or created again (RFC 3501, sections 6.3.4 and 6.3.5). Another name may belong to a new folder by now, and
    /// Dovecot, which finds a folder's log by name, would write to the log of the new folder.
    pub fn can_flag_as_open(
        &mut self,
        path: &str,
        uid_validity: u32,
        uids: &[u32],
        flags: &[Flag],
    ) -> bool {
        let selected = self.selected();
        let Some(folder) = selected.and_then(|selected| selected.writable.as_ref()) else {
            return false;
        };
        path == INBOX
            && folder.opened.uid_validity == uid_validity
            && uids.iter().all(|uid| *uid < folder.opened.uid_next)
            && folder.forgets(flags).is_none()
            && self.is_quiet()
    }

    /// Adds or removes flags. Returns the UIDs of the messages that exist.
    ///
    /// Dovecot may execute the search before it reports, after both responses, that another client removed messages. In that case the search is repeated.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn store(
        &mut self,
        uids: &[u32],
        flags: &[Flag],
        add: bool,
    ) -> Result<BTreeSet<u32>, Error> {
        let sign = if add { '+' } else { '-' };
        let flags: Vec<&str> = flags.iter().map(Flag::as_str).collect();
        let uids = set(uids);
        let store = format!("UID STORE {uids} {sign}FLAGS.SILENT ({})", flags.join(" "));
        let search = format!("UID SEARCH UID {uids}");
        let (there, gone) = self.told(&[store, search.clone()]).await?;
        if gone {
            return Ok(self.told(&[search]).await?.0);
        }
        Ok(there)
    }

    /// Deletes exactly these messages permanently. Returns the UIDs of those that existed.
    ///
    /// # Errors
    /// Returns [`Error::Lacks`] if the server has no UIDPLUS, or the [`Error`] of the command.
    pub async fn expunge(&mut self, uids: &[u32]) -> Result<BTreeSet<u32>, Error> {
        if !self.capabilities.uid_plus {
            return Err(lacks("UIDPLUS (RFC 4315)"));
        }
        let uids = set(uids);
        let commands = [
            format!("UID STORE {uids} +FLAGS.SILENT (\\Deleted)"),
            format!("UID SEARCH UID {uids}"),
            format!("UID EXPUNGE {uids}"),
        ];
        Ok(self.told(&commands).await?.0)
    }

    /// Runs commands, one of which is a search. All must succeed. Returns the search result, and `true` if the server reported that messages were removed.
    async fn told(&mut self, commands: &[String]) -> Result<(BTreeSet<u32>, bool), Error> {
        let (mut there, mut gone, mut keeps) = (Vec::new(), false, true);
        let outcomes = self
            .run_in_folder(commands, &mut |reply, _| {
                match reply {
                    Response::MailboxData(MailboxDatum::Search(uids)) => there.extend(uids),
                    Response::Expunge(_) => gone = true,
                    Response::Data { outcome, .. } if is_of_flags(outcome) => keeps = false,
                    _ => {}
                }
                Ok(())
            })
            .await?;
        if !keeps && let Some(selected) = self.selected_mut() {
            selected.writable = None;
        }
        for outcome in outcomes {
            outcome.ok()?;
        }
        Ok((there.into_iter().collect(), gone))
    }

    /// Moves messages to the folder with the path `destination`. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Lacks`] if the server has no MOVE or UIDPLUS, or the [`Error`] of the command.
    pub async fn move_to(
        &mut self,
        uids: &[u32],
        destination: &str,
    ) -> Result<Option<Moved>, Error> {
        if !self.capabilities.r#move || !self.capabilities.uid_plus {
            return Err(lacks("MOVE (RFC 6851) with UIDPLUS (RFC 4315)"));
        }
        let Some(mut name) = utf7::name(destination) else {
            return Ok(None);
        };
        for sought in [false, true] {
            let quoted =
                quoted(&name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
            let mut moved = None;
            let command = format!("UID MOVE {} {quoted}", set(uids));
            let outcome = self
                .run_in_folder(&[command], &mut |reply, _| {
                    if let Response::Data { outcome, .. } = reply {
                        moved = moved.take().or(copied(outcome.code.as_ref(), uids.len()));
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
                    let tagged = copied(outcome.code.as_ref(), uids.len());
                    return Ok(Some(moved.or(tagged).unwrap_or_else(none)));
                }
                Status::No if !sought && names_no_folder(&outcome) => {
                    match self.listed_as(destination).await? {
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

    /// Returns the server's name of a folder that can be opened, or `None` if there is none.
    async fn listed_as(&mut self, path: &str) -> Result<Option<String>, Error> {
        let folders = self.list().await?;
        let found = folders.into_iter().find(|f| f.selectable && f.path == path);
        Ok(found.map(|folder| folder.name))
    }
}

/// Returns `true` if the reply changes the set of permanent flags of the folder.
fn is_of_flags(outcome: &imap_proto::Outcome<'_>) -> bool {
    matches!(outcome.code, Some(ResponseCode::PermanentFlags(_)))
}

/// Returns `true` if a NO means that the folder does not exist (RFC 3501, section 7.1; RFC 5530).
pub(crate) fn names_no_folder(outcome: &Outcome) -> bool {
    matches!(outcome.code, Some(ResponseCode::TryCreate))
        || outcome.says("TRYCREATE")
        || outcome.says("NONEXISTENT")
        || outcome.says("CANNOT")
}

fn copied(code: Option<&ResponseCode<'_>>, most: usize) -> Option<Moved> {
    let Some(ResponseCode::CopyUid(uid_validity, from, to)) = code else {
        return None;
    };
    let (from, to) = (members(from, most)?, members(to, most)?);
    (from.len() == to.len()).then(|| Moved {
        uid_validity: *uid_validity,
        uids: from.into_iter().zip(to).collect(),
    })
}

/// The error for a missing extension. Nothing has been sent.
fn lacks(extension: &str) -> Error {
    Error::Lacks(format!("the mail server does not offer {extension}"))
}
