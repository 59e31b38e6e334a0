//! Snoozed messages of the fake host. A message does not come back when the clock of the fake host
//! reaches its time.

use latchmail_shape::codes;

use super::mail::Mail;
use crate::capability::{Error, Timestamp};

const FOLDER: &str = "Snoozed";
const KEYWORD: &str = "$Snoozed";
/// 366 days, in milliseconds.
const MAX_DELAY: Timestamp = 366 * 24 * 3_600_000;

impl Mail {
    pub(super) fn snooze(
        &mut self,
        uid: u64,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        if until <= now || until > now.saturating_add(MAX_DELAY) {
            let text = "until must be in the future and at most a year ahead";
            return Err(Error::invalid(codes::INVALID_SNOOZE_DATA, text));
        }
        self.find(uid)?;
        if !self.has(FOLDER) {
            self.create_folder(FOLDER)?;
        }
        self.set_keyword(uid, true);
        self.snoozed.insert(uid, until);
        self.move_to(&[uid], FOLDER)
    }

    pub(super) fn unsnooze(&mut self, uid: u64) -> Result<(), Error> {
        if self.snoozed_until(uid)?.is_none() {
            let text = "The message is not snoozed";
            return Err(Error::conflict(codes::MESSAGE_NOT_SNOOZED, text));
        }
        self.set_keyword(uid, false);
        self.snoozed.remove(&uid);
        let previous = self.find(uid)?.previous.clone();
        let previous = previous.filter(|path| self.has(path));
        self.move_to(&[uid], previous.as_deref().unwrap_or("INBOX"))
    }

    pub(super) fn snoozed_until(&self, uid: u64) -> Result<Option<Timestamp>, Error> {
        let stored = self.find(uid)?;
        let until = self.snoozed.get(&uid).copied();
        Ok(until.filter(|_| stored.folder == FOLDER))
    }

    fn set_keyword(&mut self, uid: u64, is_set: bool) {
        let mut stored = self.stored.iter_mut();
        let found = stored.find(|one| one.detail.summary.uid == uid);
        if let Some(found) = found {
            let flags = &mut found.detail.summary.flags;
            flags.retain(|flag| flag != KEYWORD);
            flags.extend(is_set.then(|| KEYWORD.to_owned()));
        }
    }
}
