//! Starts the jobs of webhooks when their mailboxes change.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use latchmail_core::metrics;
use latchmail_directory::hosts::Hosts;
use latchmail_events::{
    Subscriber, SubscriberError, SubscriberWatch, Subscribers, watch_subscribers,
};

use crate::error::Error;
use crate::webhooks::Webhooks;

/// The webhooks and the subscriptions of agents, as subscribers of mailboxes.
#[derive(Debug)]
struct WebhookSubscribers(Arc<Webhooks>);

impl Webhooks {
    /// Watches this host's share of the mailboxes with webhooks, and ends the subscriptions of
    /// agents whose grants have ended. Runs until the task is aborted.
    pub async fn watch(self: Arc<Self>, hosts: Hosts) {
        let watch = SubscriberWatch {
            watcher: Arc::clone(&self.watcher),
            hosts,
            mail: Arc::clone(&self.mail),
            rights: Arc::clone(&self.rights),
            keys: Arc::clone(&self.keys),
        };
        let subscribers = Arc::new(WebhookSubscribers(Arc::clone(&self)));
        // A request of this host can have changed a webhook.
        watch_subscribers(watch, subscribers, &self.changed).await;
    }

    async fn subscribers(self: &Arc<Self>) -> Result<Vec<(String, Subscriber)>, Error> {
        for ended in self.stored.delete_ended().await? {
            tokio::spawn(Arc::clone(self).terminate(ended));
        }
        let now = self.jobs.now().await?;
        let sending = self.stored.sending(now).await?.into_iter();
        let subscribers = sending.map(|webhook| {
            let subscriber = Subscriber {
                account: webhook.account,
                id: webhook.id,
            };
            (webhook.mailbox, subscriber)
        });
        Ok(subscribers.collect())
    }

    async fn wake_mailbox(&self, mailbox: &str) -> Result<(), Error> {
        let now = self.jobs.now().await?;
        for webhook in self.stored.active_of_mailbox(mailbox, now).await? {
            self.wake(&webhook.account, &webhook.id, now).await?;
        }
        Ok(())
    }
}

impl Subscribers for WebhookSubscribers {
    fn name(&self) -> &'static str {
        "webhooks"
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(String, Subscriber)>, SubscriberError>> {
        Box::pin(async move { Ok(self.0.subscribers().await?) })
    }

    fn start<'a>(
        &'a self,
        subscriber: &'a Subscriber,
    ) -> BoxFuture<'a, Result<(), SubscriberError>> {
        let (account, id) = (&subscriber.account, &subscriber.id);
        Box::pin(async move { Ok(self.0.wake_now(account, id).await?) })
    }

    fn start_all<'a>(&'a self, mailbox: &'a str) -> BoxFuture<'a, Result<(), SubscriberError>> {
        Box::pin(async move { Ok(self.0.wake_mailbox(mailbox).await?) })
    }

    fn set_watched(&self, mailboxes: usize) {
        metrics::WEBHOOK_MAILBOXES.set([], mailboxes);
    }
}
