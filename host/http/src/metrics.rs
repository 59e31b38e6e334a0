//! The separate listener for metrics, at the address `metrics.listen`. It has only the route `GET
//! /metrics`, which needs no authentication.
//!
//! The code that causes an event counts the event in the metrics. At each scrape, this module sets
//! the metrics that describe the current state of pools, modules and hosts.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use latchmail_core::error::{Failure, StartError};
use latchmail_core::metrics;
use latchmail_runtime::modules::Content;
use latchmail_transport::tls::check_issued_certificate;
use latchmail_transport::{Listener, Running};
use tokio::time::timeout;
use utoipa::OpenApi;

use crate::app::App;
use crate::message::{Request, Response};
use crate::openapi::info::ApiInfo;
use crate::rejection::Rejection;
use crate::route_group::{HostRoute, RouteGroup, host_route};
use crate::router::RouteTable;
use crate::server;
use crate::state::{HttpState, State};
use crate::status::readiness;

const PATH: &str = "/metrics";

#[derive(OpenApi)]
#[openapi(paths(show))]
struct Description;

/// The state of the listener.
struct MetricsState {
    app: Arc<App>,
    http: HttpState<Self>,
}

impl State for MetricsState {
    type Credential = ();

    fn http(&self) -> &HttpState<Self> {
        &self.http
    }
}

/// Starts the HTTP server for metrics. It has no TLS.
///
/// # Errors
/// Returns an error if the address cannot be used, or if the state of the server cannot be created.
pub async fn listen(app: &Arc<App>, address: SocketAddr) -> Result<Running, StartError> {
    let listener = Listener::bind(&address.into(), "metrics.listen").await?;
    let mut config = app.config.clone();
    // Prometheus connects without the proxy, so its connections have no header of the PROXY
    // protocol.
    config.http.proxy_protocol = false;
    let table = RouteTable::build(&ApiInfo::from_config(&config), vec![route_group()?])?;
    let state = Arc::new(MetricsState {
        http: HttpState::new(&config, app.clock.clone(), table)?.uncounted(),
        app: Arc::clone(app),
    });
    Ok(server::serve(&state, vec![listener]))
}

fn route_group() -> Result<RouteGroup<MetricsState>, StartError> {
    let route = HostRoute {
        route: host_route(Method::GET, PATH, "metrics"),
        handler: |state, request| Box::pin(show(state, request)),
    };
    RouteGroup::host(vec![route], &Description::openapi())
}

/// Show the metrics
///
/// Returns all metrics in the text format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "Service",
    responses((status = 200, description = "All metrics", body = String, content_type = "text/plain"))
)]
async fn show(state: &MetricsState, _: &Request) -> Result<Response, Rejection> {
    collect(&state.app).await;
    let text = metrics::export().map_err(Failure::internal)?;
    let content_type = HeaderValue::from_static(metrics::CONTENT_TYPE);
    Ok(Response {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]),
        body: Content::Bytes(text.into()),
    })
}

/// Sets the metrics that are read at each scrape.
async fn collect(app: &App) {
    let (readiness, hosts) = tokio::join!(readiness::check(app), async {
        let hosts = timeout(readiness::TIMEOUT, app.directory.hosts.list()).await;
        // A failure is not logged here, because `readiness::check` logs failures of the database.
        hosts
            .ok()
            .and_then(Result::ok)
            .map_or(0, |hosts| hosts.len())
    });
    metrics::DATABASE_UP.set([], i64::from(readiness.database));
    metrics::IMAP_UP.set([], i64::from(readiness.mail));
    metrics::READY.set([], i64::from(readiness.is_ready()));
    metrics::HOSTS.set([], hosts);
    let shared = app.http.limits.shared();
    let is_unavailable = shared.is_some_and(|shared| !shared.is_available());
    metrics::SHARED_LIMITS_UNAVAILABLE.set([], i64::from(is_unavailable));
    let (open, in_use) = app.directory.connections();
    metrics::DATABASE_OPEN.set([], open);
    metrics::DATABASE_IN_USE.set([], in_use);
    let (open, in_use) = app.mail.connections.counts();
    metrics::IMAP_OPEN.set([], open);
    metrics::IMAP_IN_USE.set([], in_use);
    metrics::WATCHED_MAILBOXES.set([], app.watcher.count());
    app.module_manager.set_metrics();
    // The expiry of a certificate from `tls.certificate` is set when the file is loaded. Here, only
    // the expiry of a certificate from `acme` is set.
    if app.config.acme.is_configured()
        && let Ok(Some(certificate)) = check_issued_certificate(&app.config, "")
    {
        metrics::CERTIFICATE_EXPIRY.set([], certificate.expiry.seconds());
    }
}
