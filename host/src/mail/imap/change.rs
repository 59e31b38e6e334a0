//! Changing messages of a folder: STORE, MOVE (RFC 6851), EXPUNGE of some (RFC 4315), and APPEND. Everything here acts on the folder that
//! is open for writing, under the UIDVALIDITY that it was opened with.

use std::collections::BTreeSet;

use bytes::Bytes;
use imap_proto::{MailboxDatum, Response, ResponseCode, Status};

use super::command::Command;
use super::session::{Open, Opened, Session, Unended};
use super::set::{members, set};
use super::wire::Outcome;
use super::{Error, quoted, utf7};
use crate::mail::INBOX;
use crate::mail::flag::Flag;

/// A folder that is open for writing.
#[derive(Clone, Debug)]
pub(in crate::mail) struct Writable {
    pub(in crate::mail) opened: Opened,
    /// The flags that are kept there; none where the server does not say, and all of them are then (RFC 3501, section 6.3.1).
    permanent: Option<Vec<String>>,
}

impl Writable {
    /// The first of `flags` that would be forgotten there.
    pub(in crate::mail) fn forgets<'f>(&self, flags: &'f [Flag]) -> Option<&'f Flag> {
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

/// Where messages are after a MOVE.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mail) struct Moved {
    /// Under which the new UIDs hold.
    pub(in crate::mail) uid_validity: u32,
    /// Each one's UID before and after.
    pub(in crate::mail) uids: Vec<(u32, u32)>,
}

impl Session {
    /// Opens a folder for writing. None where there is no such folder.
    pub(in crate::mail) async fn select(&mut self, path: &str) -> Result<Option<Writable>, Error> {
        let opening = self.open_path(Open::Select, path, None).await?;
        let folder = opening.map(|opening| Writable {
            opened: opening.opened,
            permanent: opening.permanent,
        });
        self.inbox = folder.clone().filter(|_| path == INBOX);
        Ok(folder)
    }

    /// Whether messages of `path` can be flagged as it is open: it was opened for writing under `uid_validity`, when each of `uids` had been given, it keeps
    /// `flags`, and the connection seems alive. Such a message is there, or the server tells at the next command that it is not.
    ///
    /// INBOX alone, which can neither be deleted nor made anew (RFC 3501, sections 6.3.4 and 6.3.5). Any other name may be another folder's by now, and
    /// Dovecot, which finds a folder's log by its name, would write to that one's.
    pub(in crate::mail) fn can_flag_as_open(
        &mut self,
        path: &str,
        uid_validity: u32,
        uids: &[u32],
        flags: &[Flag],
    ) -> bool {
        let Some(folder) = &self.inbox else {
            return false;
        };
        path == INBOX
            && folder.opened.uid_validity == uid_validity
            && uids.iter().all(|uid| *uid < folder.opened.uid_next)
            && folder.forgets(flags).is_none()
            && self.is_quiet()
    }

    /// Adds flags to messages or takes them away. Answers which of the messages are there.
    ///
    /// Dovecot looks for messages before it tells, behind both answers, that another client took some away: they are looked for again then.
    pub(in crate::mail) async fn store(
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

    /// Removes messages for good, and no other. Answers which of them were there.
    pub(in crate::mail) async fn expunge(&mut self, uids: &[u32]) -> Result<BTreeSet<u32>, Error> {
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

    /// Runs commands of which one is a search, all of which must succeed. Answers what it found, and whether the server told that anything is gone.
    async fn told(&mut self, commands: &[String]) -> Result<(BTreeSet<u32>, bool), Error> {
        let (mut there, mut gone, mut keeps) = (Vec::new(), false, true);
        let outcomes = self
            .run(commands, &mut |reply, _| {
                match reply {
                    Response::MailboxData(MailboxDatum::Search(uids)) => there.extend(uids),
                    Response::Expunge(_) => gone = true,
                    Response::Data { outcome, .. } if is_of_flags(outcome) => keeps = false,
                    _ => {}
                }
                Ok(())
            })
            .await?;
        if !keeps {
            self.inbox = None;
        }
        for outcome in outcomes {
            outcome.ok()?;
        }
        Ok((there.into_iter().collect(), gone))
    }

    /// Moves messages to the folder that clients call `destination`. None where there is no such folder.
    pub(in crate::mail) async fn move_to(
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
                quoted(&name).ok_or_else(|| Error::Protocol("not a folder's name".into()))?;
            let mut moved = None;
            let command = format!("UID MOVE {} {quoted}", set(uids));
            let outcome = self
                .run(&[command], &mut |reply, _| {
                    if let Response::Data { outcome, .. } = reply {
                        moved = moved.take().or(copied(outcome.code.as_ref(), uids.len()));
                    }
                    Ok(())
                })
                .await?
                .pop()
                .ok_or_else(|| Error::Protocol("no answer to MOVE".into()))?;
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

    /// The server's name of a folder that can be opened, where there is one.
    async fn listed_as(&mut self, path: &str) -> Result<Option<String>, Error> {
        let folders = self.list().await?;
        let found = folders.into_iter().find(|f| f.selectable && f.path == path);
        Ok(found.map(|folder| folder.name))
    }

    /// Hands over a message for the folder that clients call `path`, as read. It is not filed before [`Session::end_append`], so that it may be handed over once more where
    /// this connection was dead. None for what is no folder's name.
    pub(in crate::mail) async fn begin_append(
        &mut self,
        path: &str,
        message: Bytes,
    ) -> Result<Option<Unended>, Error> {
        let name = utf7::name(path).and_then(|name| quoted(&name));
        let Some(name) = name else {
            return Ok(None);
        };
        let command = Command::new(format!("APPEND {name} (\\Seen) ")).literal(message);
        Ok(Some(self.begin_command(command).await?))
    }

    /// Files what was handed over. Answers whether there is such a folder.
    pub(in crate::mail) async fn end_append(&mut self, unended: Unended) -> Result<bool, Error> {
        let outcome = self.end_command(unended).await?;
        if outcome.status == Status::No && names_no_folder(&outcome) {
            return Ok(false);
        }
        outcome.ok()?;
        Ok(true)
    }
}

/// Whether it tells which flags are kept in the folder from now on.
fn is_of_flags(outcome: &imap_proto::Outcome<'_>) -> bool {
    matches!(outcome.code, Some(ResponseCode::PermanentFlags(_)))
}

/// Whether a NO is because the folder named is not there (RFC 3501, section 7.1; RFC 5530).
fn names_no_folder(outcome: &Outcome) -> bool {
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

/// Before anything was sent.
fn lacks(extension: &str) -> Error {
    Error::Lacks(format!("the mail server does not offer {extension}"))
}
