//! When credentials were last used, to the minute. Noted in memory with every request, written to the directory every minute: no request
//! waits for it, and a crash loses a minute of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Auth;
use crate::clock::Timestamp;
use crate::directory::Error;

const MINUTE: i64 = 60_000;

/// What is still to be written, by app password.
#[derive(Debug, Default)]
pub(super) struct Uses(Mutex<HashMap<String, Timestamp>>);

impl Uses {
    /// It is used at `now`.
    pub(super) fn note(&self, app_password: &str, now: Timestamp) {
        let minute = to_the_minute(now);
        let mut noted = self.lock();
        // Most requests find the minute there already, and allocate nothing.
        match noted.get_mut(app_password) {
            Some(latest) => *latest = minute.max(*latest),
            None => drop(noted.insert(app_password.to_owned(), minute)),
        }
    }

    /// When it was last used, as far as that is not written down.
    pub(super) fn latest(&self, app_password: &str) -> Option<Timestamp> {
        self.lock().get(app_password).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The minute that an instant lies in.
pub(crate) fn to_the_minute(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.millis().div_euclid(MINUTE) * MINUTE)
}

impl Auth {
    /// Writes down when credentials were last used. Until it is written it is kept, and shown.
    ///
    /// # Errors
    /// Where the database fails: the next time, then.
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
