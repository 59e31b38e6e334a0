//! Starts the jobs of subscribers when their mailboxes change, for example of webhooks. Each
//! mailbox with subscribers is watched by one of the hosts that run, so that the hosts share the
//! work. If the set of hosts changes, two hosts can watch a mailbox for a few seconds, which has no
//! other effect.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use latchmail_core::keyring::Keyring;
use latchmail_directory::hosts::Hosts;
use latchmail_mailbox::Mail;
use latchmail_mailbox::outbox::SenderAccess;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::watcher::Watcher;

/// The interval at which the subscribers and the hosts are read.
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

/// An error of [`Subscribers`], for the log.
pub type SubscriberError = Box<dyn Error + Send + Sync>;

/// A subscriber of the events of a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subscriber {
    /// The id of the account that owns the job of the subscriber.
    pub account: String,
    /// The id of the subscriber. If the id changes, the job is started again.
    pub id: String,
}

/// The subscribers of one kind.
pub trait Subscribers: fmt::Debug + Send + Sync + 'static {
    /// Returns the name of the subscribers for the log, in the plural.
    fn name(&self) -> &'static str;

    /// Returns the subscribers that can get events, each with the account of its mailbox.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    fn all(&self) -> BoxFuture<'_, Result<Vec<(String, Subscriber)>, SubscriberError>>;

    /// Starts the job of a subscriber at once.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    fn start<'a>(
        &'a self,
        subscriber: &'a Subscriber,
    ) -> BoxFuture<'a, Result<(), SubscriberError>>;

    /// Starts the jobs of all subscribers of a mailbox.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    fn start_all<'a>(&'a self, mailbox: &'a str) -> BoxFuture<'a, Result<(), SubscriberError>>;

    /// Records the number of mailboxes that this host watches.
    fn set_watched(&self, mailboxes: usize);
}

/// The parts of the service that [`watch_subscribers`] uses.
#[derive(Clone, Debug)]
pub struct SubscriberWatch {
    /// The watched mailboxes of this host.
    pub watcher: Arc<Watcher>,
    /// The hosts that share the database.
    pub hosts: Hosts,
    /// The mailboxes.
    pub mail: Arc<Mail>,
    /// Finds the current access of accounts to their mailboxes.
    pub rights: Arc<dyn SenderAccess>,
    /// The service's keys.
    pub keys: Arc<Keyring>,
}

/// A mailbox that this host watches.
struct Watched {
    subscribers: HashSet<Subscriber>,
    _task: AbortOnDropHandle<()>,
}

/// Watches this host's share of the mailboxes with subscribers. Reads the subscribers at an
/// interval, and when `changed` is notified. Runs until the task is aborted.
pub async fn watch_subscribers(
    watch: SubscriberWatch,
    subscribers: Arc<dyn Subscribers>,
    changed: &Notify,
) {
    let mut watched: HashMap<String, Watched> = HashMap::new();
    let (mut key, mut rotated_at) = (watch.keys.current().id, None);
    loop {
        let current = watch.keys.current().id;
        if current != key {
            (key, rotated_at) = (current, Some(Instant::now()));
        }
        if rotated_at.is_some_and(|at: Instant| at.elapsed() >= KEY_DELAY) {
            rotated_at = None;
            // Starts all jobs. Each stores its position with the new key, so that an idle
            // subscriber has a valid position when the earlier key is removed.
            for one in watched.values_mut() {
                one.subscribers.clear();
            }
        }
        if let Err(error) = update(&watch, &subscribers, &mut watched).await {
            tracing::warn!(%error, "failed to read the {}", subscribers.name());
        }
        subscribers.set_watched(watched.len());
        let _ = timeout(READ_INTERVAL, changed.notified()).await;
    }
}

async fn update(
    watch: &SubscriberWatch,
    subscribers: &Arc<dyn Subscribers>,
    watched: &mut HashMap<String, Watched>,
) -> Result<(), SubscriberError> {
    let hosts = &watch.hosts;
    let running = hosts.seen_within(HOST_AGE).await?;
    let mut share: HashMap<String, HashSet<Subscriber>> = HashMap::new();
    for (mailbox, subscriber) in subscribers.all().await? {
        if share.contains_key(&mailbox) || share_of(&running, &mailbox) == hosts.own_host() {
            share.entry(mailbox).or_default().insert(subscriber);
        }
    }
    watched.retain(|mailbox, _| share.contains_key(mailbox));
    for (mailbox, current) in share {
        if let Some(known) = watched.get_mut(&mailbox) {
            // The first event of a subscriber can be from a time at which it got no events.
            for subscriber in current.difference(&known.subscribers) {
                subscribers.start(subscriber).await?;
            }
            known.subscribers = current;
            continue;
        }
        let task = watch_mailbox(watch.clone(), Arc::clone(subscribers), mailbox.clone());
        let new = Watched {
            subscribers: current,
            _task: AbortOnDropHandle::new(tokio::spawn(task)),
        };
        watched.insert(mailbox, new);
    }
    Ok(())
}

/// Starts the jobs of a mailbox after each change, and at the start.
async fn watch_mailbox(watch: SubscriberWatch, subscribers: Arc<dyn Subscribers>, mailbox: String) {
    let name = subscribers.name();
    // The version of the change log at which the jobs were started.
    let mut started = None;
    let mut listener = watch.watcher.listen(&mailbox).ok();
    if listener.is_none() {
        tracing::warn!(
            mailbox,
            "too many watched mailboxes; events of {name} are late"
        );
    }
    loop {
        match &mut listener {
            Some(listener) => listener.changed().await,
            None => sleep(POLL_INTERVAL).await,
        }
        let mut delay = MIN_ERROR_DELAY;
        while let Err(error) = start_changed(&watch, &*subscribers, &mailbox, &mut started).await {
            tracing::warn!(mailbox, %error, "failed to start the jobs of {name}");
            sleep(delay).await;
            delay = (delay * 2).min(POLL_INTERVAL);
        }
    }
}

/// Starts the jobs of a mailbox if the change log has entries after the version `started`.
async fn start_changed(
    watch: &SubscriberWatch,
    subscribers: &dyn Subscribers,
    mailbox: &str,
    started: &mut Option<u64>,
) -> Result<(), SubscriberError> {
    // While the account is disabled, nothing is read. The changes and the pending events of this
    // time are found when the account is enabled again.
    let Some(owner) = watch.rights.access(mailbox, None).await? else {
        *started = None;
        return Ok(());
    };
    let version = watch.mail.changelog.version(&owner).await?;
    if *started != Some(version) {
        subscribers.start_all(mailbox).await?;
        *started = Some(version);
    }
    Ok(())
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
