//! `[plans.<name>]`: the limits of accounts.

use serde::Deserialize;

/// A section `[plans.<name>]` of the configuration: the limits of the accounts with one plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Plan {
    /// The maximum number of custom domains of an account.
    pub custom_domains: u32,
    /// The maximum number of members of an account's mailbox, not counting the owner.
    pub guests: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            custom_domains: 5,
            guests: 5,
        }
    }
}
