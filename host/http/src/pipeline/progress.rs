//! The properties of a request that the pipeline has determined. The log and the headers of the response contain these properties.

use http::Method;
use latchmail_core::limits::{Bucket, Key, Limits};
use latchmail_core::metrics;
use latchmail_core::verdict::Verdict;

use crate::rejection::Rejection;
use crate::response;

/// The properties of a request that the pipeline has determined.
#[derive(Default)]
pub(super) struct Progress {
    /// The path of the route, if a route was found.
    pub(super) route: Option<String>,
    /// The account of the caller, if the caller was authenticated.
    pub(super) account: Option<String>,
    /// The state of the rate limit towards which the request counts.
    pub(super) verdict: Option<Verdict>,
}

impl Progress {
    /// Returns the path of the route, or `-` if no route was found. The log line of the request contains this text.
    pub(super) fn route(&self) -> &str {
        self.route.as_deref().unwrap_or("-")
    }

    /// Counts the request towards a rate limit. The headers of the response then report the state of this limit.
    pub(super) async fn count(
        &mut self,
        limits: &Limits,
        bucket: Bucket,
        key: &Key,
    ) -> Result<(), Rejection> {
        let verdict = limits.check(bucket, key).await;
        self.verdict = Some(verdict);
        verdict.admit()?;
        Ok(())
    }
}

/// A guard that logs a request if the client disconnects before the response. In this case, hyper drops the future of the request together with this guard.
pub(super) struct DisconnectLog<'r>(Option<&'r Method>);

impl<'r> DisconnectLog<'r> {
    pub(super) fn new(method: &'r Method) -> Self {
        Self(Some(method))
    }

    /// Prevents the log line about a disconnected client. The pipeline calls this function when the response is complete.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for DisconnectLog<'_> {
    fn drop(&mut self) {
        if let Some(method) = self.0 {
            metrics::HTTP_DISCONNECTS.increment([]);
            tracing::info!(
                method = response::method_name(method),
                "client disconnected before the response"
            );
        }
    }
}
