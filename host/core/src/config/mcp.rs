//! `[mcp]`: the agent endpoint.

use serde::Deserialize;

/// The section `[mcp]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mcp {
    /// Whether agents are allowed to send mail.
    pub send_tool: bool,
}
