//! Requests in general: access to every route, rate limits, and malformed requests.

mod access_matrix;
mod acme;
mod body_memory;
mod dns;
mod http2;
mod listeners;
mod malformed_requests;
mod metrics;
mod misbehaving_clients;
mod monitoring;
mod rate_limits;
mod service_manager;
mod shared_limits;
mod tls;
mod token_endpoint_limits;

use latchmail_tests::{Service, Setup};

/// The sentence of a response with status 429.
const TOO_MANY: &str = "Too many requests, please try again later";

/// Starts a service with the default limits.
async fn limited() -> Service {
    Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await
}
