//! The outbox: messages that leave later. Each entry has a job until its outcome is known. The
//! bytes of a message are encrypted chunks, which are deleted with the outcome.
//!
//! The state of an entry decides between a cancellation and the submission: both change the state
//! `scheduled` in one statement, so one of the two finds another state.
//!
//! The policy of a grant can hold a message. The entry then has the state `held` and a row in
//! [`holds`], until the owner decides. Lists of entries leave out held and rejected entries.

use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::event_type::EventType;
use serde_json::json;

use crate::db::{Db, Error, LastLogins, Tx};
use crate::jobs::{self, Lease, NewJob};
use crate::message_index::{NewEvent, append_event};

pub mod holds;
pub mod submissions;

/// The time for which an entry is kept after its outcome.
pub const RETENTION: Duration = Duration::from_hours(30 * 24);

/// The kind of the jobs of the outbox.
pub const KIND: &str = "outbox";

/// Returns the size of the entries that are held ($2 is true), or of the other entries.
const USED: &str = "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) FROM outbox \
    WHERE account_id = $1 AND size > 0 AND (state = 'held') = $2";
const INSERT: &str = "INSERT INTO outbox (id, account_id, member_id, state, send_at, message_id, \
    draft_id, size, sealed_key, sealed_details) VALUES ($1, $2, $3, $10, $4, $5, $6, $7, $8, $9)";
const INSERT_CHUNK: &str =
    "INSERT INTO outbox_chunks (entry_id, part, number, sealed) VALUES ($1, $2, $3, $4)";
/// Selects the entries of an account. If $2 is not NULL, selects only the entries of this member.
const LIST: &str = "SELECT id, account_id, member_id, state, send_at, begun_at, message_id, draft_id, size, \
    error, sealed_key, sealed_details FROM outbox \
    WHERE account_id = $1 AND ($2 IS NULL OR member_id = $2) AND state NOT IN ('held', 'rejected') \
    ORDER BY CASE WHEN ended_at IS NULL THEN 0 ELSE 1 END, \
        CASE WHEN ended_at IS NULL THEN send_at ELSE -ended_at END, id LIMIT $3";
const FIND: &str = "SELECT id, account_id, member_id, state, send_at, begun_at, message_id, draft_id, size, \
    error, sealed_key, sealed_details, EXISTS (SELECT 1 FROM holds h \
    WHERE h.entry_id = outbox.id AND h.status = 'approved') AS approved FROM outbox WHERE id = $1";
const BY_MESSAGE: &str = "SELECT id FROM outbox WHERE account_id = $1 AND message_id = $2";
const CHUNK: &str =
    "SELECT sealed FROM outbox_chunks WHERE entry_id = $1 AND part = $2 AND number = $3";
const RESCHEDULE: &str = "UPDATE outbox SET send_at = $2 WHERE id = $1 AND state = 'scheduled'";
const CANCEL: &str = "UPDATE outbox SET state = 'cancelled', ended_at = $2, \
    size = CASE WHEN draft_id IS NULL THEN 0 ELSE size END \
    WHERE id = $1 AND state = 'scheduled'";
const DELETE_CHUNKS: &str = "DELETE FROM outbox_chunks WHERE entry_id = $1";
const DELETE_MESSAGE: &str = "DELETE FROM outbox_chunks WHERE entry_id = $1 AND part = 'message'";
const NO_BYTES: &str =
    "UPDATE outbox SET size = 0 WHERE id = $1 AND state IN ('cancelled', 'rejected')";
/// Changes the state only if the host still has the lease.
const BEGIN: &str = "UPDATE outbox SET state = 'sending', begun_at = $4 \
    WHERE id = $1 AND state = 'scheduled' \
    AND EXISTS (SELECT 1 FROM jobs WHERE id = $1 AND host = $2 AND attempts = $3)";
const RETURN: &str = "UPDATE outbox SET state = 'scheduled', begun_at = NULL \
    WHERE id = $1 AND state = 'sending' \
    AND EXISTS (SELECT 1 FROM jobs WHERE id = $1 AND host = $2 AND attempts = $3)";
const END: &str = "UPDATE outbox SET state = $2, error = $3, size = 0, ended_at = $4 WHERE id = $1";
const SWEEP: &str = "DELETE FROM outbox WHERE ended_at <= $1";

/// The part of an entry to which a chunk belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The message that is sent.
    Message,
    /// The draft as it was before, which a cancellation restores.
    Draft,
}

impl Part {
    const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Draft => "draft",
        }
    }
}

/// An entry that is not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'e> {
    /// The opaque id.
    pub id: &'e str,
    /// The id of the account that owns the mailbox.
    pub account: &'e str,
    /// The id of the member's account, if a member sends the message.
    pub member: Option<&'e str>,
    /// The time at which the message leaves.
    pub send_at: Timestamp,
    /// The Message-ID with angle brackets.
    pub message_id: &'e str,
    /// The id of the draft from which the message is sent.
    pub draft: Option<&'e str>,
    /// The number of bytes of the message and of the draft.
    pub size: i64,
    /// The key of the details and of the chunks, encrypted with the service's key.
    pub sealed_key: &'e [u8],
    /// The details, encrypted with the entry's key.
    pub sealed_details: &'e [u8],
    /// The payload of the job, encrypted with the service's key.
    pub sealed_payload: &'e [u8],
}

impl<'e> NewEntry<'e> {
    /// Returns the job that submits the message.
    const fn job(&self) -> NewJob<'e> {
        NewJob {
            id: self.id,
            kind: KIND,
            key: self.id,
            account: self.account,
            due_at: self.send_at,
            sealed_payload: self.sealed_payload,
        }
    }
}

/// The limits of an account.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of waiting messages.
    pub entries: i64,
    /// Maximum size of all waiting messages together, in bytes.
    pub bytes: i64,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Entry {
    /// The opaque id.
    pub id: String,
    /// The id of the account that owns the mailbox.
    #[sqlx(rename = "account_id")]
    pub account: String,
    /// The id of the member's account, if a member sends the message.
    #[sqlx(rename = "member_id")]
    pub member: Option<String>,
    /// `scheduled`, `sending`, `sent`, `failed`, `cancelled`, `unknown`, `held` or `rejected`.
    pub state: String,
    send_at: i64,
    begun_at: Option<i64>,
    /// The Message-ID with angle brackets.
    pub message_id: String,
    /// The id of the draft from which the message is sent.
    #[sqlx(rename = "draft_id")]
    pub draft: Option<String>,
    /// The number of stored bytes.
    pub size: i64,
    /// The reason of the state `failed` or `unknown`, as a text for the account.
    pub error: Option<String>,
    /// The key of the details and of the chunks, encrypted with the service's key.
    pub sealed_key: Vec<u8>,
    /// The details, encrypted with the entry's key.
    pub sealed_details: Vec<u8>,
    /// `true` if the owner approved the message after a policy had held it. Only
    /// [`Outbox::find`] sets this value.
    #[sqlx(default)]
    pub approved: bool,
}

impl Entry {
    /// Returns the time at which the message leaves.
    #[must_use]
    pub fn send_at(&self) -> Timestamp {
        Timestamp::from_millis(self.send_at)
    }

    /// Returns the time at which a host began to submit the message.
    #[must_use]
    pub fn begun_at(&self) -> Option<Timestamp> {
        self.begun_at.map(Timestamp::from_millis)
    }
}

/// The repository of the outbox.
#[derive(Clone, Debug)]
pub struct Outbox {
    pub(crate) db: Db,
    pub(crate) submissions: LastLogins,
}

impl Outbox {
    /// Stores an entry with its chunks and its job. Returns `false`, and stores nothing, if the
    /// account would exceed `limits`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add(
        &self,
        new: NewEntry<'_>,
        chunks: &[(Part, u32, Vec<u8>)],
        limits: Limits,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(new.account).await?;
        if !has_space(&mut tx, new, limits, false).await? {
            return Ok(false);
        }
        if !jobs::add_in(&mut tx, new.job(), limits.entries).await? {
            return Ok(false);
        }
        insert(&mut tx, new, "scheduled", chunks).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Returns up to `limit` entries of an account: first the entries without an outcome by their
    /// times, then the others, newest outcome first. If `member` is set, returns only the entries
    /// of this member.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn list(
        &self,
        account: &str,
        member: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Entry>, Error> {
        self.db.all(LIST, (account, member, limit)).await
    }

    /// Returns the entry with this id.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, id: &str) -> Result<Option<Entry>, Error> {
        self.db.optional(FIND, [id]).await
    }

    /// Returns the id of the entry with this Message-ID.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn by_message(
        &self,
        account: &str,
        message_id: &str,
    ) -> Result<Option<String>, Error> {
        self.db
            .optional_value(BY_MESSAGE, (account, message_id))
            .await
    }

    /// Returns a chunk of an entry. Returns `None` if there is no such chunk.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn chunk(&self, id: &str, part: Part, number: u32) -> Result<Option<Vec<u8>>, Error> {
        let parameters = (id, part.name(), number);
        self.db.optional_value(CHUNK, parameters).await
    }

    /// Changes the time of a scheduled entry. Returns `false` if the entry has another state.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn reschedule(&self, id: &str, send_at: Timestamp) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        if tx.execute(RESCHEDULE, (id, send_at)).await? == 0 {
            return Ok(false);
        }
        jobs::reschedule_in(&mut tx, id, send_at).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Cancels a scheduled entry, and deletes its job and its bytes, except the bytes of a draft.
    /// Returns `false` if the entry has another state.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn cancel(&self, id: &str, now: Timestamp) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        if tx.execute(CANCEL, (id, now)).await? == 0 {
            return Ok(false);
        }
        jobs::delete_in(&mut tx, id).await?;
        tx.execute(DELETE_MESSAGE, [id]).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes the bytes of the draft of a cancelled entry.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn forget_bytes(&self, id: &str) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        if tx.execute(NO_BYTES, [id]).await? == 1 {
            tx.execute(DELETE_CHUNKS, [id]).await?;
        }
        tx.commit().await
    }

    /// Records that this host begins to submit a scheduled message. Returns `false` if the entry
    /// has another state, or if the host has lost the lease. The host must not submit the message
    /// in that case.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn begin(&self, lease: &Lease, now: Timestamp) -> Result<bool, Error> {
        let parameters = (&*lease.job, &*lease.host, lease.attempt, now);
        Ok(self.db.execute(BEGIN, parameters).await? == 1)
    }

    /// Records that the message was not submitted, so that the message is scheduled again. Returns
    /// `false` if the host has lost the lease.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn put_back(&self, lease: &Lease) -> Result<bool, Error> {
        let parameters = (&*lease.job, &*lease.host, lease.attempt);
        Ok(self.db.execute(RETURN, parameters).await? == 1)
    }

    /// Records the outcome of an entry, adds it to the change log, deletes the bytes, and ends the
    /// lease of the job. Returns `false`, and changes nothing, if the host has lost the lease.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn end(
        &self,
        lease: &Lease,
        entry: &Entry,
        state: &str,
        error: Option<&str>,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin_locked(&entry.account).await?;
        if !lease.end_in(&mut tx).await? {
            return Ok(false);
        }
        tx.execute(END, (&*lease.job, state, error, now)).await?;
        tx.execute(DELETE_CHUNKS, [&*lease.job]).await?;
        let data = json!({
            "outboxId": entry.id,
            "messageId": entry.message_id,
            "state": state,
            "error": error,
        });
        let event = NewEvent {
            kind: if state == "sent" {
                EventType::OutboxSent
            } else {
                EventType::OutboxFailed
            },
            data: &data,
            key: None,
        };
        append_event(&mut tx, &entry.account, event).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes entries whose outcome is older than [`RETENTION`].
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(SWEEP, [now.minus(RETENTION)]).await?;
        self.sweep_submissions().await
    }
}

/// Returns `true` if the account can store the entry. Entries that are held have limits of their
/// own.
async fn has_space(
    tx: &mut Tx,
    new: NewEntry<'_>,
    limits: Limits,
    held: bool,
) -> Result<bool, Error> {
    let used: i64 = tx.value(USED, (new.account, held)).await?;
    Ok(used.saturating_add(new.size) <= limits.bytes)
}

/// Stores an entry with its chunks.
async fn insert(
    tx: &mut Tx,
    new: NewEntry<'_>,
    state: &str,
    chunks: &[(Part, u32, Vec<u8>)],
) -> Result<(), Error> {
    let row = (
        new.id,
        new.account,
        new.member,
        new.send_at,
        new.message_id,
        new.draft,
        new.size,
        new.sealed_key,
        new.sealed_details,
        state,
    );
    tx.execute(INSERT, row).await?;
    for (part, number, sealed) in chunks {
        tx.execute(INSERT_CHUNK, (new.id, part.name(), *number, sealed))
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
