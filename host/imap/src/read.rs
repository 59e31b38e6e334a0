//! Reads messages and parts of messages with FETCH (RFC 3501, section 6.4.5).

use std::ops::Range;

use bytes::Bytes;
use imap_proto::{Response, Status};
use latchmail_core::message_number::Uid;

use super::Error;
use super::fetch::{self, Collected, Fetched};
use super::open::OpenMode;
use super::session::{SelectedFolder, Session};
use super::wire::Outcome;

/// The location of a message. Only the three values together identify a message (RFC 3501, section
/// 2.3.1.1).
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The UIDVALIDITY for which `uid` is valid.
    pub uid_validity: u32,
    /// The IMAP UID.
    pub uid: Uid,
}

/// Returns the messages whose requested data has arrived.
type Messages = fn(Collected) -> Vec<Fetched>;

impl Session {
    /// Returns a message, limited to [`super::bounds::FIRST`] bytes. Returns `None` if the message
    /// does not exist. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn message(&mut self, message: MessageRef<'_>) -> Result<Option<Fetched>, Error> {
        self.fetch_one(message, &fetch::whole(message.uid), Collected::with_body)
            .await
    }

    /// Returns a range of bytes of a message. The result is shorter if the message ends within the
    /// range, and `None` if the message does not exist. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn read_range_at(
        &mut self,
        message: MessageRef<'_>,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let fetched = self
            .fetch_one(
                message,
                &fetch::piece(message.uid, range),
                Collected::with_body,
            )
            .await?;
        Ok(fetched.map(|fetched| fetched.whole))
    }

    /// Returns the header of a message, limited to `latchmail_mime::bounds::HEADER` bytes. Returns
    /// `None` if the message does not exist. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn header_at(&mut self, message: MessageRef<'_>) -> Result<Option<Bytes>, Error> {
        let command = fetch::header(message.uid);
        let fetched = self.fetch_one(message, &command, Collected::with_body);
        let fetched = fetched.await?;
        Ok(fetched.map(|fetched| fetched.header))
    }

    /// Returns the flags of a message. If `with_header` is `true`, also returns the header fields
    /// that determine its thread. Returns `None` if the message does not exist. Needs one round
    /// trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn state_at(
        &mut self,
        message: MessageRef<'_>,
        with_header: bool,
    ) -> Result<Option<Fetched>, Error> {
        if with_header {
            let command = fetch::state(message.uid, false);
            return self
                .fetch_one(message, &command, Collected::with_body)
                .await;
        }
        let command = fetch::flags_of(&[message.uid], false);
        self.fetch_one(message, &command, Collected::with_flags)
            .await
    }

    /// Returns the first `bytes` bytes of messages. All `messages` must be in one folder. Omits
    /// messages that do not exist. Returns an empty list if the folder does not exist or has
    /// another UIDVALIDITY. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn beginnings_at(
        &mut self,
        messages: &[MessageRef<'_>],
        bytes: usize,
    ) -> Result<Vec<Fetched>, Error> {
        let Some(first) = messages.first() else {
            return Ok(Vec::new());
        };
        let uids: Vec<Uid> = messages.iter().map(|message| message.uid).collect();
        let command = fetch::beginnings(&uids, bytes);
        let opening = self
            .open_path(OpenMode::Examine, first.path, Some(&command))
            .await?;
        let Some(opening) =
            opening.filter(|opening| opening.opened.uid_validity == first.uid_validity)
        else {
            return Ok(Vec::new());
        };
        let mut fetched = opening.collected.with_body();
        match opening.outcome {
            // Messages were expunged (RFC 5530). Their bytes are missing, or NIL.
            Some(outcome) if outcome.has_code("EXPUNGEISSUED") => {
                fetched.retain(|message| !message.whole.is_empty());
            }
            // Another NO means that the server failed to read a message.
            Some(outcome) => drop(outcome.ok()?),
            None => {}
        }
        Ok(fetched)
    }

    /// Runs a FETCH for `message` in its folder, in one round trip. Needs a second round trip if
    /// INBOX is open but does not contain the message. `messages` returns the messages whose
    /// requested data has arrived.
    async fn fetch_one(
        &mut self,
        message: MessageRef<'_>,
        command: &str,
        messages: Messages,
    ) -> Result<Option<Fetched>, Error> {
        if let Some(found) = fetch_in_inbox(self, message, command, messages).await? {
            return Ok(Some(found));
        }
        let opening = self
            .open_path(OpenMode::Examine, message.path, Some(command))
            .await?;
        let Some(opening) = opening else {
            return Ok(None);
        };
        if opening.opened.uid_validity != message.uid_validity {
            return Ok(None);
        }
        let fetched = match opening.outcome.map(|o| o.status) {
            Some(Status::Ok) => messages(opening.collected),
            // The server can respond with NO if another client has just expunged the message. Then
            // flags do not prove that the message exists (RFC 7162, section 3.2).
            Some(Status::No) => opening.collected.with_body(),
            _ => return Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        };
        Ok(fetched.into_iter().find(|f| f.uid == message.uid))
    }
}

/// Runs a FETCH for `message` if the message is in INBOX and INBOX is open. Otherwise returns
/// `None`. Also returns `None` if [`SelectedFolder::fetch_in_open_inbox`] does so. Then the caller
/// must open the folder.
async fn fetch_in_inbox(
    session: &mut Session,
    message: MessageRef<'_>,
    command: &str,
    messages: Messages,
) -> Result<Option<Fetched>, Error> {
    if !session.has_inbox_open(message.path, message.uid_validity) {
        return Ok(None);
    }
    let mut inbox = session.selected_folder()?;
    inbox
        .fetch_in_open_inbox(message.uid, command, messages)
        .await
}

/// Returns the first `bytes` bytes of a message. Returns `None` if the message does not exist.
/// Needs one round trip, or two if INBOX is open but does not contain the message.
///
/// # Errors
/// Returns an [`Error`] if the command fails.
pub async fn beginning(
    session: &mut Session,
    message: MessageRef<'_>,
    bytes: usize,
) -> Result<Option<Fetched>, Error> {
    let command = fetch::beginnings(&[message.uid], bytes);
    if let Some(found) = fetch_in_inbox(session, message, &command, Collected::with_body).await? {
        return Ok(Some(found));
    }
    let fetched = session.beginnings_at(&[message], bytes).await?;
    Ok(fetched.into_iter().find(|f| f.uid == message.uid))
}

/// Returns the header fields `names` of messages, limited to `bytes` bytes for each message. The
/// names are separated by spaces. Omits messages that do not exist. Returns an empty list if the
/// folder does not exist or has another UIDVALIDITY. Needs one round trip.
///
/// # Errors
/// Returns an [`Error`] if the command fails.
pub async fn header_fields(
    session: &mut Session,
    (path, uid_validity): (&str, u32),
    uids: &[Uid],
    (names, bytes): (&str, usize),
) -> Result<Vec<Fetched>, Error> {
    if uids.is_empty() {
        return Ok(Vec::new());
    }
    let command = fetch::header_fields(uids, names, bytes);
    let opening = session.open_path(OpenMode::Examine, path, Some(&command));
    let opening = opening.await?;
    let Some(opening) = opening.filter(|opening| opening.opened.uid_validity == uid_validity)
    else {
        return Ok(Vec::new());
    };
    match opening.outcome {
        Some(outcome) if !outcome.has_code("EXPUNGEISSUED") => drop(outcome.ok()?),
        _ => {}
    }
    Ok(opening.collected.with_body())
}

/// Returns the first `bytes` bytes of a message. Returns `None` if the message does not exist.
///
/// Does not open the folder again if it is open. So the caller must just have opened it: a folder
/// that is open for longer can have been replaced by a new folder with the same name.
///
/// # Errors
/// Returns an [`Error`] if the command fails.
pub async fn beginning_in_open_folder(
    session: &mut Session,
    message: MessageRef<'_>,
    bytes: usize,
) -> Result<Option<Fetched>, Error> {
    let find = |fetched: Vec<Fetched>| fetched.into_iter().find(|one| one.uid == message.uid);
    if is_folder_open(session, message) {
        let command = fetch::beginnings(&[message.uid], bytes);
        let (outcome, collected) = session.selected_folder()?.fetch(&command).await?;
        let found = find(collected.with_body());
        // After a NO, the bytes can be NIL, for example if another client has expunged the message.
        if found.is_some() && outcome.status == Status::Ok {
            return Ok(found);
        }
    }
    // This command also reports why the message could not be read in the open folder.
    let fetched = session.beginnings_at(&[message], bytes).await?;
    Ok(find(fetched))
}

/// Returns `true` if the folder of a message is open with the UIDVALIDITY of the message.
pub(crate) fn is_folder_open(session: &Session, message: MessageRef<'_>) -> bool {
    let selected = session.connection.selected();
    session.has_open(message.path)
        && selected.is_some_and(|selected| selected.uid_validity == message.uid_validity)
}

impl SelectedFolder<'_> {
    /// Returns a range of bytes of a message in the open folder. The result is shorter if the
    /// message ends within the range, and `None` if the message does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn read_range(
        &mut self,
        uid: Uid,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let (outcome, collected) = self.fetch(&fetch::piece(uid, range)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_body().into_iter();
                Ok(fetched.find(|f| f.uid == uid).map(|f| f.whole))
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Runs a FETCH for one message in the open inbox. Returns `None` if the server did not return
    /// the message, or if the server reported an error or a removed message.
    ///
    /// NOOP in the same write makes the server report what other clients have changed. NOOP takes
    /// less time than EXAMINE. NOOP can replace EXAMINE only for INBOX: if any other folder is
    /// replaced by a new folder with the same name, Dovecot continues to return the messages of the
    /// old folder.
    ///
    /// Dovecot can run the FETCH before NOOP. In that case, NOOP returns the changed flags, and
    /// [`Collected`] merges the flags.
    async fn fetch_in_open_inbox(
        &mut self,
        uid: Uid,
        command: &str,
        messages: Messages,
    ) -> Result<Option<Fetched>, Error> {
        let (mut collected, mut is_current) = (Collected::default(), true);
        let commands = ["NOOP".to_owned(), command.to_owned()];
        let outcomes = self
            .session
            .connection
            .run_in_folder(&commands, &mut |reply, frame| {
                match reply {
                    Response::Fetch(seq, attributes) => collected.add(*seq, attributes, frame),
                    Response::Expunge(_)
                    | Response::Vanished { .. }
                    | Response::Data {
                        status: Status::No, ..
                    } => is_current = false,
                    _ => {}
                }
                Ok(())
            })
            .await?;
        let succeeded = outcomes.iter().all(|outcome| outcome.status == Status::Ok);
        if !(succeeded && is_current) {
            return Ok(None);
        }
        Ok(messages(collected).into_iter().find(|f| f.uid == uid))
    }

    /// Returns `true` if STORE can depend on the MODSEQs of messages in the open folder.
    fn has_modseqs(&self) -> bool {
        let selected = self.session.connection.selected();
        self.session.connection.capabilities.condstore
            && selected.is_some_and(|selected| selected.has_modseqs)
    }

    /// Returns the flags and the MODSEQ of a message in the open folder, and the header fields that
    /// determine its thread. The MODSEQ is `None` if the folder has none. Returns `None` if
    /// the message does not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn state(&mut self, uid: Uid) -> Result<Option<Fetched>, Error> {
        let condstore = self.has_modseqs();
        let (outcome, collected) = self.fetch(&fetch::state(uid, condstore)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_body().into_iter();
                Ok(fetched.find(|message| message.uid == uid))
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Returns the flags and the MODSEQs of messages in the open folder. The MODSEQs are `None` if
    /// the folder has none. Omits messages that do not exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn flags_of(&mut self, uids: &[Uid]) -> Result<Vec<Fetched>, Error> {
        let condstore = self.has_modseqs();
        let (outcome, collected) = self.fetch(&fetch::flags_of(uids, condstore)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_flags();
                fetched.retain(|message| uids.contains(&message.uid));
                Ok(fetched)
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Reads the data for summaries of messages in the open folder. Calls `each` for a message as
    /// soon as the message's data has arrived.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn summaries(
        &mut self,
        uids: &[Uid],
        each: &mut (dyn FnMut(Fetched) + Send),
    ) -> Result<(), Error> {
        if uids.is_empty() {
            return Ok(());
        }
        let ids = self.session.connection.capabilities.message_ids();
        let mut collected = Collected::default();
        let outcomes = self
            .session
            .connection
            .run_in_folder(&[fetch::summaries(uids, ids)], &mut |reply, frame| {
                if let Response::Fetch(seq, attributes) = reply {
                    collected.add(*seq, attributes, frame);
                    if let Some(message) = collected.take(*seq, ids.is_some()) {
                        each(message);
                    }
                }
                Ok(())
            })
            .await?;
        if !matches!(
            outcomes[..],
            [Outcome {
                status: Status::Ok | Status::No,
                ..
            }]
        ) {
            return Err(Error::Protocol("the server rejected FETCH with BAD".into()));
        }
        collected.with_body().into_iter().for_each(each);
        Ok(())
    }

    /// Reads headers and texts of messages in the open folder, with higher length limits than
    /// [`SelectedFolder::summaries`].
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn longer_headers(&mut self, uids: &[Uid]) -> Result<Vec<Fetched>, Error> {
        let (outcome, collected) = self.fetch(&fetch::longer(uids)).await?;
        match outcome.status {
            Status::Ok | Status::No => Ok(collected.with_body()),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Runs a FETCH in the open folder. Returns the outcome of the command and the messages.
    pub(crate) async fn fetch(&mut self, command: &str) -> Result<(Outcome, Collected), Error> {
        let mut collected = Collected::default();
        let mut outcomes = self
            .session
            .connection
            .run_in_folder(&[command.to_owned()], &mut |reply, frame| {
                if let Response::Fetch(seq, attributes) = reply {
                    collected.add(*seq, attributes, frame);
                }
                Ok(())
            })
            .await?;
        let outcome = outcomes
            .pop()
            .ok_or_else(|| Error::Protocol("no response to FETCH".into()))?;
        Ok((outcome, collected))
    }
}

#[cfg(test)]
mod tests;
