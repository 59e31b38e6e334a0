//! Starts the jobs of webhooks when their mailboxes change. Each mailbox with webhooks is watched
//! by one of the hosts that run, so that the hosts share the work. If the set of hosts changes, two
//! hosts can watch a mailbox for a few seconds, which has no other effect.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use latchmail_core::metrics;
use latchmail_directory::hosts::Hosts;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::error::Error;
use crate::webhooks::Webhooks;

/// The interval at which the webhooks and the hosts are read.
const READ_INTERVAL: Duration = Duration::from_secs(2);
/// A host that has not written its row for this time watches no mailbox. Hosts write their rows
/// every five seconds.
const HOST_AGE: Duration = Duration::from_secs(7);
/// The time after which every host knows a new current key of the service. Hosts read the key every
/// two seconds.
const KEY_DELAY: Duration = Duration::from_secs(4);
/// The interval at which a mailbox is read that this host cannot watch.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// The delay after the first failure of the database or of the mail server. Each further failure
/// doubles the delay, up to [`POLL_INTERVAL`].
const MIN_ERROR_DELAY: Duration = Duration::from_secs(1);

/// A mailbox that this host watches.
struct Watched {
    /// The accounts that created the webhooks, and the ids of the webhooks.
    webhooks: HashSet<(String, String)>,
    _task: AbortOnDropHandle<()>,
}

impl Webhooks {
    /// Watches this host's share of the mailboxes with webhooks, and ends the subscriptions of
    /// agents whose grants have ended. Runs until the task is aborted.
    pub async fn watch(self: Arc<Self>, hosts: Hosts) {
        let mut watched: HashMap<String, Watched> = HashMap::new();
        let (mut key, mut rotated_at) = (self.keys.current().id, None);
        loop {
            let current = self.keys.current().id;
            if current != key {
                (key, rotated_at) = (current, Some(Instant::now()));
            }
            if rotated_at.is_some_and(|at: Instant| at.elapsed() >= KEY_DELAY) {
                rotated_at = None;
                // Starts all jobs. Each stores its position with the new key, so that an idle
                // webhook has a valid position when the earlier key is removed.
                for one in watched.values_mut() {
                    one.webhooks.clear();
                }
            }
            if let Err(error) = self.update(&hosts, &mut watched).await {
                tracing::warn!(%error, "failed to read the webhooks");
            }
            metrics::WEBHOOK_MAILBOXES.set([], watched.len());
            // A request of this host can have changed a webhook.
            let _ = timeout(READ_INTERVAL, self.changed.notified()).await;
        }
    }

    async fn update(
        self: &Arc<Self>,
        hosts: &Hosts,
        watched: &mut HashMap<String, Watched>,
    ) -> Result<(), Error> {
        for ended in self.stored.delete_ended().await? {
            tokio::spawn(Arc::clone(self).terminate(ended));
        }
        let now = self.jobs.now().await?;
        let running = hosts.seen_within(HOST_AGE).await?;
        let mut share: HashMap<String, HashSet<(String, String)>> = HashMap::new();
        for webhook in self.stored.sending(now).await? {
            let mailbox = &webhook.mailbox;
            if share.contains_key(mailbox) || share_of(&running, mailbox) == hosts.own_host() {
                let webhooks = share.entry(webhook.mailbox).or_default();
                webhooks.insert((webhook.account, webhook.id));
            }
        }
        watched.retain(|mailbox, _| share.contains_key(mailbox));
        for (mailbox, webhooks) in share {
            if let Some(known) = watched.get_mut(&mailbox) {
                // The first event of a webhook can be from a time at which it could not send.
                for (account, webhook) in webhooks.difference(&known.webhooks) {
                    self.wake_now(account, webhook).await?;
                }
                known.webhooks = webhooks;
                continue;
            }
            let task = tokio::spawn(Arc::clone(self).watch_mailbox(mailbox.clone()));
            let task = AbortOnDropHandle::new(task);
            let new = Watched {
                webhooks,
                _task: task,
            };
            watched.insert(mailbox, new);
        }
        Ok(())
    }

    /// Starts the jobs of a mailbox after each change, and at the start.
    async fn watch_mailbox(self: Arc<Self>, mailbox: String) {
        // The version of the change log at which the jobs were started.
        let mut started = None;
        let mut listener = self.watcher.listen(&mailbox).ok();
        if listener.is_none() {
            tracing::warn!(
                mailbox,
                "too many watched mailboxes; events of webhooks are late"
            );
        }
        loop {
            match &mut listener {
                Some(listener) => listener.changed().await,
                None => sleep(POLL_INTERVAL).await,
            }
            let mut delay = MIN_ERROR_DELAY;
            while let Err(error) = self.wake_mailbox(&mailbox, &mut started).await {
                tracing::warn!(mailbox, %error, "failed to start the jobs of webhooks");
                sleep(delay).await;
                delay = (delay * 2).min(POLL_INTERVAL);
            }
        }
    }

    /// Starts the jobs of a mailbox if the change log has entries after the version `started`.
    async fn wake_mailbox(&self, mailbox: &str, started: &mut Option<u64>) -> Result<(), Error> {
        // While the account is disabled, nothing is read. The changes and the pending events of
        // this time are found when the account is enabled again.
        let Some(owner) = self.rights.access(mailbox, None).await? else {
            *started = None;
            return Ok(());
        };
        let version = self.mail.changelog.version(&owner).await?;
        if *started == Some(version) {
            return Ok(());
        }
        let now = self.jobs.now().await?;
        for webhook in self.stored.active_of_mailbox(mailbox, now).await? {
            self.wake(&webhook.account, &webhook.id, now).await?;
        }
        *started = Some(version);
        Ok(())
    }
}

/// Returns the host that watches a mailbox: the host with the highest hash. If a host stops, only
/// its mailboxes get another host.
fn share_of<'h>(hosts: &'h [String], mailbox: &str) -> Option<&'h str> {
    let hash = |host: &&String| Sha256::digest(format!("{host}\0{mailbox}"));
    hosts.iter().max_by_key(hash).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mailboxes_of_a_stopped_host_get_another_host() {
        let hosts: Vec<String> = ["a", "b", "c"].map(Into::into).into();
        let mailboxes: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let mut counts = HashMap::new();
        for mailbox in &mailboxes {
            let before = share_of(&hosts, mailbox).unwrap();
            *counts.entry(before).or_insert(0) += 1;
            let after = share_of(&hosts[..2], mailbox).unwrap();
            assert!(before == after || before == "c");
        }
        assert!(counts.values().all(|count| *count > 50), "{counts:?}");
        assert_eq!(share_of(&[], "0"), None);
    }
}
