//! A pool of authenticated connections.
//!
//! A connection is used only for the credential that opened it. Each account has a maximum number of connections, busy and idle together, and a caller waits if
//! all are busy. A member of a shared mailbox can use only some of the owner's connections. A connection returns to the pool only if its last command was
//! completed and its credential is still valid. The pool knows no protocol.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::MailCredential;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::{Access, Error, Guest};

/// Maximum number of an owner's connections that one member can use at a time.
const OF_A_MEMBER: usize = 2;

/// Opens connections.
pub(crate) trait Connect: fmt::Debug + Send + Sync + 'static {
    /// The type of a connection.
    type Session: Session;

    /// Connects and logs in.
    fn connect(
        &self,
        credential: &MailCredential,
    ) -> impl Future<Output = Result<Self::Session, Error>> + Send;
}

/// A connection that can be pooled.
pub(crate) trait Session: Send + 'static {
    /// Returns `true` if the connection can be used again.
    fn is_whole(&self) -> bool;

    /// Returns `true` if the connection last had this folder open.
    fn had_open(&self, folder: &str) -> bool;
}

/// The connections of all accounts to one server.
pub(crate) struct Pool<C: Connect>(Arc<Inner<C>>);

struct Inner<C: Connect> {
    connector: C,
    cap: usize,
    patience: Duration,
    idle_timeout: Duration,
    accounts: Mutex<HashMap<String, Account<C::Session>>>,
    sweeping: AtomicBool,
    /// The permits of members, by owner and member.
    members: AccountPermits,
}

/// The connections of one account. Each busy connection holds one permit.
struct Account<S> {
    permits: Arc<Semaphore>,
    idle: Vec<Idle<S>>,
    busy: Vec<Busy>,
}

struct Idle<S> {
    credential: String,
    session: S,
    since: Instant,
    /// The credential's expiry, if known.
    until: Option<Instant>,
}

impl<S> Idle<S> {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

struct Busy {
    credential: String,
    /// Set when the credential is revoked. The connection is then closed instead of returned.
    doomed: Arc<AtomicBool>,
}

/// A connection in use. Dropping the lease returns a reusable connection to the pool.
pub(crate) struct Lease<C: Connect> {
    pool: Arc<Inner<C>>,
    account: String,
    credential: MailCredential,
    session: Option<C::Session>,
    doomed: Arc<AtomicBool>,
    /// Released after the connection is returned, so that the next caller finds it.
    permit: Option<OwnedSemaphorePermit>,
    _of_member: Option<Arc<OwnedSemaphorePermit>>,
}

impl<C: Connect> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Connect> fmt::Debug for Pool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("connector", &self.0.connector)
            .finish_non_exhaustive()
    }
}

impl<C: Connect> Pool<C> {
    /// Creates an empty pool with at most `cap` connections per account. Connections close after `idle_timeout` without use. Callers wait at most `patience`.
    pub(crate) fn new(
        connector: C,
        cap: usize,
        patience: Duration,
        idle_timeout: Duration,
    ) -> Self {
        Self(Arc::new(Inner {
            connector,
            cap: cap.max(1),
            patience,
            idle_timeout,
            accounts: Mutex::default(),
            sweeping: AtomicBool::new(false),
            members: AccountPermits::new(OF_A_MEMBER),
        }))
    }

    /// Waits for a permit and returns a lease. Prefers an idle connection with this credential that had `folder` open, then any idle one with this credential.
    /// Without one, [`Lease::session`] opens a connection.
    pub(crate) async fn lease(
        &self,
        access: &Access,
        folder: Option<&str>,
    ) -> Result<Lease<C>, Error> {
        let Access {
            account,
            credential,
            ..
        } = access;
        Inner::sweep(&self.0);
        let permits = self.0.permits(account);
        let waited = async {
            // While a member waits for its own permit, it holds none of the owner's permits.
            let of_member = self.0.of_member(access).await;
            Some((of_member, permits.acquire_owned().await.ok()?))
        };
        let (of_member, permit) = timeout(self.0.patience, waited)
            .await
            .ok()
            .flatten()
            .ok_or_else(busy)?;
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
            _of_member: of_member,
        })
    }

    /// Returns the access with one of the member's permits, which all its leases share. A member must take the permit before it takes a lock for which the
    /// owner's requests wait. Otherwise a member with slow requests would delay the owner.
    pub(crate) async fn admit<'a>(&self, access: &'a Access) -> Result<Cow<'a, Access>, Error> {
        let Some(guest) = access.guest.as_ref().filter(|guest| guest.permit.is_none()) else {
            return Ok(Cow::Borrowed(access));
        };
        let permit = timeout(self.0.patience, self.0.of_member(access)).await;
        let guest = Guest {
            permit: permit.map_err(|_| busy())?,
            ..guest.clone()
        };
        Ok(Cow::Owned(Access {
            guest: Some(guest),
            ..access.clone()
        }))
    }

    /// Closes the connections of a revoked credential. Busy connections close when their lease is dropped.
    pub(crate) fn close(&self, revoked: &str) {
        for account in self.0.lock().values_mut() {
            account.idle.retain(|idle| idle.credential != revoked);
            let busy = account.busy.iter();
            for busy in busy.filter(|busy| busy.credential == revoked) {
                busy.doomed.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Returns `true` if a connection with this credential is in use.
    pub(crate) fn is_busy(&self, credential: &str) -> bool {
        let accounts = self.0.lock();
        let mut busy = accounts.values().flat_map(|account| &account.busy);
        busy.any(|busy| busy.credential == credential)
    }
}

#[cfg(any(test, feature = "testing"))]
impl<C: Connect> Pool<C> {
    /// Returns the number of an account's connections, idle and busy.
    pub(crate) fn connections(&self, account: &str) -> usize {
        let accounts = self.0.lock();
        accounts
            .get(account)
            .map_or(0, |account| account.idle.len() + account.busy.len())
    }
}

fn busy() -> Error {
    Error::Unavailable("all connections of the account are busy".into())
}

impl<S: Session> Account<S> {
    /// Takes the best idle connection with this credential: one that had `folder` open, otherwise the most recently used.
    fn take(&mut self, credential: &str, folder: Option<&str>) -> Option<S> {
        let now = Instant::now();
        self.idle.retain(|idle| !idle.is_over(now));
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

    /// Closes the connections that have been idle longest until the account has at most `cap`.
    fn make_room(&mut self, cap: usize) {
        let excess = (self.busy.len() + self.idle.len()).saturating_sub(cap);
        self.idle.drain(..excess.min(self.idle.len()));
    }
}

impl<C: Connect> Inner<C> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Account<C::Session>>> {
        // The map stays consistent if a thread panics while it holds the lock.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the semaphore of an account.
    fn permits(&self, account: &str) -> Arc<Semaphore> {
        let mut accounts = self.lock();
        let account = accounts
            .entry(account.to_owned())
            .or_insert_with(|| Account {
                permits: Arc::new(Semaphore::new(self.cap)),
                idle: Vec::new(),
                busy: Vec::new(),
            });
        Arc::clone(&account.permits)
    }

    /// Waits for a permit of a member. Returns `None` for the owner.
    async fn of_member(&self, access: &Access) -> Option<Arc<OwnedSemaphorePermit>> {
        let guest = access.guest.as_ref()?;
        if let Some(permit) = &guest.permit {
            return Some(Arc::clone(permit));
        }
        let member = format!("{} {}", access.account, guest.account);
        self.members.acquire(&member).await.map(Arc::new)
    }

    /// Starts the task that closes connections after the idle timeout, if it is not running. The task ends with the pool.
    pub(crate) fn sweep(this: &Arc<Self>) {
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
                    account.idle.retain(|idle| {
                        now.duration_since(idle.since) < pool.idle_timeout && !idle.is_over(now)
                    });
                    // A caller that waits for a permit holds a reference to the semaphore.
                    !account.idle.is_empty()
                        || !account.busy.is_empty()
                        || Arc::strong_count(&account.permits) > 1
                });
            }
        });
    }
}

impl<C: Connect> Lease<C> {
    /// Returns `true` if the connection has been used before, so that the server may have closed it.
    pub(crate) fn was_idle(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the connection even if a command on it is in progress.
    pub(crate) fn as_it_is(&mut self) -> Result<&mut C::Session, Error> {
        self.session
            .as_mut()
            .ok_or_else(|| Error::Internal("no connection".into()))
    }

    /// Returns the connection. Opens one if there is none or the current one cannot be reused.
    pub(crate) async fn session(&mut self) -> Result<&mut C::Session, Error> {
        if !self.session.as_ref().is_some_and(Session::is_whole) {
            self.session = None;
            let made = self.pool.connector.connect(&self.credential).await?;
            return Ok(self.session.insert(made));
        }
        self.session
            .as_mut()
            .ok_or_else(|| Error::Internal("no connection".into()))
    }
}

impl<C: Connect> Drop for Lease<C> {
    fn drop(&mut self) {
        let mut accounts = self.pool.lock();
        if let Some(account) = accounts.get_mut(&self.account) {
            account
                .busy
                .retain(|busy| !Arc::ptr_eq(&busy.doomed, &self.doomed));
            if let Some(session) = self.session.take().filter(Session::is_whole)
                && !self.doomed.load(Ordering::SeqCst)
            {
                let now = Instant::now();
                let idle = Idle {
                    until: self.credential.until(),
                    credential: std::mem::take(&mut self.credential.id),
                    session,
                    since: now,
                };
                if !idle.is_over(now) {
                    account.idle.push(idle);
                }
            }
        }
        drop(accounts);
        drop(self.permit.take());
    }
}
