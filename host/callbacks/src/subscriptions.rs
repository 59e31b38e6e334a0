//! Subscriptions of agents: webhooks with the secret of the client, whose receivers are verified
//! (MCP Events, SEP-3415). A subscription belongs to the OAuth grant of the client and expires.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::clock::Timestamp;
use latchmail_core::error::Problem;
use latchmail_core::{codes, secrets};
use latchmail_directory::webhooks::{Added, Change, Ended, NewWebhook};
use serde_json::{Value, json};
use subtle::ConstantTimeEq as _;
use tokio::time::sleep;

use crate::error::Error;
use crate::secret::Secret;
use crate::sender::Message;
use crate::settings::{StoredSettings, WebhookSettings};
use crate::webhooks::{Owner, ROTATION, Webhooks, changed_concurrently};

/// Maximum number of subscriptions of a grant.
const MAX_OF_GRANT: u32 = 20;
/// Maximum number of subscriptions of an account.
pub(crate) const MAX_OF_ACCOUNT: u32 = 80;
/// The shortest and the longest time until a subscription must be refreshed.
const MIN_LIFETIME: Duration = Duration::from_mins(1);
const MAX_LIFETIME: Duration = Duration::from_hours(7 * 24);
/// Maximum number of attempts to change a subscription that another request changes.
const ATTEMPTS: usize = 5;
/// The delay until the end of a subscription asks again for a permit of its receiver.
const BUSY_DELAY: Duration = Duration::from_millis(500);
/// The code of the error of a subscription that ended with its grant.
const FORBIDDEN: i64 = -32012;

/// A request of an agent to send events to a URL.
#[derive(Clone)]
pub struct NewSubscription {
    /// The type of the events.
    pub name: String,
    /// The path of the only folder whose events are sent.
    pub folder: Option<String>,
    /// The URL of the receiver.
    pub url: String,
    /// The secret with which the receiver verifies signatures.
    pub secret: String,
    /// The suggested time until the refresh.
    pub lifetime: Option<Duration>,
}

impl fmt::Debug for NewSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut new = f.debug_struct("NewSubscription");
        new.field("name", &self.name).finish_non_exhaustive()
    }
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    /// The id, which is the same after each refresh.
    pub id: String,
    /// The time until which the agent must refresh the subscription.
    pub refresh_before: Timestamp,
    /// `false` if the service suspended the deliveries before this request.
    pub was_active: bool,
    /// The time of the last successful delivery.
    pub last_delivery_at: Option<Timestamp>,
    /// The reason of the last failure.
    pub last_error: Option<String>,
    /// The time of the first failure after the last success.
    pub failing_since: Option<Timestamp>,
}

/// The reason why there is no subscription.
#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// A limit is exceeded.
    #[error("at most {max} {limit}")]
    Limit {
        /// The name of the limit.
        limit: &'static str,
        /// The limit.
        max: u32,
    },
    /// The receiver is not reachable or was not verified, for this reason.
    #[error("the callback was not verified: {0}")]
    Callback(&'static str),
    /// Another reason.
    #[error("{0}")]
    Failed(#[from] Error),
}

impl From<latchmail_core::error::Failure> for SubscribeError {
    fn from(failure: latchmail_core::error::Failure) -> Self {
        Self::Failed(failure.into())
    }
}

impl From<latchmail_directory::Error> for SubscribeError {
    fn from(error: latchmail_directory::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Returns `false` if another request has just stored the subscription.
fn is_added(added: Added) -> Result<bool, SubscribeError> {
    let exceeded = |limit, max| Err(SubscribeError::Limit { limit, max });
    match added {
        Added::Added => Ok(true),
        Added::Exists => Ok(false),
        Added::CredentialFull => exceeded("subscriptions", MAX_OF_GRANT),
        Added::Full => exceeded("account_subscriptions", MAX_OF_ACCOUNT),
        Added::CredentialEnded => {
            let refused = latchmail_mailbox::Error::CredentialRefused;
            Err(SubscribeError::Failed(refused.into()))
        }
    }
}

impl Webhooks {
    /// Creates or refreshes a subscription. A refresh replaces the secret, renews the time, and
    /// resumes suspended deliveries.
    ///
    /// # Errors
    /// Returns [`SubscribeError::Callback`] if the receiver does not prove that it expects the
    /// events, [`SubscribeError::Limit`] if a limit is exceeded, and otherwise an error under the
    /// same conditions as [`Webhooks::create`].
    pub async fn subscribe(
        &self,
        owner: &Owner,
        new: NewSubscription,
    ) -> Result<Subscribed, SubscribeError> {
        let app_password = owner.app_password()?;
        let invalid = |text: &'static str| {
            let problem = Problem::new(codes::INVALID_WEBHOOK, text);
            SubscribeError::Failed(Error::Invalid(problem))
        };
        let secret = Secret::parse(&new.secret).ok_or_else(|| {
            invalid("secret must be whsec_ and 24 to 64 bytes in standard base64")
        })?;
        let id = subscription_id(
            owner,
            app_password,
            &new.name,
            new.folder.as_deref(),
            &new.url,
        );
        let settings = WebhookSettings {
            url: new.url,
            types: Some(vec![new.name]),
            folder: new.folder,
            payload: "summary".into(),
        };
        // Checks the settings before the receiver is called.
        let cursor = self.check(&owner.access, &settings).await?;
        let caller = (owner.access.caller(), app_password);
        self.verify(caller, &id, &settings.url, &secret).await?;
        let lifetime = new.lifetime.unwrap_or(MAX_LIFETIME);
        let lifetime = lifetime.clamp(MIN_LIFETIME, MAX_LIFETIME);
        for _ in 0..ATTEMPTS {
            let now = self.jobs.now().await?;
            let expires_at = now.plus(lifetime);
            let Some(existing) = self.stored.by_subscription(&id, now).await? else {
                // An expired subscription has a row until the sweep deletes it.
                self.stored.delete_expired(&id, now).await?;
                let webhook = secrets::id()?;
                let stored = StoredSettings::new(settings.clone(), secret.clone());
                let detail = self.detail(&settings.url);
                let new = NewWebhook {
                    id: &webhook,
                    account: owner.access.caller(),
                    mailbox: &owner.access.account,
                    app_password,
                    subscription: Some(&id),
                    cursor: &cursor,
                    expires_at: Some(expires_at),
                    sealed_settings: &stored.seal(&self.keys, &webhook)?,
                    detail: &detail,
                };
                let (limit, of_grant) = (MAX_OF_ACCOUNT.into(), MAX_OF_GRANT.into());
                let added = self.stored.add(new, limit, of_grant, now, &owner.origin);
                if !is_added(added.await?)? {
                    continue;
                }
                self.changed.notify_one();
                return Ok(Subscribed {
                    id,
                    refresh_before: expires_at,
                    was_active: true,
                    last_delivery_at: None,
                    last_error: None,
                    failing_since: None,
                });
            };
            let mut stored = self.open(&existing)?;
            stored.rotate(secret.clone(), now.plus(ROTATION));
            let change = Change {
                sealed_settings: &stored.seal(&self.keys, &existing.id)?,
                active: true,
                reason: None,
                expires_at: Some(expires_at),
                cursor: None,
            };
            if !self.stored.change(&existing, change).await? {
                continue;
            }
            self.resume(&existing).await?;
            let status = self.stored.last_attempts(&existing.id).await?;
            return Ok(Subscribed {
                id,
                refresh_before: expires_at,
                was_active: existing.is_active(),
                last_delivery_at: status.delivered_at,
                last_error: status.error,
                failing_since: existing.failing_since(),
            });
        }
        Err(SubscribeError::Failed(changed_concurrently()))
    }

    /// Ends a subscription. Returns `false` if there is no such subscription.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn unsubscribe(
        &self,
        owner: &Owner,
        name: &str,
        folder: Option<&str>,
        url: &str,
    ) -> Result<bool, Error> {
        let id = subscription_id(owner, owner.app_password()?, name, folder, url);
        let now = self.jobs.now().await?;
        let Some(webhook) = self.stored.by_subscription(&id, now).await? else {
            return Ok(false);
        };
        Ok(self.stored.delete(&webhook, now, &owner.origin).await?)
    }

    /// Verifies that the receiver expects the events: the receiver must return a random text. The
    /// receiver of an active subscription is verified already, because the id of a subscription
    /// depends on the URL. `caller` is the account and the app password of the credential.
    async fn verify(
        &self,
        (account, app_password): (&str, &str),
        subscription: &str,
        url: &str,
        secret: &Secret,
    ) -> Result<(), SubscribeError> {
        let key = (app_password.to_owned(), url.to_owned());
        if self.verified.contains(&key) {
            return Ok(());
        }
        let now = self.jobs.now().await?;
        let existing = self.stored.by_subscription(subscription, now).await?;
        if existing.is_some_and(|existing| existing.is_active()) {
            return Ok(());
        }
        let exceeded = |(limit, max)| SubscribeError::Limit { limit, max };
        let permit = self.sender.permit(account, url);
        let _permit = permit.map_err(|max| exceeded(("receiver_requests", max)))?;
        let receiver = self.detail(url);
        let counted = self.verified.count(app_password, &receiver);
        counted.await.map_err(exceeded)?;
        let challenge = secrets::id()?;
        let body = json!({ "type": "verification", "challenge": challenge }).to_string();
        let id = format!("msg_verification_{}", secrets::id()?);
        let response = self
            .sender
            .send(Message {
                url,
                id: &id,
                secrets: &[secret],
                subscription: Some(subscription),
                body: &body,
            })
            .await;
        let response = response.map_err(|refusal| SubscribeError::Callback(refusal.reason()))?;
        let response: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let returned = response["challenge"].as_str().unwrap_or_default();
        if !bool::from(returned.as_bytes().ct_eq(challenge.as_bytes())) {
            return Err(SubscribeError::Callback("challenge_failed"));
        }
        self.verified.insert(key);
        Ok(())
    }

    /// Tells an agent that its subscription has ended with its grant. Tries once.
    pub(crate) async fn terminate(self: Arc<Self>, ended: Ended) {
        let Ok(settings) = StoredSettings::open(&self.keys, &ended.id, &ended.sealed_settings)
        else {
            return;
        };
        // A grant can have more subscriptions at one receiver than the receiver gets requests.
        let _permit = loop {
            let permit = self.sender.permit(&ended.account, &settings.settings.url);
            if let Ok(permit) = permit {
                break permit;
            }
            sleep(BUSY_DELAY).await;
        };
        let (Ok(now), Ok(id)) = (self.jobs.now().await, secrets::id()) else {
            return;
        };
        let error = json!({ "code": FORBIDDEN, "message": "The access of the client has ended" });
        let body = json!({ "type": "terminated", "error": error }).to_string();
        let id = format!("msg_terminated_{id}");
        let sent = self
            .sender
            .send(Message {
                url: &settings.settings.url,
                id: &id,
                secrets: &settings.secrets(now),
                subscription: Some(&ended.subscription),
                body: &body,
            })
            .await;
        if let Err(refusal) = sent {
            tracing::debug!(
                ?refusal,
                "an agent was not told that its subscription has ended"
            );
        }
    }
}

/// Returns the id of a subscription, which depends on the grant, the URL, the name and the
/// arguments.
fn subscription_id(
    owner: &Owner,
    app_password: &str,
    name: &str,
    folder: Option<&str>,
    url: &str,
) -> String {
    // JSON distinguishes the parts and a missing folder.
    let key = json!([owner.access.account, app_password, url, name, folder]);
    secrets::sha256_hex(&key.to_string())[..32].to_owned()
}
