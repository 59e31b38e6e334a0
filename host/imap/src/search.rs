//! Searches with SEARCH (RFC 3501, section 6.4.4), and reads the positions and identities of messages.

use std::collections::BTreeSet;

use imap_proto::{MailboxDatum, Response, Status};

use super::command::Command;
use super::fetch::{self, Fetched};
use super::open::OpenMode;
use super::selected::Opened;
use super::session::Session;
use super::set::set;
use super::{Error, MessageRef};

impl Session {
    /// Returns the UIDs of the messages that contain `term` in the subject, sender, recipients or body, in ascending order. Returns `None` if the folder `path`
    /// does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn search(
        &mut self,
        path: &str,
        term: &str,
    ) -> Result<Option<(Opened, Vec<u32>)>, Error> {
        let Some(opening) = self.open_path(OpenMode::Examine, path, None).await? else {
            return Ok(None);
        };
        let mut command = Command::new("UID SEARCH ");
        if !term.is_ascii() {
            command = command.text("CHARSET UTF-8 ");
        }
        for key in ["SUBJECT", "FROM", "TO", "CC"] {
            command = command.text(&format!("OR {key} ")).string(term).text(" ");
        }
        let command = command.text("BODY ").string(term);
        let mut found = BTreeSet::new();
        let outcome = self
            .run_one(&command, &mut |reply, _| {
                if let Response::MailboxData(MailboxDatum::Search(uids)) = reply {
                    found.extend(uids);
                }
                Ok(())
            })
            .await?;
        outcome.ok()?;
        Ok(Some((opening.opened, found.into_iter().collect())))
    }

    /// Returns the positions and flags of the messages `uids` in the open folder, in ascending order. Omits messages that do not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn positions(&mut self, uids: &[u32]) -> Result<Vec<Fetched>, Error> {
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let (outcome, collected) = self.fetch(&fetch::positions(uids)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_flags();
                fetched.retain(|message| uids.contains(&message.uid));
                Ok(fetched)
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Returns the UIDs of the messages that exist in the folder. Returns `None` if the folder does not exist or has another UIDVALIDITY. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn existing(
        &mut self,
        path: &str,
        uid_validity: u32,
        uids: &[u32],
    ) -> Result<Option<BTreeSet<u32>>, Error> {
        let command = format!("UID SEARCH UID {}", set(uids));
        let found = self.search_in(path, &command).await?;
        Ok(found
            .filter(|(opened, _)| opened.uid_validity == uid_validity)
            .map(|(_, uids)| uids.into_iter().collect()))
    }

    /// Returns all UIDs of the folder `path` from `from` upwards, in ascending order. Returns `None` if the folder does not exist. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn arrivals(
        &mut self,
        path: &str,
        from: u32,
    ) -> Result<Option<(Opened, Vec<u32>)>, Error> {
        let command = format!("UID SEARCH UID {from}:*");
        let mut found = self.search_in(path, &command).await?;
        if let Some((_, uids)) = &mut found {
            // The server's result always includes the last message, because `*` means the UID of the last message (RFC 3501, section 9).
            uids.retain(|uid| *uid >= from);
            uids.sort_unstable();
        }
        Ok(found)
    }

    /// Opens a folder and searches it in the same round trip.
    async fn search_in(
        &mut self,
        path: &str,
        command: &str,
    ) -> Result<Option<(Opened, Vec<u32>)>, Error> {
        let opening = self
            .open_path(OpenMode::Examine, path, Some(command))
            .await?;
        let Some(opening) = opening else {
            return Ok(None);
        };
        match opening.outcome {
            Some(outcome) => outcome.ok()?,
            None => return Err(Error::Protocol("no response to SEARCH".into())),
        };
        Ok(Some((opening.opened, opening.searched)))
    }

    /// Returns the flags of messages and the data from which the messages' identities are computed. All `messages` must be in one folder. Returns an empty list
    /// if the folder does not exist or has another UIDVALIDITY. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn identities_at(
        &mut self,
        messages: &[MessageRef<'_>],
    ) -> Result<Vec<Fetched>, Error> {
        let Some(first) = messages.first() else {
            return Ok(Vec::new());
        };
        let uids: Vec<u32> = messages.iter().map(|message| message.uid).collect();
        let ids = self.capabilities.message_ids();
        let command = fetch::identities(&uids, ids);
        let opening = self
            .open_path(OpenMode::Examine, first.path, Some(&command))
            .await?;
        Ok(opening
            .filter(|opening| opening.opened.uid_validity == first.uid_validity)
            .map(|opening| match ids {
                Some(_) => opening.collected.with_ids(),
                None => opening.collected.with_body(),
            })
            .unwrap_or_default())
    }
}
