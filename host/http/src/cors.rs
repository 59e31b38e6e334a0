//! Cross-origin requests (CORS, the Fetch Standard). The allow-list contains the origins whose
//! pages can call the service.
//!
//! Clients send credentials only in the header `Authorization`, so no response allows browsers to
//! send cookies.
//!
//! `CorsLayer` of tower-http 0.7.1 is not suitable. `CorsLayer` responds to every `OPTIONS` request
//! with the same methods for all paths, and sends `Access-Control-Expose-Headers` also for origins
//! that are not allowed.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use latchmail_core::error::StartError;

const ALLOWED_REQUEST_HEADERS: &str = "Authorization, Content-Type, If-Match, If-None-Match, \
    Last-Event-ID, Mcp-Method, Mcp-Name, Mcp-Protocol-Version";
const EXPOSED_RESPONSE_HEADERS: &str = "Content-Disposition, ETag, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id";
/// The time for which browsers can cache the response to a preflight request, in seconds.
const MAX_AGE: &str = "7200";

/// The allow-list of origins.
#[derive(Clone, Debug, Default)]
pub struct Cors(Vec<HeaderValue>);

impl Cors {
    /// Parses the entries of `cors_origins`. An entry consists of a scheme, a host and a port, in
    /// the form that browsers send.
    ///
    /// # Errors
    /// Returns an error if an entry is invalid. The error contains the entry.
    pub fn parse(origins: &[String]) -> Result<Self, StartError> {
        origins
            .iter()
            .map(|origin| {
                let origin = origin.trim();
                let host = origin.split_once("://").map_or("", |(_, host)| host);
                HeaderValue::from_str(origin)
                    .ok()
                    .filter(|_| !host.is_empty() && !host.contains(['/', '*', ' ']))
                    .ok_or_else(|| {
                        StartError::new(format!(
                            "`cors_origins` contains `{origin}`, which is not an origin such as `https://app.example`"
                        ))
                    })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Adds the CORS headers to the response to a request from `origin`, so that a page of an
    /// allowed origin can read the response.
    pub fn write(&self, origin: Option<&HeaderValue>, response: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        response.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = origin.filter(|origin| self.0.contains(origin)) {
            response.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            response.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(EXPOSED_RESPONSE_HEADERS),
            );
        }
    }

    /// Returns the headers of the response to a preflight request. `allow` contains the methods of
    /// the path. Returns `None` if the request is not a preflight request or its origin is not
    /// allowed.
    #[must_use]
    pub fn preflight(
        &self,
        request: &HeaderMap,
        allow: &HeaderValue,
    ) -> Option<[(HeaderName, HeaderValue); 3]> {
        request
            .get(header::ORIGIN)
            .filter(|origin| self.0.contains(origin))?;
        request.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        Some([
            (header::ACCESS_CONTROL_ALLOW_METHODS, allow.clone()),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static(ALLOWED_REQUEST_HEADERS),
            ),
            (
                header::ACCESS_CONTROL_MAX_AGE,
                HeaderValue::from_static(MAX_AGE),
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_origin_is_named_in_the_error() {
        for entry in [
            "*",
            "app.example",
            "https://app.example/",
            "https://",
            "https://*.example",
        ] {
            let error = Cors::parse(&[entry.into()]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{entry}`")), "{error}");
        }
        assert!(Cors::parse(&["https://app.example:8443".into()]).is_ok());
    }
}
