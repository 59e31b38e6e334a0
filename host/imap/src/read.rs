//! Reads messages and parts of messages with FETCH (RFC 3501, section 6.4.5).

use std::ops::Range;

use bytes::Bytes;
use imap_proto::{Response, Status};

use super::Error;
use super::fetch::{self, Collected, Fetched};
use super::open::Open;
use super::session::Session;
use super::wire::Outcome;

/// The location of a message. In IMAP only these three values together identify a message (RFC 3501, section 2.3.1.1).
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The folder's path.
    pub path: &'a str,
    /// The UIDVALIDITY for which `uid` is valid.
    pub uid_validity: u32,
    /// The IMAP UID.
    pub uid: u32,
}

impl Session {
    /// Returns the message at `spot`, up to [`super::bounds::FIRST`] bytes, or `None` if it is not there. Needs one round trip.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn message(&mut self, spot: Spot<'_>) -> Result<Option<Fetched>, Error> {
        self.one(spot, &fetch::whole(spot.uid)).await
    }

    /// Returns a range of bytes of the message at `spot`, fewer if the message is shorter, or `None` if it is not there. Needs one round trip.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn piece_of(
        &mut self,
        spot: Spot<'_>,
        range: &Range<usize>,
    ) -> Result<Option<Bytes>, Error> {
        let fetched = self.one(spot, &fetch::piece(spot.uid, range)).await?;
        Ok(fetched.map(|fetched| fetched.whole))
    }

    /// Returns a range of bytes of a message in the open folder, fewer if the message is shorter, or `None` if it is not there.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn piece(&mut self, uid: u32, range: &Range<usize>) -> Result<Option<Bytes>, Error> {
        let (outcome, collected) = self.fetch(&fetch::piece(uid, range)).await?;
        match outcome.status {
            Status::Ok | Status::No => {
                let mut fetched = collected.with_bytes().into_iter();
                Ok(fetched.find(|f| f.uid == uid).map(|f| f.whole))
            }
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    async fn one(&mut self, spot: Spot<'_>, command: &str) -> Result<Option<Fetched>, Error> {
        let opening = self
            .open_path(Open::Examine, spot.path, Some(command))
            .await?;
        let Some(opening) = opening else {
            return Ok(None);
        };
        if opening.opened.uid_validity != spot.uid_validity {
            return Ok(None);
        }
        let mut fetched = opening.collected.with_bytes().into_iter();
        let found = fetched.find(|f| f.uid == spot.uid);
        match opening.outcome.map(|o| o.status) {
            // NO: the message was just expunged.
            Some(Status::Ok | Status::No) => Ok(found),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

    /// Reads the data of summaries of messages in the open folder. Calls `each` with every message as soon as it is complete.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
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
        collected.with_bytes().into_iter().for_each(each);
        Ok(())
    }

    /// Reads longer headers and texts of messages in the open folder.
    ///
    /// # Errors
    /// Returns the [`Error`] of the command.
    pub async fn longer(&mut self, uids: &[u32]) -> Result<Vec<Fetched>, Error> {
        let (outcome, collected) = self.fetch(&fetch::longer(uids)).await?;
        match outcome.status {
            Status::Ok | Status::No => Ok(collected.with_bytes()),
            _ => Err(Error::Protocol("the server rejected FETCH with BAD".into())),
        }
    }

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
