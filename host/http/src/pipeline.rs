//! Processes one request, from its headers to its response. The steps are id, route, rate limit,
//! credential, access, body and handler. This module does not depend on a connection, so tests can
//! call this module directly.
//!
//! The log never contains `Authorization` headers, bodies or the values of a query.

mod authentication;
mod call;
mod progress;
mod tickets;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use latchmail_core::codes;
use latchmail_core::error::Failure;
use latchmail_core::limits::Key;
use latchmail_core::logging::REQUEST_SPAN;
use latchmail_core::metrics;
use latchmail_core::traces::Span;
use latchmail_runtime::modules::{Access, Content, Verified};
use latchmail_transport::client::Peer;
use latchmail_transport::request_body::{self, IncomingBody, ReceivedBody};
use latchmail_transport::{Body, framing};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::message::{Request, Response};
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::router::Lookup;
use crate::state::State;
use crate::{access, query, rate_limit, request_id, response};
use progress::{DisconnectLog, Progress};

/// The maximum time between the verification of a credential and the end of the body. If the body
/// takes longer, the credential is verified a second time.
const REVERIFY_AFTER: Duration = Duration::from_secs(1);

/// The query parameter that selects a shared mailbox.
const MAILBOX: &str = "mailbox";

/// Processes one request that arrived on a connection from `peer`. If the body of the request was
/// not read to its end, the response contains `Connection: close`.
pub async fn handle<S, B>(
    state: &Arc<S>,
    peer: impl Into<Peer>,
    request: http::Request<B>,
) -> http::Response<ResponseBody>
where
    S: State,
    B: Body<Data = Bytes> + Send + Unpin,
{
    let peer = peer.into();
    let is_proxy = state.http().server.trusted_proxies.trusts(peer);
    let id = request_id::request_id(is_proxy, request.headers());
    let received = request_id::trace_context(is_proxy, request.headers());
    let method = response::method_name(request.method());
    let (trace, span) = state
        .http()
        .tracer
        .begin(received, || format!("{method} -").into());
    // The log span has the level `error`, which every filter enables. So each line for the request
    // has the fields of this span.
    let fields = tracing::error_span!(target: REQUEST_SPAN, "request", %id, trace_id = %trace.id());
    let response = respond(state, peer, id, request, span);
    trace.scope(response.instrument(fields)).await
}

/// Processes the request and writes the log line of the request.
async fn respond<S, B>(
    state: &Arc<S>,
    peer: Peer,
    id: String,
    request: http::Request<B>,
    span: Span,
) -> http::Response<ResponseBody>
where
    S: State,
    B: Body<Data = Bytes> + Send + Unpin,
{
    let http = state.http();
    let start = http.server.clock.monotonic();
    let _in_progress = http.is_counted.then(|| metrics::HTTP_IN_PROGRESS.begin());
    let (mut parts, body) = request.into_parts();
    let mut body = IncomingBody::new(body);
    // The headers are moved into the request for the handler, so the values for the response are
    // copied first.
    let expects_continue = parts.headers.contains_key(header::EXPECT);
    let origin = parts.headers.get(header::ORIGIN).cloned();
    let mut progress = Progress::new(span);
    let mut disconnect_log = DisconnectLog::new(parts.method.clone());
    let framing = framing::check(&parts);
    // The service and a proxy can disagree about the end of a request with ambiguous framing. So
    // the service does not read the data that follows the request's head.
    let is_ambiguous = framing.is_err();
    let result = match framing {
        Ok(()) => {
            call::catch_panic(serve(
                state,
                peer,
                &id,
                &mut parts,
                &mut body,
                &mut progress,
            ))
            .await
        }
        Err(error) => Err(error.into()),
    };
    let body_ended = !is_ambiguous && request_body::discard(&mut body, expects_continue).await;
    let result = result.or_else(|rejection| state.render_error(parts.uri.path(), rejection));
    let mut response = response::from_result(result);
    if let Some(ended) = state.ended_credentials() {
        progress.stop_with_credentials(ended, response.body_mut());
    }
    let headers = response.headers_mut();
    if let Some(status) = &progress.rate_limit {
        rate_limit::write(*status, headers);
    }
    response::add_common_headers(&id, http.hsts.as_ref(), headers);
    http.cors.write(origin.as_ref(), headers);
    if !body_ended {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let bytes = response.body().length();
    if parts.method == Method::HEAD {
        *response.body_mut() = ResponseBody::default();
    }
    disconnect_log.disarm();
    if !http.is_counted {
        return response;
    }
    let duration = http.server.clock.monotonic().saturating_sub(start);
    let method = response::method_name(&parts.method);
    progress.end_span(&id, method, response.status());
    metrics::HTTP_REQUESTS.increment([progress.route(), method, response.status().as_str()]);
    metrics::HTTP_DURATION.observe([progress.route(), method], duration);
    tracing::info!(
        method,
        route = progress.route(),
        status = response.status().as_u16(),
        ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        bytes,
        account = progress.account.as_deref(),
        "request completed"
    );
    response
}

async fn serve<S, B>(
    state: &Arc<S>,
    peer: Peer,
    id: &str,
    parts: &mut Parts,
    body: &mut IncomingBody<B>,
    progress: &mut Progress,
) -> Result<Response, Rejection>
where
    S: State,
    B: Body<Data = Bytes> + Send + Unpin,
{
    let http = state.http();
    check_target(state.as_ref(), parts)?;
    let (entry, segments) = match http.table().find(&parts.method, parts.uri.path()) {
        Lookup::Found { entry, segments } => (entry, segments),
        Lookup::MethodNotAllowed { allow } => {
            return preflight_or_405(state.as_ref(), parts, &allow);
        }
        Lookup::NotFound => {
            return Err(
                Failure::not_found(codes::ROUTE_NOT_FOUND, "There is no such route").into(),
            );
        }
    };
    let route = &entry.route;
    progress.set_route(&parts.method, &route.path);
    let client = http.server.trusted_proxies.client(peer, &parts.headers);
    let checked_at = Instant::now();
    // Every request is counted before its body is read.
    let mut unverified = None;
    let mut has_ticket = false;
    let caller = if route.access == Access::Public {
        if let Some(bucket) = entry.bucket {
            let key = Key::client(client);
            if let Err(rejection) = progress.count(&http.limits, bucket, &key).await {
                return page_or_error(state.as_ref(), route.is_page, rejection);
            }
        }
        if route.verifies_body {
            unverified = Some(http.limits.unverified_request(client).await?);
        }
        None
    } else {
        let state = state.as_ref();
        has_ticket = tickets::redeem(state, route.access, parts, client, progress).await?;
        Some(authentication::authenticate(state, &entry, &parts.headers, client, progress).await?)
    };
    let verified_at = http.server.clock.monotonic();
    let path = segments
        .into_iter()
        .map(|(name, raw)| Ok((name, query::decode_segment(&raw)?)))
        .collect::<Result<_, Rejection>>()?;
    let mut query = tickets::query(parts, has_ticket)?;
    let mailbox = if access::takes_mailbox(route.access) {
        query::take(&mut query, MAILBOX)?
    } else {
        None
    };
    let mailbox = mailbox.as_deref();
    let caller = match caller {
        Some(one) => Some(authentication::select_mailbox(state.as_ref(), one, mailbox).await?),
        None => None,
    };
    if let Some(caller) = &caller {
        progress.set_credentials(caller, checked_at);
    }
    let received = if body.is_empty() {
        ReceivedBody::default()
    } else {
        let account = caller.as_ref().map(|caller| caller.account.as_str());
        let reservation = http.body_memory.reserve(account, client, route.max_body);
        request_body::read(
            body,
            route.max_body,
            &route.blob_fields,
            http.server.config.body_timeout,
            reservation,
        )
        .await?
    };
    // A body can take minutes to arrive. During this time, the credential can be revoked.
    let caller = match caller {
        Some(_) if http.server.clock.monotonic().saturating_sub(verified_at) > REVERIFY_AFTER => {
            let state = state.as_ref();
            let caller = authentication::reverify(state, route, &parts.headers, client).await?;
            Some(authentication::select_mailbox(state, caller, mailbox).await?)
        }
        caller => caller,
    };
    let verified = Verified::default();
    let request = Request {
        id: id.into(),
        uri: parts.uri.clone(),
        path,
        query,
        headers: take_headers(parts),
        body: received.bytes,
        blobs: received.fields,
        client,
        caller,
        verified: verified.clone(),
    };
    let is_page = route.is_page;
    let result = call::run(state, entry, request).await;
    if let Some(attempt) = unverified
        && verified.is_set()
    {
        attempt.succeeded().await;
    }
    result.or_else(|rejection| page_or_error(state.as_ref(), is_page, rejection))
}

/// Returns the error page of a route that is a page. Otherwise returns `rejection`.
fn page_or_error<S: State>(
    state: &S,
    is_page: bool,
    rejection: Rejection,
) -> Result<Response, Rejection> {
    if is_page {
        state.error_page(rejection)
    } else {
        Err(rejection)
    }
}

/// Takes the headers of a request. In HTTP/2, the host is not in a header, so the header `Host`
/// is added (RFC 9113, section 8.3.1).
fn take_headers(parts: &mut Parts) -> HeaderMap {
    let mut headers = mem::take(&mut parts.headers);
    if let Some(authority) = parts.uri.authority()
        && !headers.contains_key(header::HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(header::HOST, host);
    }
    headers
}

/// Returns `true` if a browser requests the script of a service worker (Service Workers, section
/// "Service Worker Script Request"). A service worker of a module could replace the sign-in pages,
/// because the pages have the same origin. The service worker would remain active after the removal
/// of the module.
fn registers_service_worker(headers: &HeaderMap) -> bool {
    headers
        .get("service-worker")
        .is_some_and(|value| value == "script")
}

/// Checks that the request is for this server, and does not register a service worker.
fn check_target<S: State>(state: &S, parts: &Parts) -> Result<(), Rejection> {
    if registers_service_worker(&parts.headers) {
        let text = "Service workers are not allowed";
        return Err(Failure::forbidden(codes::SERVICE_WORKERS_NOT_ALLOWED, text).into());
    }
    if state.serves_host(&host(parts)) {
        return Ok(());
    }
    Err(Rejection::new(
        StatusCode::MISDIRECTED_REQUEST,
        codes::WRONG_HOST,
        "This server does not serve this host",
    ))
}

/// Handles a request whose path has no route for the method. Returns the response to a browser's
/// preflight request, or the 405 error.
fn preflight_or_405<S: State>(
    state: &S,
    parts: &Parts,
    allow: &HeaderValue,
) -> Result<Response, Rejection> {
    if parts.method == Method::OPTIONS
        && let Some(headers) = state.http().cors.preflight(&parts.headers, allow)
    {
        return Ok(Response {
            status: StatusCode::NO_CONTENT,
            headers: headers.into_iter().collect(),
            body: Content::Bytes(Bytes::new()),
        });
    }
    Err(Rejection::new(
        StatusCode::METHOD_NOT_ALLOWED,
        codes::METHOD_NOT_ALLOWED,
        "This route does not support this method",
    )
    .with(header::ALLOW, allow.clone()))
}

/// Returns the host of the URL without the port and without a final dot.
fn host(parts: &Parts) -> String {
    let header = || {
        let host = parts.headers.get(header::HOST)?.to_str().ok()?;
        host.parse::<Authority>().ok()
    };
    let authority = parts.uri.authority().cloned().or_else(header);
    authority.map_or_else(String::new, |authority| {
        authority.host().trim_end_matches('.').to_owned()
    })
}

#[cfg(test)]
mod tests;
