//! The webhooks and the subscriptions of the fake host. The fake host sends no events. A test event
//! is always delivered.

use latchmail_shape::codes;
use latchmail_shape::event_type::EventType;

use super::{FakeHost, Need};
use crate::capability::{
    CreatedWebhook, Error, ExceededLimit, FolderFilter, Kind, NewSubscription, Scope,
    SubscribeError, Subscribed, Subscriptions, TypeFilter, Webhook, WebhookChange, WebhookDelivery,
    WebhookSettings, Webhooks,
};

/// Maximum number of webhooks of an account.
const MAX_WEBHOOKS: usize = 20;
/// Maximum number of subscriptions of a credential.
const MAX_SUBSCRIPTIONS: u32 = 20;
/// The longest time until a subscription must be refreshed, in milliseconds.
const MAX_LIFETIME: u64 = 7 * 24 * 3_600_000;
/// A webhook with its deliveries.
#[derive(Debug)]
pub(super) struct StoredWebhook {
    webhook: Webhook,
    /// The kind of the credential that created the webhook.
    kind: Kind,
    deliveries: Vec<WebhookDelivery>,
}

/// Sets the state of all deliveries of the signed-in account's webhooks.
#[track_caller]
pub fn set_webhook_deliveries(host: &FakeHost, state: &str) {
    host.with_account(|account| {
        let webhooks = account.webhooks.iter_mut();
        for delivery in webhooks.flat_map(|one| &mut one.deliveries) {
            delivery.state = state.into();
        }
    });
}

/// Makes the receivers of the signed-in account's next subscriptions fail with this reason.
#[track_caller]
pub fn fail_callbacks(host: &FakeHost, reason: &str) {
    host.with_account(|account| account.callback_fault = Some(reason.into()));
}

fn invalid(text: impl Into<String>) -> Error {
    Error::invalid(codes::INVALID_WEBHOOK, text)
}

fn check(host: &FakeHost, settings: &WebhookSettings) -> Result<(), Error> {
    if !["ids", "summary"].contains(&settings.payload.as_str()) {
        return Err(invalid("payload must be ids or summary"));
    }
    if settings.types.as_ref().is_some_and(Vec::is_empty) {
        return Err(invalid("types must contain types of events, each once"));
    }
    let types = settings.types.as_deref().unwrap_or_default();
    for (index, name) in types.iter().enumerate() {
        if types[..index].contains(name) {
            return Err(invalid(format!("types[{index}] is repeated")));
        }
        if EventType::named(name).is_none() {
            let text = format!("types[{index}] is not a type of an event");
            return Err(invalid(text));
        }
    }
    let is_url = settings.url.contains("://") && settings.url.len() <= 2048;
    let text = if !is_url {
        "url must be an absolute URL in ASCII of at most 2048 characters, without user information and fragment"
    } else if !settings.url.starts_with("https://") {
        "url must start with https://"
    } else {
        let folder = settings.folder.as_deref();
        let is_known = folder.is_none_or(|path| host.with_account(|one| one.mail.has(path)));
        return is_known.then_some(()).ok_or(Error::NotFound);
    };
    Err(Error::invalid(codes::INVALID_WEBHOOK_URL, text))
}

/// Calls `act` with a webhook that the caller manages.
fn with_webhook<T>(
    host: &FakeHost,
    id: &str,
    act: impl FnOnce(&mut StoredWebhook) -> Result<T, Error>,
) -> Result<T, Error> {
    host.authorize(Need::Scope(Scope::MailRead))?;
    let kind = host.caller.borrow().kind();
    host.with_account(|account| {
        let mut webhooks = account.webhooks.iter_mut();
        let found = webhooks.find(|one| one.webhook.id == id && one.is_managed_by(kind));
        act(found.ok_or(Error::NotFound)?)
    })
}

impl StoredWebhook {
    fn is_managed_by(&self, kind: Kind) -> bool {
        kind == Kind::Session || kind == self.kind
    }
}

impl Webhooks for FakeHost {
    fn create_webhook(&self, settings: &WebhookSettings) -> Result<CreatedWebhook, Error> {
        self.authorize(Need::Scope(Scope::MailRead))?;
        check(self, settings)?;
        let id = format!("webhook-{}", self.next_number("webhook"));
        let (now, kind) = (self.now(), self.caller.borrow().kind());
        self.with_account(|account| {
            if account.webhooks.len() == MAX_WEBHOOKS {
                let text = format!("An account can have at most {MAX_WEBHOOKS} webhooks");
                return Err(Error::conflict(codes::TOO_MANY_WEBHOOKS, text));
            }
            let webhook = Webhook {
                id: id.clone(),
                settings: settings.clone(),
                enabled: true,
                reason: None,
                failing_since: None,
                created_at: now,
            };
            account.webhooks.push(StoredWebhook {
                webhook: webhook.clone(),
                kind,
                deliveries: Vec::new(),
            });
            Ok(CreatedWebhook {
                webhook,
                secret: format!("whsec_{id}"),
            })
        })
    }

    fn list_webhooks(&self) -> Result<Vec<Webhook>, Error> {
        let kind = self.caller.borrow().kind();
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let webhooks = account.webhooks.iter();
            let managed = webhooks.filter(|one| one.is_managed_by(kind));
            Ok(managed.map(|one| one.webhook.clone()).collect())
        })
    }

    fn get_webhook(&self, id: &str) -> Result<Webhook, Error> {
        with_webhook(self, id, |stored| Ok(stored.webhook.clone()))
    }

    fn change_webhook(&self, id: &str, change: &WebhookChange) -> Result<Webhook, Error> {
        let mut settings = self.get_webhook(id)?.settings;
        let change = change.clone();
        settings.url = change.url.unwrap_or(settings.url);
        settings.types = match change.types {
            None => settings.types,
            Some(TypeFilter::All) => None,
            Some(TypeFilter::Only(types)) => Some(types),
        };
        settings.folder = match change.folder {
            None => settings.folder,
            Some(FolderFilter::All) => None,
            Some(FolderFilter::Only(path)) => Some(path),
        };
        settings.payload = change.payload.unwrap_or(settings.payload);
        check(self, &settings)?;
        with_webhook(self, id, |stored| {
            let webhook = &mut stored.webhook;
            webhook.settings = settings;
            webhook.enabled = change.enabled.unwrap_or(webhook.enabled);
            Ok(webhook.clone())
        })
    }

    fn delete_webhook(&self, id: &str) -> Result<(), Error> {
        with_webhook(self, id, |_| Ok(()))?;
        self.with_account(|account| account.webhooks.retain(|one| one.webhook.id != id));
        Ok(())
    }

    fn rotate_webhook(&self, id: &str) -> Result<String, Error> {
        let number = self.next_number("secret");
        with_webhook(self, id, |_| Ok(format!("whsec_{id}_{number}")))
    }

    fn test_webhook(&self, id: &str) -> Result<WebhookDelivery, Error> {
        let (number, now) = (self.next_number("delivery"), self.now());
        with_webhook(self, id, |stored| {
            let delivery = WebhookDelivery {
                id: format!("delivery-{number}"),
                event_id: format!("test_{number}"),
                event_type: "webhook.test".into(),
                state: "delivered".into(),
                attempts: 1,
                status: Some(200),
                error: None,
                created_at: now,
                attempted_at: Some(now),
                next_at: None,
            };
            stored.deliveries.push(delivery.clone());
            Ok(delivery)
        })
    }

    fn webhook_deliveries(&self, id: &str, limit: u32) -> Result<Vec<WebhookDelivery>, Error> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        with_webhook(self, id, |stored| {
            let newest = stored.deliveries.iter().rev();
            Ok(newest.take(limit).cloned().collect())
        })
    }

    fn replay_delivery(&self, id: &str, delivery: &str) -> Result<WebhookDelivery, Error> {
        let now = self.now();
        with_webhook(self, id, |stored| {
            let mut deliveries = stored.deliveries.iter_mut();
            let found = deliveries.find(|one| one.id == delivery);
            let delivery = found.ok_or(Error::NotFound)?;
            let conflict = |text: &str| Err(Error::conflict(codes::WEBHOOK_CONFLICT, text));
            if !stored.webhook.enabled {
                return conflict("The webhook is disabled");
            }
            if delivery.state == "pending" {
                return conflict("The delivery is pending");
            }
            delivery.state = "pending".into();
            delivery.attempts = 0;
            delivery.next_at = Some(now);
            Ok(delivery.clone())
        })
    }
}

/// A subscription: its name, its folder and its URL, with its id.
pub(super) type StoredSubscription = ((String, Option<String>, String), String);

impl Subscriptions for FakeHost {
    fn subscribe(&self, subscription: &NewSubscription) -> Result<Subscribed, SubscribeError> {
        self.authorize(Need::Scope(Scope::MailRead))?;
        if !subscription.secret.starts_with("whsec_") {
            let text = "secret must be whsec_ and 24 to 64 bytes in standard base64";
            return Err(invalid(text).into());
        }
        let settings = WebhookSettings {
            url: subscription.url.clone(),
            types: Some(vec![subscription.name.clone()]),
            folder: subscription.folder.clone(),
            payload: "summary".into(),
        };
        check(self, &settings)?;
        let lifetime = subscription.lifetime.unwrap_or(MAX_LIFETIME);
        let lifetime = i64::try_from(lifetime.min(MAX_LIFETIME)).unwrap_or(0);
        let refresh_before = self.now() + lifetime;
        let key = (subscription.name.clone(), settings.folder, settings.url);
        let next = format!("subscription-{}", self.next_number("subscription"));
        let id = self.with_account(|account| {
            if let Some(reason) = account.callback_fault.clone() {
                return Err(SubscribeError::Callback(reason));
            }
            let subscriptions = &mut account.subscriptions;
            if let Some((_, id)) = subscriptions.iter().find(|(known, _)| *known == key) {
                return Ok(id.clone());
            }
            if subscriptions.len() >= MAX_SUBSCRIPTIONS as usize {
                return Err(SubscribeError::Exceeded(ExceededLimit {
                    limit: "subscriptions".into(),
                    max: MAX_SUBSCRIPTIONS,
                }));
            }
            subscriptions.push((key, next.clone()));
            Ok(next)
        })?;
        Ok(Subscribed {
            id,
            refresh_before,
            was_active: true,
            last_delivery_at: None,
            last_error: None,
            failing_since: None,
        })
    }

    fn unsubscribe(&self, name: &str, folder: Option<&str>, url: &str) -> Result<(), Error> {
        self.allow(Need::Scope(Scope::MailRead), |account| {
            let before = account.subscriptions.len();
            account.subscriptions.retain(|((one, path, to), _)| {
                (one.as_str(), path.as_deref(), to.as_str()) != (name, folder, url)
            });
            let is_removed = account.subscriptions.len() < before;
            is_removed.then_some(()).ok_or(Error::NotFound)
        })
    }
}
