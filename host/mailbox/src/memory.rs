//! Limits the memory of large messages and long headers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time;

use crate::error::Error;

/// Memory that all accounts share, in MiB. This type only counts memory and does not allocate
/// memory.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    pub(crate) permits: Arc<Semaphore>,
    timeout: Duration,
    /// The description of the error if the memory is not available in time.
    busy: &'static str,
}

impl SharedMemory {
    /// Creates a limit of `mib` MiB. Callers wait at most `timeout` for memory, and then get an
    /// error with the description `busy`.
    pub(crate) fn new(mib: usize, timeout: Duration, busy: &'static str) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(mib)),
            timeout,
            busy,
        }
    }

    /// Waits until `mib` MiB are available.
    pub(crate) async fn acquire(&self, mib: u32) -> Result<OwnedSemaphorePermit, Error> {
        let permits = Arc::clone(&self.permits).acquire_many_owned(mib);
        match time::timeout(self.timeout, permits).await {
            Ok(Ok(permits)) => Ok(permits),
            Ok(Err(_)) | Err(_) => Err(Error::Unavailable(self.busy.into())),
        }
    }
}
