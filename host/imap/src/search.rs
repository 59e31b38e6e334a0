//! Searches with SEARCH (RFC 3501, section 6.4.4), and reads the positions and identities of
//! messages.

use std::collections::{BTreeSet, HashSet};

use imap_proto::{MailboxDatum, Response, Status};
use latchmail_core::message_number::Uid;

use super::command::Command;
use super::fetch::{self, Fetched};
use super::flag::Flag;
use super::open::OpenMode;
use super::read::is_folder_open;
use super::selected::Opened;
use super::session::{SelectedFolder, Session};
use super::set::set;
use super::{Error, MessageRef};

/// A search key (RFC 3501, section 6.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchKey {
    /// The text is in the subject, sender, recipients or body.
    Text(String),
    /// The text is in From.
    From(String),
    /// The text is in To or Cc.
    To(String),
    /// The text is in the subject.
    Subject(String),
    /// The Message-ID field contains the text.
    MessageId(String),
    /// The Content-Type field contains `multipart/mixed`, as in messages with attachments. IMAP has
    /// no search key for attachments.
    Mixed,
    /// The message does not have the flag `\Seen`.
    Unseen,
    /// The message has the flag `\Flagged`.
    Flagged,
    /// The UID of the message is lower than this UID.
    Before(Uid),
    /// The message has this keyword.
    Keyword(Flag),
    /// The Date field is before this day, for example `1-Feb-2026`.
    SentBefore(String),
    /// The Date field is on this day or later.
    SentSince(String),
    /// The message is larger than this number of bytes.
    Larger(u32),
    /// The message has one of these UIDs.
    Uids(Vec<Uid>),
    /// The key does not match.
    Not(Box<Self>),
    /// The message matches at least one of the two keys.
    Or(Box<Self>, Box<Self>),
}

impl SearchKey {
    fn is_ascii(&self) -> bool {
        match self {
            Self::Text(text)
            | Self::From(text)
            | Self::To(text)
            | Self::Subject(text)
            | Self::MessageId(text) => text.is_ascii(),
            Self::Not(key) => key.is_ascii(),
            Self::Or(first, second) => first.is_ascii() && second.is_ascii(),
            _ => true,
        }
    }

    /// Appends the key to a command.
    fn append(&self, command: Command) -> Command {
        let any = |mut command: Command, keys: &[&str], text: &str| {
            for (index, key) in keys.iter().enumerate() {
                let or = if index + 1 < keys.len() { "OR " } else { "" };
                let space = if index == 0 { "" } else { " " };
                command = command.text(&format!("{space}{or}{key} ")).string(text);
            }
            command
        };
        match self {
            Self::Text(text) => any(command, &["SUBJECT", "FROM", "TO", "CC", "BODY"], text),
            Self::From(text) => any(command, &["FROM"], text),
            Self::To(text) => any(command, &["TO", "CC"], text),
            Self::Subject(text) => any(command, &["SUBJECT"], text),
            Self::MessageId(id) => command.text("HEADER Message-ID ").string(id),
            Self::Mixed => command.text("HEADER Content-Type multipart/mixed"),
            Self::Unseen => command.text("UNSEEN"),
            Self::Flagged => command.text("FLAGGED"),
            // No message has the UID 0, so the set is never empty.
            Self::Before(uid) => command.text(&format!("UID 1:{}", uid.0.saturating_sub(1).max(1))),
            Self::Keyword(keyword) => command.text("KEYWORD ").text(keyword.as_str()),
            Self::SentBefore(day) => command.text("SENTBEFORE ").text(day),
            Self::SentSince(day) => command.text("SENTSINCE ").text(day),
            Self::Larger(size) => command.text(&format!("LARGER {size}")),
            Self::Uids(uids) => command.text("UID ").text(&set(uids)),
            Self::Not(key) => key.append(command.text("NOT (")).text(")"),
            Self::Or(first, second) => {
                let command = first.append(command.text("OR (")).text(") (");
                second.append(command).text(")")
            }
        }
    }
}

impl Session {
    /// Returns the UIDs of the messages that match all keys, in ascending order. Returns `None` if
    /// the folder `path` does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn search(
        &mut self,
        path: &str,
        keys: &[SearchKey],
    ) -> Result<Option<(Opened, Vec<Uid>)>, Error> {
        let Some(opening) = self.open_path(OpenMode::Examine, path, None).await? else {
            return Ok(None);
        };
        let mut command = Command::new("UID SEARCH");
        if !keys.iter().all(SearchKey::is_ascii) {
            command = command.text(" CHARSET UTF-8");
        }
        if keys.is_empty() {
            command = command.text(" ALL");
        }
        for key in keys {
            command = key.append(command.text(" "));
        }
        let mut found = BTreeSet::new();
        let outcome = self
            .connection
            .run_one(&command, &mut |reply, _| {
                if let Response::MailboxData(MailboxDatum::Search(uids)) = reply {
                    found.extend(uids.iter().copied().map(Uid));
                }
                Ok(())
            })
            .await?;
        outcome.ok()?;
        Ok(Some((opening.opened, found.into_iter().collect())))
    }

    /// Returns those UIDs in `uids` that exist in the folder. Returns `None` if the folder does not
    /// exist or has another UIDVALIDITY. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn existing(
        &mut self,
        path: &str,
        uid_validity: u32,
        uids: &[Uid],
    ) -> Result<Option<BTreeSet<Uid>>, Error> {
        let command = format!("UID SEARCH UID {}", set(uids));
        let found = search_in(self, path, &command).await?;
        Ok(found
            .filter(|(opened, _)| opened.uid_validity == uid_validity)
            .map(|(_, uids)| uids.into_iter().collect()))
    }

    /// Returns all UIDs of the folder `path` from `from` upwards, in ascending order. Returns
    /// `None` if the folder does not exist. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn arrivals(
        &mut self,
        path: &str,
        from: u32,
    ) -> Result<Option<(Opened, Vec<Uid>)>, Error> {
        let command = format!("UID SEARCH UID {from}:*");
        let mut found = search_in(self, path, &command).await?;
        if let Some((_, uids)) = &mut found {
            // The server's result always includes the last message, because `*` means the UID of
            // the last message (RFC 3501, section 9).
            uids.retain(|uid| uid.0 >= from);
            uids.sort_unstable();
        }
        Ok(found)
    }

    /// Returns `true` if the server assigns ids to messages (EMAILID or X-GUID). In that case,
    /// [`Session::identities_at`] reads no header fields.
    #[must_use]
    pub fn has_message_ids(&self) -> bool {
        self.connection.capabilities.message_ids().is_some()
    }

    /// Returns the flags of messages and the data from which the messages' identities are computed.
    /// All `messages` must be in one folder. Omits messages that do not exist. Returns `None` if
    /// the folder does not exist or has another UIDVALIDITY. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn identities_at(
        &mut self,
        messages: &[MessageRef<'_>],
    ) -> Result<Option<Vec<Fetched>>, Error> {
        let Some(first) = messages.first() else {
            return Ok(Some(Vec::new()));
        };
        let uids: Vec<Uid> = messages.iter().map(|message| message.uid).collect();
        let ids = self.connection.capabilities.message_ids();
        let command = fetch::identities(&set(&uids), ids);
        let opening = self
            .open_path(OpenMode::Examine, first.path, Some(&command))
            .await?;
        Ok(opening
            .filter(|opening| opening.opened.uid_validity == first.uid_validity)
            .map(|opening| opening.collected.with_identities(ids)))
    }

    /// Returns the positions, flags and arrival times of messages, in ascending order of position.
    /// All `messages` must be in one folder, which stays open. Omits messages that do not exist.
    /// Returns an empty list if the folder does not exist or has another UIDVALIDITY. Needs one
    /// round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn positions_at(
        &mut self,
        messages: &[MessageRef<'_>],
    ) -> Result<Vec<Fetched>, Error> {
        let Some(first) = messages.first() else {
            return Ok(Vec::new());
        };
        let uids: HashSet<Uid> = messages.iter().map(|message| message.uid).collect();
        let list: Vec<Uid> = uids.iter().copied().collect();
        let command = fetch::positions(&list);
        let opening = self
            .open_path(OpenMode::Examine, first.path, Some(&command))
            .await?;
        let opening = opening.filter(|opening| opening.opened.uid_validity == first.uid_validity);
        let mut fetched = opening
            .map(|opening| opening.collected.with_flags())
            .unwrap_or_default();
        fetched.retain(|message| uids.contains(&message.uid));
        Ok(fetched)
    }
}

impl SelectedFolder<'_> {
    /// Returns the positions, flags and arrival times of the messages `uids` in the open folder, in
    /// ascending order. Omits messages that do not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn positions(&mut self, uids: &[Uid]) -> Result<Vec<Fetched>, Error> {
        if uids.is_empty() {
            return Ok(Vec::new());
        }
        let (outcome, collected) = self.fetch(&fetch::positions(uids)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_flags();
                let uids: HashSet<Uid> = uids.iter().copied().collect();
                fetched.retain(|message| uids.contains(&message.uid));
                Ok(fetched)
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }
}

/// Returns the UIDs of the messages in the folder `path` that do not have the flag `\Deleted`, in
/// ascending order. Returns `None` if the folder does not exist. Needs one round trip.
///
/// # Errors
/// Returns an [`Error`] if the command fails.
pub async fn undeleted(
    session: &mut Session,
    path: &str,
) -> Result<Option<(Opened, Vec<Uid>)>, Error> {
    let mut found = search_in(session, path, "UID SEARCH UNDELETED").await?;
    if let Some((_, uids)) = &mut found {
        uids.sort_unstable();
    }
    Ok(found)
}

/// Returns the UIDs of the messages in the folder `path` from `from` to `to`, in ascending order.
/// Returns `None` if the folder does not exist. Needs one round trip.
///
/// # Errors
/// Returns an [`Error`] if the command fails.
pub async fn uids_between(
    session: &mut Session,
    path: &str,
    (from, to): (u32, u32),
) -> Result<Option<(Opened, Vec<Uid>)>, Error> {
    let command = format!("UID SEARCH UID {from}:{to}");
    let mut found = search_in(session, path, &command).await?;
    if let Some((_, uids)) = &mut found {
        uids.sort_unstable();
    }
    Ok(found)
}

/// Returns the data from which the identity of a message is computed, and its flags. Returns `None`
/// if the message does not exist.
///
/// The server must have reported the location after it stored the message. If the folder is open
/// with the UIDVALIDITY of this location, it is the folder with the message and is not opened
/// again.
///
/// # Errors
/// Returns an [`Error`] if the command fails.
pub async fn identity_of_stored(
    session: &mut Session,
    message: MessageRef<'_>,
) -> Result<Option<Fetched>, Error> {
    let find = |fetched: Vec<Fetched>| fetched.into_iter().find(|one| one.uid == message.uid);
    if is_folder_open(session, message) {
        let ids = session.connection.capabilities.message_ids();
        let command = fetch::identities(&message.uid.to_string(), ids);
        let (outcome, collected) = session.selected_folder()?.fetch(&command).await?;
        let found = find(collected.with_identities(ids));
        // After a NO, the header can be NIL.
        if found.is_some() && outcome.status == Status::Ok {
            return Ok(found);
        }
    }
    // Another connection can have stored the message, which an open folder does not show yet.
    let fetched = session.identities_at(&[message]).await?;
    Ok(find(fetched.unwrap_or_default()))
}

/// Opens the folder `path` and runs the SEARCH `command` in this folder, in one round trip.
async fn search_in(
    session: &mut Session,
    path: &str,
    command: &str,
) -> Result<Option<(Opened, Vec<Uid>)>, Error> {
    let opening = session
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzzing::{block_on, session};

    #[test]
    fn the_identity_of_a_stored_message_is_read_in_the_open_folder() {
        const OPENED: &str = "* 3 EXISTS\r\n* OK [UIDVALIDITY 1] ok\r\n";
        const FETCHED: &str = "* 3 FETCH (UID 7 FLAGS () X-GUID one)\r\n";
        let refused = format!("{FETCHED}! NO [SERVERBUG] failed\r\n");
        let first = [OPENED, "", FETCHED];
        let opened_again = ["", OPENED, FETCHED, &refused, OPENED, FETCHED];
        let mut session = session(&[&first[..], &opened_again[..]].concat());
        session.connection.capabilities.guid = true;
        block_on(undeleted(&mut session, "a")).unwrap();
        let stored = MessageRef {
            path: "a",
            uid_validity: 1,
            uid: Uid(7),
        };
        // The second time, the server shows the message after the folder is opened again. The third
        // time, it cannot read the message before.
        for _ in 0..3 {
            let read = block_on(identity_of_stored(&mut session, stored)).unwrap();
            assert_eq!(read.unwrap().id.as_deref(), Some("one"));
        }
        assert!(block_on(session.list()).is_err());
    }

    #[test]
    fn keys_become_a_command() {
        let key = SearchKey::Not(Box::new(SearchKey::Or(
            Box::new(SearchKey::To("a\"b".into())),
            Box::new(SearchKey::Unseen),
        )));
        let command = key.append(Command::new("UID SEARCH "));
        let expected = r#"UID SEARCH NOT (OR (OR TO "a\"b" CC "a\"b") (UNSEEN))"#;
        assert_eq!(
            (command.literals.len(), command.end.as_str()),
            (0, expected)
        );
        let command = SearchKey::Text("é".into()).append(Command::new(""));
        let texts: Vec<&str> = command.literals.iter().map(|(t, _)| t.as_str()).collect();
        let expected = ["OR SUBJECT ", " OR FROM ", " OR TO ", " OR CC ", " BODY "];
        assert_eq!(texts, expected);
    }
}
