//! Starts the jobs of modules when mailboxes change, when an owner enables a module, and when the
//! operator changes a module.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use latchmail_core::caller::Scope;
use latchmail_core::metrics;
use latchmail_directory::hosts::Hosts;
use latchmail_events::{
    Subscriber, SubscriberError, SubscriberWatch, Subscribers, watch_subscribers,
};

use crate::error::Error;
use crate::handlers::{Handlers, job};

/// The enabled modules, as subscribers of mailboxes.
#[derive(Debug)]
struct ModuleSubscribers(Arc<Handlers>);

impl Handlers {
    /// Watches this host's share of the mailboxes for which modules are enabled. Runs until the
    /// task is aborted.
    pub async fn watch(self: Arc<Self>, hosts: Hosts) {
        let watch = SubscriberWatch {
            watcher: Arc::clone(&self.watcher),
            hosts,
            mail: Arc::clone(&self.mail),
            rights: Arc::clone(&self.rights),
            keys: Arc::clone(&self.keys),
        };
        let subscribers = Arc::new(ModuleSubscribers(Arc::clone(&self)));
        watch_subscribers(watch, subscribers, &self.changed).await;
    }

    async fn subscribers(&self) -> Result<Vec<(String, Subscriber)>, Error> {
        let counts = self.stored.counts().await?;
        metrics::HANDLERS_PAUSED.clear();
        for counts in counts {
            metrics::HANDLERS_PAUSED.set([&counts.module], counts.paused);
        }
        let active = self.active_modules();
        let running = self.stored.running().await?.into_iter();
        let subscribers = running.map(|running| {
            let (account, module) = (running.account, running.module);
            let found = active.iter().find(|one| one.manifest().name == module);
            // The job starts again with another version, and with other scopes.
            let version = found.map(|one| {
                let scopes = Scope::list(&one.handler_scopes());
                format!("{} {scopes}", one.digest())
            });
            // The job also starts again after the owner or the operator has disabled the module and
            // enabled it again between two reads, because the job can have ended at that time.
            let (enabled_at, changed_at) = (running.enabled_at, running.changed_at);
            let version = version.unwrap_or_default();
            let subscriber = Subscriber {
                account: account.clone(),
                id: format!("{module}/{enabled_at} {changed_at} {version}"),
            };
            (account, subscriber)
        });
        Ok(subscribers.collect())
    }

    /// Starts the job of a module for a mailbox.
    pub(crate) async fn start(&self, account: &str, module: &str) -> Result<(), Error> {
        let now = self.jobs.now().await?;
        Ok(self.jobs.ensure_due(job(account, module, now)).await?)
    }

    async fn start_all(&self, mailbox: &str) -> Result<(), Error> {
        for module in self.stored.running_of_account(mailbox).await? {
            // A job that waits for a timer starts too.
            self.start(mailbox, &module).await?;
        }
        Ok(())
    }
}

impl Subscribers for ModuleSubscribers {
    fn name(&self) -> &'static str {
        "modules with handlers"
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<(String, Subscriber)>, SubscriberError>> {
        Box::pin(async move { Ok(self.0.subscribers().await?) })
    }

    fn start<'a>(
        &'a self,
        subscriber: &'a Subscriber,
    ) -> BoxFuture<'a, Result<(), SubscriberError>> {
        let id = &subscriber.id;
        let module = id.split_once('/').map_or(id.as_str(), |(module, _)| module);
        Box::pin(async move { Ok(self.0.start(&subscriber.account, module).await?) })
    }

    fn start_all<'a>(&'a self, mailbox: &'a str) -> BoxFuture<'a, Result<(), SubscriberError>> {
        Box::pin(async move { Ok(self.0.start_all(mailbox).await?) })
    }

    fn set_watched(&self, mailboxes: usize) {
        metrics::HANDLER_MAILBOXES.set([], mailboxes);
    }
}
