//! A bounded queue for expensive work that clients without a credential can cause, such as the
//! verification of passwords.
//!
//! The newest and the oldest waiting request start alternately, so a wave of requests does not
//! block earlier or later requests. A full queue drops its oldest request. Each site (IPv6 /48,
//! IPv4 /24) can use only a part of the queue. A request leaves the queue when its client
//! disconnects.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::codes;
use crate::error::Failure;
use crate::network::site;

/// The maximum number of waiting requests, of all sites and of one site.
const MAX_WAITING: usize = 1024;
const MAX_WAITING_PER_SITE: usize = MAX_WAITING / 4;
/// The maximum time for which a request waits.
const MAX_WAIT: Duration = Duration::from_secs(10);

tokio::task_local! {
    /// Cancelled when the client of the current request disconnects.
    static DISCONNECTED: CancellationToken;
}

/// Runs a request. `disconnected` must be cancelled when the client disconnects.
pub fn with_client<F: Future>(
    disconnected: CancellationToken,
    request: F,
) -> impl Future<Output = F::Output> {
    DISCONNECTED.scope(disconnected, request)
}

/// Waits until the client of the current request disconnects.
async fn disconnected() {
    match DISCONNECTED.try_with(Clone::clone) {
        Ok(disconnected) => disconnected.cancelled().await,
        Err(_) => std::future::pending().await,
    }
}

/// A queue with a limit on the concurrent work.
#[derive(Debug)]
pub struct WorkQueue {
    max_running: usize,
    max_running_per_site: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// The number of running requests of each site.
    running_by_site: HashMap<IpAddr, usize>,
    /// The waiting requests, oldest first.
    waiting: Vec<Waiting>,
    /// Whether the oldest waiting request starts next. Otherwise the newest one starts next.
    oldest_is_next: bool,
}

#[derive(Debug)]
struct Waiting {
    /// The network of the client. `None` if the service itself is the client.
    site: Option<IpAddr>,
    start: oneshot::Sender<WorkPermit>,
}

/// A permit for work. Dropping this value starts the next request.
#[derive(Debug)]
#[must_use = "dropping the permit starts other work"]
pub struct WorkPermit {
    queue: Arc<WorkQueue>,
    site: Option<IpAddr>,
}

impl WorkQueue {
    /// Creates a queue that runs at most `max_running` requests concurrently, and at most
    /// `max_running_per_site` requests of one site.
    #[must_use]
    pub fn new(max_running: usize, max_running_per_site: usize) -> Arc<Self> {
        Arc::new(Self {
            max_running,
            max_running_per_site,
            state: Mutex::default(),
        })
    }

    /// Waits until the work of `client` can start.
    ///
    /// # Errors
    /// Returns 503 if the queue or the client's part of the queue is full of newer requests, if the
    /// wait takes too long, or if the client disconnects.
    pub async fn acquire(self: &Arc<Self>, client: Option<IpAddr>) -> Result<WorkPermit, Failure> {
        let site = client.map(site);
        let started = {
            let mut state = self.lock();
            if self.can_run(&state, site) {
                return Ok(self.begin(&mut state, site));
            }
            state.push(site)
        };
        tokio::select! {
            started = timeout(MAX_WAIT, started) => {
                let permit = started.ok().and_then(Result::ok);
                permit.ok_or_else(|| {
                    Failure::unavailable(codes::SERVICE_BUSY, "The service is busy, please try again in a moment")
                })
            }
            () = disconnected() => Err(Failure::unavailable(codes::CLIENT_DISCONNECTED, "The client disconnected")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn can_run(&self, state: &State, site: Option<IpAddr>) -> bool {
        let of_site = site.and_then(|site| state.running_by_site.get(&site));
        state.running < self.max_running
            && of_site.is_none_or(|running| *running < self.max_running_per_site)
    }

    fn begin(self: &Arc<Self>, state: &mut State, site: Option<IpAddr>) -> WorkPermit {
        state.running += 1;
        if let Some(site) = site {
            *state.running_by_site.entry(site).or_default() += 1;
        }
        WorkPermit {
            queue: Arc::clone(self),
            site,
        }
    }

    /// Starts waiting requests until the limits on running requests are reached. Skips requests
    /// whose clients disconnected.
    fn start_next(self: &Arc<Self>) {
        loop {
            let (start, permit) = {
                let mut state = self.lock();
                state.waiting.retain(|waiting| !waiting.start.is_closed());
                let mut waiting = state.waiting.iter();
                let can_run = |waiting: &Waiting| self.can_run(&state, waiting.site);
                let next = if state.oldest_is_next {
                    waiting.position(can_run)
                } else {
                    waiting.rposition(can_run)
                };
                let Some(next) = next else { return };
                state.oldest_is_next = !state.oldest_is_next;
                let Waiting { site, start } = state.waiting.remove(next);
                (start, self.begin(&mut state, site))
            };
            // If the client has disconnected, `send` returns the permit. Dropping this permit
            // starts the next request.
            drop(start.send(permit));
        }
    }
}

impl State {
    /// Adds a request. If the queue or the site's part of the queue is full, removes the oldest
    /// request.
    fn push(&mut self, site: Option<IpAddr>) -> oneshot::Receiver<WorkPermit> {
        self.waiting.retain(|waiting| !waiting.start.is_closed());
        let is_same = |waiting: &&Waiting| waiting.site == site;
        let of_site = self.waiting.iter().filter(is_same).count();
        let oldest = if site.is_some() && of_site >= MAX_WAITING_PER_SITE {
            self.waiting.iter().position(|waiting| is_same(&waiting))
        } else {
            (self.waiting.len() >= MAX_WAITING).then_some(0)
        };
        if let Some(oldest) = oldest {
            self.waiting.remove(oldest);
        }
        let (start, started) = oneshot::channel();
        self.waiting.push(Waiting { site, start });
        started
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        {
            let mut state = self.queue.lock();
            state.running -= 1;
            if let Some(site) = self.site
                && let Some(running) = state.running_by_site.get_mut(&site)
            {
                *running -= 1;
                if *running == 0 {
                    state.running_by_site.remove(&site);
                }
            }
        }
        self.queue.start_next();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Acquire = Pin<Box<dyn Future<Output = Result<WorkPermit, Failure>> + Send>>;

    /// Returns the result of a future if it is ready.
    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        // Without `unconstrained`, tokio delays ready futures after many polls.
        let mut future = tokio::task::unconstrained(future);
        match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Starts to wait for a permit of `client`.
    fn wait(queue: &Arc<WorkQueue>, client: &str) -> Acquire {
        let (queue, client) = (Arc::clone(queue), client.parse().unwrap());
        let mut acquire: Acquire = Box::pin(async move { queue.acquire(Some(client)).await });
        assert!(poll_once(&mut acquire).is_none(), "{client}");
        acquire
    }

    fn is_refused(acquire: &mut Acquire) -> bool {
        matches!(poll_once(acquire), Some(Err(_)))
    }

    #[tokio::test]
    async fn the_newest_and_the_oldest_request_start_alternately() {
        let queue = WorkQueue::new(1, 1);
        let mut running = queue.acquire(None).await.unwrap();
        let mut waiting: Vec<_> = (0..5)
            .map(|number| Some(wait(&queue, &format!("192.0.{number}.1"))))
            .collect();
        for next in [4, 0, 3, 1, 2] {
            drop(running);
            let others = waiting.iter_mut().enumerate();
            let mut others = others.filter(|(number, _)| *number != next);
            assert!(others.all(|(_, other)| other.as_mut().is_none_or(|o| poll_once(o).is_none())));
            running = poll_once(&mut waiting[next].take().unwrap())
                .unwrap()
                .unwrap();
        }
        drop(running);
        assert!(queue.lock().running_by_site.is_empty());
    }

    #[tokio::test]
    async fn a_request_of_a_client_that_disconnects_does_not_start() {
        let queue = WorkQueue::new(1, 1);
        let running = queue.acquire(None).await.unwrap();
        for number in 0..2000_u32 {
            drop(wait(
                &queue,
                &IpAddr::from(number.to_be_bytes()).to_string(),
            ));
        }
        let gone = CancellationToken::new();
        let queued = queue.acquire(Some(IpAddr::from([192, 0, 2, 1])));
        let mut queued = Box::pin(with_client(gone.clone(), queued));
        assert!(poll_once(&mut queued).is_none());
        let mut next = wait(&queue, "198.51.100.1");
        assert_eq!(queue.lock().waiting.len(), 2);
        gone.cancel();
        assert!(queued.await.is_err());
        drop(running);
        assert!(poll_once(&mut next).unwrap().is_ok());
        assert!(queue.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn a_full_queue_refuses_its_oldest_request() {
        let queue = WorkQueue::new(1, 1);
        let running = queue.acquire(None).await.unwrap();
        let mut waiting: Vec<_> = (0..=MAX_WAITING)
            .map(|number| {
                let [.., high, low] = number.to_be_bytes();
                wait(&queue, &format!("10.{high}.{low}.1"))
            })
            .collect();
        assert!(is_refused(&mut waiting[0]));
        assert!(!is_refused(&mut waiting[1]));
        drop(running);
        assert!(poll_once(&mut waiting.pop().unwrap()).unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_site_has_a_part_of_the_queue_and_of_the_running_work() {
        let queue = WorkQueue::new(2, 1);
        let site = |network: usize| format!("2001:db8:1:{network:x}::1");
        let first = IpAddr::from(site(0).parse::<std::net::Ipv6Addr>().unwrap());
        let running = queue.acquire(Some(first)).await.unwrap();
        let mut other = wait(&queue, &site(1));
        let elsewhere = queue.acquire(Some(IpAddr::from([192, 0, 2, 1]))).await;
        let mut later = wait(&queue, "198.51.100.1");
        let mut flood: Vec<_> = (2..2 + MAX_WAITING)
            .map(|network| wait(&queue, &site(network)))
            .collect();
        assert!(is_refused(&mut other) && is_refused(&mut flood[0]));
        assert_eq!(queue.lock().waiting.len(), MAX_WAITING_PER_SITE + 1);
        drop(elsewhere);
        let later = poll_once(&mut later).unwrap().unwrap();
        drop(running);
        let ended = flood.iter_mut().skip(1).filter_map(poll_once);
        let started: Vec<_> = ended.flatten().collect();
        assert_eq!(started.len(), 1);
        drop(later);
    }
}
