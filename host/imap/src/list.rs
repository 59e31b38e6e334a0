//! Lists folders with LIST (RFC 5258, RFC 6154). If the server supports LIST-STATUS (RFC 5819), the
//! response contains the message counts, so no second round trip is needed.

use imap_proto::{MailboxDatum, Response, Status};

use super::listed::Collected;
pub use super::listed::{FolderStatus, Listed, Role};
use super::open::OpenMode;
use super::session::Session;
use super::{Error, INBOX, bounds, quoted, utf7};

/// Maximum number of STATUS commands in one write. The client sends STATUS for each folder for
/// which LIST did not return STATUS data.
const STATUS_AT_ONCE: usize = 64;

/// STATUS items for the folder lists of API clients.
pub const COUNTS: &str = "MESSAGES UNSEEN UIDNEXT UIDVALIDITY";
/// STATUS items for the reconciliation of the message index (see `reconcile` in
/// `latchmail-mailbox`).
pub const POSITIONS: &str = "MESSAGES UIDNEXT UIDVALIDITY";
/// STATUS items for a sync of the message index (see `sync` in `latchmail-mailbox`). If the server
/// has no QRESYNC, [`POSITIONS`] replaces this value.
pub const MODSEQS: &str = "MESSAGES UIDNEXT UIDVALIDITY HIGHESTMODSEQ";

impl Session {
    /// Returns the folders that can be opened, in the server's order. Omits folders whose paths no
    /// command can contain ([`utf7::name`]), for example because the path is too long. `items` is
    /// [`COUNTS`], [`POSITIONS`] or [`MODSEQS`], and selects the STATUS items.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn folders(&mut self, items: &str) -> Result<Vec<Listed>, Error> {
        let capabilities = self.connection.capabilities;
        let items = supported(self, items);
        let items = &match capabilities.folder_ids() {
            Some(ids) => format!("{items} {ids}"),
            None => items.to_owned(),
        };
        let (extended, special_use) = (capabilities.list_extended, capabilities.special_use);
        let mut collected = if extended && special_use && capabilities.list_status {
            let list = format!(r#"LIST "" "*" RETURN (SPECIAL-USE STATUS ({items}))"#);
            // The STATUS data of an open folder might be outdated (see `closing`). EXAMINE closes
            // the open folder and opens INBOX. Dovecot then does not have to open INBOX for the
            // STATUS data, so EXAMINE and LIST together take less time than LIST alone.
            let opening = self.open(OpenMode::Examine, INBOX, Some(&list)).await?;
            if let Some(listed) = opening.outcome {
                listed.ok()?;
            }
            opening.listed
        } else {
            let mut commands = self.closing();
            commands.push(if extended && special_use {
                r#"LIST "" "*" RETURN (SPECIAL-USE)"#.to_owned()
            } else {
                r#"LIST "" "*""#.to_owned()
            });
            let mut collected = Collected::default();
            let mut outcomes = self
                .connection
                .run(&commands, &mut |reply, frame| {
                    collected.add(reply, frame);
                    Ok(())
                })
                .await?;
            if let Some(listed) = outcomes.pop() {
                listed.ok()?;
            }
            collected
        };
        if collected.too_many {
            return Err(Error::TooManyFolders);
        }
        let can_open = |folder: &Listed| folder.selectable && utf7::name(&folder.path).is_some();
        // Without LIST-STATUS, no folder has STATUS data at this point. With LIST-STATUS, a server
        // can omit the data of some folders.
        let without_status: Vec<String> = collected
            .folders
            .iter()
            .filter(|folder| folder.status.is_none() && can_open(folder))
            .filter_map(|folder| quoted(&folder.name))
            .map(|name| format!("STATUS {name} ({items})"))
            .collect();
        for commands in without_status.chunks(STATUS_AT_ONCE) {
            let outcomes = self
                .connection
                .run(commands, &mut |reply, frame| {
                    collected.add(reply, frame);
                    Ok(())
                })
                .await?;
            if outcomes.iter().any(|o| matches!(o.status, Status::Bad)) {
                return Err(Error::Protocol(
                    "the server rejected STATUS with BAD".into(),
                ));
            }
        }
        let mut folders = collected.into_folders()?;
        let count = folders.len();
        folders.retain(|folder| !folder.selectable || can_open(folder));
        if folders.len() < count && !self.reported_omitted {
            self.reported_omitted = true;
            tracing::warn!(
                omitted = count - folders.len(),
                limit = bounds::PATH,
                "omitted folders whose paths are too long or contain line breaks"
            );
        }
        // Omit folders without STATUS data: they were deleted after the LIST command.
        folders.retain(|folder| folder.selectable && folder.status.is_some());
        Ok(folders)
    }

    /// Returns the STATUS data of the folder `path`. `items` selects the STATUS items, as in
    /// [`Session::folders`]. Returns `None` if the folder does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn status(&mut self, path: &str, items: &str) -> Result<Option<FolderStatus>, Error> {
        let Some(mut name) = utf7::name(path) else {
            return Ok(None);
        };
        for retried in [false, true] {
            let quoted =
                quoted(&name).ok_or_else(|| Error::Protocol("invalid folder name".into()))?;
            let mut commands = self.closing();
            commands.push(format!("STATUS {quoted} ({})", supported(self, items)));
            let mut found = None;
            let outcomes = self
                .connection
                .run(&commands, &mut |reply, _| {
                    if let Response::MailboxData(MailboxDatum::Status { status, .. }) = reply {
                        found = Some(FolderStatus::of(status));
                    }
                    Ok(())
                })
                .await?;
            let outcome = outcomes.into_iter().next_back();
            let outcome = outcome.ok_or_else(|| Error::Protocol("no response to STATUS".into()))?;
            match outcome.status {
                Status::No if !retried => match self.resolve_refused(path, &outcome).await? {
                    Some(other) => name = other,
                    None => return Ok(None),
                },
                _ => {
                    outcome.ok()?;
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Returns all folders, including those that cannot be opened, without STATUS data.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn list(&mut self) -> Result<Vec<Listed>, Error> {
        let mut collected = Collected::default();
        let outcomes = self
            .connection
            .run(&["LIST \"\" \"*\"".to_owned()], &mut |reply, frame| {
                collected.add(reply, frame);
                Ok(())
            })
            .await?;
        for outcome in outcomes {
            outcome.ok()?;
        }
        collected.into_folders()
    }

    /// Returns the server's name of the folder with this path. Returns `None` if no such folder can
    /// be opened.
    pub(crate) async fn find_name(&mut self, path: &str) -> Result<Option<String>, Error> {
        let folders = self.list().await?;
        let found = folders.into_iter().find(|f| f.selectable && f.path == path);
        Ok(found.map(|folder| folder.name))
    }
}

/// Returns `items`, or [`POSITIONS`] instead of [`MODSEQS`] if the server has no QRESYNC.
fn supported<'i>(session: &Session, items: &'i str) -> &'i str {
    if items == MODSEQS && !session.connection.capabilities.qresync {
        POSITIONS
    } else {
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    #[test]
    fn a_folder_without_a_valid_path_is_omitted() {
        let long = "x".repeat(bounds::PATH + 1);
        let list = format!(
            "* LIST () \"/\" a\r\n* LIST () \"/\" {long}\r\n* LIST () \"/\" b&AAo-c\r\n\
             * LIST (\\Noselect) \"/\" d\r\n"
        );
        let status = "* STATUS a (MESSAGES 1)\r\n";
        let mut session = session(&[&list, status]);
        let folders = block_on(session.folders(COUNTS)).unwrap();
        let paths: Vec<_> = folders.iter().map(|folder| folder.path.as_str()).collect();
        assert_eq!(paths, ["a"]);
    }
}
