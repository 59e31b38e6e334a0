//! The properties of a request that are known so far, for the log and for the response's headers.

use http::Method;
use latchmail_core::limits::{Bucket, Key, Limits};
use latchmail_core::verdict::Verdict;

use crate::rejection::Rejection;
use crate::response;

/// The properties of a request that are known so far.
#[derive(Default)]
pub(super) struct Progress {
    /// The path of the route.
    pub(super) route: Option<String>,
    /// The caller's account.
    pub(super) account: Option<String>,
    /// The state of the rate limit that the request counts towards.
    pub(super) verdict: Option<Verdict>,
}

impl Progress {
    /// Returns the path of the route for the log.
    pub(super) fn route(&self) -> &str {
        self.route.as_deref().unwrap_or("-")
    }

    /// Counts the request towards a rate limit. The headers of the response report the state of this limit.
    pub(super) fn count(
        &mut self,
        limits: &Limits,
        bucket: Bucket,
        key: &Key,
    ) -> Result<(), Rejection> {
        let verdict = limits.check(bucket, key);
        self.verdict = Some(verdict);
        verdict.admit()?;
        Ok(())
    }
}

/// Logs a request whose client disconnects before the response. hyper drops the future of such a request, and the drop of this value writes the log line.
pub(super) struct DisconnectLog<'r>(Option<&'r Method>);

impl<'r> DisconnectLog<'r> {
    /// Creates the value for a request with a method.
    pub(super) fn new(method: &'r Method) -> Self {
        Self(Some(method))
    }

    /// Prevents the log line, because the request has a response.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for DisconnectLog<'_> {
    fn drop(&mut self) {
        if let Some(method) = self.0 {
            tracing::info!(
                method = response::method_name(method),
                "client disconnected before the response"
            );
        }
    }
}
