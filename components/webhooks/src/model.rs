//! The JSON of webhooks and of their deliveries.

use latchmail_sdk::capability::{self, FolderFilter, TypeFilter};
use latchmail_sdk::time::iso8601;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// What events contain.
#[derive(ToSchema)]
#[schema(as = WebhookPayload, rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
pub(crate) enum Payload {
    Ids,
    Summary,
}

/// A new webhook.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "url": "https://example.com/hook", "types": ["message.created"], "folder": "INBOX",
    "payload": "summary"
}))]
pub(crate) struct WebhookRequest {
    /// The URL of the receiver. It must use HTTPS and have a public address, unless the operator
    /// allows the receiver.
    #[schema(max_length = 2048)]
    pub(crate) url: String,
    /// The types of events. Absent or `null` for all types, including types of later versions.
    #[serde(default)]
    #[schema(min_items = 1)]
    pub(crate) types: Option<Vec<String>>,
    /// The path of the only folder whose events are sent. Absent or `null` for all folders.
    #[serde(default)]
    pub(crate) folder: Option<String>,
    /// `ids`, the default: the data of the change log. `summary`: for messages, also the sender,
    /// the subject and the date at the time of the first attempt.
    #[serde(default = "ids")]
    #[schema(value_type = Payload)]
    pub(crate) payload: String,
}

fn ids() -> String {
    "ids".into()
}

/// The changes of a webhook. A field that is absent stays as it is.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"enabled": true}))]
pub(crate) struct WebhookChange {
    /// The URL of the receiver.
    #[schema(max_length = 2048, nullable = false)]
    pub(crate) url: Option<String>,
    /// The types of events. `null` for all types.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, min_items = 1)]
    pub(crate) types: FilterChange<Vec<String>>,
    /// The path of the only folder whose events are sent. `null` for all folders. After a change,
    /// the next event is the next change of the mailbox.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub(crate) folder: FilterChange<String>,
    /// What events contain.
    #[schema(value_type = Option<Payload>, nullable = false)]
    pub(crate) payload: Option<String>,
    /// Whether events are sent. An enabled webhook continues with the events that it has not sent.
    #[schema(nullable = false)]
    pub(crate) enabled: Option<bool>,
}

impl From<WebhookChange> for capability::WebhookChange {
    fn from(change: WebhookChange) -> Self {
        Self {
            url: change.url,
            types: match change.types {
                FilterChange::Keep => None,
                FilterChange::Set(None) => Some(TypeFilter::All),
                FilterChange::Set(Some(types)) => Some(TypeFilter::Only(types)),
            },
            folder: match change.folder {
                FilterChange::Keep => None,
                FilterChange::Set(None) => Some(FolderFilter::All),
                FilterChange::Set(Some(path)) => Some(FolderFilter::Only(path)),
            },
            payload: change.payload,
            enabled: change.enabled,
        }
    }
}

/// The change of a filter, which can be `null`.
#[derive(Default)]
pub(crate) enum FilterChange<T> {
    /// The field is absent.
    #[default]
    Keep,
    /// The new value. `None` for `null`.
    Set(Option<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for FilterChange<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::Set)
    }
}

impl WebhookRequest {
    pub(crate) fn into_settings(self) -> capability::WebhookSettings {
        capability::WebhookSettings {
            url: self.url,
            types: self.types,
            folder: self.folder,
            payload: self.payload,
        }
    }
}

/// A webhook.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Webhook)]
pub(crate) struct Webhook {
    /// An opaque id.
    id: String,
    /// The URL of the receiver.
    url: String,
    /// The types of events, or `null` for all types.
    types: Option<Vec<String>>,
    /// The path of the only folder whose events are sent, or `null` for all folders.
    folder: Option<String>,
    /// What events contain.
    #[schema(value_type = Payload)]
    payload: String,
    /// `active`, or `disabled` by the service or by a client.
    #[schema(pattern = "^(?:active|disabled)$")]
    state: String,
    /// The reason why the service disabled the webhook, otherwise `null`.
    reason: Option<String>,
    /// The time of the first failure after the last success, or `null`.
    #[schema(format = DateTime)]
    failing_since: Option<String>,
    /// The time of the creation.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<capability::Webhook> for Webhook {
    fn from(webhook: capability::Webhook) -> Self {
        Self {
            id: webhook.id,
            url: webhook.settings.url,
            types: webhook.settings.types,
            folder: webhook.settings.folder,
            payload: webhook.settings.payload,
            state: if webhook.enabled {
                "active"
            } else {
                "disabled"
            }
            .into(),
            reason: webhook.reason,
            failing_since: webhook.failing_since.map(iso8601),
            created_at: iso8601(webhook.created_at),
        }
    }
}

/// A new webhook with its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct CreatedWebhook {
    #[serde(flatten)]
    pub(crate) webhook: Webhook,
    /// The secret with which receivers verify signatures. No other response contains it.
    pub(crate) secret: String,
}

/// The webhooks.
#[derive(Serialize, ToSchema)]
pub(crate) struct Webhooks {
    /// The webhooks, oldest first.
    pub(crate) webhooks: Vec<Webhook>,
}

/// The new secret of a webhook.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookSecret {
    /// The secret with which receivers verify signatures. For 24 hours, events are also signed with
    /// the previous secret.
    pub(crate) secret: String,
}

/// An event for a webhook.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WebhookDelivery)]
pub(crate) struct Delivery {
    /// An opaque id.
    id: String,
    /// The id of the event, which the receiver gets in `webhook-id`.
    event_id: String,
    /// The type of the event.
    r#type: String,
    /// `pending`: an attempt follows. `delivered`: the receiver accepted the event. `failed`: no
    /// attempt follows.
    #[schema(pattern = "^(?:pending|delivered|failed)$")]
    state: String,
    /// The number of attempts.
    attempts: u32,
    /// The HTTP status of the last attempt, or `null`.
    status: Option<u16>,
    /// The reason why the last attempt failed, or `null`.
    error: Option<String>,
    /// The time at which the service read the event.
    #[schema(format = DateTime)]
    created_at: String,
    /// The time of the last attempt, or `null`.
    #[schema(format = DateTime)]
    attempted_at: Option<String>,
    /// The time of the next attempt, or `null`.
    #[schema(format = DateTime)]
    next_at: Option<String>,
}

impl From<capability::WebhookDelivery> for Delivery {
    fn from(delivery: capability::WebhookDelivery) -> Self {
        Self {
            id: delivery.id,
            event_id: delivery.event_id,
            r#type: delivery.event_type,
            state: delivery.state,
            attempts: delivery.attempts,
            status: delivery.status,
            error: delivery.error,
            created_at: iso8601(delivery.created_at),
            attempted_at: delivery.attempted_at.map(iso8601),
            next_at: delivery.next_at.map(iso8601),
        }
    }
}

/// The deliveries of a webhook.
#[derive(Serialize, ToSchema)]
pub(crate) struct Deliveries {
    /// The deliveries, newest first.
    pub(crate) deliveries: Vec<Delivery>,
}
