//! Iterates over the possible locations of one message.

use std::sync::Arc;

use latchmail_core::permissions::Right;
use latchmail_directory::message_index::Location;
use latchmail_imap::MessageRef;

use super::reach::{Judged, Reach};
use super::{Access, Error, Mail};

/// Returns the location of a message in the form of the IMAP client.
pub(crate) fn spot_of(location: &Location) -> MessageRef<'_> {
    MessageRef {
        path: &location.path,
        uid_validity: location.uid_validity(),
        uid: location.imap_uid(),
    }
}

/// Maximum number of locations that are tried.
const TRIES: usize = 4;

/// The locations at which to look for a message: the last known one, then those after a reconciliation.
pub(crate) struct Places<'a> {
    mail: &'a Mail,
    access: &'a Access,
    uid: u64,
    tried: Option<Arc<Location>>,
    sought: bool,
    left: usize,
}

impl Places<'_> {
    /// Returns the next location after the message was not at the last one. Returns `None` if the message is nowhere.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Location>>, Error> {
        let Self { mail, access, .. } = *self;
        while self.left > 0 {
            if self.tried.is_some() {
                mail.kept.forget_place(&access.account, self.uid);
            }
            let place = mail.place(access, self.uid).await?;
            // For a member the steps do not depend on whether the number exists, so that the response time does not reveal it.
            let ends = self.sought || (place.is_none() && access.guest.is_none());
            let reach = mail.reach(access).await?;
            let place = place.map(|place| self.reached(&reach, place)).transpose()?;
            let place = place.flatten();
            if let Some(place) = place.filter(|place| self.tried.as_ref() != Some(place)) {
                self.left -= 1;
                self.tried = Some(Arc::clone(&place));
                return Ok(Some(place));
            }
            if ends {
                return Ok(None);
            }
            mail.seek(access).await?;
            self.sought = true;
        }
        Ok(None)
    }

    /// Returns the location if the caller may read the message there. A denial is returned only after the reconciliation, because the message may have moved to
    /// a folder that the caller may read.
    fn reached(&self, reach: &Reach, place: Arc<Location>) -> Result<Option<Arc<Location>>, Error> {
        match reach.judge_spot(spot_of(&place), Right::MailRead) {
            Judged::Allowed => Ok(Some(place)),
            Judged::Denied if self.sought => Err(Error::Denied(Right::MailRead)),
            Judged::Denied | Judged::Unseen => Ok(None),
        }
    }
}

impl Mail {
    /// Returns the possible locations of a message.
    pub(crate) fn places<'a>(&'a self, access: &'a Access, uid: u64) -> Places<'a> {
        Places {
            mail: self,
            access,
            uid,
            tried: None,
            sought: false,
            left: TRIES,
        }
    }
}
