//! `[grants]`: API tokens, and the OAuth grants of agents.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::values::section;
use crate::policy::Preset;

section! {
    /// The section `[grants]` of the configuration.
    pub struct Grants {
        /// The policy of new API tokens and OAuth grants. If `None`, they have no policy.
        #[serde(deserialize_with = "preset")]
        pub default_policy: Option<Preset>,
    }
}

/// Reads the name of a policy. An empty name stands for no policy.
fn preset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Preset>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() {
        return Ok(None);
    }
    let preset = Preset::named(&name).ok_or_else(|| {
        let names = Preset::ALL.map(Preset::name).join(", ");
        D::Error::custom(format!(
            "`grants.default_policy` is {name:?}: it must be one of {names}"
        ))
    })?;
    Ok(Some(preset))
}
