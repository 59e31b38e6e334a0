//! Cross-origin requests (CORS, the Fetch Standard): the allow-list of origins whose pages can call the service.
//!
//! Credentials are sent only in `Authorization`, so no response allows cookies.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use latchmail_core::error::StartError;

const REQUEST_HEADERS: &str =
    "Authorization, Content-Type, Mcp-Method, Mcp-Name, Mcp-Protocol-Version";
const ANSWER_HEADERS: &str = "Content-Disposition, Retry-After, WWW-Authenticate, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-Request-Id";
/// How long browsers can cache the response to a preflight request, in seconds.
const MAX_AGE: &str = "7200";

/// The allow-list of origins.
#[derive(Clone, Debug, Default)]
pub struct Cors(Vec<HeaderValue>);

impl Cors {
    /// Reads `cors_origins`. Each entry consists of scheme, host and port, as browsers write them.
    ///
    /// # Errors
    /// Returns an error that names the invalid entry.
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

    /// Adds the CORS headers to a response, so that a page of an allowed origin can read it.
    pub fn write(&self, asked: &HeaderMap, answer: &mut HeaderMap) {
        if self.0.is_empty() {
            return;
        }
        answer.append(header::VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = self.allowed(asked) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            answer.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static(ANSWER_HEADERS),
            );
        }
    }

    /// Returns the headers of the response to a preflight request, for a path with the methods `allow`. Returns `None` if this is not a preflight request or
    /// its origin is not allowed.
    #[must_use]
    pub fn preflight(
        &self,
        asked: &HeaderMap,
        allow: &HeaderValue,
    ) -> Option<[(HeaderName, HeaderValue); 3]> {
        self.allowed(asked)?;
        asked.get(header::ACCESS_CONTROL_REQUEST_METHOD)?;
        Some([
            (header::ACCESS_CONTROL_ALLOW_METHODS, allow.clone()),
            (
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static(REQUEST_HEADERS),
            ),
            (
                header::ACCESS_CONTROL_MAX_AGE,
                HeaderValue::from_static(MAX_AGE),
            ),
        ])
    }

    fn allowed(&self, asked: &HeaderMap) -> Option<&HeaderValue> {
        let origin = asked.get(header::ORIGIN)?;
        self.0.iter().find(|allowed| *allowed == origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_no_origin_is_refused_by_name() {
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
