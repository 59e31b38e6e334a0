//! Decides which web pages may call the endpoint. The transport requires servers to check `Origin` as a protection against DNS rebinding.
//!
//! A request without `Origin` does not come from a web page. The endpoint accepts three kinds of origins: the service's own origin, the origins that the
//! operator allows (the setting `origins`), and loopback origins such as `http://localhost:3000`. Programs on the user's machine that act for agents send
//! loopback origins. A web page with a loopback origin still needs a CORS preflight, which the host accepts only for the operator's origins. No response
//! depends on cookies, so a page cannot use a credential of its visitor.

use latchmail_sdk::Request;
use latchmail_sdk::capability::Config;

/// The error message for a page whose origin is not allowed.
pub(crate) const REFUSAL: &str = "This origin may not call the agent endpoint";

/// Returns whether every `Origin` header of the request names an allowed origin. A request without the header is allowed too.
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

/// Returns whether the host of an origin is `localhost`, `127.0.0.1` or `[::1]`.
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
    fn only_exact_loopback_origins_are_loopback() {
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
