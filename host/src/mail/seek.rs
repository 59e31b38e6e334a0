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
use super::index::{self, Noted, Place, Rival};
use super::{Access, Error, Mail, imap, reading};

/// Messages that are looked at together.
const AT_ONCE: usize = 100;

/// How often a message that moves while it is sought is gone after.
const TRIES: usize = 4;

/// A folder as the mail server tells of it.
struct Standing {
    path: String,
    opened: Opened,
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
            let Some(place) = mail.place(access, self.uid).await? else {
                return Ok(None);
            };
            if self.tried.as_ref() != Some(&place) {
                self.left -= 1;
                self.tried = Some(Arc::clone(&place));
                return Ok(Some(place));
            }
            if self.sought {
                return Ok(None);
            }
            mail.seek(access).await?;
            self.sought = true;
        }
        Ok(None)
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
            let folders: Vec<_> = self
                .standings(access)
                .await?
                .into_iter()
                .map(|folder| (folder.path, folder.opened))
                .collect();
            index::survey(&self.db, account, &folders).await?;
        }
        self.kept.acquaint(account);
        Ok(())
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
        self.follow(access, &standings).await?;
        let noted = index::noted_folders(&self.db, &access.account).await?;
        for Standing { path, opened } in standings {
            let from = noted
                .iter()
                .find(|noted| noted.path == path && noted.uid_validity() == opened.uid_validity)
                .map_or(1, Noted::uid_next);
            let nothing_new = opened.exists == 0 || (1..=from).contains(&opened.uid_next);
            if !nothing_new {
                self.take_in(access, &path, from).await?;
            }
        }
        Ok(())
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
        let mut rivals = index::rivals(&self.db, account, &identities).await?;
        let mut gone = Vec::new();
        if !rivals.is_empty() {
            let (homeless, astray) = self.gone(access, rivals).await?;
            gone = homeless;
            // A folder that is not where it was may have another name; its messages did not move then.
            if astray && self.follow(access, &self.standings(access).await?).await? {
                rivals = index::rivals(&self.db, account, &identities).await?;
                (gone, _) = self.gone(access, rivals).await?;
            }
        }
        let numbers = index::allot(&self.db, account, path, opened, messages, &gone).await?;
        for rival in &gone {
            self.kept.forget_place(account, rival.placed.number());
        }
        Ok(numbers)
    }

    /// Those that are not where they were seen; and whether the folder of any is not what it was.
    async fn gone(&self, access: &Access, rivals: Vec<Rival>) -> Result<(Vec<Rival>, bool), Error> {
        let mut folders: BTreeMap<(String, u32), Vec<u32>> = BTreeMap::new();
        for rival in &rivals {
            let spot = rival.placed.place.spot();
            let folder = (spot.path.to_owned(), spot.uid_validity);
            folders.entry(folder).or_default().push(spot.uid);
        }
        let mut present = BTreeSet::new();
        let mut astray = false;
        for ((path, uid_validity), uids) in folders {
            let mut lease = self.pool.lease(access, Some(&path)).await?;
            let there = reading!(lease, session => session.present(&path, uid_validity, &uids));
            match there {
                Some(uids) => {
                    present.extend(
                        uids.into_iter()
                            .map(|uid| (path.clone(), uid_validity, uid)),
                    );
                }
                None => astray = true,
            }
        }
        let gone = rivals.into_iter().filter(|rival| {
            let spot = rival.placed.place.spot();
            !present.contains(&(spot.path.to_owned(), spot.uid_validity, spot.uid))
        });
        Ok((gone.collect(), astray))
    }

    /// Finds folders that were renamed: one that is gone and one that nobody noted, of the same UIDVALIDITY, in which the same messages have the same
    /// UIDs. Answers whether there was any.
    async fn follow(&self, access: &Access, standings: &[Standing]) -> Result<bool, Error> {
        let noted = index::noted_folders(&self.db, &access.account).await?;
        let same = |noted: &Noted, standing: &Standing| {
            noted.path == standing.path && noted.uid_validity() == standing.opened.uid_validity
        };
        let lost: Vec<&Noted> = noted
            .iter()
            .filter(|noted| !standings.iter().any(|standing| same(noted, standing)))
            .collect();
        let strays: Vec<&Standing> = standings
            .iter()
            .filter(|standing| !noted.iter().any(|noted| same(noted, standing)))
            .collect();
        let mut renamed = Vec::new();
        for lost in lost {
            let like = |stray: &&&Standing| {
                stray.opened.uid_validity == lost.uid_validity()
                    && stray.opened.uid_next >= lost.uid_next()
            };
            let mut alike = strays.iter().filter(like);
            if let (Some(stray), None) = (alike.next(), alike.next())
                && self.holds_the_same(access, lost, stray).await?
            {
                renamed.push((lost.clone(), stray.path.clone()));
            }
        }
        if renamed.is_empty() {
            return Ok(false);
        }
        index::follow(&self.db, &access.account, &renamed).await?;
        Ok(true)
    }

    /// Whether the newest messages known of one folder are in the other, each under its UID. One whose messages all went away meanwhile is not told.
    async fn holds_the_same(
        &self,
        access: &Access,
        noted: &Noted,
        standing: &Standing,
    ) -> Result<bool, Error> {
        let sample: HashMap<u32, Identity> =
            index::sample(&self.db, noted).await?.into_iter().collect();
        let spots: Vec<Spot<'_>> = sample
            .keys()
            .map(|uid| Spot {
                path: &standing.path,
                uid_validity: standing.opened.uid_validity,
                uid: *uid,
            })
            .collect();
        let mut lease = self.pool.lease(access, Some(&standing.path)).await?;
        let found = reading!(lease, session => session.identities_at(&spots));
        let agree = |message: &imap::Fetched| sample.get(&message.uid) == Some(&identity(message));
        Ok(!found.is_empty() && found.iter().all(agree))
    }

    /// The folders that can be opened, as they stand.
    async fn standings(&self, access: &Access) -> Result<Vec<Standing>, Error> {
        let mut lease = self.pool.lease(access, None).await?;
        let folders = reading!(lease, session => session.folders(POSITIONS));
        let standing = |folder: Listed| {
            let standing = folder.standing?;
            Some(Standing {
                path: folder.path,
                opened: Opened {
                    exists: standing.messages,
                    uid_validity: standing.uid_validity,
                    uid_next: standing.uid_next,
                },
            })
        };
        Ok(folders.into_iter().filter_map(standing).collect())
    }
}
