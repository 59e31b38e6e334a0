//! The deliveries of webhooks. [`super`] stores the webhooks and the positions in the change log.

use latchmail_core::clock::Timestamp;

use super::Webhooks;
use crate::db::{Error, Tx};
use crate::debug::debug_fields;

/// Maximum number of deliveries of a webhook that are kept, in addition to the pending ones.
const MAX_KEPT: i64 = 1000;

const LAST_ATTEMPTS: &str = "SELECT \
    (SELECT MAX(attempted_at) FROM webhook_deliveries \
        WHERE webhook_id = $1 AND state = 'delivered'), \
    (SELECT error FROM webhook_deliveries WHERE webhook_id = $1 AND attempted_at IS NOT NULL \
        ORDER BY attempted_at DESC, number DESC LIMIT 1)";
const SUCCEEDED: &str = "UPDATE webhooks SET failing_since = NULL \
    WHERE id = $1 AND failing_since IS NOT NULL";
const FAILED: &str = "UPDATE webhooks SET failing_since = $2 \
    WHERE id = $1 AND failing_since IS NULL";
/// Locks the row of a webhook, so that two transactions do not use the same number.
const LOCK: &str = "UPDATE webhooks SET state = state WHERE id = $1";
const LAST_NUMBER: &str =
    "SELECT COALESCE(MAX(number), 0) FROM webhook_deliveries WHERE webhook_id = $1";
const INSERT_DELIVERY: &str = "INSERT INTO webhook_deliveries \
    (id, webhook_id, number, event_id, event_type, state, attempts, created_at, attempted_at, \
        next_at, status, error, sealed_body) \
    VALUES ($1, $2, $3, $4, $5, 'pending', 0, $6, NULL, $6, NULL, NULL, $7)";
const TRIM: &str = "DELETE FROM webhook_deliveries \
    WHERE webhook_id = $1 AND number <= $2 AND state <> 'pending'";
const NEXT_DELIVERY: &str = "SELECT id, number, event_id, event_type, state, attempts, created_at, \
        attempted_at, next_at, status, error, sealed_body \
    FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'pending' ORDER BY number LIMIT 1";
const DELIVERIES: &str = "SELECT id, number, event_id, event_type, state, attempts, created_at, \
        attempted_at, next_at, status, error, sealed_body \
    FROM webhook_deliveries WHERE webhook_id = $1 ORDER BY number DESC LIMIT $2";
const DELIVERY: &str = "SELECT id, number, event_id, event_type, state, attempts, created_at, \
        attempted_at, next_at, status, error, sealed_body \
    FROM webhook_deliveries WHERE webhook_id = $1 AND id = $2";
/// Changes nothing if another host has recorded an attempt since the delivery was read. The next
/// attempt is due at once if [`RETRY_NOW`] has changed the time $8 since then.
const ATTEMPTED: &str = "UPDATE webhook_deliveries SET state = $2, attempts = attempts + 1, \
        attempted_at = $3, next_at = CASE WHEN next_at = $8 THEN $4 ELSE $3 END, status = $5, \
        error = $6 \
    WHERE id = $1 AND state = 'pending' AND attempts = $7";
const SET_BODY: &str = "UPDATE webhook_deliveries SET sealed_body = $2 WHERE id = $1";
/// The time changes in any case, because a running attempt compares it.
const RETRY_NOW: &str = "UPDATE webhook_deliveries \
    SET next_at = CASE WHEN next_at = $2 THEN $2 - 1 ELSE $2 END \
    WHERE webhook_id = $1 AND state = 'pending'";
const DISCARD: &str = "UPDATE webhook_deliveries SET state = 'failed', error = $2 \
    WHERE id = $1 AND state = 'pending'";
/// A replay counts its attempts from 1, and ends a day after its beginning.
const REPLAY: &str = "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = $3 \
    WHERE webhook_id = $1 AND id = $2 AND state <> 'pending'";

/// An event for a webhook that is not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewDelivery<'d> {
    /// The opaque id.
    pub id: &'d str,
    /// The id of the event.
    pub event_id: &'d str,
    /// The type of the event.
    pub event_type: &'d str,
    /// The body, encrypted with the service's key.
    pub sealed_body: &'d [u8],
}

/// An event for a webhook.
#[derive(Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Delivery {
    /// The opaque id.
    pub id: String,
    number: i64,
    /// The id of the event.
    pub event_id: String,
    /// The type of the event.
    pub event_type: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// The number of attempts.
    pub attempts: i64,
    created_at: i64,
    attempted_at: Option<i64>,
    next_at: i64,
    status: Option<i64>,
    /// The reason why the last attempt failed.
    pub error: Option<String>,
    /// The body, encrypted with the service's key.
    pub sealed_body: Vec<u8>,
}

debug_fields!(Delivery {
    id,
    number,
    event_type,
    state
});

impl Delivery {
    /// Returns the time of the creation.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_millis(self.created_at)
    }

    /// Returns the time of the last attempt.
    #[must_use]
    pub fn attempted_at(&self) -> Option<Timestamp> {
        self.attempted_at.map(Timestamp::from_millis)
    }

    /// Returns the time of the next attempt. Returns `None` if the delivery has ended.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        (self.state == "pending").then(|| Timestamp::from_millis(self.next_at))
    }

    /// Returns `true` if `other` is the same delivery before the same attempt.
    #[must_use]
    pub fn is_same_attempt(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.number, one.attempts, one.next_at);
        key(self) == key(other)
    }

    /// Returns the HTTP status of the last attempt.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status.and_then(|status| u16::try_from(status).ok())
    }
}

/// The last outcomes of the deliveries of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastAttempts {
    /// The time of the last success.
    pub delivered_at: Option<Timestamp>,
    /// The reason of the failure of the last attempt. `None` if the last attempt succeeded.
    pub error: Option<String>,
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The receiver accepted the event.
    Delivered,
    /// The attempt failed. The next attempt follows at this time.
    Retry(Timestamp),
    /// The attempt failed, and no attempt follows.
    Failed,
    /// The receiver works, and does not want this event. No attempt follows.
    Refused,
}

/// An attempt with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'o> {
    /// The outcome.
    pub attempt: Attempt,
    /// The HTTP status, if the receiver responded.
    pub status: Option<u16>,
    /// The reason of a failure.
    pub error: Option<&'o str>,
}

impl Webhooks {
    /// Returns the pending delivery that is next. Returns `None` if no delivery is pending.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn next_delivery(&self, webhook: &str) -> Result<Option<Delivery>, Error> {
        self.db.optional(NEXT_DELIVERY, [webhook]).await
    }

    /// Returns the newest deliveries of a webhook, newest first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn deliveries(&self, webhook: &str, limit: u32) -> Result<Vec<Delivery>, Error> {
        self.db.all(DELIVERIES, (webhook, i64::from(limit))).await
    }

    /// Returns a delivery of a webhook.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delivery(&self, webhook: &str, id: &str) -> Result<Option<Delivery>, Error> {
        self.db.optional(DELIVERY, (webhook, id)).await
    }

    /// Returns the last outcomes of the deliveries of a webhook.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn last_attempts(&self, webhook: &str) -> Result<LastAttempts, Error> {
        let (delivered_at, error): (Option<i64>, Option<String>) =
            self.db.one(LAST_ATTEMPTS, [webhook]).await?;
        Ok(LastAttempts {
            delivered_at: delivered_at.map(Timestamp::from_millis),
            error,
        })
    }

    /// Stores a delivery that has ended. The outcome does not count towards the failures of the
    /// webhook. Does nothing if the webhook does not exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add_ended(
        &self,
        webhook: &str,
        delivery: NewDelivery<'_>,
        outcome: Outcome<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        if tx.execute(LOCK, [webhook]).await? == 0 {
            return Ok(());
        }
        insert(&mut tx, webhook, delivery, now).await?;
        record(&mut tx, (delivery.id, 0, now.millis()), outcome, now).await?;
        tx.commit().await
    }

    /// Replaces the body of a delivery.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn set_body(&self, delivery: &str, sealed_body: &[u8]) -> Result<(), Error> {
        self.db.execute(SET_BODY, (delivery, sealed_body)).await?;
        Ok(())
    }

    /// Records an attempt. Does nothing if another host has recorded an attempt since `delivery`
    /// was read, because this host has lost its lease.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn attempted(
        &self,
        webhook: &str,
        delivery: &Delivery,
        outcome: Outcome<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        let read = (&*delivery.id, delivery.attempts, delivery.next_at);
        if !record(&mut tx, read, outcome, now).await? {
            return Ok(());
        }
        match outcome.attempt {
            Attempt::Delivered | Attempt::Refused => tx.execute(SUCCEEDED, [webhook]).await?,
            Attempt::Retry(_) | Attempt::Failed => tx.execute(FAILED, (webhook, now)).await?,
        };
        tx.commit().await
    }

    /// Makes the next attempts of all pending deliveries due. Ends a running attempt, see
    /// [`Delivery::is_same_attempt`].
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn retry_now(&self, webhook: &str, now: Timestamp) -> Result<(), Error> {
        self.db.execute(RETRY_NOW, (webhook, now)).await?;
        Ok(())
    }

    /// Ends a delivery that must not be sent.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn discard(&self, delivery: &str, reason: &str) -> Result<(), Error> {
        self.db.execute(DISCARD, (delivery, reason)).await?;
        Ok(())
    }

    /// Makes a delivery pending again. Returns `false` if there is no such delivery, or if it is
    /// pending.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn replay(&self, webhook: &str, id: &str, now: Timestamp) -> Result<bool, Error> {
        Ok(self.db.execute(REPLAY, (webhook, id, now)).await? == 1)
    }
}

/// Records an attempt. `delivery` is the id, the number of attempts before, and the time at which
/// the attempt was due. Returns `false`, and changes nothing, if the delivery has another number of
/// attempts or is not pending.
async fn record(
    tx: &mut Tx,
    (delivery, attempts, due_at): (&str, i64, i64),
    outcome: Outcome<'_>,
    now: Timestamp,
) -> Result<bool, Error> {
    let (state, next_at) = match outcome.attempt {
        Attempt::Delivered => ("delivered", now),
        Attempt::Retry(at) => ("pending", at),
        Attempt::Failed | Attempt::Refused => ("failed", now),
    };
    let status = outcome.status.map(i64::from);
    let parameters = (
        delivery,
        state,
        now,
        next_at,
        status,
        outcome.error,
        attempts,
        due_at,
    );
    Ok(tx.execute(ATTEMPTED, parameters).await? == 1)
}

/// Stores a delivery. The transaction must have locked the row of the webhook.
pub(super) async fn insert(
    tx: &mut Tx,
    webhook: &str,
    delivery: NewDelivery<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let last: i64 = tx.value(LAST_NUMBER, [webhook]).await?;
    let row = (
        delivery.id,
        webhook,
        last + 1,
        delivery.event_id,
        delivery.event_type,
        now,
        delivery.sealed_body,
    );
    tx.execute(INSERT_DELIVERY, row).await?;
    tx.execute(TRIM, (webhook, last + 1 - MAX_KEPT)).await?;
    Ok(())
}
