//! Creates, lists, changes and deletes webhooks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::caller::Origin;
use latchmail_core::clock::{Clock, Timestamp};
use latchmail_core::config;
use latchmail_core::error::{Problem, StartError};
use latchmail_core::keyring::Keyring;
use latchmail_core::traces::Tracer;
use latchmail_core::{codes, secrets};
use latchmail_directory::webhooks::{
    self as directory, Added, Attempt, Change, NewDelivery, Outcome,
};
use latchmail_events::{Feed, Watcher};
use latchmail_jobs::{Jobs, NewJob};
use latchmail_mailbox::outbox::SenderAccess;
use latchmail_mailbox::{Access, Mail};
use latchmail_net::fetch::Fetch;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::content::Content;
use crate::error::Error;
use crate::secret::Secret;
use crate::sender::{Message, Refusal, Sender};
use crate::settings::{StoredSettings, WebhookChange, WebhookSettings};
use crate::verified::Verified;

/// Maximum number of webhooks of an account.
pub(crate) const MAX_WEBHOOKS: u32 = 20;
/// Maximum number of deliveries in a list.
const MAX_LISTED: u32 = 100;
/// The time for which events are also signed with the previous secret.
pub(crate) const ROTATION: Duration = Duration::from_hours(24);
/// Maximum number of attempts to change a webhook that another request changes at the same time.
const ATTEMPTS: usize = 5;
/// The kind of the jobs.
pub(crate) const KIND: &str = "webhook";
/// The type of the event that [`Webhooks::test`] sends.
const TEST: &str = "webhook.test";

/// The caller who manages webhooks.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The access to the mailbox that has the events.
    pub access: Access,
    /// The id of the app password of the caller's own credential. `None` if the credential has no
    /// app password.
    pub app_password: Option<String>,
    /// `true` if the credential is a web session.
    pub is_session: bool,
    /// The origin of the request, for the audit log.
    pub origin: Origin,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The opaque id.
    pub id: String,
    /// The settings.
    pub settings: WebhookSettings,
    /// `false` if the service or the owner disabled the webhook.
    pub active: bool,
    /// The reason why the service disabled the webhook.
    pub reason: Option<String>,
    /// The time of the first failure after the last success.
    pub failing_since: Option<Timestamp>,
    /// The time of the creation.
    pub created_at: Timestamp,
}

/// A new webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct Created {
    /// The webhook.
    pub webhook: Webhook,
    /// The secret with which receivers verify signatures.
    pub secret: String,
}

impl fmt::Debug for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut created = f.debug_struct("Created");
        created
            .field("webhook", &self.webhook)
            .finish_non_exhaustive()
    }
}

/// An event for a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The opaque id.
    pub id: String,
    /// The id of the event.
    pub event_id: String,
    /// The type of the event.
    pub event_type: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// The number of attempts.
    pub attempts: u32,
    /// The HTTP status of the last attempt.
    pub status: Option<u16>,
    /// The reason why the last attempt failed.
    pub error: Option<String>,
    /// The time of the creation.
    pub created_at: Timestamp,
    /// The time of the last attempt.
    pub attempted_at: Option<Timestamp>,
    /// The time of the next attempt.
    pub next_at: Option<Timestamp>,
}

/// The webhooks of all accounts.
#[derive(Debug)]
pub struct Webhooks {
    pub(crate) stored: directory::Webhooks,
    pub(crate) keys: Arc<Keyring>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) mail: Arc<Mail>,
    pub(crate) feed: Feed,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) rights: Arc<dyn SenderAccess>,
    pub(crate) sender: Sender,
    pub(crate) verified: Verified,
    pub(crate) tracer: Tracer,
    /// Wakes the task that watches the mailboxes of webhooks.
    pub(crate) changed: Notify,
    /// Wakes the running attempts when the grants of a member have changed.
    pub(crate) grants: watch::Sender<()>,
    /// Ends the running attempts when the service stops.
    pub(crate) stopping: CancellationToken,
}

/// The parts of the service that webhooks use.
#[derive(Debug)]
pub struct Parts {
    /// The database.
    pub stored: directory::Webhooks,
    /// The service's keys.
    pub keys: Arc<Keyring>,
    /// The jobs.
    pub jobs: Arc<Jobs>,
    /// The mailboxes.
    pub mail: Arc<Mail>,
    /// The watched mailboxes of this host.
    pub watcher: Arc<Watcher>,
    /// Finds the current access of accounts and members to mailboxes.
    pub rights: Arc<dyn SenderAccess>,
    /// The HTTP client.
    pub fetch: Fetch,
    /// The clock.
    pub clock: Clock,
    /// Begins the traces of jobs.
    pub tracer: Tracer,
}

impl Webhooks {
    /// Creates the service.
    ///
    /// # Errors
    /// Returns an error if the configuration is invalid.
    pub fn new(config: &config::Webhooks, parts: Parts) -> Result<Self, StartError> {
        Ok(Self {
            stored: parts.stored,
            keys: parts.keys,
            jobs: parts.jobs,
            feed: Feed::new(Arc::clone(&parts.mail)),
            mail: parts.mail,
            watcher: parts.watcher,
            rights: parts.rights,
            sender: Sender::new(parts.fetch, config, parts.clock.clone())?,
            verified: Verified::new(parts.clock),
            tracer: parts.tracer,
            changed: Notify::new(),
            grants: watch::Sender::new(()),
            stopping: CancellationToken::new(),
        })
    }

    /// Ends the running attempts, so that the runner of the jobs stops at once. The events are sent
    /// again later.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Checks the rights of the running attempts again. Called when the grants of a member have
    /// changed.
    pub fn check_grants(&self) {
        self.grants.send_replace(());
    }

    /// Creates a webhook. The first event is the next change of the mailbox.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the folder does not exist, [`Error::Invalid`] if a setting is
    /// invalid, [`Error::Conflict`] if the account has the maximum number of webhooks, and
    /// [`Error::Denied`] if the credential cannot have webhooks.
    pub async fn create(&self, owner: &Owner, settings: WebhookSettings) -> Result<Created, Error> {
        let app_password = owner.app_password()?;
        let cursor = self.check(&owner.access, &settings).await?;
        let (id, secret) = (secrets::id()?, Secret::generate()?);
        let now = self.jobs.now().await?;
        let detail = self.detail(&settings.url);
        let stored = StoredSettings::new(settings.clone(), secret.clone());
        let new = directory::NewWebhook {
            id: &id,
            account: owner.access.caller(),
            mailbox: &owner.access.account,
            app_password,
            subscription: None,
            cursor: &cursor,
            expires_at: None,
            sealed_settings: &stored.seal(&self.keys, &id)?,
            detail: &detail,
        };
        let limit = MAX_WEBHOOKS.into();
        let added = self.stored.add(new, limit, limit, now, &owner.origin);
        match added.await? {
            Added::Added => {}
            Added::Full | Added::CredentialFull => {
                let text = format!("An account can have at most {MAX_WEBHOOKS} webhooks");
                return Err(Error::Conflict(Problem::new(
                    codes::TOO_MANY_WEBHOOKS,
                    text,
                )));
            }
            // Only the subscription of an agent can exist.
            Added::Exists => return Err(changed_concurrently()),
            Added::CredentialEnded => {
                return Err(latchmail_mailbox::Error::CredentialRefused.into());
            }
        }
        self.changed.notify_one();
        Ok(Created {
            webhook: Webhook {
                id,
                settings,
                active: true,
                reason: None,
                failing_since: None,
                created_at: now,
            },
            secret: secret.text().to_owned(),
        })
    }

    /// Returns the webhooks that the caller can manage, oldest first: all webhooks of the mailbox
    /// for a session of its owner, the member's webhooks for a session of a member, and the
    /// webhooks of the credential for other credentials.
    ///
    /// # Errors
    /// Returns [`Error::Failed`] if the database fails.
    pub async fn list(&self, owner: &Owner) -> Result<Vec<Webhook>, Error> {
        let now = self.jobs.now().await?;
        let stored = self.stored.of_mailbox(&owner.access.account, now).await?;
        let visible = stored.into_iter().filter(|one| owner.manages(one));
        visible.map(|one| self.shown(&one)).collect()
    }

    /// Returns a webhook.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller cannot manage such a webhook.
    pub async fn get(&self, owner: &Owner, id: &str) -> Result<Webhook, Error> {
        self.shown(&self.own(owner, id).await?)
    }

    /// Changes a webhook. Keeps the values that are not in `change`, also if another request or the
    /// service changes them at the same time. If the folder changes, the next event is the next
    /// change of the mailbox.
    ///
    /// # Errors
    /// Returns an error under the same conditions as [`Self::create`], and [`Error::NotFound`] if
    /// the caller cannot manage such a webhook.
    pub async fn change(
        &self,
        owner: &Owner,
        id: &str,
        change: &WebhookChange,
    ) -> Result<Webhook, Error> {
        for _ in 0..ATTEMPTS {
            let webhook = self.own(owner, id).await?;
            let mut stored = self.open(&webhook)?;
            let settings = change.apply(&stored.settings);
            let active = change.active.unwrap_or(webhook.is_active());
            let cursor = if stored.settings.folder == settings.folder {
                settings.filter().map_err(Error::Invalid)?;
                settings.payload().map_err(Error::Invalid)?;
                self.sender.check(&settings.url).map_err(Error::Invalid)?;
                None
            } else {
                // The cursor must have the rights of the creator, who can be another account.
                let member = (webhook.account != webhook.mailbox).then_some(&*webhook.account);
                let access = self.rights.access(&webhook.mailbox, member).await?;
                let access = access.ok_or(Error::NotFound)?;
                Some(self.check(&access, &settings).await?)
            };
            stored.settings = settings;
            let change = Change {
                sealed_settings: &stored.seal(&self.keys, id)?,
                active,
                reason: webhook.reason.as_deref().filter(|_| !active),
                expires_at: None,
                cursor: cursor.as_deref(),
            };
            if self.stored.change(&webhook, change).await? {
                self.resume(&webhook).await?;
                return self.get(owner, id).await;
            }
        }
        Err(changed_concurrently())
    }

    /// Deletes a webhook with its deliveries.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller cannot manage such a webhook.
    pub async fn delete(&self, owner: &Owner, id: &str) -> Result<(), Error> {
        let webhook = self.own(owner, id).await?;
        let now = self.jobs.now().await?;
        let deleted = self.stored.delete(&webhook, now, &owner.origin).await?;
        deleted.then_some(()).ok_or(Error::NotFound)
    }

    /// Replaces the secret of a webhook, and returns the new secret. For a day, events are also
    /// signed with the previous secret.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller cannot manage such a webhook.
    pub async fn rotate(&self, owner: &Owner, id: &str) -> Result<String, Error> {
        let secret = Secret::generate()?;
        for _ in 0..ATTEMPTS {
            let webhook = self.own(owner, id).await?;
            let mut stored = self.open(&webhook)?;
            let now = self.jobs.now().await?;
            stored.rotate(secret.clone(), now.plus(ROTATION));
            let change = Change {
                sealed_settings: &stored.seal(&self.keys, id)?,
                active: webhook.is_active(),
                reason: webhook.reason.as_deref(),
                expires_at: webhook.expires_at(),
                cursor: None,
            };
            if self.stored.change(&webhook, change).await? {
                return Ok(secret.text().to_owned());
            }
        }
        Err(changed_concurrently())
    }

    /// Sends a test event once, and returns the outcome. A failure does not count towards the
    /// failures of the webhook.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller cannot manage such a webhook.
    pub async fn test(&self, owner: &Owner, id: &str) -> Result<Delivery, Error> {
        let webhook = self.own(owner, id).await?;
        let stored = self.open(&webhook)?;
        let permit = self.sender.permit(&webhook.account, &stored.settings.url);
        let Ok(_permit) = permit else {
            let text = "The service already sends many events to this receiver";
            let unavailable = latchmail_mailbox::Error::Unavailable(text.into());
            return Err(unavailable.into());
        };
        let now = self.jobs.now().await?;
        let (delivery, event) = (secrets::id()?, format!("test_{}", secrets::id()?));
        let content = Content::of_service(&event, TEST, now);
        let sent = self
            .sender
            .send(Message {
                url: &stored.settings.url,
                id: &event,
                secrets: &stored.secrets(now),
                subscription: None,
                body: content.body().unwrap_or_default(),
            })
            .await;
        let error = sent.as_ref().err().map(Refusal::text);
        let (attempt, status) = match &sent {
            Ok(response) => (Attempt::Delivered, Some(response.status)),
            Err(refusal) => (Attempt::Failed, refusal.status()),
        };
        let new = NewDelivery {
            id: &delivery,
            event_id: &event,
            event_type: TEST,
            sealed_body: &content.seal(&self.keys, &delivery)?,
        };
        let outcome = Outcome {
            attempt,
            status: status.map(|status| status.as_u16()),
            error: error.as_deref(),
        };
        let now = self.jobs.now().await?;
        self.stored.add_ended(id, new, outcome, now).await?;
        self.delivery(&webhook, &delivery).await
    }

    /// Returns the newest deliveries of a webhook, newest first.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if the caller cannot manage such a webhook.
    pub async fn deliveries(
        &self,
        owner: &Owner,
        id: &str,
        limit: u32,
    ) -> Result<Vec<Delivery>, Error> {
        let webhook = self.own(owner, id).await?;
        let stored = self.stored.deliveries(&webhook.id, limit.min(MAX_LISTED));
        Ok(stored.await?.into_iter().map(shown_delivery).collect())
    }

    /// Sends an event again, with the same id and the same body.
    ///
    /// # Errors
    /// Returns [`Error::NotFound`] if there is no such delivery, and [`Error::Conflict`] if the
    /// delivery is pending or the webhook is disabled.
    pub async fn replay(&self, owner: &Owner, id: &str, delivery: &str) -> Result<Delivery, Error> {
        let webhook = self.own(owner, id).await?;
        self.delivery(&webhook, delivery).await?;
        let conflict =
            |text: &'static str| Error::Conflict(Problem::new(codes::WEBHOOK_CONFLICT, text));
        if !webhook.is_active() {
            return Err(conflict("The webhook is disabled"));
        }
        let now = self.jobs.now().await?;
        if !self.stored.replay(id, delivery, now).await? {
            return Err(conflict("The delivery is pending"));
        }
        self.wake_now(&webhook.account, id).await?;
        self.delivery(&webhook, delivery).await
    }

    /// Starts the job of a webhook whose settings have changed. Does not wait for the time of the
    /// next attempt.
    pub(crate) async fn resume(&self, webhook: &directory::Webhook) -> Result<(), Error> {
        let now = self.jobs.now().await?;
        self.stored.retry_now(&webhook.id, now).await?;
        self.wake_now(&webhook.account, &webhook.id).await?;
        self.changed.notify_one();
        Ok(())
    }

    /// Adds the job of a webhook if none waits, and makes the job due.
    pub(crate) async fn wake_now(&self, account: &str, id: &str) -> Result<(), Error> {
        let now = self.jobs.now().await?;
        Ok(self.jobs.ensure_due(job(account, id, now)).await?)
    }

    /// Adds the job of a webhook, unless the job waits already.
    pub(crate) async fn wake(&self, account: &str, id: &str, now: Timestamp) -> Result<(), Error> {
        Ok(self.jobs.ensure(job(account, id, now)).await?)
    }

    pub(crate) fn open(&self, webhook: &directory::Webhook) -> Result<StoredSettings, Error> {
        let sealed = &webhook.sealed_settings;
        Ok(StoredSettings::open(&self.keys, &webhook.id, sealed)?)
    }

    /// Checks the settings of a webhook. Returns the current position in the change log.
    pub(crate) async fn check(
        &self,
        access: &Access,
        settings: &WebhookSettings,
    ) -> Result<String, Error> {
        settings.payload().map_err(Error::Invalid)?;
        let filter = settings.filter().map_err(Error::Invalid)?;
        self.sender.check(&settings.url).map_err(Error::Invalid)?;
        let page = self.feed.read(access, None, &filter, 1).await?;
        Ok(page.ok_or(Error::NotFound)?.cursor)
    }

    /// Returns the scheme, the host and the port of a receiver, for the audit log. The path of the
    /// URL can contain a secret.
    pub(crate) fn detail(&self, url: &str) -> String {
        let target = self.sender.check(url).map(|target| target.to_string());
        target.unwrap_or_default()
    }

    async fn own(&self, owner: &Owner, id: &str) -> Result<directory::Webhook, Error> {
        let now = self.jobs.now().await?;
        let found = self.stored.find(id, now).await?;
        let own = found.filter(|one| one.subscription.is_none() && owner.manages(one));
        own.ok_or(Error::NotFound)
    }

    async fn delivery(&self, webhook: &directory::Webhook, id: &str) -> Result<Delivery, Error> {
        let found = self.stored.delivery(&webhook.id, id).await?;
        found.map(shown_delivery).ok_or(Error::NotFound)
    }

    fn shown(&self, webhook: &directory::Webhook) -> Result<Webhook, Error> {
        Ok(Webhook {
            settings: self.open(webhook)?.settings,
            active: webhook.is_active(),
            reason: webhook.reason.clone(),
            failing_since: webhook.failing_since(),
            created_at: webhook.created_at(),
            id: webhook.id.clone(),
        })
    }
}

impl Owner {
    /// Returns the id of the app password of the credential.
    ///
    /// # Errors
    /// Returns [`Error::Denied`] if the credential has no app password, because such a credential
    /// ends without notice.
    pub(crate) fn app_password(&self) -> Result<&str, Error> {
        let text = "A token of another authorization server cannot have webhooks";
        let denied = || Error::Denied(Problem::new(codes::WEBHOOKS_NOT_ALLOWED, text));
        self.app_password.as_deref().ok_or_else(denied)
    }

    fn manages(&self, webhook: &directory::Webhook) -> bool {
        if webhook.mailbox != self.access.account {
            return false;
        }
        match (self.is_session, &self.access.member) {
            (true, None) => true,
            (true, Some(member)) => webhook.account == member.account,
            (false, _) => self.app_password.as_ref() == Some(&webhook.app_password),
        }
    }
}

/// Returns the job of a webhook. `account` is the account that created the webhook, so that the
/// webhooks of other accounts for the same mailbox use no permits of this account.
fn job<'j>(account: &'j str, id: &'j str, now: Timestamp) -> NewJob<'j> {
    NewJob {
        kind: KIND,
        key: id,
        account,
        due_at: now,
        payload: &[],
        limit: u32::MAX,
    }
}

pub(crate) fn changed_concurrently() -> Error {
    let text = "The webhook is being changed by another request";
    Error::Conflict(Problem::new(codes::WEBHOOK_CONFLICT, text))
}

fn shown_delivery(delivery: directory::Delivery) -> Delivery {
    Delivery {
        attempts: u32::try_from(delivery.attempts).unwrap_or(0),
        status: delivery.status(),
        created_at: delivery.created_at(),
        attempted_at: delivery.attempted_at(),
        next_at: delivery.next_at(),
        id: delivery.id,
        event_id: delivery.event_id,
        event_type: delivery.event_type,
        state: delivery.state,
        error: delivery.error,
    }
}
