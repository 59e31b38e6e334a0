//! The properties of a request that the pipeline has determined. The log and the headers of the
//! response contain these properties.

use std::mem;

use http::{Method, StatusCode};
use latchmail_core::caller::Caller;
use latchmail_core::ended_credentials::EndedCredentials;
use latchmail_core::limits::{Bucket, Key, Limits};
use latchmail_core::metrics;
use latchmail_core::rate_limit::RateLimitStatus;
use latchmail_core::traces::Span;
use tokio::time::Instant;

use crate::rejection::Rejection;
use crate::response;
use crate::response_body::ResponseBody;

/// The properties of a request that the pipeline has determined.
pub(super) struct Progress {
    /// The path of the route, if a route was found.
    route: Option<String>,
    /// The account of the caller, if the caller was authenticated.
    pub(super) account: Option<String>,
    /// The state of the rate limit towards which the request counts.
    pub(super) rate_limit: Option<RateLimitStatus>,
    /// The ids of the caller's credentials at the mail server, and the time of their check.
    credentials: Option<(Vec<String>, Instant)>,
    /// The span of the request.
    span: Span,
}

impl Progress {
    pub(super) fn new(span: Span) -> Self {
        Self {
            route: None,
            account: None,
            rate_limit: None,
            credentials: None,
            span,
        }
    }

    /// Records the credentials whose end stops the response: the caller's own credential, and the
    /// credential of a shared mailbox. `checked_at` is the time before the check of the caller.
    pub(super) fn set_credentials(&mut self, caller: &Caller, checked_at: Instant) {
        let shared = caller.shared.as_ref().map(|shared| shared.mail.id.clone());
        let ids = [Some(caller.mail.id.clone()), shared];
        self.credentials = Some((ids.into_iter().flatten().collect(), checked_at));
    }

    /// Makes a streamed response stop when one of the caller's credentials ends.
    pub(super) fn stop_with_credentials(&self, ended: &EndedCredentials, body: &mut ResponseBody) {
        let Some((ids, checked_at)) = &self.credentials else {
            return;
        };
        if body.is_stream() {
            let registrations = ids.iter().map(|id| ended.register(id, *checked_at));
            body.stop_with(registrations.collect());
        }
    }

    /// Records the path of the route.
    pub(super) fn set_route(&mut self, method: &Method, path: &str) {
        self.route = Some(path.to_owned());
        self.span
            .rename(|| format!("{} {path}", response::method_name(method)).into());
    }

    /// Ends the span of the request. Only a server error marks the span as failed.
    pub(super) fn end_span(&mut self, id: &str, method: &str, status: StatusCode) {
        let mut span = mem::take(&mut self.span);
        span.set("http.request.method", method);
        if let Some(route) = &self.route {
            span.set("http.route", route);
        }
        span.set_number("http.response.status_code", status.as_u16().into());
        span.set("latchmail.request_id", id);
        if status.is_server_error() {
            span.fail(status.as_str());
        }
    }

    /// Returns the path of the route, or `-` if no route was found. The log line of the request
    /// contains this text.
    pub(super) fn route(&self) -> &str {
        self.route.as_deref().unwrap_or("-")
    }

    /// Counts the request towards a rate limit. The headers of the response then report the state
    /// of this limit.
    pub(super) async fn count(
        &mut self,
        limits: &Limits,
        bucket: Bucket,
        key: &Key,
    ) -> Result<(), Rejection> {
        let status = limits.check(bucket, key).await;
        self.rate_limit = Some(status);
        status.admit()?;
        Ok(())
    }
}

/// A guard that logs a request if the client disconnects before the response. In this case, hyper
/// drops the future of the request together with this guard.
pub(super) struct DisconnectLog(Option<Method>);

impl DisconnectLog {
    pub(super) fn new(method: Method) -> Self {
        Self(Some(method))
    }

    /// Prevents the log line about a disconnected client. The pipeline calls this function when the
    /// response is complete.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for DisconnectLog {
    fn drop(&mut self) {
        if let Some(method) = &self.0 {
            metrics::HTTP_DISCONNECTS.increment([]);
            tracing::info!(
                method = response::method_name(method),
                "client disconnected before the response"
            );
        }
    }
}
