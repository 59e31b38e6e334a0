//! The properties of the service in the API description.

use latchmail_core::config::Config;

/// The properties of the service in the description.
#[derive(Clone, Debug, Default)]
pub struct ApiInfo {
    /// The name of the service.
    pub title: String,
    /// The URL of the service, without a trailing slash.
    pub base_url: String,
    /// The URL of the authorization server, without a trailing slash.
    pub auth_url: String,
    /// Whether agents are allowed to send mail.
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
