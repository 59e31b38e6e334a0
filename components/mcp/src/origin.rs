//! Decides which web pages may call the endpoint. The protocol requires servers to check `Origin`,
//! as a protection against DNS rebinding.
//!
//! A request without `Origin` does not come from a web page. The endpoint accepts these origins:
//!
//! - the service's own origin;
//! - the origins in the setting `origins`;
//! - loopback origins such as `http://localhost:3000`, because agent programs on the user's machine
//!   send such origins.
//!
//! A web page with a loopback origin also needs a successful CORS preflight. The host accepts
//! preflights only from the origins in the setting `origins`. Responses do not depend on cookies,
//! so a page cannot use its visitor's credential.

use latchmail_sdk::Request;
use latchmail_sdk::capability::Config;

pub(crate) const REFUSAL: &str = "This origin may not call the agent endpoint";

/// Returns whether every `Origin` header of the request contains an allowed origin. A request
/// without the header is also allowed.
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
