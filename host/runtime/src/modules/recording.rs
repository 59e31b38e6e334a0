//! Records read requests of a module, with the results of their host calls. The recordings are in
//! memory only. While no recording is active, a request only reads one flag.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Method;
use tokio::sync::mpsc;

use super::manifest::Route;
use super::message::Request;
use super::module::Module;
use crate::api::{Ambient, Charge, Pool, RecordedCalls, Recording, Tape};

/// The maximum number of recorded requests that wait for the comparison.
const MAX_WAITING: usize = 1024;

/// The recorder of a module.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    is_active: AtomicBool,
    active: Mutex<Option<Arc<ActiveRecording>>>,
}

/// An active recording of a module.
#[derive(Debug)]
struct ActiveRecording {
    recorded: mpsc::Sender<RecordedRequest>,
    pool: Pool,
    /// The number of requests that were too large, or for which there was no memory.
    dropped: AtomicU64,
}

/// A request whose recording has started.
pub(super) struct StartedRecording {
    active: Arc<ActiveRecording>,
    route: Route,
    request: Request,
    ambient: Ambient,
}

/// A request with the results of its host calls.
pub(crate) struct RecordedRequest {
    pub(crate) route: Route,
    pub(super) request: Request,
    pub(super) calls: Arc<RecordedCalls>,
}

impl RecordedRequest {
    /// Returns the id of the request.
    pub(crate) fn id(&self) -> &str {
        &self.request.id
    }

    /// Returns the time and the randomness of the recorded call.
    pub(crate) fn ambient(&self) -> &Ambient {
        self.calls.ambient()
    }
}

impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedRequest")
            .field("route", &self.route.path)
            .field("id", &self.request.id)
            .finish_non_exhaustive()
    }
}

/// The recorded requests of a module. The recording ends when this value is dropped.
pub(crate) struct RecordedRequests {
    module: Arc<Module>,
    active: Arc<ActiveRecording>,
    recorded: mpsc::Receiver<RecordedRequest>,
}

impl RecordedRequests {
    /// Waits for the next recorded request.
    pub(crate) async fn next(&mut self) -> Option<RecordedRequest> {
        self.recorded.recv().await
    }

    /// Returns the number of requests that were too large, or for which there was no memory.
    pub(crate) fn dropped(&self) -> u64 {
        self.active.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for RecordedRequests {
    fn drop(&mut self) {
        let recorder = &self.module.recorder;
        recorder.is_active.store(false, Ordering::Relaxed);
        *recorder.active() = None;
    }
}

impl Module {
    /// Returns whether requests of the module can be recorded and replayed. Requests of a standard
    /// component cannot, because its requests of `wasi:http` are not recorded. A component that has
    /// only handlers has no requests.
    pub(crate) fn is_comparable(&self) -> bool {
        self.linked.exports_module()
    }

    /// Starts to record the read requests of the module. Ends an earlier recording.
    pub(crate) fn record(self: &Arc<Self>) -> RecordedRequests {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let active = Arc::new(ActiveRecording {
            recorded: sender,
            pool: Pool::default(),
            dropped: AtomicU64::new(0),
        });
        *self.recorder.active() = Some(Arc::clone(&active));
        self.recorder.is_active.store(true, Ordering::Relaxed);
        RecordedRequests {
            module: Arc::clone(self),
            active,
            recorded: receiver,
        }
    }
}

impl Recorder {
    fn active(&self) -> MutexGuard<'_, Option<Arc<ActiveRecording>>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the recording of a request. Returns `None` if no recording is active, or if the
    /// request can change something. Requests with the method `HEAD` have the route of `GET`.
    pub(super) fn start(&self, route: &Route, request: &Request) -> Option<Box<StartedRecording>> {
        if !self.is_active.load(Ordering::Relaxed) || route.method != Method::GET {
            return None;
        }
        let active = self.active().clone()?;
        match Ambient::new() {
            Ok(ambient) => Some(Box::new(StartedRecording {
                active,
                route: route.clone(),
                request: request.copy_for_module(),
                ambient,
            })),
            Err(failure) => {
                tracing::error!("failed to record a request: {failure}");
                None
            }
        }
    }
}

impl StartedRecording {
    /// Returns the tape for the call of the request.
    pub(super) fn tape(&self) -> Tape {
        let charge = Charge::new(Arc::clone(&self.active.pool));
        // A failure is found when the recording ends.
        charge.take(size(&self.request));
        Tape::Recording(Recording::new(self.ambient.clone(), charge))
    }

    /// Ends the recording after a valid response.
    pub(super) fn finish(self: Box<Self>, tape: Tape) {
        let Tape::Recording(recording) = tape else {
            return;
        };
        let Self {
            active,
            route,
            request,
            ..
        } = *self;
        let recorded = recording.finish().and_then(|calls| {
            let request = RecordedRequest {
                route,
                request,
                calls: Arc::new(calls),
            };
            active.recorded.try_send(request).ok()
        });
        if recorded.is_none() {
            active.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns the memory of a request, with its randomness, in bytes. An estimate.
fn size(request: &Request) -> usize {
    let pairs = request.path.iter().chain(&request.query);
    let texts: usize = pairs.map(|(name, value)| name.len() + value.len()).sum();
    let headers = request.headers.iter();
    let headers: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    let blobs: usize = request.blobs.iter().map(bytes::Bytes::len).sum();
    20 * 1024 + texts + headers + request.body.len() + blobs
}
