//! Reads messages, headers and attachments.

pub(crate) mod attachment;
mod batch;
pub(crate) mod download;
pub(crate) mod export;
mod header;
pub(crate) mod message;
mod original;
pub(crate) mod raw;
mod sources;
mod version;

use std::sync::Arc;
use std::time::Duration;

use latchmail_core::account_permits::AccountPermits;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time;

use crate::bounds;
use crate::context::Context;
use crate::error::Error;
use crate::index::SearchIndex;
use crate::message::authentication::TrustedResults;
use crate::numbers::Numbers;

/// Reads messages.
#[derive(Debug)]
pub struct Reader {
    context: Arc<Context>,
    numbers: Arc<Numbers>,
    index: Arc<SearchIndex>,
    /// Limits the concurrent downloads of each account.
    download_permits: AccountPermits,
    timeout: Duration,
    trusted_results: Arc<TrustedResults>,
}

impl Reader {
    /// Downloads wait at most `timeout` for a permit.
    pub(crate) fn new(
        context: Arc<Context>,
        numbers: Arc<Numbers>,
        index: Arc<SearchIndex>,
        trusted_results: TrustedResults,
        timeout: Duration,
    ) -> Self {
        Self {
            context,
            numbers,
            index,
            download_permits: AccountPermits::new(bounds::DOWNLOADS_PER_ACCOUNT),
            timeout,
            trusted_results: Arc::new(trusted_results),
        }
    }

    /// Returns `true` if results of checks are trusted although nothing proves who wrote the header
    /// of a message.
    pub(crate) fn trusts_headers(&self) -> bool {
        self.trusted_results.header_alone()
    }

    /// Waits for a download permit of an account.
    async fn acquire_download(&self, account: &str) -> Result<OwnedSemaphorePermit, Error> {
        let permit = self.download_permits.acquire(account);
        match time::timeout(self.timeout, permit).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) | Err(_) => Err(Error::Unavailable(
                "the account has too many concurrent downloads".into(),
            )),
        }
    }
}
