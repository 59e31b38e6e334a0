//! Processes one request, from its headers to its response: id, route, rate limit, credential, access, body, handler. This module does not depend on a
//! connection, so tests can call it directly.
//!
//! `Authorization` headers, bodies and the values of a query are never logged.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper::body::Body;
use latchmail_accounts::auth::bearer_credential;
use latchmail_core::caller::Caller;
use latchmail_core::error::{Failure, Kind};
use latchmail_core::limits::{Bucket, Key, Limits};
use latchmail_core::verdict::Verdict;
use latchmail_runtime::modules::Access;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::body::{Intake, Taken};
use super::message::{Request, Response};
use super::outgoing::Outgoing;
use super::router::{Entry, Lookup, Target};
use super::{State, access, answer, body, client, framing, module, query};
use crate::rate_limit;
use crate::rejection::Rejection;

/// How long an authorization remains valid while the body is read. After a longer time the credential is verified again.
const FRESH: Duration = Duration::from_secs(1);

/// The query parameter that selects a mailbox that is shared with the caller.
const MAILBOX: &str = "mailbox";

/// The properties of a request for the log and the response, collected while it is processed.
#[derive(Default)]
struct Seen {
    route: Option<String>,
    account: Option<String>,
    verdict: Option<Verdict>,
}

impl Seen {
    fn route(&self) -> &str {
        self.route.as_deref().unwrap_or("-")
    }

    /// Counts the request towards a rate limit, which the headers of the response then report.
    fn count(&mut self, limits: &Limits, bucket: Bucket, key: &Key) -> Result<(), Rejection> {
        let verdict = limits.check(bucket, key);
        self.verdict = Some(verdict);
        verdict.admit()?;
        Ok(())
    }
}

/// Logs a request whose client disconnected before the response. The request is logged when this value is dropped.
struct HungUp<'r>(Option<&'r Method>);

impl Drop for HungUp<'_> {
    fn drop(&mut self) {
        if let Some(method) = self.0 {
            tracing::info!(
                method = answer::method_name(method),
                "client disconnected before the response"
            );
        }
    }
}

/// Processes one request from a connection of `peer`. If the response contains `Connection: close`, the request's body was not read to its end.
pub async fn answer<S, B>(
    state: &Arc<S>,
    peer: IpAddr,
    request: http::Request<B>,
) -> http::Response<Outgoing>
where
    S: State,
    B: Body<Data = Bytes> + Send + Unpin,
{
    let peer = peer.to_canonical();
    let trusted = state.http().proxies.hold(peer);
    let id = client::request_id(trusted, request.headers());
    let span = tracing::info_span!("request", %id);
    one(state, peer, id, request).instrument(span).await
}

async fn one<S, B>(
    state: &Arc<S>,
    peer: IpAddr,
    id: String,
    request: http::Request<B>,
) -> http::Response<Outgoing>
where
    S: State,
    B: Body<Data = Bytes> + Send + Unpin,
{
    let http = state.http();
    let began = http.clock.monotonic();
    let (parts, body) = request.into_parts();
    let mut body = Intake::new(body);
    let mut seen = Seen::default();
    let mut hung_up = HungUp(Some(&parts.method));
    let framed = framing::check(&parts);
    // The service and a proxy can disagree on where an ambiguous request ends, so the data after it cannot be trusted.
    let ambiguous = framed.is_err();
    let served = match framed {
        Ok(()) => AssertUnwindSafe(serve(state, peer, &id, &parts, &mut body, &mut seen))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(answer::panicked(&*panic))),
        Err(failure) => Err(failure),
    };
    let whole = !ambiguous && body::discard(&mut body, &parts.headers).await;
    let mut response = answer::response(served);
    let headers = response.headers_mut();
    if let Some(verdict) = &seen.verdict {
        rate_limit::write(*verdict, headers);
    }
    answer::sign(&id, headers);
    http.cors.write(&parts.headers, headers);
    if !whole {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let bytes = response.body().length();
    if parts.method == Method::HEAD {
        *response.body_mut() = Outgoing::default();
    }
    hung_up.0 = None;
    let took = http.clock.monotonic().saturating_sub(began);
    tracing::info!(
        method = answer::method_name(&parts.method),
        route = seen.route(),
        status = response.status().as_u16(),
        ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        bytes,
        account = seen.account.as_deref(),
        "request completed"
    );
    response
}

async fn serve<S, B>(
    state: &Arc<S>,
    peer: IpAddr,
    id: &str,
    parts: &Parts,
    body: &mut Intake<B>,
    seen: &mut Seen,
) -> Result<Response, Rejection>
where
    S: State,
    B: Body<Data = Bytes> + Send + Unpin,
{
    let http = state.http();
    if registers_service_worker(&parts.headers) {
        return Err(Failure::forbidden("Service workers are not allowed").into());
    }
    let (entry, segments) = match http.table().find(&parts.method, parts.uri.path()) {
        Lookup::Found { entry, segments } => (entry, segments),
        Lookup::Method { allow } => return wrong_method(state.as_ref(), parts, &allow),
        Lookup::Unknown => return Err(Failure::not_found("There is no such route").into()),
    };
    seen.route = Some(entry.route.path.clone());
    let client = http.proxies.client(peer, &parts.headers);
    let caller = if entry.route.access == Access::Public {
        if let Some(bucket) = entry.bucket {
            seen.count(&http.limits, bucket, &Key::client(client))?;
        }
        None
    } else {
        Some(admit(state.as_ref(), &entry, &parts.headers, client, seen).await?)
    };
    let admitted = http.clock.monotonic();
    let path = segments
        .into_iter()
        .map(|(name, raw)| Ok((name, query::segment(&raw)?)))
        .collect::<Result<_, Rejection>>()?;
    let mut query = query::pairs(parts.uri.query().unwrap_or_default())?;
    let mailbox = if access::takes_mailbox(entry.route.access) {
        query::taken(&mut query, MAILBOX)?
    } else {
        None
    };
    let caller = match caller {
        Some(caller) => Some(entered(state.as_ref(), caller, mailbox.as_deref()).await?),
        None => None,
    };
    let taken = if body.is_empty() {
        Taken::default()
    } else {
        let account = caller.as_ref().map(|caller| caller.account.as_str());
        let share = http.bodies.share(account, client, entry.route.max_body);
        body::read(
            body,
            entry.route.max_body,
            &entry.route.blob_fields,
            http.config.body_timeout,
            share,
        )
        .await?
    };
    // A body can take minutes to arrive, and the credential can be revoked in this time.
    let caller = match caller {
        Some(_) if http.clock.monotonic().saturating_sub(admitted) > FRESH => {
            let access = entry.route.access;
            let caller = look_again(state.as_ref(), access, &parts.headers, client).await?;
            Some(entered(state.as_ref(), caller, mailbox.as_deref()).await?)
        }
        caller => caller,
    };
    let request = Request {
        id: id.into(),
        path,
        query,
        headers: parts.headers.clone(),
        body: taken.bytes,
        blobs: taken.fields,
        client,
        caller,
    };
    run(state, entry, request).await
}

/// Returns `true` if a browser requests the script of a service worker. A worker could replace the sign-in pages of its origin, even after its module was
/// removed (Service Workers, section "Service Worker Script Request").
fn registers_service_worker(headers: &HeaderMap) -> bool {
    headers
        .get("service-worker")
        .is_some_and(|value| value == "script")
}

/// Counts the request, and returns the caller if the route accepts the credential. Every request is counted before its credential is looked up: towards the
/// credential's rate limit if the credential itself proves that the service issued it, otherwise towards the client's rate limit. Therefore the rate limits
/// also limit the look-ups of invalid and forged credentials.
async fn admit<S: State>(
    state: &S,
    entry: &Entry<S>,
    headers: &HeaderMap,
    client: IpAddr,
    seen: &mut Seen,
) -> Result<Caller, Rejection> {
    let access = entry.route.access;
    let limits = &state.http().limits;
    let credential = state.parse_credential(headers, client);
    let proven = match &credential {
        Ok((credential, _)) if access == Access::OAuth => state.agent_key(credential),
        Ok((_, key)) => key.clone(),
        Err(_) => None,
    };
    match (&proven, entry.bucket) {
        (Some(key), Some(bucket)) => seen.count(limits, bucket, key)?,
        (Some(_), None) => {}
        (None, _) => seen.count(limits, Bucket::Unproven, &Key::client(client))?,
    }
    let caller = match credential {
        Ok((credential, _)) => state.authenticate(credential).await,
        Err(failure) => Err(failure),
    };
    let admitted = match caller {
        Ok(caller) => {
            seen.account = Some(caller.account.clone());
            admitted(access, caller)
        }
        Err(failure) if access == Access::OAuth && failure.kind == Kind::Unauthorized => {
            Err(match failure.cause {
                Some(cause) => access::unauthorized().because(cause),
                None => access::unauthorized(),
            })
        }
        Err(failure) => Err(failure.into()),
    };
    let caller = challenged(state, access, headers, admitted)?;
    if let (None, Some(bucket)) = (proven, entry.bucket) {
        seen.count(limits, bucket, &Key::caller(bucket, &caller))?;
    }
    Ok(caller)
}

/// Verifies the credential of an authorized and counted request again.
async fn look_again<S: State>(
    state: &S,
    access: Access,
    headers: &HeaderMap,
    client: IpAddr,
) -> Result<Caller, Rejection> {
    let again = match state.parse_credential(headers, client) {
        Ok((credential, _)) => state.authenticate(credential).await,
        Err(failure) => Err(failure),
    };
    let admitted = again
        .map_err(Rejection::from)
        .and_then(|caller| admitted(access, caller));
    challenged(state, access, headers, admitted)
}

/// Returns the caller as the route sees it, if the route accepts the caller.
fn admitted(access: Access, caller: Caller) -> Result<Caller, Rejection> {
    access::admit(access, &caller)?;
    Ok(match access {
        Access::OAuth => caller.at_agent_endpoint(),
        _ => caller,
    })
}

/// Switches the caller to the mailbox that the request selects, if it selects one.
async fn entered<S: State>(
    state: &S,
    caller: Caller,
    mailbox: Option<&str>,
) -> Result<Caller, Rejection> {
    let Some(mailbox) = mailbox else {
        return Ok(caller);
    };
    access::may_enter(&caller)?;
    if caller.account == mailbox {
        return Ok(caller);
    }
    Ok(state.enter(caller, mailbox).await?)
}

/// Adds the challenge to a 401 error (RFC 9110, section 11.6.1; for the agent endpoint RFC 9728, section 5.1).
fn challenged<S: State>(
    state: &S,
    access: Access,
    headers: &HeaderMap,
    admitted: Result<Caller, Rejection>,
) -> Result<Caller, Rejection> {
    admitted.map_err(|failure| {
        let challenged = failure
            .headers
            .iter()
            .any(|(name, _)| name == header::WWW_AUTHENTICATE);
        if failure.status != StatusCode::UNAUTHORIZED || challenged {
            return failure;
        }
        let http = state.http();
        // RFC 6750, section 3.1: no error code if the request has no token.
        let challenge = match access {
            Access::OAuth if bearer_credential(headers).is_ok() => http.agent_invalid_token.clone(),
            Access::OAuth => http.agent_challenge.clone(),
            _ => HeaderValue::from_static("Bearer"),
        };
        failure.with(header::WWW_AUTHENTICATE, challenge)
    })
}

/// Handles a request for a known path with another method: a preflight request of a browser, or 405.
fn wrong_method<S: State>(
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
            body: latchmail_runtime::modules::Content::Bytes(Bytes::new()),
        });
    }
    Err(Rejection::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "This route does not support this method",
    )
    .with(header::ALLOW, allow.clone()))
}

/// Calls the handler. A request that only reads is canceled if its client disconnects. A change runs on a task of its own and always finishes.
async fn run<S: State>(
    state: &Arc<S>,
    entry: Arc<Entry<S>>,
    request: Request,
) -> Result<Response, Rejection> {
    let http = state.http();
    let reads = module::reads(&entry.route.method);
    let deadline = match entry.target {
        Target::Host(_) => entry.route.deadline,
        // The module's call enforces its own deadline.
        Target::Module(_) => Duration::MAX,
    };
    let call = call(Arc::clone(state), entry, request);
    if reads {
        return timeout(deadline, call)
            .await
            .unwrap_or_else(|_| Err(module::late()));
    }
    let (answering, answered) = oneshot::channel();
    let cut = http.cut.clone();
    let task = async move {
        let answer = AssertUnwindSafe(cut.run_until_cancelled(call))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Some(Err(answer::panicked(&*panic))))
            .unwrap_or_else(|| Err(module::unknown()));
        if let Err(Err(failure)) = answering.send(answer) {
            // The client has disconnected.
            answer::log(&failure);
        }
    };
    http.changes.run(task);
    match timeout(deadline, answered).await {
        Ok(Ok(answer)) => answer,
        Err(_) | Ok(Err(_)) => Err(module::unknown()),
    }
}

async fn call<S: State>(
    state: Arc<S>,
    entry: Arc<Entry<S>>,
    request: Request,
) -> Result<Response, Rejection> {
    let route = &entry.route;
    match &entry.target {
        Target::Host(handler) => handler(&state, &request).await,
        Target::Module(module) => module
            .handle(route, request)
            .await
            .map_err(|error| module::failure(&route.method, error)),
    }
}

#[cfg(test)]
mod tests;
