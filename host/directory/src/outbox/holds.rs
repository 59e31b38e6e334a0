//! Holds: messages that the policy of a grant does not allow, and about which the owner decides.
//!
//! A hold is an entry of the outbox with the state `held`, and a row with the decision. An approved
//! entry is scheduled, so it leaves like any other entry, once. A job of the kind [`KIND`] notifies
//! the owner, and rejects the message when its time has passed.
//!
//! This module does not check the message: the caller computes the hash.

use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::Timestamp;
use latchmail_core::event_type::EventType;
use serde_json::json;

use super::{DELETE_MESSAGE, Entry, Limits, NewEntry, Outbox, Part, has_space, insert};
use crate::db::{Error, Tx};
use crate::events::{self, Event, Kind};
use crate::jobs::{self, Lease, NewJob};
use crate::message_index::{NewEvent, append_event};
use crate::session_caller::SessionCaller;

/// The kind of the jobs of holds. The key of a job is the id of the entry.
pub const KIND: &str = "hold";

/// Maximum number of held messages in a list.
const MAX_LISTED: u32 = 500;

const INSERT_HOLD: &str = "INSERT INTO holds (entry_id, account_id, grant_id, grant_name, reason, hash, status, \
    created_at, expires_at, sealed_files) VALUES ($1, $2, $3, \
    COALESCE((SELECT label FROM app_passwords WHERE id = $4), ''), $5, $6, 'pending', $7, $8, $9)";
const HOLD_SCHEDULED: &str =
    "UPDATE outbox SET state = 'held' WHERE id = $1 AND state = 'scheduled'";

/// Selects holds. Callers of the macro add conditions.
macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT o.id, o.account_id, o.member_id, o.state, o.send_at, o.begun_at, o.message_id, \
             o.draft_id, o.size, o.error, o.sealed_key, o.sealed_details, h.grant_id, h.grant_name, \
             h.reason, h.hash, h.status, h.created_at, h.expires_at, h.decided_at, h.notified_at, \
             h.sealed_files FROM holds h JOIN outbox o ON o.id = h.entry_id WHERE h.account_id = $1 ",
            $condition
        )
    };
}

const LIST: &str = select!(
    "ORDER BY CASE WHEN h.status = 'pending' THEN 0 ELSE 1 END, h.created_at DESC, h.entry_id LIMIT $2"
);
const FIND: &str = select!("AND h.entry_id = $2");
const PENDING: &str = "SELECT h.hash, o.send_at FROM holds h JOIN outbox o ON o.id = h.entry_id \
    WHERE h.entry_id = $1 AND h.account_id = $2 AND h.status = 'pending' AND h.expires_at > $3 \
    AND o.state = 'held'";
const BY_MESSAGE: &str = "SELECT h.entry_id FROM holds h JOIN outbox o ON o.id = h.entry_id \
    WHERE h.account_id = $1 AND o.message_id = $2";
const DECIDE: &str = "UPDATE holds SET status = $2, decided_at = $3 \
    WHERE entry_id = $1 AND status = 'pending'";
const SCHEDULE: &str =
    "UPDATE outbox SET state = 'scheduled', send_at = $2 WHERE id = $1 AND state = 'held'";
const REJECT: &str = "UPDATE outbox SET state = 'rejected', ended_at = $2, \
    size = CASE WHEN draft_id IS NULL THEN 0 ELSE size END WHERE id = $1 AND state = 'held'";
const DELETE_JOB: &str = "DELETE FROM jobs \
    WHERE account_id = $1 AND kind = 'hold' AND key = $2 AND host IS NULL";
/// Ends the lease of a host that does the job, because this host has read the hold before the
/// decision, and would set a later time.
const MAKE_DUE: &str = "UPDATE jobs SET next_at = $3, host = NULL, leased_until = NULL \
    WHERE account_id = $1 AND kind = 'hold' AND key = $2";
/// Returns the time of the latest notice, and the number of notices after the time $2. The holds of
/// one notice have the same time.
const NOTICES: &str = "SELECT MAX(notified_at), COUNT(DISTINCT CASE WHEN notified_at > $2 THEN notified_at END) \
    FROM holds WHERE account_id = $1";
const WAITING: &str = "SELECT COUNT(*) FROM holds \
    WHERE account_id = $1 AND status = 'pending' AND expires_at > $2";
const COUNT: &str =
    "SELECT COUNT(*) FROM holds WHERE status = 'pending' AND ($1 = '' OR account_id = $1)";
const NOTIFIED: &str = "UPDATE holds SET notified_at = $2 \
    WHERE account_id = $1 AND status = 'pending' AND notified_at IS NULL";
const NOT_NOTIFIED: &str = "UPDATE holds SET notified_at = NULL \
    WHERE account_id = $1 AND status = 'pending' AND notified_at = $2";

/// The values of a new hold.
#[derive(Clone, Copy, Debug)]
pub struct NewHold<'h> {
    /// The id of the grant.
    pub grant: &'h str,
    /// The id of the grant's app password, whose label is the name of the grant.
    pub app_password: &'h str,
    /// The reason, as a text for the owner.
    pub reason: &'h str,
    /// SHA-256 of the message, its sender and its recipients, lower-case hexadecimal.
    pub hash: &'h str,
    /// The current time.
    pub now: Timestamp,
    /// The time at which the message is rejected.
    pub expires_at: Timestamp,
    /// The attachments, encrypted with the key of the entry.
    pub sealed_files: &'h [u8],
    /// The id of the job.
    pub job: &'h str,
    /// The payload of the job, encrypted with the service's key.
    pub sealed_payload: &'h [u8],
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Hold {
    /// The entry of the outbox.
    #[sqlx(flatten)]
    pub entry: Entry,
    /// The id of the grant, which can have ended.
    pub grant_id: String,
    /// The label of the grant.
    pub grant_name: String,
    /// The reason, as a text for the owner.
    pub reason: String,
    /// The hash.
    pub hash: String,
    /// `pending`, `approved`, `rejected` or `expired`.
    pub status: String,
    created_at: i64,
    expires_at: i64,
    decided_at: Option<i64>,
    notified_at: Option<i64>,
    /// The attachments, encrypted with the key of the entry.
    pub sealed_files: Vec<u8>,
}

impl Hold {
    /// Returns the time of creation.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_millis(self.created_at)
    }

    /// Returns the time at which the message is rejected.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(self.expires_at)
    }

    /// Returns the time of the decision.
    #[must_use]
    pub fn decided_at(&self) -> Option<Timestamp> {
        self.decided_at.map(Timestamp::from_millis)
    }

    /// Returns `true` if the owner can still decide.
    #[must_use]
    pub fn is_pending(&self, now: Timestamp) -> bool {
        self.status == "pending" && self.expires_at() > now
    }

    /// Returns `true` if a notice about the hold was written.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.notified_at.is_some()
    }
}

/// The result of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The decision is recorded.
    Done,
    /// The account has no such hold, or the hold was decided or has expired.
    NotFound,
    /// The hold has another hash.
    Changed,
    /// The session ended.
    SessionOver,
}

/// The limits of the notices of an account.
#[derive(Clone, Copy, Debug)]
pub struct NoticeLimits {
    /// Minimum time between two notices.
    pub interval: Duration,
    /// Maximum number of notices within `period`.
    pub count: i64,
    /// The period of `count`.
    pub period: Duration,
}

/// Whether a notice is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The caller must write a notice now. The value is the number of messages that wait for a
    /// decision.
    Due(i64),
    /// A limit is reached. The next notice can be written at this time.
    Later(Timestamp),
    /// There are notices about all messages that wait for a decision.
    None,
}

impl Outbox {
    /// Stores a message that a policy holds, with the job that notifies the owner. Returns `false`,
    /// and stores nothing, if the account would exceed `limits`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_held(
        &self,
        new: NewEntry<'_>,
        chunks: &[(Part, u32, Vec<u8>)],
        hold: NewHold<'_>,
        limits: Limits,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(new.account).await?;
        if !has_space(&mut tx, new, limits, true).await? {
            return Ok(false);
        }
        insert(&mut tx, new, "held", chunks).await?;
        if !add_hold(&mut tx, (new.id, new.account), hold, limits.entries).await? {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Holds a scheduled message, and ends the lease of its job. Returns `false`, and changes
    /// nothing, if the host has lost the lease, if the entry has another state, or if the account
    /// has `limit` holds.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn hold_scheduled(
        &self,
        lease: &Lease,
        entry: &Entry,
        hold: NewHold<'_>,
        limit: i64,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(&entry.account).await?;
        if !lease.end_in(&mut tx).await? || tx.execute(HOLD_SCHEDULED, [&entry.id]).await? == 0 {
            return Ok(false);
        }
        if !add_hold(&mut tx, (&entry.id, &entry.account), hold, limit).await? {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Returns the holds of an account: first those that wait for a decision, then the others,
    /// newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn holds(&self, account: &str) -> Result<Vec<Hold>, Error> {
        self.db.all(LIST, (account, MAX_LISTED)).await
    }

    /// Returns a hold of an account.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find_hold(&self, account: &str, id: &str) -> Result<Option<Hold>, Error> {
        self.db.optional(FIND, [account, id]).await
    }

    /// Returns the id of the hold of the message with this Message-ID.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn hold_of_message(
        &self,
        account: &str,
        message_id: &str,
    ) -> Result<Option<String>, Error> {
        self.db
            .optional_value(BY_MESSAGE, [account, message_id])
            .await
    }

    /// Approves a held message, which then leaves at its time, or at once. `sealed_payload` is the
    /// payload of the job that submits the message, encrypted with the service's key.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn approve_hold(
        &self,
        caller: SessionCaller<'_>,
        (id, hash): (&str, &str),
        sealed_payload: &[u8],
        origin: &Origin,
    ) -> Result<Decision, Error> {
        let (account, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        let send_at = match require_pending(&mut tx, caller, id, hash).await? {
            Ok(send_at) => send_at.max(now),
            Err(decision) => return Ok(decision),
        };
        tx.execute(SCHEDULE, (id, send_at)).await?;
        let job = NewJob {
            id,
            kind: super::KIND,
            key: id,
            account,
            due_at: send_at,
            sealed_payload,
        };
        jobs::add_in(&mut tx, job, i64::MAX).await?;
        tx.execute(DELETE_JOB, [account, id]).await?;
        decide(&mut tx, (account, id), "approved", now).await?;
        let event = Event::of(Kind::HoldApproved, account, now).about(id);
        events::commit(tx, event, origin).await?;
        Ok(Decision::Done)
    }

    /// Rejects a held message. Its job becomes due, because a message that was sent from a draft
    /// must become this draft again.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn reject_hold(
        &self,
        caller: SessionCaller<'_>,
        (id, hash): (&str, &str),
        origin: &Origin,
    ) -> Result<Decision, Error> {
        let (account, now) = (caller.account_id, caller.at);
        let mut tx = self.db.begin().await?;
        if let Err(decision) = require_pending(&mut tx, caller, id, hash).await? {
            return Ok(decision);
        }
        reject(&mut tx, id, now).await?;
        tx.execute(MAKE_DUE, (account, id, now)).await?;
        decide(&mut tx, (account, id), "rejected", now).await?;
        let event = Event::of(Kind::HoldRejected, account, now).about(id);
        events::commit(tx, event, origin).await?;
        Ok(Decision::Done)
    }

    /// Rejects a held message whose time has passed. Does nothing if the hold was decided.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn expire_hold(&self, account: &str, id: &str, now: Timestamp) -> Result<(), Error> {
        let mut tx = self.db.begin_locked(account).await?;
        if reject(&mut tx, id, now).await? == 1 {
            decide(&mut tx, (account, id), "expired", now).await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// Decides whether a notice about all held messages of an account is due at `now`, and records
    /// it. The decision and the record are one transaction, so concurrent calls, also on several
    /// hosts, write one notice. If the host stops before it has written the notice, the account
    /// gets no notice about these messages.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is recorded in that case.
    pub async fn begin_notice(
        &self,
        account: &str,
        limits: NoticeLimits,
        now: Timestamp,
    ) -> Result<Notice, Error> {
        let mut tx = self.db.begin_locked(account).await?;
        let since = now.minus(limits.period);
        let (last, count): (Option<i64>, i64) = tx.one(NOTICES, (account, since)).await?;
        let next = last.map(|last| Timestamp::from_millis(last).plus(limits.interval));
        if let Some(next) = next
            && next > now
        {
            return Ok(Notice::Later(next));
        }
        if count >= limits.count {
            return Ok(Notice::Later(now.plus(limits.interval)));
        }
        if tx.execute(NOTIFIED, (account, now)).await? == 0 {
            return Ok(Notice::None);
        }
        let waiting: i64 = tx.value(WAITING, (account, now)).await?;
        tx.commit().await?;
        Ok(Notice::Due(waiting))
    }

    /// Removes the record of a notice that could not be written. `now` is the time of
    /// [`Outbox::begin_notice`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. The account then gets no notice about these
    /// messages.
    pub async fn cancel_notice(&self, account: &str, now: Timestamp) -> Result<(), Error> {
        self.db.execute(NOT_NOTIFIED, (account, now)).await?;
        Ok(())
    }

    /// Returns the number of held messages of an account. If `account_id` is empty, returns the
    /// number for all accounts.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn pending_holds(&self, account_id: &str) -> Result<i64, Error> {
        self.db.value(COUNT, [account_id]).await
    }
}

/// Adds the row of a hold, its job and its event. Returns `false`, and adds nothing that the caller
/// may commit, if the account has `limit` holds.
async fn add_hold(
    tx: &mut Tx,
    (entry, account): (&str, &str),
    hold: NewHold<'_>,
    limit: i64,
) -> Result<bool, Error> {
    let row = (
        entry,
        account,
        hold.grant,
        hold.app_password,
        hold.reason,
        hold.hash,
        hold.now,
        hold.expires_at,
        hold.sealed_files,
    );
    tx.execute(INSERT_HOLD, row).await?;
    let job = NewJob {
        id: hold.job,
        kind: KIND,
        key: entry,
        account,
        due_at: hold.now,
        sealed_payload: hold.sealed_payload,
    };
    if !jobs::add_in(tx, job, limit).await? {
        return Ok(false);
    }
    let data = json!({ "holdId": entry });
    let event = NewEvent {
        kind: EventType::HoldCreated,
        data: &data,
        key: None,
    };
    append_event(tx, account, event).await?;
    Ok(true)
}

/// Locks the account, and checks the session, the state and the hash of a hold. Returns the time at
/// which the message leaves.
async fn require_pending(
    tx: &mut Tx,
    caller: SessionCaller<'_>,
    id: &str,
    hash: &str,
) -> Result<Result<Timestamp, Decision>, Error> {
    if !caller.lock(tx).await? {
        return Ok(Err(Decision::SessionOver));
    }
    let found: Option<(String, i64)> = tx
        .optional(PENDING, (id, caller.account_id, caller.at))
        .await?;
    Ok(match found {
        None => Err(Decision::NotFound),
        Some((stored, _)) if stored != hash => Err(Decision::Changed),
        Some((_, send_at)) => Ok(Timestamp::from_millis(send_at)),
    })
}

/// Rejects an entry that is held, and deletes its bytes, except the bytes of a draft. Returns the
/// number of changed entries.
async fn reject(tx: &mut Tx, id: &str, now: Timestamp) -> Result<u64, Error> {
    let rejected = tx.execute(REJECT, (id, now)).await?;
    if rejected == 1 {
        tx.execute(DELETE_MESSAGE, [id]).await?;
    }
    Ok(rejected)
}

/// Records a decision, and adds it to the change log.
async fn decide(
    tx: &mut Tx,
    (account, id): (&str, &str),
    status: &str,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(DECIDE, (id, status, now)).await?;
    let data = json!({ "holdId": id, "status": status });
    let event = NewEvent {
        kind: EventType::HoldDecided,
        data: &data,
        key: None,
    };
    append_event(tx, account, event).await
}

#[cfg(test)]
mod tests;
