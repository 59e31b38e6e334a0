//! The timers of modules that act without a request. Each timer of a mailbox has one row with its
//! next due time, so a due time that no host serves is served later.

use latchmail_core::clock::Timestamp;

use super::{EnabledModule, ModuleHandlers};
use crate::db::{Error, Tx};

const OF_MODULE: &str = "SELECT timer, due_at, next_at, failures FROM module_timers \
    WHERE account_id = $1 AND module = $2 ORDER BY timer";
/// Stores no timer of a module that was disabled concurrently.
const INSERT: &str = "INSERT INTO module_timers (account_id, module, timer, due_at, next_at, failures) \
    SELECT account_id, module, $3, $4, $4, 0 FROM module_handlers \
        WHERE account_id = $1 AND module = $2 \
    ON CONFLICT (account_id, module, timer) DO NOTHING";
const CHANGE: &str = "UPDATE module_timers SET due_at = $5, next_at = $6, failures = $7 \
    WHERE account_id = $1 AND module = $2 AND timer = $3 AND due_at = $4";
const DELETE: &str =
    "DELETE FROM module_timers WHERE account_id = $1 AND module = $2 AND timer = $3";
const RESUME: &str = "UPDATE module_timers SET failures = 0, next_at = due_at \
    WHERE account_id = $1 AND module = $2 AND failures > 0";

/// A timer of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct TimerRow {
    /// The name of the timer.
    pub timer: String,
    due_at: i64,
    next_at: i64,
    /// The number of consecutive failed calls for this due time.
    pub failures: i64,
}

impl TimerRow {
    /// Returns the row of a timer that has not been called for its next due time.
    #[must_use]
    pub fn due(timer: &str, due_at: Timestamp) -> Self {
        Self {
            timer: timer.to_owned(),
            due_at: due_at.millis(),
            next_at: due_at.millis(),
            failures: 0,
        }
    }

    /// Returns the next due time.
    #[must_use]
    pub fn due_at(&self) -> Timestamp {
        Timestamp::from_millis(self.due_at)
    }

    /// Returns the time of the next call.
    #[must_use]
    pub fn next_at(&self) -> Timestamp {
        Timestamp::from_millis(self.next_at)
    }
}

impl ModuleHandlers {
    /// Returns the timers of a module for a mailbox, sorted by name. They include timers that only
    /// an earlier version of the module has.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn timers(&self, account: &str, module: &str) -> Result<Vec<TimerRow>, Error> {
        self.db.all(OF_MODULE, (account, module)).await
    }

    /// Stores the first due time of a timer, unless the timer is stored or the module is not
    /// enabled for the mailbox.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_timer(
        &self,
        account: &str,
        module: &str,
        timer: &str,
        due_at: Timestamp,
    ) -> Result<(), Error> {
        let row = (account, module, timer, due_at);
        self.db.execute(INSERT, row).await?;
        Ok(())
    }

    /// Changes the due time of a timer, the time of its next call, and its failures. Returns
    /// `false`, and changes nothing, if another host has changed the due time since the row was
    /// read, or if the module was disabled.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn change_timer(
        &self,
        enabled: &EnabledModule,
        row: &TimerRow,
        due_at: Timestamp,
        next_at: Timestamp,
        failures: i64,
    ) -> Result<bool, Error> {
        let parameters = (
            &enabled.account,
            &enabled.module,
            &row.timer,
            row.due_at,
            due_at,
            next_at,
            failures,
        );
        Ok(self.db.execute(CHANGE, parameters).await? == 1)
    }
}

/// Makes the timers due whose calls have failed.
pub(super) async fn resume(tx: &mut Tx, account: &str, module: &str) -> Result<(), Error> {
    tx.execute(RESUME, (account, module)).await?;
    Ok(())
}

/// Deletes a timer, so that its job stores the next due time.
pub(super) async fn forget(
    tx: &mut Tx,
    account: &str,
    module: &str,
    timer: &str,
) -> Result<(), Error> {
    tx.execute(DELETE, (account, module, timer)).await?;
    Ok(())
}
