//! Which web pages may call the endpoint: the transport asks every server to look at `Origin`, so that no page that a name was rebound for reaches it.
//!
//! No `Origin` is no page. Pages of the service's own origin and of those that the operator allows pages of (the setting `origins`) may call, and
//! what has an origin of the user's own machine: programs behind agents' tools, which pass it on. A page there is still asked for by its browser first,
//! and the host answers that for the operator's origins alone. No answer depends on cookies, so what is kept out here had no credential to begin with.

use latchmail_sdk::Request;
use latchmail_sdk::capability::Config;

/// What a page is told that may not call.
pub(crate) const REFUSAL: &str = "This origin may not call the agent endpoint";

/// Whether the request comes from no page, or from one that may call.
pub(crate) fn may_call(request: &Request, host: &impl Config) -> bool {
    let allowed = host.get("origins").unwrap_or_default();
    request
        .headers
        .iter()
        .filter(|(name, _)| name == "origin")
        .all(|(_, origin)| {
            is_loopback(origin) || allowed.split_ascii_whitespace().any(|one| one == origin)
        })
}

/// Whether an origin is of the machine that the page is shown on.
fn is_loopback(origin: &str) -> bool {
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    let Some(host) = host else {
        return false;
    };
    let (name, port) = match host.strip_prefix("[::1]") {
        Some("") => ("localhost", None),
        Some(port) => ("localhost", port.strip_prefix(':').or(Some("none"))),
        None => host
            .split_once(':')
            .map_or((host, None), |(name, port)| (name, Some(port))),
    };
    matches!(name, "localhost" | "127.0.0.1")
        && port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_what_is_written_so_and_nothing_that_begins_so() {
        for origin in [
            "http://localhost",
            "http://localhost:6274",
            "https://127.0.0.1:8443",
            "http://[::1]",
            "http://[::1]:80",
        ] {
            assert!(is_loopback(origin), "{origin}");
        }
        for origin in [
            "",
            "null",
            "localhost",
            "ftp://localhost",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://127.0.0.1@evil.example",
            "http://localhost:80@evil.example",
            "http://localhost:99999",
            "http://localhost:+80",
            "http://localhost:",
            "http://localhost/",
            "http://[::1].evil.example",
            "http://[::1",
            "http://evil.example",
        ] {
            assert!(!is_loopback(origin), "{origin}");
        }
    }
}
