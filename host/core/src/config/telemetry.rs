//! `[telemetry]`: the traces of requests.

use serde::Deserialize;
use url::Url;

use crate::error::StartError;
use crate::network::is_local;

/// The path of traces below the base URL of a collector (OTLP 1.0, "OTLP/HTTP Request").
const TRACES_PATH: &str = "/v1/traces";

/// The section `[telemetry]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// The base URL of a collector that accepts OTLP over HTTP. If empty, the service records no
    /// spans.
    pub otlp_endpoint: String,
    /// Whether the connection to a collector on another machine can be unencrypted.
    pub insecure: bool,
    /// The proportion of traces that are recorded, from 0 to 1. The proportion does not apply to
    /// traces that a trusted proxy started. Such a trace is recorded if the proxy has sampled the
    /// trace.
    pub sample_ratio: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            otlp_endpoint: String::new(),
            insecure: false,
            sample_ratio: 1.0,
        }
    }
}

impl Telemetry {
    /// Returns the URL to which the spans are sent, or `None` if no spans are recorded.
    #[must_use]
    pub fn traces_url(&self) -> Option<String> {
        let base = self.otlp_endpoint.trim_end_matches('/');
        (!base.is_empty()).then(|| format!("{base}{TRACES_PATH}"))
    }

    pub(super) fn check(&self) -> Result<(), StartError> {
        if !(0.0..=1.0).contains(&self.sample_ratio) {
            return Err(StartError::new(format!(
                "`telemetry.sample_ratio` is {}; it must be from 0 to 1",
                self.sample_ratio
            )));
        }
        if self.otlp_endpoint.is_empty() {
            return Ok(());
        }
        let url = Url::parse(&self.otlp_endpoint).ok().filter(|url| {
            let is_bare = url.query().is_none() && url.fragment().is_none();
            let is_unnamed = url.username().is_empty() && url.password().is_none();
            let is_http = matches!(url.scheme(), "http" | "https");
            self.otlp_endpoint.is_ascii() && is_bare && is_unnamed && is_http
        });
        let Some(url) = url else {
            // The error does not contain the value, because the value can contain a password.
            return Err(StartError::new(
                "`telemetry.otlp_endpoint` must be an http or https URL without user information and without a query, for example http://127.0.0.1:4318",
            ));
        };
        let is_private = url.scheme() == "https" || url.host_str().is_some_and(is_local);
        if is_private || self.insecure {
            return Ok(());
        }
        Err(StartError::new(format!(
            "`telemetry.otlp_endpoint` is {url}, on another machine, and the connection is not encrypted; use https, or set `telemetry.insecure = true` to allow this"
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::config::Config;

    fn parse(settings: &str) -> Result<Config, String> {
        Config::parse(settings, "test", HashMap::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_path_for_traces_is_added_to_the_base_url() {
        for (base, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://otlp.example.com/",
                "https://otlp.example.com/v1/traces",
            ),
            (
                "https://example.com/otlp",
                "https://example.com/otlp/v1/traces",
            ),
        ] {
            let config = parse(&format!("telemetry.otlp_endpoint = '{base}'")).unwrap();
            assert_eq!(config.telemetry.traces_url().as_deref(), Some(expected));
        }
        assert_eq!(parse("").unwrap().telemetry.traces_url(), None);
    }

    #[test]
    fn an_unencrypted_connection_to_another_machine_needs_a_setting() {
        for url in [
            "http://127.0.0.1:4318",
            "http://[::1]:4318",
            "http://localhost:4318",
            "https://otlp.example.com",
        ] {
            assert!(parse(&format!("telemetry.otlp_endpoint = '{url}'")).is_ok());
        }
        for url in [
            "http://otlp.example.com",
            "http://10.0.0.1:4318",
            "http://localhost.example.com",
        ] {
            let settings = format!("telemetry.otlp_endpoint = '{url}'");
            let refusal = parse(&settings).unwrap_err();
            assert!(refusal.contains("telemetry.insecure"), "{refusal}");
            assert!(parse(&format!("{settings}\ntelemetry.insecure = true")).is_ok());
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        for url in [
            "127.0.0.1:4318",
            "grpc://127.0.0.1:4317",
            "http://user:s3cret@127.0.0.1:4318",
            "http://127.0.0.1:4318?key=s3cret",
            "http://bücher.example",
        ] {
            let refusal = parse(&format!("telemetry.otlp_endpoint = '{url}'")).unwrap_err();
            assert!(refusal.contains("telemetry.otlp_endpoint"), "{refusal}");
            assert!(!refusal.contains("s3cret"), "{refusal}");
        }
        for ratio in ["-0.1", "1.5", "nan"] {
            let refusal = parse(&format!("telemetry.sample_ratio = {ratio}")).unwrap_err();
            assert!(refusal.contains("telemetry.sample_ratio"), "{refusal}");
        }
        assert!(parse("telemetry.sample_ratio = 0.25").is_ok());
        assert!(parse("telemetry.sample_ratio = 1").is_ok());
    }
}
