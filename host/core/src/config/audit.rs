//! `[audit]`: the audit log.

use serde::Deserialize;

/// The section `[audit]` of the configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// The number of days after which a security event is deleted.
    pub days: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self { days: 400 }
    }
}
