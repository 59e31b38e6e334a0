//! `[metrics]`: the metrics of this host for Prometheus.

use std::net::SocketAddr;

use serde::Deserialize;

/// The section `[metrics]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// The address and port of a separate listener that serves `/metrics` without authentication.
    /// If `None`, there is no such listener.
    pub listen: Option<SocketAddr>,
}
