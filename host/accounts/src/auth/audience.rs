//! Audiences of access tokens (RFC 8707). A token for the service's URL or for the agent endpoint's
//! URL is valid for the whole service. A token for the API's URL is valid only for the API.

use latchmail_core::caller::Audience;

/// The URLs that identify this service, the agent endpoint or the API.
#[derive(Clone, Debug)]
pub struct Audiences {
    base_url: String,
}

impl Audiences {
    /// Creates the audiences of the service at `base_url`, which must not have a trailing slash.
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        Self {
            base_url: base_url.to_owned(),
        }
    }

    /// Returns the audience of a token for the URL `resource`, or `None` if `resource` is not a URL
    /// of this service. Ignores a trailing slash.
    #[must_use]
    pub fn of(&self, resource: &str) -> Option<Audience> {
        let path = resource.strip_prefix(&self.base_url)?;
        match path.strip_suffix('/').unwrap_or(path) {
            "" | "/mcp" => Some(Audience::Service),
            "/api/v1" => Some(Audience::Api),
            _ => None,
        }
    }

    /// Returns the resource for which a token is issued if the client requests no resource.
    #[must_use]
    pub fn usual(&self) -> &str {
        &self.base_url
    }

    /// Returns the URL of the agent endpoint, which identifies the protected resource (RFC 9728).
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
