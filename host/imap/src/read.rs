//! Reads messages and parts of messages with FETCH (RFC 3501, section 6.4.5).

use std::ops::Range;

use bytes::Bytes;
use imap_proto::{Response, Status};

use super::Error;
use super::fetch::{self, Collected, Fetched};
use super::open::OpenMode;
use super::session::Session;
use super::wire::Outcome;

/// The location of a message. Only all three values together identify a message (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The UIDVALIDITY for which `uid` is valid.
    pub uid_validity: u32,
    /// The IMAP UID.
    pub uid: u32,
}

impl Session {
    /// Returns a message, limited to [`super::bounds::FIRST`] bytes. Returns `None` if the message does not exist. Needs one round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn message(&mut self, message: MessageRef<'_>) -> Result<Option<Fetched>, Error> {
        self.fetch_one(message, &fetch::whole(message.uid)).await
    }

    /// Returns a range of bytes of a message. The result is shorter if the message ends within the range, and `None` if the message does not exist. Needs one
    /// round trip.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn read_range_at(
        &mut self,
        message: MessageRef<'_>,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let fetched = self
            .fetch_one(message, &fetch::piece(message.uid, range))
            .await?;
        Ok(fetched.map(|fetched| fetched.whole))
    }

    /// Returns a range of bytes of a message in the open folder. The result is shorter if the message ends within the range, and `None` if the message does not
    /// exist.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn read_range(
        &mut self,
        uid: u32,
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

    /// Opens the folder of `message` and runs a FETCH for `message` in the same round trip.
    async fn fetch_one(
        &mut self,
        message: MessageRef<'_>,
        command: &str,
    ) -> Result<Option<Fetched>, Error> {
        let opening = self
            .open_path(OpenMode::Examine, message.path, Some(command))
            .await?;
        let Some(opening) = opening else {
            return Ok(None);
        };
        if opening.opened.uid_validity != message.uid_validity {
            return Ok(None);
        }
        let mut fetched = opening.collected.with_body().into_iter();
        let found = fetched.find(|f| f.uid == message.uid);
        match opening.outcome.map(|o| o.status) {
            // The server can respond with NO if another client has just expunged the message.
            Some(Status::Ok | Status::No) => Ok(found),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Reads the data for summaries of messages in the open folder. Calls `each` for a message as soon as the message's data has arrived.
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn summaries(
        &mut self,
        uids: &[u32],
        each: &mut (dyn FnMut(Fetched) + Send),
    ) -> Result<(), Error> {
        if uids.is_empty() {
            return Ok(());
        }
        let ids = self.capabilities.message_ids();
        let mut collected = Collected::default();
        let outcomes = self
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

    /// Reads headers and texts of messages in the open folder, with higher length limits than [`Session::summaries`].
    ///
    /// # Errors
    /// Returns an [`Error`] if the command fails.
    pub async fn longer_headers(&mut self, uids: &[u32]) -> Result<Vec<Fetched>, Error> {
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
