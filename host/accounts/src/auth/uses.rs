//! Times of the last use of credentials, rounded down to the minute. Uses are collected in memory and written to the directory every
//! minute, so that no request waits for the write. A crash loses at most one minute of uses.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use latchmail_core::clock::Timestamp;
use latchmail_directory::Error;

use super::Auth;

const MINUTE: i64 = 60_000;

/// Uses that are not yet written, by the app password's id.
#[derive(Debug, Default)]
pub(super) struct Uses(Mutex<HashMap<String, Timestamp>>);

impl Uses {
    /// Records a use at `now`.
    pub(super) fn note(&self, app_password: &str, now: Timestamp) {
        let minute = to_the_minute(now);
        let mut noted = self.lock();
        // The map usually has an entry for the app password, so most requests allocate nothing.
        match noted.get_mut(app_password) {
            Some(latest) => *latest = minute.max(*latest),
            None => drop(noted.insert(app_password.to_owned(), minute)),
        }
    }

    /// Returns the last use that is not yet written.
    pub(super) fn latest(&self, app_password: &str) -> Option<Timestamp> {
        self.lock().get(app_password).copied()
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

impl Auth {
    /// Writes the collected uses to the directory. Uses stay in memory until they are written.
    ///
    /// # Errors
    /// Returns an error if the database fails. The next call writes the uses again.
    pub async fn write_uses(&self) -> Result<(), Error> {
        let written = self.uses.lock().clone();
        if written.is_empty() {
            return Ok(());
        }
        self.directory.write_uses(&written).await?;
        self.uses
            .lock()
            .retain(|id, latest| written.get(id) != Some(latest));
        Ok(())
    }
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
