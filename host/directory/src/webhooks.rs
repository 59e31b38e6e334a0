//! Webhooks: the URLs to which the service sends the events of a mailbox, and the deliveries of
//! events. The subscriptions of agents are webhooks too.
//!
//! A webhook belongs to the credential that created it. Without the app password of the credential,
//! no query finds the webhook, except the queries that delete it. A suspended or expired credential
//! keeps its webhooks, but [`Webhook::may_send`] is `false` for them.
//!
//! A delivery is one event for one webhook. The position in the change log and the delivery are
//! stored in one transaction, so an event is neither lost nor recorded twice.

mod deliveries;

use std::time::Duration;

use latchmail_core::caller::{Origin, Scope};
use latchmail_core::clock::Timestamp;
use latchmail_core::policy::{ActingGrant, Action, Policy};

use crate::db::{Db, Error};
use crate::debug::debug_fields;
use crate::events::{self, Event, Kind};

pub use deliveries::{Attempt, Delivery, LastAttempts, NewDelivery, Outcome};

/// The time for which deliveries are kept.
pub const RETENTION: Duration = Duration::from_hours(30 * 24);

/// Defines a query for webhooks, of all columns or of `$columns`. `$1` is the current time.
macro_rules! webhooks {
    ($condition:literal) => {
        webhooks!(
            "w.id, w.account_id, w.mailbox, w.app_password_id, w.subscription, w.state, w.reason, \
                w.cursor, w.failing_since, w.expires_at, w.created_at, w.sealed_settings, \
                p.suspended_at, p.policy, COALESCE(g.id, t.id) AS grant_id",
            $condition
        )
    };
    ($columns:literal, $condition:literal) => {
        concat!(
            "SELECT ",
            $columns,
            ", COALESCE(g.scope, t.scopes) AS scopes, (p.suspended_at IS NULL \
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
const ACTIVE: &str = webhooks!("w.id, w.account_id, w.mailbox", "w.state = 'active'");
const ACTIVE_OF_MAILBOX: &str = webhooks!(
    "w.id, w.account_id, w.mailbox",
    "w.state = 'active' AND w.mailbox = $2"
);
const COUNT: &str = "SELECT COUNT(*) FROM webhooks w \
    JOIN app_passwords p ON p.id = w.app_password_id \
    WHERE w.account_id = $1 AND w.subscription IS NULL";
const COUNT_SUBSCRIPTIONS: &str = "SELECT COUNT(*) FROM webhooks w \
    JOIN app_passwords p ON p.id = w.app_password_id \
    WHERE w.account_id = $1 AND w.subscription IS NOT NULL AND w.expires_at > $2";
const COUNT_OF_CREDENTIAL: &str = "SELECT COUNT(*) FROM webhooks \
    WHERE app_password_id = $1 AND subscription IS NOT NULL AND expires_at > $2";
/// Finds webhooks whose credentials have ended.
const ENDED: &str = "SELECT w.id, w.account_id, w.subscription, w.sealed_settings \
    FROM webhooks w LEFT JOIN app_passwords p ON p.id = w.app_password_id \
    WHERE p.id IS NULL LIMIT 100";
const IS_LIVE: &str = "SELECT 1 FROM app_passwords \
    WHERE id = $1 AND suspended_at IS NULL AND (expires_at IS NULL OR expires_at > $2)";
const IS_STORED: &str = "SELECT 1 FROM webhooks WHERE subscription = $1";
const INSERT: &str = "INSERT INTO webhooks (id, account_id, mailbox, app_password_id, subscription, \
        state, cursor, expires_at, created_at, sealed_settings) \
    VALUES ($1, $2, $3, $4, $5, 'active', $6, $7, $8, $9)";
/// Replaces the settings $2 by $3, unless they or the state $8 were changed concurrently.
const CHANGE: &str = "UPDATE webhooks SET sealed_settings = $3, state = $4, reason = $5, \
        expires_at = $6, cursor = COALESCE($7, cursor), \
        failing_since = CASE WHEN state = $4 THEN failing_since ELSE NULL END \
    WHERE id = $1 AND sealed_settings = $2 AND state = $8";
const DISABLE: &str = "UPDATE webhooks SET state = 'disabled', reason = $2 \
    WHERE id = $1 AND state = 'active' AND sealed_settings = $3";
const DELETE: &str = "DELETE FROM webhooks WHERE id = $1";
const DELETE_EXPIRED: &str = "DELETE FROM webhooks WHERE expires_at <= $1";
const DELETE_EXPIRED_SUBSCRIPTION: &str =
    "DELETE FROM webhooks WHERE subscription = $1 AND expires_at <= $2";
const SET_CURSOR: &str = "UPDATE webhooks SET cursor = $2 WHERE id = $1 \
    AND COALESCE(cursor, '') = COALESCE($3, '')";

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
    /// The account has the maximum number of webhooks or of subscriptions.
    Full,
    /// The credential has the maximum number of subscriptions.
    CredentialFull,
    /// The credential has ended or is suspended.
    CredentialEnded,
    /// Another request has stored the agent's subscription.
    Exists,
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
    suspended_at: Option<i64>,
    policy: Option<String>,
    grant_id: Option<String>,
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

    /// Returns `true` if the credential that created the webhook can still read mail, and its
    /// policy allows webhooks. Does not check the grants of a member, and the end of the policy.
    #[must_use]
    pub fn may_send(&self) -> bool {
        let policy = self.policy.as_deref().map(Policy::stored);
        let is_allowed = policy.is_none_or(|policy| policy.allows(Action::Subscribe));
        self.valid && is_allowed && may_read_mail(self.scopes.as_deref())
    }

    /// Returns the API token or the OAuth grant that created the webhook, with its current policy.
    #[must_use]
    pub fn grant(&self) -> Option<ActingGrant> {
        Some(ActingGrant {
            id: self.grant_id.clone()?,
            app_password_id: self.app_password.clone(),
            policy: self.policy.as_deref().map(Policy::stored),
        })
    }

    /// Returns the time at which the credential was suspended. Returns `None` if the credential is
    /// not suspended.
    #[must_use]
    pub fn suspended_at(&self) -> Option<Timestamp> {
        self.suspended_at.map(Timestamp::from_millis)
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

/// A webhook that is not disabled, without its settings and its position.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub struct ActiveWebhook {
    /// The opaque id.
    pub id: String,
    /// The id of the account that created the webhook.
    #[sqlx(rename = "account_id")]
    pub account: String,
    /// The id of the account whose mailbox has the events.
    pub mailbox: String,
    scopes: Option<String>,
    valid: bool,
}

/// Returns `true` if a credential with these scopes can read mail. A session has no scopes.
fn may_read_mail(scopes: Option<&str>) -> bool {
    let scopes = scopes.map(Scope::read_list);
    scopes.is_none_or(|scopes| scopes.contains(&Scope::MailRead))
}

/// A subscription of an agent whose credential has ended.
pub struct Ended {
    /// The id of the webhook.
    pub id: String,
    /// The id of the account that created the webhook.
    pub account: String,
    /// The id of the subscription.
    pub subscription: String,
    /// The settings, encrypted with the service's key.
    pub sealed_settings: Vec<u8>,
}

debug_fields!(Ended { id, subscription });

#[derive(sqlx_macros::FromRow)]
struct EndedRow {
    id: String,
    #[sqlx(rename = "account_id")]
    account: String,
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

/// The repository of webhooks.
#[derive(Clone, Debug)]
pub struct Webhooks {
    pub(crate) db: Db,
}

impl Webhooks {
    /// Stores a webhook, unless the account has `limit` webhooks. Stores an agent's subscription,
    /// unless the account has `limit` subscriptions or the credential has `credential_limit`
    /// subscriptions.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn add(
        &self,
        new: NewWebhook<'_>,
        limit: i64,
        credential_limit: i64,
        now: Timestamp,
        origin: &Origin,
    ) -> Result<Added, Error> {
        let mut tx = self.db.begin_locked(new.account).await?;
        if !tx.exists(IS_LIVE, (new.app_password, now)).await? {
            return Ok(Added::CredentialEnded);
        }
        if let Some(subscription) = new.subscription
            && tx.exists(IS_STORED, [subscription]).await?
        {
            return Ok(Added::Exists);
        }
        let count: i64 = if new.subscription.is_some() {
            let of_credential = (new.app_password, now);
            let count: i64 = tx.value(COUNT_OF_CREDENTIAL, of_credential).await?;
            if count >= credential_limit {
                return Ok(Added::CredentialFull);
            }
            tx.value(COUNT_SUBSCRIPTIONS, (new.account, now)).await?
        } else {
            tx.value(COUNT, [new.account]).await?
        };
        if count >= limit {
            return Ok(Added::Full);
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

    /// Returns the webhooks that can send events, without their settings, because each host reads
    /// this list every few seconds.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn sending(&self, now: Timestamp) -> Result<Vec<ActiveWebhook>, Error> {
        let mut webhooks: Vec<ActiveWebhook> = self.db.all(ACTIVE, [now]).await?;
        webhooks.retain(|one| one.valid && may_read_mail(one.scopes.as_deref()));
        Ok(webhooks)
    }

    /// Returns the webhooks of a mailbox that are not disabled, also those whose credentials are
    /// suspended.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn active_of_mailbox(
        &self,
        mailbox: &str,
        now: Timestamp,
    ) -> Result<Vec<ActiveWebhook>, Error> {
        self.db.all(ACTIVE_OF_MAILBOX, (now, mailbox)).await
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
                    account: ended.account,
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
            &webhook.state,
        );
        Ok(self.db.execute(CHANGE, parameters).await? == 1)
    }

    /// Disables a webhook, and records the reason in the audit log. Returns `false`, and changes
    /// nothing, if the webhook is not active or its settings were changed after it was read.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn disable(
        &self,
        webhook: &Webhook,
        reason: &str,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let mut tx = self.db.begin().await?;
        let parameters = (&webhook.id, reason, &webhook.sealed_settings);
        if tx.execute(DISABLE, parameters).await? == 0 {
            return Ok(false);
        }
        let event = Event::of(Kind::WebhookDisabled, &webhook.mailbox, now);
        let event = event.about(&webhook.id).detail(reason);
        events::commit(tx, event, &Origin::service()).await?;
        Ok(true)
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
            deliveries::insert(&mut tx, &webhook.id, *delivery, now).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes deliveries that are older than [`RETENTION`], and expired subscriptions.
    pub(super) async fn sweep(&self, now: Timestamp) -> Result<(), Error> {
        self.db.execute(DELETE_EXPIRED, [now]).await?;
        self.db.execute(SWEEP, [now.minus(RETENTION)]).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
