//! Webhooks: the URLs to which the service sends the events of a mailbox, and the deliveries of
//! events. The subscriptions of agents are webhooks too.
//!
//! A webhook belongs to the credential that created it. Without the app password of the credential,
//! no query finds the webhook, except the queries that delete it. A suspended or expired credential
//! keeps its webhooks, but [`Webhook::may_send`] is `false` for them.
//!
//! A delivery is one event for one webhook. The position in the change log and the delivery are
//! stored in one transaction, so an event is neither lost nor recorded twice.

use std::time::Duration;

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;

use crate::db::{Db, Error, Tx};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};

/// The time for which deliveries are kept.
pub const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Maximum number of deliveries of a webhook that are kept, in addition to the pending ones.
const MAX_KEPT: i64 = 1000;

/// Defines a query for webhooks. `$1` is the current time.
macro_rules! webhooks {
    ($condition:literal) => {
        concat!(
            "SELECT w.id, w.account_id, w.mailbox, w.app_password_id, w.subscription, w.state, \
                w.reason, w.cursor, w.failing_since, w.expires_at, w.created_at, w.sealed_settings, \
                COALESCE(g.scope, t.scopes) AS scopes, (p.suspended_at IS NULL \
                    AND (p.expires_at IS NULL OR p.expires_at > $1) \
                    AND (t.expires_at IS NULL OR t.expires_at > $1)) AS valid \
            FROM webhooks w JOIN app_passwords p ON p.id = w.app_password_id \
            LEFT JOIN oauth_grants g ON g.app_password_id = p.id \
            LEFT JOIN api_tokens t ON t.app_password_id = p.id \
            WHERE (w.expires_at IS NULL OR w.expires_at > $1) AND ",
            $condition
        )
    };
}

const FIND: &str = webhooks!("w.id = $2");
const BY_SUBSCRIPTION: &str = webhooks!("w.subscription = $2");
const OF_MAILBOX: &str =
    webhooks!("w.mailbox = $2 AND w.subscription IS NULL ORDER BY w.created_at, w.id");
const ACTIVE: &str = webhooks!("w.state = 'active'");
const ACTIVE_OF_MAILBOX: &str = webhooks!("w.state = 'active' AND w.mailbox = $2");
const COUNT: &str = "SELECT COUNT(*) FROM webhooks w \
    JOIN app_passwords p ON p.id = w.app_password_id \
    WHERE w.account_id = $1 AND w.subscription IS NULL";
const COUNT_SUBSCRIPTIONS: &str = "SELECT COUNT(*) FROM webhooks \
    WHERE app_password_id = $1 AND subscription IS NOT NULL AND expires_at > $2";
/// Finds webhooks whose credentials have ended.
const ENDED: &str = "SELECT w.id, w.subscription, w.sealed_settings FROM webhooks w \
    LEFT JOIN app_passwords p ON p.id = w.app_password_id WHERE p.id IS NULL LIMIT 100";
const IS_LIVE: &str = "SELECT 1 FROM app_passwords \
    WHERE id = $1 AND suspended_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
const INSERT: &str = "INSERT INTO webhooks (id, account_id, mailbox, app_password_id, subscription, \
        state, cursor, expires_at, created_at, sealed_settings) \
    VALUES ($1, $2, $3, $4, $5, 'active', $6, $7, $8, $9)";
/// Replaces the settings $2 by $3, unless they were changed concurrently.
const CHANGE: &str = "UPDATE webhooks SET sealed_settings = $3, state = $4, reason = $5, \
        expires_at = $6, cursor = COALESCE($7, cursor), \
        failing_since = CASE WHEN state = $4 THEN failing_since ELSE NULL END \
    WHERE id = $1 AND sealed_settings = $2";
const DISABLE: &str = "UPDATE webhooks SET state = 'disabled', reason = $2 \
    WHERE id = $1 AND state = 'active'";
const DELETE: &str = "DELETE FROM webhooks WHERE id = $1";
const DELETE_EXPIRED: &str = "DELETE FROM webhooks WHERE expires_at <= $1";
const DELETE_EXPIRED_SUBSCRIPTION: &str =
    "DELETE FROM webhooks WHERE subscription = $1 AND expires_at <= $2";
const LAST_ATTEMPTS: &str = "SELECT \
    (SELECT MAX(attempted_at) FROM webhook_deliveries WHERE webhook_id = $1 AND state = 'delivered'), \
    (SELECT error FROM webhook_deliveries WHERE webhook_id = $1 AND attempted_at IS NOT NULL \
        ORDER BY attempted_at DESC, number DESC LIMIT 1)";
const SET_CURSOR: &str = "UPDATE webhooks SET cursor = $2 WHERE id = $1 \
    AND COALESCE(cursor, '') = COALESCE($3, '')";
const SUCCEEDED: &str = "UPDATE webhooks SET failing_since = NULL \
    WHERE id = $1 AND failing_since IS NOT NULL";
const FAILED: &str = "UPDATE webhooks SET failing_since = $2 \
    WHERE id = $1 AND failing_since IS NULL";

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
const ATTEMPTED: &str = "UPDATE webhook_deliveries SET state = $2, attempts = attempts + 1, \
        attempted_at = $3, next_at = $4, status = $5, error = $6 WHERE id = $1";
const SET_BODY: &str = "UPDATE webhook_deliveries SET sealed_body = $2 WHERE id = $1";
const RETRY_NOW: &str = "UPDATE webhook_deliveries SET next_at = $2 \
    WHERE webhook_id = $1 AND state = 'pending' AND next_at > $2";
const DISCARD: &str = "UPDATE webhook_deliveries SET state = 'failed', error = $2 \
    WHERE id = $1 AND state = 'pending'";
/// A replay counts its attempts from 1, and ends a day after its beginning.
const REPLAY: &str = "UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = $3 \
    WHERE webhook_id = $1 AND id = $2 AND state <> 'pending'";
const SWEEP: &str = "DELETE FROM webhook_deliveries WHERE created_at <= $1";

/// A webhook that is not stored yet.
#[derive(Clone, Copy, Debug)]
pub struct NewWebhook<'w> {
    /// The opaque id.
    pub id: &'w str,
    /// The id of the account that creates the webhook.
    pub account: &'w str,
    /// The id of the account whose mailbox has the events.
    pub mailbox: &'w str,
    /// The id of the app password of the credential that creates the webhook.
    pub app_password: &'w str,
    /// The id of an agent's subscription. `None` for a webhook.
    pub subscription: Option<&'w str>,
    /// The position in the change log.
    pub cursor: &'w str,
    /// The time at which the webhook expires.
    pub expires_at: Option<Timestamp>,
    /// The settings, encrypted with the service's key.
    pub sealed_settings: &'w [u8],
    /// A text for the audit log.
    pub detail: &'w str,
}

/// The result of storing a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The webhook was stored.
    Added,
    /// The account or the credential has the maximum number of webhooks.
    Full,
    /// The credential has ended or is suspended.
    CredentialEnded,
}

/// A webhook.
#[derive(Clone, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct Webhook {
    /// The opaque id.
    pub id: String,
    /// The id of the account that created the webhook.
    #[sqlx(rename = "account_id")]
    pub account: String,
    /// The id of the account whose mailbox has the events.
    pub mailbox: String,
    /// The id of the app password of the credential that created the webhook.
    #[sqlx(rename = "app_password_id")]
    pub app_password: String,
    /// The id of an agent's subscription. `None` for a webhook.
    pub subscription: Option<String>,
    state: String,
    /// The reason why the service disabled the webhook.
    pub reason: Option<String>,
    /// The events up to this position of the change log are sent or recorded.
    pub cursor: Option<String>,
    failing_since: Option<i64>,
    expires_at: Option<i64>,
    created_at: i64,
    /// The settings, encrypted with the service's key.
    pub sealed_settings: Vec<u8>,
    scopes: Option<String>,
    valid: bool,
}

debug_fields!(Webhook {
    id,
    account,
    mailbox,
    state
});

impl Webhook {
    /// Returns `true` if the webhook is not disabled.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == "active"
    }

    /// Returns `true` if the credential that created the webhook can still read mail. Does not
    /// check the grants of a member.
    #[must_use]
    pub fn may_send(&self) -> bool {
        let scopes = self.scopes.as_deref().map(Scope::read_list);
        self.valid && scopes.is_none_or(|scopes| scopes.contains(&Scope::MailRead))
    }

    /// Returns the time of the first failure after the last success.
    #[must_use]
    pub fn failing_since(&self) -> Option<Timestamp> {
        self.failing_since.map(Timestamp::from_millis)
    }

    /// Returns the time at which the webhook expires.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at.map(Timestamp::from_millis)
    }

    /// Returns the time of the creation.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_millis(self.created_at)
    }
}

/// A subscription of an agent whose credential has ended.
pub struct Ended {
    /// The id of the webhook.
    pub id: String,
    /// The id of the subscription.
    pub subscription: String,
    /// The settings, encrypted with the service's key.
    pub sealed_settings: Vec<u8>,
}

debug_fields!(Ended { id, subscription });

#[derive(sqlx_macros::FromRow)]
struct EndedRow {
    id: String,
    subscription: Option<String>,
    sealed_settings: Vec<u8>,
}

/// A change of a webhook by its owner.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    /// The new settings, encrypted with the service's key.
    pub sealed_settings: &'c [u8],
    /// Whether the webhook is active. An active webhook has no reason.
    pub active: bool,
    /// The reason why the webhook is disabled.
    pub reason: Option<&'c str>,
    /// The time at which the webhook expires.
    pub expires_at: Option<Timestamp>,
    /// The new position in the change log. `None` does not change the position.
    pub cursor: Option<&'c str>,
}

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

/// The repository of webhooks.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub(crate) db: Db,
}

impl Webhooks {
    /// Stores a webhook, unless the account has `limit` webhooks. For an agent's subscription,
    /// `limit` is the maximum number of subscriptions of the credential.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add(
        &self,
        new: NewWebhook<'_>,
        limit: i64,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Added, Error> {
        let mut tx = self.db.begin_locked(new.account).await?;
        let count: i64 = match new.subscription {
            None => tx.value(COUNT, [new.account]).await?,
            Some(_) => {
                tx.value(COUNT_SUBSCRIPTIONS, (new.app_password, now))
                    .await?
            }
        };
        if count >= limit {
            return Ok(Added::Full);
        }
        if !tx.exists(IS_LIVE, (new.app_password, now)).await? {
            return Ok(Added::CredentialEnded);
        }
        let row = (
            new.id,
            new.account,
            new.mailbox,
            new.app_password,
            new.subscription,
            new.cursor,
            new.expires_at,
            now,
            new.sealed_settings,
        );
        tx.execute(INSERT, row).await?;
        let event = Event::of(Kind::WebhookCreated, new.mailbox, now);
        let event = event.about(new.id).detail(new.detail);
        events::commit(tx, event, origin).await?;
        Ok(Added::Added)
    }

    /// Returns a webhook.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn find(&self, id: &str, now: Timestamp) -> Result<Option<Webhook>, Error> {
        self.db.optional(FIND, (now, id)).await
    }

    /// Returns an agent's subscription.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn by_subscription(
        &self,
        subscription: &str,
        now: Timestamp,
    ) -> Result<Option<Webhook>, Error> {
        self.db.optional(BY_SUBSCRIPTION, (now, subscription)).await
    }

    /// Returns the webhooks of a mailbox, oldest first. Excludes the subscriptions of agents.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn of_mailbox(&self, mailbox: &str, now: Timestamp) -> Result<Vec<Webhook>, Error> {
        self.db.all(OF_MAILBOX, (now, mailbox)).await
    }

    /// Returns the mailbox and the id of each webhook that can send events.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sending(&self, now: Timestamp) -> Result<Vec<(String, String)>, Error> {
        let webhooks: Vec<Webhook> = self.db.all(ACTIVE, [now]).await?;
        let sending = webhooks.into_iter().filter(Webhook::may_send);
        Ok(sending.map(|one| (one.mailbox, one.id)).collect())
    }

    /// Returns the webhooks of a mailbox that can send events.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sending_of_mailbox(
        &self,
        mailbox: &str,
        now: Timestamp,
    ) -> Result<Vec<Webhook>, Error> {
        let webhooks: Vec<Webhook> = self.db.all(ACTIVE_OF_MAILBOX, (now, mailbox)).await?;
        Ok(webhooks.into_iter().filter(Webhook::may_send).collect())
    }

    /// Deletes webhooks whose credentials have ended, at most 100. Returns the subscriptions of
    /// agents among them, each with its settings. Each is returned once, on one host.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delete_ended(&self) -> Result<Vec<Ended>, Error> {
        let mut deleted: Vec<Ended> = Vec::new();
        for ended in self.db.all::<EndedRow>(ENDED, ()).await? {
            let is_deleted = self.db.execute(DELETE, [&ended.id]).await? == 1;
            if let (true, Some(subscription)) = (is_deleted, ended.subscription) {
                deleted.push(Ended {
                    id: ended.id,
                    subscription,
                    sealed_settings: ended.sealed_settings,
                });
            }
        }
        Ok(deleted)
    }

    /// Deletes an agent's subscription if it has expired.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delete_expired(&self, subscription: &str, now: Timestamp) -> Result<(), Error> {
        let parameters = (subscription, now);
        self.db
            .execute(DELETE_EXPIRED_SUBSCRIPTION, parameters)
            .await?;
        Ok(())
    }

    /// Changes a webhook. Returns `false`, and changes nothing, if the webhook was changed or
    /// deleted after it was read.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn change(&self, webhook: &Webhook, change: Change<'_>) -> Result<bool, Error> {
        let state = if change.active { "active" } else { "disabled" };
        let parameters = (
            &webhook.id,
            &webhook.sealed_settings,
            change.sealed_settings,
            state,
            change.reason,
            change.expires_at,
            change.cursor,
        );
        Ok(self.db.execute(CHANGE, parameters).await? == 1)
    }

    /// Disables a webhook, and records the reason in the audit log.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn disable(
        &self,
        webhook: &Webhook,
        reason: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        if tx.execute(DISABLE, (&webhook.id, reason)).await? == 0 {
            return Ok(());
        }
        let event = Event::of(Kind::WebhookDisabled, &webhook.mailbox, now);
        let event = event.about(&webhook.id).detail(reason);
        events::commit(tx, event, &Origin::service()).await
    }

    /// Deletes a webhook with its deliveries. Returns `false` if there is no such webhook.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn delete(
        &self,
        webhook: &Webhook,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        if tx.execute(DELETE, [&webhook.id]).await? == 0 {
            return Ok(false);
        }
        let event = Event::of(Kind::WebhookDeleted, &webhook.mailbox, now).about(&webhook.id);
        events::commit(tx, event, origin).await?;
        Ok(true)
    }

    /// Moves a webhook to another position in the change log, and stores the events between the
    /// positions. Returns `false`, and changes nothing, if the webhook has another position or does
    /// not exist.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn advance(
        &self,
        webhook: &Webhook,
        cursor: &str,
        deliveries: &[NewDelivery<'_>],
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let parameters = (&webhook.id, cursor, webhook.cursor.as_deref());
        if tx.execute(SET_CURSOR, parameters).await? == 0 {
            return Ok(false);
        }
        for delivery in deliveries {
            insert(&mut tx, &webhook.id, *delivery, now).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

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
    /// webhook.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails, or if the webhook does not exist.
    pub async fn add_ended(
        &self,
        webhook: &str,
        delivery: NewDelivery<'_>,
        outcome: Outcome<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        insert(&mut tx, webhook, delivery, now).await?;
        record(&mut tx, delivery.id, outcome, now).await?;
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

    /// Records an attempt.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn attempted(
        &self,
        webhook: &str,
        delivery: &str,
        outcome: Outcome<'_>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.db.begin().await?;
        record(&mut tx, delivery, outcome, now).await?;
        if outcome.attempt == Attempt::Delivered {
            tx.execute(SUCCEEDED, [webhook]).await?;
        } else {
            tx.execute(FAILED, (webhook, now)).await?;
        }
        tx.commit().await
    }

    /// Makes the next attempts of all pending deliveries due.
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

    /// Deletes deliveries that are older than [`RETENTION`], and expired subscriptions.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(DELETE_EXPIRED, [now]).await?;
        self.db.execute(SWEEP, [now.minus(RETENTION)]).await?;
        Ok(())
    }
}

async fn record(
    tx: &mut Tx,
    delivery: &str,
    outcome: Outcome<'_>,
    now: Timestamp,
) -> Result<(), Error> {
    let (state, next_at) = match outcome.attempt {
        Attempt::Delivered => ("delivered", now),
        Attempt::Retry(at) => ("pending", at),
        Attempt::Failed => ("failed", now),
    };
    let status = outcome.status.map(i64::from);
    let parameters = (delivery, state, now, next_at, status, outcome.error);
    tx.execute(ATTEMPTED, parameters).await?;
    Ok(())
}

async fn insert(
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

#[cfg(test)]
mod tests;
