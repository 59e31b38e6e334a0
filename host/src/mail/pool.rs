//! Connections kept for the next request.
//!
//! A connection serves the credential that it was made with and no other. An account has a bounded number of them, busy and
//! idle together; whoever finds all busy waits in line. Only a connection whose last command was answered to its end comes back.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::imap::{Connector, Error, Session};
use super::{Access, bounds};
use crate::caller::MailCredential;
use crate::config;

/// The connections of all accounts.
#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

struct Inner {
    connector: Connector,
    cap: usize,
    patience: Duration,
    idle_timeout: Duration,
    accounts: Mutex<HashMap<String, Account>>,
    sweeping: AtomicBool,
}

/// The connections of one account. As many permits are out as connections are busy.
struct Account {
    permits: Arc<Semaphore>,
    /// As many are out as downloads are under way.
    downloads: Arc<Semaphore>,
    idle: Vec<Idle>,
    busy: Vec<Busy>,
}

struct Idle {
    credential: String,
    session: Session,
    since: Instant,
}

struct Busy {
    credential: String,
    /// Set when the credential is revoked: the connection does not come back.
    doomed: Arc<AtomicBool>,
}

/// A connection in use. Dropped, it goes back to the pool if it can be used again.
pub(super) struct Lease {
    pool: Arc<Inner>,
    account: String,
    credential: MailCredential,
    session: Option<Session>,
    doomed: Arc<AtomicBool>,
    /// Given back last: whoever waits must find the connection.
    permit: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("connector", &self.0.connector)
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(connector: Connector, config: &config::Imap) -> Self {
        Self(Arc::new(Inner {
            connector,
            cap: config.connections_per_account.max(1),
            patience: config.timeout,
            idle_timeout: config.idle_timeout,
            accounts: Mutex::default(),
            sweeping: AtomicBool::new(false),
        }))
    }

    /// A connection of an account made with its credential: an idle one, the one that had `folder` open if there is one, or none
    /// yet. The session itself is made by [`Lease::session`].
    pub(super) async fn lease(
        &self,
        access: &Access,
        folder: Option<&str>,
    ) -> Result<Lease, Error> {
        let Access {
            account,
            credential,
        } = access;
        Inner::sweep(&self.0);
        let permits = self.0.shared(account, |account| &account.permits);
        let permit = timeout(self.0.patience, permits.acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| Error::Unavailable("all connections of the account are busy".into()))?;
        let doomed = Arc::new(AtomicBool::new(false));
        let mut session = None;
        if let Some(known) = self.0.lock().get_mut(account) {
            known.busy.push(Busy {
                credential: credential.id.clone(),
                doomed: Arc::clone(&doomed),
            });
            session = known.take(&credential.id, folder);
            known.make_room(self.0.cap);
        }
        Ok(Lease {
            pool: Arc::clone(&self.0),
            account: account.clone(),
            credential: credential.clone(),
            session,
            doomed,
            permit: Some(permit),
        })
    }

    /// Waits until `account` has fewer downloads under way than it may have, and holds one.
    pub(super) async fn download(&self, account: &str) -> Result<OwnedSemaphorePermit, Error> {
        let downloads = self.0.shared(account, |account| &account.downloads);
        timeout(self.0.patience, downloads.acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| Error::Unavailable("the account has enough downloads under way".into()))
    }

    /// Closes what was made with `credential`; what is busy closes when it is done.
    pub(super) fn close(&self, credential: &str) {
        for account in self.0.lock().values_mut() {
            account.idle.retain(|idle| idle.credential != credential);
            for busy in &account.busy {
                if busy.credential == credential {
                    busy.doomed.store(true, Ordering::SeqCst);
                }
            }
        }
    }
}

#[cfg(test)]
impl Pool {
    /// How many connections of an account there are, idle and busy.
    pub(super) fn connections(&self, account: &str) -> usize {
        let accounts = self.0.lock();
        accounts
            .get(account)
            .map_or(0, |account| account.idle.len() + account.busy.len())
    }
}

impl Account {
    /// The idle connection that serves best.
    fn take(&mut self, credential: &str, folder: Option<&str>) -> Option<Session> {
        let own = || {
            self.idle
                .iter()
                .enumerate()
                .filter(|(_, idle)| idle.credential == credential)
        };
        let place = own()
            .find(|(_, idle)| folder.is_some_and(|folder| idle.session.had_open(folder)))
            .or_else(|| own().next_back())
            .map(|(place, _)| place)?;
        Some(self.idle.remove(place).session)
    }

    /// Closes the longest idle until busy and idle ones together are no more than `cap`.
    fn make_room(&mut self, cap: usize) {
        let excess = (self.busy.len() + self.idle.len()).saturating_sub(cap);
        self.idle.drain(..excess.min(self.idle.len()));
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Account>> {
        // Nothing under the lock leaves a state half made.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the calls of an account share.
    fn shared(&self, account: &str, which: fn(&Account) -> &Arc<Semaphore>) -> Arc<Semaphore> {
        let mut accounts = self.lock();
        let account = accounts
            .entry(account.to_owned())
            .or_insert_with(|| Account {
                permits: Arc::new(Semaphore::new(self.cap)),
                downloads: Arc::new(Semaphore::new(bounds::DOWNLOADS)),
                idle: Vec::new(),
                busy: Vec::new(),
            });
        Arc::clone(which(account))
    }

    /// Starts the one task that closes what was idle too long. It ends with the pool.
    fn sweep(this: &Arc<Self>) {
        if this.sweeping.swap(true, Ordering::SeqCst) {
            return;
        }
        let every = (this.idle_timeout / 4).max(Duration::from_millis(50));
        let pool: Weak<Self> = Arc::downgrade(this);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let Some(pool) = pool.upgrade() else { return };
                let now = Instant::now();
                pool.lock().retain(|_, account| {
                    account
                        .idle
                        .retain(|idle| now.duration_since(idle.since) < pool.idle_timeout);
                    // Whoever waits or is about to holds the semaphore.
                    !account.idle.is_empty()
                        || !account.busy.is_empty()
                        || Arc::strong_count(&account.permits) > 1
                        || Arc::strong_count(&account.downloads) > 1
                });
            }
        });
    }
}

impl Lease {
    /// Whether the connection has served before, so that it may have died since.
    pub(super) fn was_idle(&self) -> bool {
        self.session.is_some()
    }

    /// The connection as it is, in the middle of something perhaps.
    pub(super) fn as_it_is(&mut self) -> Result<&mut Session, Error> {
        self.session
            .as_mut()
            .ok_or_else(|| Error::Protocol("no connection".into()))
    }

    /// The connection, made now where there is none.
    pub(super) async fn session(&mut self) -> Result<&mut Session, Error> {
        if !self.session.as_ref().is_some_and(Session::is_whole) {
            self.session = None;
            let made = self.pool.connector.connect(&self.credential).await?;
            return Ok(self.session.insert(made));
        }
        self.session
            .as_mut()
            .ok_or_else(|| Error::Protocol("no connection".into()))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut accounts = self.pool.lock();
        if let Some(account) = accounts.get_mut(&self.account) {
            account
                .busy
                .retain(|busy| !Arc::ptr_eq(&busy.doomed, &self.doomed));
            if let Some(session) = self.session.take().filter(Session::is_whole)
                && !self.doomed.load(Ordering::SeqCst)
            {
                account.idle.push(Idle {
                    credential: std::mem::take(&mut self.credential.id),
                    session,
                    since: Instant::now(),
                });
            }
        }
        drop(accounts);
        drop(self.permit.take());
    }
}
