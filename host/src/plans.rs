//! Plans: what the configuration lets an account have, by the name of the plan that the directory put it on.

use std::collections::BTreeMap;

use crate::config::{Config, Plan};
use crate::directory::accounts::DEFAULT_PLAN;

/// The configuration's plans.
#[derive(Clone, Debug)]
pub struct Plans(BTreeMap<String, Plan>);

impl Plans {
    /// Those of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self(config.plans.clone())
    }

    /// What an account on this plan may have. A plan that the configuration has no longer is the default one.
    #[must_use]
    pub fn named(&self, plan: &str, account: &str) -> Plan {
        let found = self.0.get(plan).or_else(|| {
            if plan != DEFAULT_PLAN {
                tracing::warn!(
                    plan,
                    account,
                    "the configuration has no such plan: the default one counts"
                );
            }
            self.0.get(DEFAULT_PLAN)
        });
        found.cloned().unwrap_or_default()
    }
}
