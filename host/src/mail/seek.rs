//! Numbers that survive: which message is which, after others moved it, renamed its folder, or had the folder made anew.
//!
//! A message that is not where it was seen is sought among what arrived elsewhere since, not in the whole mailbox: of every folder it is noted from
//! which UID on nobody looked. What is found there is told from others by its identity; one that is a message whose own place is empty is
//! that message, moved, and one whose place still stands is a copy with a number of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::identity::{Identity, identity};
use super::imap::list::{Listed, POSITIONS};
use super::imap::{Opened, Spot};
use super::index::{self, Noted, Place, Rival, Seen};
use super::reach::{Judged, Reach};
use super::{Access, Error, Mail, imap, reading};
use crate::teams::rights::Right;

/// Messages that are looked at together.
const AT_ONCE: usize = 100;

/// How often a message that moves while it is sought is gone after.
const TRIES: usize = 4;

/// A folder as it was listed with its [`POSITIONS`]; none where it was not.
pub(super) fn seen(listed: &Listed) -> Option<Seen> {
    let standing = listed.standing?;
    Some(Seen {
        path: listed.path.clone(),
        object_id: listed.object_id.clone(),
        opened: Opened {
            exists: standing.messages,
            uid_validity: standing.uid_validity,
            uid_next: standing.uid_next,
        },
    })
}

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
    /// The next one, since it was not at the one before. None where it is nowhere.
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

    /// A place, where the message may be read there. What may not be read may have moved to where it may, so that is said last.
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

    /// Notes every folder before any message of the account has a number: only what comes into them later can be a message that left its place.
    pub(super) async fn acquainted(&self, access: &Access) -> Result<(), Error> {
        let account = &access.account;
        if self.kept.is_acquainted(account) {
            return Ok(());
        }
        let _turn = self.seeking.turn(account).await;
        if !index::is_known(&self.db, account).await? {
            self.note(access, &self.standings(access).await?).await?;
        }
        self.kept.acquaint(account);
        Ok(())
    }

    /// Notes folders as they are listed now. Returns them in that order.
    pub(super) async fn note(
        &self,
        access: &Access,
        standings: &[Seen],
    ) -> Result<Vec<Noted>, Error> {
        let account = &access.account;
        let noted = index::noted_folders(&self.db, account).await?;
        let mut noted: HashMap<String, Noted> = noted
            .into_iter()
            .map(|noted| (noted.path.clone(), noted))
            .collect();
        if standings
            .iter()
            .all(|seen| noted.get(&seen.path).is_some_and(|noted| noted.is(seen)))
        {
            let same = standings.iter().filter_map(|seen| noted.remove(&seen.path));
            return Ok(same.collect());
        }
        Ok(index::note(&self.db, account, standings).await?)
    }

    /// The service's numbers of messages of a folder, by IMAP UID.
    pub(super) async fn numbers(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(u32, Identity)],
    ) -> Result<HashMap<u32, u64>, Error> {
        let known = index::numbers(&self.db, &access.account, path, opened, messages).await?;
        match known {
            Some(numbers) => Ok(numbers),
            None => self.settle(access, path, opened, messages).await,
        }
    }

    /// Looks at everything that arrived in any folder since it was looked at last.
    pub(super) async fn seek(&self, access: &Access) -> Result<(), Error> {
        let _turn = self.seeking.turn(&access.account).await;
        let standings = self.standings(access).await?;
        let noted = self.note(access, &standings).await?;
        for (Seen { path, opened, .. }, noted) in standings.iter().zip(noted) {
            let from = noted.uid_next();
            let nothing_new = opened.exists == 0 || (1..=from).contains(&opened.uid_next);
            if !nothing_new {
                self.take_in(access, path, from).await?;
            }
        }
        Ok(())
    }

    /// Notes which folders were renamed since they were looked at last.
    pub(super) async fn keep_track(&self, access: &Access) -> Result<(), Error> {
        let _turn = self.seeking.turn(&access.account).await;
        let standings = self.standings(access).await?;
        self.note(access, &standings).await.map(drop)
    }

    /// Looks at the messages of a folder from a UID on.
    async fn take_in(&self, access: &Access, path: &str, from: u32) -> Result<(), Error> {
        let account = &access.account;
        let arrivals = {
            let mut lease = self.pool.lease(access, Some(path)).await?;
            reading!(lease, session => session.arrivals(path, from))
        };
        let Some((opened, uids)) = arrivals else {
            return Ok(());
        };
        for uids in uids.chunks(AT_ONCE) {
            let unknown = index::unknown(&self.db, account, path, opened, uids).await?;
            let spots: Vec<Spot<'_>> = unknown
                .iter()
                .map(|uid| Spot {
                    path,
                    uid_validity: opened.uid_validity,
                    uid: *uid,
                })
                .collect();
            let fetched = {
                let mut lease = self.pool.lease(access, Some(path)).await?;
                reading!(lease, session => session.identities_at(&spots))
            };
            let messages: Vec<_> = fetched.iter().map(|m| (m.uid, identity(m))).collect();
            if !messages.is_empty() {
                self.settle(access, path, opened, &messages).await?;
            }
            let next = uids.last().map_or(from, |last| last.saturating_add(1));
            index::seen_to(&self.db, account, path, opened.uid_validity, next).await?;
        }
        let validity = opened.uid_validity;
        Ok(index::seen_to(&self.db, account, path, validity, opened.uid_next).await?)
    }

    /// Gives messages of a folder their numbers: those that others had before they came here, or new ones.
    async fn settle(
        &self,
        access: &Access,
        path: &str,
        opened: Opened,
        messages: &[(u32, Identity)],
    ) -> Result<HashMap<u32, u64>, Error> {
        let account = &access.account;
        let identities: BTreeSet<Identity> = messages.iter().map(|(_, i)| *i).collect();
        let identities: Vec<Identity> = identities.into_iter().collect();
        let mut gone = Vec::new();
        if !index::rivals(&self.db, account, &identities)
            .await?
            .is_empty()
        {
            // A message whose folder was renamed did not leave its location.
            self.note(access, &self.standings(access).await?).await?;
            let rivals = index::rivals(&self.db, account, &identities).await?;
            gone = self.gone(access, rivals).await?;
        }
        let allot = || index::allot(&self.db, account, path, opened, messages, &gone);
        let mut numbers = allot().await?;
        if numbers.is_none() {
            self.note(access, &self.standings(access).await?).await?;
            numbers = allot().await?;
        }
        let numbers = numbers.ok_or_else(|| {
            Error::Unavailable("the folders change faster than they can be read".into())
        })?;
        for rival in &gone {
            self.kept.forget_place(account, rival.placed.number());
        }
        Ok(numbers)
    }

    /// Those that are not where they were seen.
    async fn gone(&self, access: &Access, rivals: Vec<Rival>) -> Result<Vec<Rival>, Error> {
        let mut folders: BTreeMap<(String, u32), Vec<u32>> = BTreeMap::new();
        for rival in &rivals {
            let spot = rival.placed.place.spot();
            let folder = (spot.path.to_owned(), spot.uid_validity);
            folders.entry(folder).or_default().push(spot.uid);
        }
        let mut present = BTreeSet::new();
        for ((path, uid_validity), uids) in folders {
            let mut lease = self.pool.lease(access, Some(&path)).await?;
            let there = reading!(lease, session => session.present(&path, uid_validity, &uids));
            let there = there.unwrap_or_default().into_iter();
            present.extend(there.map(|uid| (path.clone(), uid_validity, uid)));
        }
        let gone = rivals.into_iter().filter(|rival| {
            let spot = rival.placed.place.spot();
            !present.contains(&(spot.path.to_owned(), spot.uid_validity, spot.uid))
        });
        Ok(gone.collect())
    }

    /// The folders that can be opened, as they stand.
    async fn standings(&self, access: &Access) -> Result<Vec<Seen>, Error> {
        let mut lease = self.pool.lease(access, None).await?;
        let folders = reading!(lease, session => session.folders(POSITIONS));
        Ok(folders.iter().filter_map(seen).collect())
    }
}
