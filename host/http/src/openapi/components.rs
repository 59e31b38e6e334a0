//! The components of the composed API description.

use std::collections::BTreeMap;

use latchmail_core::error::StartError;
use serde_json::{Map, Value};

use super::document::Sections;

/// The components that were added to the API description, and the first owner of each component. An
/// owner is the host or a module.
#[derive(Default)]
pub(super) struct Components<'p> {
    /// The components by section and name.
    pub(super) sections: Sections<'p>,
    /// The first owner of each component, by `section/name`.
    owners: BTreeMap<String, &'p str>,
}

impl<'p> Components<'p> {
    /// Adds the components of an owner. Several owners can have the same component.
    ///
    /// # Errors
    /// Returns an error if two components with the same name differ. The error contains the names
    /// of the two owners.
    pub(super) fn add(&mut self, owner: &'p str, components: &'p Value) -> Result<(), StartError> {
        // Only the host defines security schemes, so those of all other owners are ignored.
        let is_host = owner == "the host";
        for (section, entries) in members(owner, "components", components)? {
            if section == "securitySchemes" && !is_host {
                continue;
            }
            let target = self.sections.entry(section).or_default();
            for (name, value) in members(owner, section, entries)? {
                let key = format!("{section}/{name}");
                match target.get(name.as_str()) {
                    None => {
                        target.insert(name, value);
                        self.owners.insert(key, owner);
                    }
                    Some(known) if *known == value => {}
                    Some(_) => {
                        let first = self.owners[&key];
                        return Err(StartError::new(format!(
                            "{first} and {owner} describe `#/components/{key}` differently"
                        )));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Returns the members of `value`, or an error if `value` is not an object.
pub(super) fn members<'v>(
    owner: &str,
    name: &str,
    value: &'v Value,
) -> Result<&'v Map<String, Value>, StartError> {
    value.as_object().ok_or_else(|| {
        StartError::new(format!(
            "in the API description of {owner}, `{name}` is not an object"
        ))
    })
}
