//! Records the time of the last use of each credential, rounded down to the minute. The times are
//! collected in memory and written to the directory every minute, so that no request waits for the
//! write. A crash loses at most the times of the last minute.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use latchmail_core::clock::Timestamp;
use latchmail_directory::{Directory, Error};

const MINUTE: i64 = 60_000;

/// The times of last use that are not yet in the directory. The map key is the id of the app
/// password.
#[derive(Debug, Default)]
pub(super) struct Uses(Mutex<HashMap<String, Timestamp>>);

impl Uses {
    /// Records a use of the app password with this id at the time `now`.
    pub(super) fn note(&self, app_password: &str, now: Timestamp) {
        let minute = to_the_minute(now);
        let mut noted = self.lock();
        // The map usually has an entry for the app password, so most requests allocate no memory
        // here.
        match noted.get_mut(app_password) {
            Some(latest) => *latest = minute.max(*latest),
            None => drop(noted.insert(app_password.to_owned(), minute)),
        }
    }

    /// Returns the time of the last use of an app password, if this time is not yet in the
    /// directory.
    pub(super) fn latest(&self, app_password: &str) -> Option<Timestamp> {
        self.lock().get(app_password).copied()
    }

    /// Writes the collected times to the directory. Then removes the written times from memory.
    ///
    /// # Errors
    /// Returns an error if the database fails. The next call writes the same times.
    pub(super) async fn write(&self, directory: &Directory) -> Result<(), Error> {
        let written = self.lock().clone();
        if written.is_empty() {
            return Ok(());
        }
        directory.credentials.write_uses(&written).await?;
        self.lock()
            .retain(|id, latest| written.get(id) != Some(latest));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounds a time down to the minute.
#[must_use]
pub fn to_the_minute(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.millis().div_euclid(MINUTE) * MINUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_kept_to_the_minute_and_never_goes_back() {
        let uses = Uses::default();
        assert_eq!(uses.latest("a"), None);
        uses.note("a", Timestamp::from_millis(125_000));
        assert_eq!(uses.latest("a"), Some(Timestamp::from_millis(120_000)));
        uses.note("a", Timestamp::from_millis(59_000));
        assert_eq!(uses.latest("a"), Some(Timestamp::from_millis(120_000)));
        assert_eq!(uses.latest("b"), None);
    }
}
