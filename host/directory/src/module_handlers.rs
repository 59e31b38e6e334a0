//! The modules that owners of mailboxes have enabled to act without a request: for each mailbox and
//! module the position in the change log, the failures, and the times of the timers.
//!
//! Jobs run the modules. The functions that record an outcome compare the row with the row that the
//! job has read, because a host that has lost its lease can still run.

mod timers;

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};
use crate::session_caller::SessionCaller;

pub use timers::TimerRow;

/// Maximum number of paused mailboxes in a list.
const MAX_LISTED: u32 = 100;

/// Defines a query for enabled modules.
macro_rules! enabled {
    ($condition:literal) => {
        concat!(
            "SELECT account_id, module, scopes, enabled_at, cursor, next_at, failures, paused, \
                paused_at, failed_event, failed_timer FROM module_handlers WHERE ",
            $condition
        )
    };
}

const FIND: &str = enabled!("account_id = $1 AND module = $2");
const OF_ACCOUNT: &str = enabled!("account_id = $1 ORDER BY module");
const RUNNING: &str = "SELECT h.account_id, h.module, h.enabled_at, m.changed_at \
    FROM module_handlers h JOIN modules m ON m.module = h.module WHERE h.paused IS NULL AND m.enabled";
const IS_RUNNING: &str = "SELECT 1 FROM module_handlers h JOIN modules m ON m.module = h.module \
    WHERE h.account_id = $1 AND h.module = $2 AND h.paused IS NULL AND m.enabled";
const RUNNING_OF_ACCOUNT: &str =
    "SELECT module FROM module_handlers WHERE account_id = $1 AND paused IS NULL";
const COUNTS: &str = "SELECT module, COUNT(*) AS enabled, \
        SUM(CASE WHEN paused IS NULL THEN 0 ELSE 1 END) AS paused \
    FROM module_handlers GROUP BY module ORDER BY module";
const PAUSED: &str = "SELECT a.address, h.paused AS reason, h.paused_at \
    FROM module_handlers h JOIN accounts a ON a.id = h.account_id \
    WHERE h.module = $1 AND h.paused IS NOT NULL ORDER BY h.paused_at DESC, a.address LIMIT $2";
const INSERT: &str = "INSERT INTO module_handlers \
        (account_id, module, scopes, enabled_at, cursor, next_at) \
    VALUES ($1, $2, $3, $4, $5, 0) ON CONFLICT (account_id, module) DO NOTHING";
const SET_SCOPES: &str = "UPDATE module_handlers SET scopes = $3 \
    WHERE account_id = $1 AND module = $2 AND scopes <> $3";
const DELETE: &str = "DELETE FROM module_handlers WHERE account_id = $1 AND module = $2";
/// $3 and $4 identify the row that the caller has read.
const ADVANCE: &str = "UPDATE module_handlers SET cursor = $5, next_at = $6, failures = $7 \
    WHERE account_id = $1 AND module = $2 AND enabled_at = $3 AND cursor = $4 AND paused IS NULL";
const PAUSE: &str = "UPDATE module_handlers SET paused = $4, paused_at = $5, failed_event = $6, \
        failed_timer = $7 \
    WHERE account_id = $1 AND module = $2 AND enabled_at = $3 AND paused IS NULL";
const RESUME: &str = "UPDATE module_handlers SET paused = NULL, paused_at = NULL, \
        failures = 0, next_at = 0, cursor = $3, failed_event = NULL, failed_timer = NULL \
    WHERE account_id = $1 AND module = $2 AND paused IS NOT NULL";

/// A module that the owner of a mailbox has enabled.
#[derive(Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct EnabledModule {
    /// The id of the account.
    #[sqlx(rename = "account_id")]
    pub account: String,
    /// The name of the module.
    pub module: String,
    scopes: String,
    enabled_at: i64,
    /// The events up to this position of the change log are done.
    pub cursor: String,
    next_at: i64,
    /// The number of consecutive failed calls for the next event.
    pub failures: i64,
    /// The reason why the module is paused for the mailbox.
    pub paused: Option<String>,
    paused_at: Option<i64>,
    /// The position after the event that caused the pause.
    pub failed_event: Option<String>,
    /// The timer that caused the pause.
    pub failed_timer: Option<String>,
}

debug_fields!(EnabledModule {
    account,
    module,
    failures,
    paused
});

impl EnabledModule {
    /// Returns the scopes that the owner agreed to.
    #[must_use]
    pub fn scopes(&self) -> Vec<Scope> {
        Scope::read_list(&self.scopes)
    }

    /// Returns the time before which no event is handled. It has passed unless a call must be
    /// repeated.
    #[must_use]
    pub fn next_at(&self) -> Timestamp {
        Timestamp::from_millis(self.next_at)
    }

    /// Returns the time of the pause.
    #[must_use]
    pub fn paused_at(&self) -> Option<Timestamp> {
        self.paused_at.map(Timestamp::from_millis)
    }

    /// Returns `true` if the module is not paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.paused.is_none()
    }

    /// Returns `true` if the owner did not disable the module between the reads of the rows.
    #[must_use]
    pub fn is_same_consent(&self, other: &Self) -> bool {
        self.enabled_at == other.enabled_at && self.scopes == other.scopes
    }
}

/// The state after an event.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'p> {
    /// The events up to this position of the change log are done.
    pub cursor: &'p str,
    /// The time before which no event is handled.
    pub next_at: Timestamp,
    /// The number of consecutive failed calls for the next event.
    pub failures: i64,
}

/// The call that caused a pause.
#[derive(Clone, Copy, Debug)]
pub enum FailedCall<'f> {
    /// The call for the event with this id.
    Event(&'f str),
    /// The call for this timer.
    Timer(&'f str),
}

/// A module that acts for a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct RunningModule {
    /// The id of the account.
    #[sqlx(rename = "account_id")]
    pub account: String,
    /// The name of the module.
    pub module: String,
    /// The time at which the owner enabled the module, in milliseconds since the epoch.
    pub enabled_at: i64,
    /// The time of the operator's last change of the module, in milliseconds since the epoch.
    pub changed_at: i64,
}

/// The numbers of mailboxes for which owners have enabled a module.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct HandlerCounts {
    /// The name of the module.
    pub module: String,
    /// The number of mailboxes for which the module is enabled.
    pub enabled: i64,
    /// The number of these mailboxes for which the module is paused.
    pub paused: i64,
}

/// A mailbox for which a module is paused.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct PausedMailbox {
    /// The address of the account.
    pub address: String,
    /// The reason.
    pub reason: String,
    paused_at: i64,
}

impl PausedMailbox {
    /// Returns the time of the pause.
    #[must_use]
    pub fn paused_at(&self) -> Timestamp {
        Timestamp::from_millis(self.paused_at)
    }
}

/// The repository of modules that act without a request.
#[derive(Clone, Debug)]
pub struct ModuleHandlers {
    pub(crate) db: Db,
}

impl ModuleHandlers {
    /// Enables a module for the mailbox of the caller, from the position `cursor` of the change
    /// log. If the module is enabled, only changes the scopes. Returns `false`, and changes
    /// nothing, if the caller's session has ended or the module is not installed.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn enable(
        &self,
        caller: SessionCaller<'_>,
        module: &str,
        scopes: &[Scope],
        cursor: &str,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let (account, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? || !tx.lock_module_shared(module).await? {
            return Ok(false);
        }
        let scopes = Scope::list(scopes);
        let inserted = tx.execute(INSERT, (account, module, &scopes, now, cursor));
        let inserted = inserted.await?;
        let changed = tx.execute(SET_SCOPES, (account, module, &scopes)).await?;
        if inserted + changed == 0 {
            return Ok(true);
        }
        let event = Event::of(Kind::ModuleHandlersEnabled, account, now);
        let event = event.about(module).detail(&scopes);
        events::commit(tx, event, origin).await?;
        Ok(true)
    }

    /// Disables a module for the mailbox of the caller. Returns `false`, and changes nothing, if
    /// the caller's session has ended.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn disable(
        &self,
        caller: SessionCaller<'_>,
        module: &str,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let (account, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if !caller.lock(&mut tx).await? {
            return Ok(false);
        }
        if tx.execute(DELETE, (account, module)).await? == 0 {
            return Ok(true);
        }
        let event = Event::of(Kind::ModuleHandlersDisabled, account, now).about(module);
        events::commit(tx, event, origin).await?;
        Ok(true)
    }

    /// Returns a module that the owner of a mailbox has enabled.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, account: &str, module: &str) -> Result<Option<EnabledModule>, Error> {
        self.db.optional(FIND, (account, module)).await
    }

    /// Returns the modules that the owner of a mailbox has enabled, sorted by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn of_account(&self, account: &str) -> Result<Vec<EnabledModule>, Error> {
        self.db.all(OF_ACCOUNT, [account]).await
    }

    /// Returns all modules that an owner and the operator have enabled and that are not paused.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn running(&self) -> Result<Vec<RunningModule>, Error> {
        self.db.all(RUNNING, ()).await
    }

    /// Returns `true` if the owner of a mailbox and the operator have enabled a module, and the
    /// module is not paused for the mailbox.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn is_running(&self, account: &str, module: &str) -> Result<bool, Error> {
        self.db.exists(IS_RUNNING, (account, module)).await
    }

    /// Returns the enabled modules of a mailbox that are not paused.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn running_of_account(&self, account: &str) -> Result<Vec<String>, Error> {
        self.db.values(RUNNING_OF_ACCOUNT, [account]).await
    }

    /// Returns the numbers of mailboxes for each module that an owner has enabled, sorted by name.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn counts(&self) -> Result<Vec<HandlerCounts>, Error> {
        self.db.all(COUNTS, ()).await
    }

    /// Returns the mailboxes for which a module is paused, latest first, at most 100.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn paused(&self, module: &str) -> Result<Vec<PausedMailbox>, Error> {
        self.db.all(PAUSED, (module, MAX_LISTED)).await
    }

    /// Records the state after events. Returns `false`, and changes nothing, if the module was
    /// disabled or paused, or if another host has recorded a state, since the row was read.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn advance(&self, row: &EnabledModule, to: Progress<'_>) -> Result<bool, Error> {
        let parameters = (
            &row.account,
            &row.module,
            row.enabled_at,
            &row.cursor,
            to.cursor,
            to.next_at,
            to.failures,
        );
        Ok(self.db.execute(ADVANCE, parameters).await? == 1)
    }

    /// Pauses a module for a mailbox, and records the reason in the audit log. Returns `false`, and
    /// changes nothing, if the module was disabled or paused since the row was read.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn pause(
        &self,
        row: &EnabledModule,
        reason: &str,
        failed: FailedCall<'_>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let (event, timer) = match failed {
            FailedCall::Event(id) => (Some(id), None),
            FailedCall::Timer(name) => (None, Some(name)),
        };
        let mut tx = self.db.begin().await?;
        let parameters = (
            &row.account,
            &row.module,
            row.enabled_at,
            reason,
            now,
            event,
            timer,
        );
        if tx.execute(PAUSE, parameters).await? == 0 {
            return Ok(false);
        }
        let event = Event::of(Kind::ModuleHandlersPaused, &row.account, now);
        let event = event.about(&row.module).detail(reason);
        events::commit(tx, event, &Origin::service()).await?;
        Ok(true)
    }

    /// Resumes a paused module for a mailbox. With `skip`, continues after the event that caused
    /// the pause, or after the due time of the timer that caused the pause. Returns `false`, and
    /// changes nothing, if the module is not paused for the mailbox.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn resume(
        &self,
        account: &str,
        module: &str,
        skip: bool,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(account).await?;
        let row: Option<EnabledModule> = tx.optional(FIND, (account, module)).await?;
        let Some(row) = row.filter(|row| !row.is_running()) else {
            return Ok(false);
        };
        let skipped = row.failed_event.as_ref().filter(|_| skip);
        let cursor = skipped.unwrap_or(&row.cursor);
        tx.execute(RESUME, (account, module, cursor)).await?;
        timers::resume(&mut tx, account, module).await?;
        if let Some(timer) = row.failed_timer.as_ref().filter(|_| skip) {
            timers::forget(&mut tx, account, module, timer).await?;
        }
        let event = Event::of(Kind::ModuleHandlersResumed, account, now).about(module);
        let event = if skip { event.detail("skip") } else { event };
        events::commit(tx, event, origin).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
