//! The keys that the configuration file and the environment set.

use std::collections::BTreeMap;
use std::fmt;

use config::{Value, ValueKind};

/// The keys that are set, with their values. Values can be secrets, so `Debug` shows only the keys.
#[derive(Clone, Default)]
pub(super) struct Keys(BTreeMap<String, ValueKind>);

impl Keys {
    pub(super) fn of(config: &config::Config) -> Self {
        let mut keys = BTreeMap::new();
        collect("", &config.cache, &mut keys);
        Self(keys)
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the keys that only one of the two configurations sets, or whose values differ.
    pub(super) fn changed(&self, other: &Self) -> Vec<String> {
        let mut changed: Vec<_> = self
            .0
            .keys()
            .chain(other.0.keys())
            .filter(|key| self.0.get(*key) != other.0.get(*key))
            .cloned()
            .collect();
        changed.sort();
        changed.dedup();
        changed
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Adds the keys of a table. The name of a key in a section is the section, a dot and the key.
fn collect(name: &str, value: &Value, keys: &mut BTreeMap<String, ValueKind>) {
    match &value.kind {
        ValueKind::Table(table) => {
            for (key, value) in table {
                let name = match name {
                    "" => key.clone(),
                    section => format!("{section}.{key}"),
                };
                collect(&name, value, keys);
            }
        }
        other => {
            keys.insert(name.to_owned(), other.clone());
        }
    }
}
