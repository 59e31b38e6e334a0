//! The properties of the service that the API description contains.

use latchmail_core::config::Config;

/// The properties of the service that the API description contains.
#[derive(Clone, Debug, Default)]
pub struct ApiInfo {
    /// The name of the service.
    pub title: String,
    /// The URL of the service, without a trailing slash.
    pub base_url: String,
    /// The URL of the authorization server, without a trailing slash.
    pub auth_url: String,
    /// Whether the operator allows agents to send mail.
    pub agents_send: bool,
}

impl ApiInfo {
    /// Returns the properties of the service from its configuration.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        Self {
            title: config.service_name.clone(),
            base_url: config.base_url(),
            auth_url: config.auth_url(),
            agents_send: config.mcp.send_tool,
        }
    }
}
