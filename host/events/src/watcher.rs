//! The mailboxes for which listeners wait. A mailbox without a listener costs nothing.
//!
//! A listener is woken when the change log of the mailbox grows (on any host), when the mail server
//! reports a change, and at an interval. A listener then reads the change log. So a report that is
//! lost costs time, and no event.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use latchmail_core::config;
use latchmail_core::traces::Tracer;
use latchmail_directory::Error;
use latchmail_directory::hosts::Hosts;
use latchmail_mailbox::{Mail, Watch};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

/// Maximum number of connections that are opened at the same time.
const MAX_OPENING: usize = 16;

/// This host watches as many mailboxes as its configuration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this host watches too many mailboxes")]
pub struct WatchLimit;

/// The watched mailboxes of this host.
pub struct Watcher {
    config: config::Events,
    mailboxes: Mutex<Mailboxes>,
    /// Wakes [`Watcher::run`].
    updated: Notify,
    /// Limits the number of connections that are opened at the same time, for example after a
    /// restart of the mail server.
    opening: Semaphore,
    hosts: Hosts,
    mail: Arc<Mail>,
    tracer: Tracer,
}

#[derive(Default)]
struct Mailboxes {
    watched: HashMap<String, Watched>,
    /// The accounts whose first listener was added or whose last listener was dropped, until
    /// [`Watcher::run`] records this.
    updates: HashSet<String>,
}

/// A watched mailbox.
struct Watched {
    wake: watch::Sender<()>,
    /// The number of listeners.
    listeners: usize,
    /// The task that waits for reports on a connection of its own.
    connection: Option<AbortHandle>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(task) = &self.connection {
            task.abort();
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

/// Waits for changes of one mailbox. Dropping the last listener of a mailbox ends its watching.
pub struct Listener {
    watcher: Arc<Watcher>,
    account: String,
    woken: watch::Receiver<()>,
    /// The time at which the listener wakes without a report.
    check_at: Instant,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

impl Watcher {
    /// Creates a watcher without listeners. [`Watcher::run`] must run while there are listeners.
    #[must_use]
    pub fn new(config: &config::Events, hosts: Hosts, mail: Arc<Mail>, tracer: Tracer) -> Self {
        Self {
            config: config.clone(),
            mailboxes: Mutex::default(),
            updated: Notify::new(),
            opening: Semaphore::new(MAX_OPENING),
            hosts,
            mail,
            tracer,
        }
    }

    /// Watches the mailbox of an account while the listener exists.
    ///
    /// # Errors
    /// Returns [`WatchLimit`] if the host watches `events.mailboxes` other mailboxes.
    pub fn listen(self: &Arc<Self>, account: &str) -> Result<Listener, WatchLimit> {
        let mut mailboxes = self.lock();
        if !mailboxes.watched.contains_key(account) {
            if mailboxes.watched.len() >= self.config.mailboxes {
                return Err(WatchLimit);
            }
            let connection = (!self.config.has_notices()).then(|| {
                let (watcher, account) = (Arc::clone(self), account.to_owned());
                tokio::spawn(watch_connection(watcher, account)).abort_handle()
            });
            let entry = Watched {
                wake: watch::Sender::new(()),
                listeners: 0,
                connection,
            };
            mailboxes.watched.insert(account.to_owned(), entry);
            self.update(&mut mailboxes, account);
        }
        let entry = mailboxes.watched.get_mut(account).ok_or(WatchLimit)?;
        entry.listeners += 1;
        let mut woken = entry.wake.subscribe();
        // The first call of `changed` returns at once.
        woken.mark_changed();
        Ok(Listener {
            watcher: Arc::clone(self),
            account: account.to_owned(),
            woken,
            check_at: Instant::now() + self.config.check_interval,
        })
    }

    /// Wakes the listeners of the mailbox of an account.
    pub fn wake(&self, account: &str) {
        if let Some(entry) = self.lock().watched.get(account) {
            entry.wake.send_replace(());
        }
    }

    /// Wakes all listeners.
    pub fn wake_all(&self) {
        for entry in self.lock().watched.values() {
            entry.wake.send_replace(());
        }
    }

    /// Returns the number of watched mailboxes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().watched.len()
    }

    /// Records the watched mailboxes in the database, so that other hosts report changes, until
    /// the task is aborted.
    pub async fn run(self: Arc<Self>) {
        let mut recorded = HashSet::new();
        let mut repairs = interval(self.config.check_interval);
        repairs.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let updates: Vec<String> = tokio::select! {
                () = self.updated.notified() => self.lock().updates.drain().collect(),
                // An update can have failed. And if other hosts have deleted the row of this host
                // after a pause, the rows of its mailboxes are deleted too.
                _ = repairs.tick() => match self.hosts.watched().await {
                    Ok(found) => {
                        recorded = found;
                        let watched = self.lock().watched.keys().cloned().collect();
                        recorded.symmetric_difference(&watched).cloned().collect()
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the watched mailboxes of this host");
                        continue;
                    }
                },
            };
            for account in updates {
                if let Err(error) = self.record(&account, &mut recorded).await {
                    tracing::warn!(%error, account, "cannot record whether this host watches a mailbox");
                }
            }
        }
    }

    /// Records whether this host watches a mailbox.
    async fn record(&self, account: &str, recorded: &mut HashSet<String>) -> Result<(), Error> {
        let is_watched = self.lock().watched.contains_key(account);
        if is_watched == recorded.contains(account) {
            return Ok(());
        }
        if is_watched {
            self.hosts.watch(account).await?;
            recorded.insert(account.to_owned());
            // Another host can have changed the mailbox before the record.
            self.wake(account);
        } else {
            self.hosts.unwatch(account).await?;
            recorded.remove(account);
        }
        Ok(())
    }

    /// Opens a connection on which the mail server reports changes, see [`Mail::watch`].
    pub(crate) async fn connect(
        &self,
        account: &str,
    ) -> Result<Option<Watch>, latchmail_mailbox::Error> {
        // The semaphore is never closed.
        let _permit = self.opening.acquire().await;
        let (trace, mut span) = self.tracer.begin_work(|| "watch mailbox".into());
        span.set("latchmail.mailbox.id", account);
        let opened = trace.scope(self.mail.watch(account)).await;
        let outcome = match &opened {
            Ok(Some(_)) => "opened",
            Ok(None) => "not_watched",
            Err(_) => "failed",
        };
        span.set("latchmail.outcome", outcome);
        if opened.is_err() {
            span.fail(outcome);
        }
        opened
    }

    fn update(&self, mailboxes: &mut Mailboxes, account: &str) {
        mailboxes.updates.insert(account.to_owned());
        self.updated.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Mailboxes> {
        self.mailboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Returns when the mailbox may have changed since the last call. Several changes can cause one
    /// return. The first call returns at once. No call takes longer than `events.check_interval`.
    pub async fn changed(&mut self) {
        let check_at = sleep_until(self.check_at);
        tokio::select! {
            // The sender exists as long as a listener exists.
            _ = self.woken.changed() => {}
            () = check_at => {}
        }
        self.woken.mark_unchanged();
        self.check_at = Instant::now() + self.watcher.config.check_interval;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut mailboxes = self.watcher.lock();
        if let Some(entry) = mailboxes.watched.get_mut(&self.account) {
            entry.listeners -= 1;
            if entry.listeners == 0 {
                mailboxes.watched.remove(&self.account);
                self.watcher.update(&mut mailboxes, &self.account);
            }
        }
    }
}

/// Waits for reports of the mail server about the mailbox of an account, and wakes the listeners,
/// until the task is aborted. Each watched mailbox has one connection, which is not a connection of
/// the pool for requests.
async fn watch_connection(watcher: Arc<Watcher>, account: String) {
    let mut failures = 0;
    loop {
        match watcher.connect(&account).await {
            Ok(Some(mut connection)) => {
                let opened_at = Instant::now();
                // The mailbox can have changed before the connection was open.
                watcher.wake(&account);
                let error = loop {
                    match connection.changed().await {
                        Ok(()) => watcher.wake(&account),
                        Err(error) => break error,
                    }
                };
                tracing::debug!(%error, account, "lost a connection that waits for changes");
                // A server can close each connection at once, or refuse IDLE.
                if opened_at.elapsed() > retry_delay(failures) {
                    failures = 0;
                }
            }
            // The server reports no changes, or the account is disabled. Listeners still check the
            // mailbox at an interval.
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, account, "cannot wait for changes at the mail server");
            }
        }
        sleep(retry_delay(failures)).await;
        failures += 1;
    }
}

/// The delay before the next attempt to connect: one second, doubled for each failed attempt.
pub(crate) fn retry_delay(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(6))
}
