//! What an access token is for (RFC 8707): the service as a whole, as the agent endpoint's address and the service's own say, or the API alone.

use crate::caller::Audience;

/// The addresses that name this service, or a part of it.
#[derive(Clone, Debug)]
pub struct Audiences {
    base_url: String,
}

impl Audiences {
    /// Those of the service that is reached at `base_url`, without a trailing slash.
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        Self {
            base_url: base_url.to_owned(),
        }
    }

    /// What a token is for that was asked for `resource`; none where that is not this service. A slash at the end makes no difference.
    #[must_use]
    pub fn of(&self, resource: &str) -> Option<Audience> {
        let path = resource.strip_prefix(&self.base_url)?;
        match path.strip_suffix('/').unwrap_or(path) {
            "" | "/mcp" => Some(Audience::Service),
            "/api/v1" => Some(Audience::Api),
            _ => None,
        }
    }

    /// What a token is for where nobody says what.
    #[must_use]
    pub fn usual(&self) -> &str {
        &self.base_url
    }

    /// The agent endpoint: the protected resource (RFC 9728).
    #[must_use]
    pub fn agent_endpoint(&self) -> String {
        format!("{}/mcp", self.base_url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_the_service_its_agent_endpoint_or_its_api() {
        let audiences = Audiences::new("https://mail.example");
        for (resource, audience) in [
            ("https://mail.example", Some(Audience::Service)),
            ("https://mail.example/", Some(Audience::Service)),
            ("https://mail.example/mcp", Some(Audience::Service)),
            ("https://mail.example/mcp/", Some(Audience::Service)),
            ("https://mail.example/api/v1", Some(Audience::Api)),
            ("https://mail.example/api/v1/", Some(Audience::Api)),
            ("https://mail.example/mcp//", None),
            ("https://mail.example/mcp2", None),
            ("https://mail.example/api", None),
            ("https://mail.example.evil.example/mcp", None),
            ("https://mail.example:8443/mcp", None),
            ("http://mail.example/mcp", None),
            ("https://MAIL.example/mcp", None),
            ("https://mail.example/mcp?x", None),
            ("https://mail.example/mcp#x", None),
            ("", None),
        ] {
            assert_eq!(audiences.of(resource), audience, "{resource}");
        }
    }
}
