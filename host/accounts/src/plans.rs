//! Plans: limits for accounts, from the configuration. The directory stores the name of each
//! account's plan.

use std::collections::BTreeMap;

use latchmail_core::config::{Config, Plan};
use latchmail_directory::accounts::DEFAULT_PLAN;

/// The plans of the configuration.
#[derive(Clone, Debug)]
pub struct Plans(BTreeMap<String, Plan>);

impl Plans {
    /// Returns the plans of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self(config.plans.clone())
    }

    /// Returns the limits of a plan, or the limits of the default plan if the plan is not in the
    /// configuration. If the plan is not in the configuration, the service's log contains a warning
    /// with `account`.
    #[must_use]
    pub fn named(&self, plan: &str, account: &str) -> Plan {
        let found = self.0.get(plan).or_else(|| {
            if plan != DEFAULT_PLAN {
                tracing::warn!(
                    plan,
                    account,
                    "plan is not in the configuration; using the default plan"
                );
            }
            self.0.get(DEFAULT_PLAN)
        });
        found.cloned().unwrap_or_default()
    }

    /// Returns the quota of each plan, in bytes. The value is `None` if the plan has no limit. The
    /// plan `default` is always included.
    #[must_use]
    pub fn quotas(&self) -> BTreeMap<String, Option<u64>> {
        let storage = |plan: &Plan| Some(plan.storage).filter(|bytes| *bytes > 0);
        let plans = self.0.iter();
        let mut quotas: BTreeMap<String, Option<u64>> = plans
            .map(|(name, plan)| (name.clone(), storage(plan)))
            .collect();
        let default = || storage(&Plan::default());
        quotas
            .entry(DEFAULT_PLAN.to_owned())
            .or_insert_with(default);
        quotas
    }
}
