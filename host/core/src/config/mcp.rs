//! `[mcp]`: the agent endpoint.

use serde::Deserialize;

/// The section `[mcp]` of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mcp {
    /// Whether agents are allowed to send mail.
    pub send_tool: bool,
    /// The tools that the agent endpoint offers.
    pub tools: AgentTools,
}

/// The tools that the agent endpoint offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentTools {
    /// The tools that read mail, list and create aliases, and send messages.
    #[default]
    Standard,
    /// Also the tools for threads, attachments, drafts, replies, flags and folders.
    Full,
}

impl AgentTools {
    /// Returns the name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }
}
