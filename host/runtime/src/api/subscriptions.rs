//! The interface `subscriptions`, for the subscriptions of agents to events.

use std::time::Duration;

use latchmail_bindings::HostError;
use latchmail_bindings::latchmail::host::subscriptions::{self as wit, Host, SubscribeError};
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_callbacks::{self as webhooks, NewSubscription};
use latchmail_core::clock::Timestamp;

use super::call::Call;
use super::host_call::host_call;
use super::webhooks::{owner, sender, webhook_error};

impl Host for Call {
    fn convert_subscribe_error(
        &mut self,
        error: HostError<SubscribeError>,
    ) -> wasmtime::Result<SubscribeError> {
        error.into_guest()
    }

    async fn subscribe(
        &mut self,
        new: wit::NewSubscription,
    ) -> Result<wit::Subscribed, HostError<SubscribeError>> {
        let _span = host_call("subscriptions.subscribe");
        let owner = sender(self)?;
        let new = NewSubscription {
            name: new.name,
            folder: new.folder,
            url: new.url,
            secret: new.secret,
            lifetime: new.lifetime.map(Duration::from_millis),
        };
        let subscribed = self.services.webhooks.subscribe(&owner, new).await;
        let subscribed = subscribed.map_err(subscribe_error)?;
        Ok(wit::Subscribed {
            id: subscribed.id,
            refresh_before: subscribed.refresh_before.millis(),
            was_active: subscribed.was_active,
            last_delivery_at: subscribed.last_delivery_at.map(Timestamp::millis),
            last_error: subscribed.last_error,
            failing_since: subscribed.failing_since.map(Timestamp::millis),
        })
    }

    async fn unsubscribe(
        &mut self,
        name: String,
        folder: Option<String>,
        url: String,
    ) -> Result<(), HostError<Error>> {
        let _span = host_call("subscriptions.unsubscribe");
        let owner = owner(self)?;
        let webhooks = &self.services.webhooks;
        let ended = webhooks.unsubscribe(&owner, &name, folder.as_deref(), &url);
        let ended = ended.await.map_err(webhook_error)?;
        Ok(ended.then_some(()).ok_or(Error::NotFound)?)
    }
}

fn subscribe_error(error: webhooks::SubscribeError) -> SubscribeError {
    match error {
        webhooks::SubscribeError::Limit { limit, max } => SubscribeError::Exceeded(wit::Exceeded {
            limit: limit.into(),
            max,
        }),
        webhooks::SubscribeError::Callback(reason) => SubscribeError::Callback(reason.into()),
        webhooks::SubscribeError::Failed(error) => SubscribeError::Failed(webhook_error(error)),
    }
}
