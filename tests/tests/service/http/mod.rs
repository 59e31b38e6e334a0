//! Requests in general: access to every route, rate limits, and malformed requests.

mod acme;
mod body_memory;
mod dns;
mod http2;
mod listeners;
mod malformed_requests;
mod metrics;
mod misbehaving_clients;
mod monitoring;
mod s5_matrix;
mod s8_limits;
mod s8_token_endpoint;
mod service_manager;
mod shared_limits;
mod tls;

use latchmail_tests::{Service, Setup};

/// The sentence of a response with status 429 (specification, section 8).
const TOO_MANY: &str = "Too many requests, please try again later";

/// Starts a service with the default limits.
async fn limited() -> Service {
    Setup::default()
        .with_mail()
        .with_default_limits()
        .start()
        .await
}
