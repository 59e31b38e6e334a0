//! A pool of authenticated connections.
//!
//! A connection is used only for the credential that opened the connection. Each account has a
//! maximum number of connections, which includes busy and idle connections. A caller waits if all
//! connections are busy. A member of a shared mailbox can use only some of the owner's connections.
//!
//! The pool also has a maximum number of idle connections of all accounts, because every connection
//! uses a process of the mail server.
//!
//! A connection returns to the pool only if its last command was completed and its credential is
//! valid. The pool does not depend on a protocol.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use latchmail_core::caller::MailCredential;
use latchmail_core::metrics::Histogram;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::access::{Access, Member};
use crate::error::Error;

/// Maximum number of an owner's connections that one member can use at the same time.
const CONNECTIONS_PER_MEMBER: usize = 2;

/// A factory for connections.
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
    /// Returns `true` if the connection is usable for another request.
    fn is_reusable(&self) -> bool;

    /// Returns `true` if the connection has this folder open.
    fn has_folder_open(&self, folder: &str) -> bool;
}

/// The connections of all accounts to one server.
pub(crate) struct Pool<C: Connect>(Arc<Inner<C>>);

struct Inner<C: Connect> {
    connector: C,
    max_connections: usize,
    max_idle: usize,
    lease_timeout: Duration,
    idle_timeout: Duration,
    /// The metric of the time for which callers wait for a connection.
    wait: &'static Histogram<0>,
    accounts: Mutex<HashMap<String, Account<C::Session>>>,
    /// `true` if the task that closes idle connections is running.
    cleanup_running: AtomicBool,
    /// The permits for each pair of member and owner. The permits limit how many of the owner's
    /// connections the member uses at the same time.
    member_permits: AccountPermits,
}

/// The connections of one account. Each busy connection uses one permit.
struct Account<S> {
    permits: Arc<Semaphore>,
    idle: Vec<Idle<S>>,
    busy: Vec<Busy>,
}

struct Idle<S> {
    credential: String,
    session: S,
    since: Instant,
    /// The time at which the credential expires. `None` if the time is unknown.
    expires_at: Option<Instant>,
}

impl<S> Idle<S> {
    fn is_expired(&self, now: Instant) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

struct Busy {
    credential: String,
    /// `true` if the credential was revoked. In that case, the connection closes when the lease is
    /// dropped, and does not return to the pool.
    evicted: Arc<AtomicBool>,
}

/// A connection in use. When the lease is dropped, a reusable connection returns to the pool.
pub(crate) struct Lease<C: Connect> {
    pool: Arc<Inner<C>>,
    account: String,
    credential: MailCredential,
    session: Option<C::Session>,
    /// The time at which the connection returned to the pool. `None` if it is a new connection.
    returned_at: Option<Instant>,
    evicted: Arc<AtomicBool>,
    /// The permit for this connection. The permit is released after the connection has returned to
    /// the pool. Therefore the next caller finds the connection.
    permit: Option<OwnedSemaphorePermit>,
    _member_permit: Option<Arc<OwnedSemaphorePermit>>,
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
    /// Creates an empty pool with at most `max_connections` connections per account, and at most
    /// `max_idle` idle connections of all accounts. An idle connection closes after `idle_timeout`.
    /// Callers wait at most `lease_timeout` for a connection. `wait` is the metric of this time.
    pub(crate) fn new(
        connector: C,
        max_connections: usize,
        max_idle: usize,
        lease_timeout: Duration,
        idle_timeout: Duration,
        wait: &'static Histogram<0>,
    ) -> Self {
        Self(Arc::new(Inner {
            connector,
            max_connections: max_connections.max(1),
            max_idle,
            lease_timeout,
            idle_timeout,
            wait,
            accounts: Mutex::default(),
            cleanup_running: AtomicBool::new(false),
            member_permits: AccountPermits::new(CONNECTIONS_PER_MEMBER),
        }))
    }

    /// Waits for a permit and returns a lease. The lease contains an idle connection with the
    /// caller's credential, preferably with `folder` open. If there is no such connection,
    /// [`Lease::session`] opens a connection.
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
        Inner::start_cleanup(&self.0);
        let permits = self.0.permits(account);
        let acquire = async {
            // A member must not use a permit of the owner while the member waits for the member
            // permit.
            let member_permit = self.0.member_permit(access).await;
            Some((member_permit, permits.acquire_owned().await.ok()?))
        };
        let start = Instant::now();
        let acquired = timeout(self.0.lease_timeout, acquire).await;
        self.0.wait.observe([], start.elapsed());
        let (member_permit, permit) = acquired.ok().flatten().ok_or_else(busy)?;
        let evicted = Arc::new(AtomicBool::new(false));
        let mut idle = None;
        if let Some(connections) = self.0.lock().get_mut(account) {
            connections.busy.push(Busy {
                credential: credential.id.clone(),
                evicted: Arc::clone(&evicted),
            });
            idle = connections.take(&credential.id, folder);
            connections.close_excess(self.0.max_connections);
        }
        let (session, returned_at) = idle.map(|idle| (idle.session, idle.since)).unzip();
        Ok(Lease {
            pool: Arc::clone(&self.0),
            account: account.clone(),
            credential: credential.clone(),
            session,
            returned_at,
            evicted,
            permit: Some(permit),
            _member_permit: member_permit,
        })
    }

    /// Returns an access that contains one of the member's permits. All leases with this access
    /// share the permit. A member must acquire the permit before any lock that the owner's requests
    /// also need. Otherwise a member with slow requests would delay the owner.
    pub(crate) async fn hold_member_permit<'a>(
        &self,
        access: &'a Access,
    ) -> Result<Cow<'a, Access>, Error> {
        let member = access.member.as_ref();
        let Some(member) = member.filter(|member| member.permit.is_none()) else {
            return Ok(Cow::Borrowed(access));
        };
        let permit = timeout(self.0.lease_timeout, self.0.member_permit(access)).await;
        let member = Member {
            permit: permit.map_err(|_| busy())?,
            ..member.clone()
        };
        Ok(Cow::Owned(Access {
            member: Some(member),
            ..access.clone()
        }))
    }

    /// Closes the connections of a revoked credential. A busy connection closes when its lease is
    /// dropped.
    pub(crate) fn close(&self, revoked: &str) {
        for account in self.0.lock().values_mut() {
            account.idle.retain(|idle| idle.credential != revoked);
            let busy = account.busy.iter();
            for busy in busy.filter(|busy| busy.credential == revoked) {
                busy.evicted.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Returns the number of idle and busy connections of all accounts, and the number of busy
    /// connections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let accounts = self.0.lock();
        let idle: usize = accounts.values().map(|account| account.idle.len()).sum();
        let busy: usize = accounts.values().map(|account| account.busy.len()).sum();
        (idle + busy, busy)
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
    /// Returns the number of an account's idle and busy connections.
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
    /// Removes and returns an idle connection with this credential: the last used connection that
    /// has `folder` open, otherwise the last used connection.
    ///
    /// The server reports to a connection what other connections changed in the open folder. The
    /// last used connection has the fewest of these reports to read.
    fn take(&mut self, credential: &str, folder: Option<&str>) -> Option<Idle<S>> {
        let now = Instant::now();
        self.idle.retain(|idle| !idle.is_expired(now));
        let candidates = || {
            self.idle
                .iter()
                .enumerate()
                .filter(|(_, idle)| idle.credential == credential)
        };
        let index = candidates()
            .rfind(|(_, idle)| folder.is_some_and(|folder| idle.session.has_folder_open(folder)))
            .or_else(|| candidates().next_back())
            .map(|(index, _)| index)?;
        Some(self.idle.remove(index))
    }

    /// Closes excess connections until the account has at most `max_connections` connections.
    /// Closes the connections with the longest idle time first.
    fn close_excess(&mut self, max_connections: usize) {
        let excess = (self.busy.len() + self.idle.len()).saturating_sub(max_connections);
        self.idle.drain(..excess.min(self.idle.len()));
    }
}

impl<C: Connect> Inner<C> {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Account<C::Session>>> {
        // The map is consistent even if a thread panicked while it had locked the map.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the semaphore for the connections of an account.
    fn permits(&self, account: &str) -> Arc<Semaphore> {
        let mut accounts = self.lock();
        let account = accounts
            .entry(account.to_owned())
            .or_insert_with(|| Account {
                permits: Arc::new(Semaphore::new(self.max_connections)),
                idle: Vec::new(),
                busy: Vec::new(),
            });
        Arc::clone(&account.permits)
    }

    /// If there are too many idle connections, closes the connection with the longest idle time.
    /// The caller calls this function each time a connection returns to the pool, so closing one
    /// connection is sufficient.
    fn close_longest_idle(&self, accounts: &mut HashMap<String, Account<C::Session>>) {
        // Do not count the connections if even the maximum number of connections of these accounts
        // does not exceed the limit.
        if accounts.len() * self.max_connections <= self.max_idle {
            return;
        }
        let count: usize = accounts.values().map(|account| account.idle.len()).sum();
        if count <= self.max_idle {
            return;
        }
        // The idle connections of an account are in the order in which the connections returned to
        // the pool.
        let oldest = accounts
            .values_mut()
            .filter(|account| !account.idle.is_empty())
            .min_by_key(|account| account.idle.first().map(|idle| idle.since));
        if let Some(account) = oldest {
            account.idle.remove(0);
        }
    }

    /// Waits for a member permit. Returns `None` for the owner.
    async fn member_permit(&self, access: &Access) -> Option<Arc<OwnedSemaphorePermit>> {
        let member = access.member.as_ref()?;
        if let Some(permit) = &member.permit {
            return Some(Arc::clone(permit));
        }
        let key = format!("{} {}", access.account, member.account);
        self.member_permits.acquire(&key).await.map(Arc::new)
    }

    /// Starts the task that closes idle connections, unless the task is already running. The task
    /// ends when the pool is dropped.
    fn start_cleanup(this: &Arc<Self>) {
        if this.cleanup_running.swap(true, Ordering::SeqCst) {
            return;
        }
        let interval = (this.idle_timeout / 4).max(Duration::from_millis(50));
        let pool: Weak<Self> = Arc::downgrade(this);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(pool) = pool.upgrade() else { return };
                let now = Instant::now();
                pool.lock().retain(|_, account| {
                    account.idle.retain(|idle| {
                        now.duration_since(idle.since) < pool.idle_timeout && !idle.is_expired(now)
                    });
                    // Keep accounts with waiting callers. A waiting caller has a reference to the
                    // semaphore.
                    !account.idle.is_empty()
                        || !account.busy.is_empty()
                        || Arc::strong_count(&account.permits) > 1
                });
            }
        });
    }
}

impl<C: Connect> Lease<C> {
    /// Returns `true` if the lease already contains a connection. The server might have closed this
    /// connection.
    pub(crate) fn is_reused(&self) -> bool {
        self.session.is_some()
    }

    /// Returns `true` if another caller has returned the connection to the pool less than `limit`
    /// ago.
    pub(crate) fn was_used_within(&self, limit: Duration) -> bool {
        self.returned_at.is_some_and(|at| at.elapsed() < limit)
    }

    /// Returns the current connection, even if a command is in progress on the connection.
    pub(crate) fn current_session(&mut self) -> Result<&mut C::Session, Error> {
        self.session
            .as_mut()
            .ok_or_else(|| Error::Internal("the lease has no connection".into()))
    }

    /// Returns the connection of the lease. Opens a new connection if the lease has no reusable
    /// connection.
    pub(crate) async fn session(&mut self) -> Result<&mut C::Session, Error> {
        if !self.session.as_ref().is_some_and(Session::is_reusable) {
            self.session = None;
            let session = self.pool.connector.connect(&self.credential).await?;
            return Ok(self.session.insert(session));
        }
        self.current_session()
    }
}

impl<C: Connect> Drop for Lease<C> {
    fn drop(&mut self) {
        let mut accounts = self.pool.lock();
        if let Some(account) = accounts.get_mut(&self.account) {
            account
                .busy
                .retain(|busy| !Arc::ptr_eq(&busy.evicted, &self.evicted));
            if let Some(session) = self.session.take().filter(Session::is_reusable)
                && !self.evicted.load(Ordering::SeqCst)
            {
                let now = Instant::now();
                let idle = Idle {
                    expires_at: self.credential.until(),
                    credential: std::mem::take(&mut self.credential.id),
                    session,
                    since: now,
                };
                if !idle.is_expired(now) {
                    account.idle.push(idle);
                    self.pool.close_longest_idle(&mut accounts);
                }
            }
        }
        drop(accounts);
        drop(self.permit.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection with a number and an open folder.
    struct Connection(u32, &'static str);

    impl Session for Connection {
        fn is_reusable(&self) -> bool {
            true
        }

        fn has_folder_open(&self, folder: &str) -> bool {
            self.1 == folder
        }
    }

    #[test]
    fn the_last_used_connection_with_the_open_folder_is_taken() {
        let idle = |(number, folder)| Idle {
            credential: "desk".into(),
            session: Connection(number, folder),
            since: Instant::now(),
            expires_at: None,
        };
        let connections = [(1, "INBOX"), (2, "INBOX"), (3, "Sent"), (4, "Drafts")];
        let mut account = Account {
            permits: Arc::new(Semaphore::new(4)),
            idle: connections.map(idle).into(),
            busy: Vec::new(),
        };
        let mut take = |folder| account.take("desk", folder).map(|idle| idle.session.0);
        assert_eq!(take(Some("INBOX")), Some(2));
        assert_eq!(take(Some("INBOX")), Some(1));
        assert_eq!(take(Some("INBOX")), Some(4));
        assert_eq!(take(None), Some(3));
        assert_eq!(take(None), None);
    }
}
