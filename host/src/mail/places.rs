//! Where one message may be: where it was seen last, then where it is found again.

use std::sync::Arc;

use super::index::Place;
use super::reach::{Judged, Reach};
use super::{Access, Error, Mail};
use crate::teams::rights::Right;

/// How often a message that moves while it is sought is gone after.
const TRIES: usize = 4;

/// The places where a message is looked for, one after the other: where it was seen last, then where it is found again.
pub(super) struct Places<'a> {
    mail: &'a Mail,
    access: &'a Access,
    uid: u64,
    tried: Option<Arc<Place>>,
    sought: bool,
    left: usize,
}

impl Places<'_> {
    /// The next place to look, after the message was not at the last one. Returns `None` if it is nowhere.
    pub(super) async fn next(&mut self) -> Result<Option<Arc<Place>>, Error> {
        let Self { mail, access, .. } = *self;
        while self.left > 0 {
            if self.tried.is_some() {
                mail.kept.forget_place(&access.account, self.uid);
            }
            let place = mail.place(access, self.uid).await?;
            // A guest does not learn by what is done whether a number was ever given.
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

    /// The place, if the caller may read the message there. A message that the caller may not read there may have moved to a folder where it may, so the denial is
    /// returned last.
    fn reached(&self, reach: &Reach, place: Arc<Place>) -> Result<Option<Arc<Place>>, Error> {
        match reach.judge_spot(place.spot(), Right::MailRead) {
            Judged::Allowed => Ok(Some(place)),
            Judged::Denied if self.sought => Err(Error::Denied(Right::MailRead)),
            Judged::Denied | Judged::Unseen => Ok(None),
        }
    }
}

impl Mail {
    /// Where a message may be.
    pub(super) fn places<'a>(&'a self, access: &'a Access, uid: u64) -> Places<'a> {
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
