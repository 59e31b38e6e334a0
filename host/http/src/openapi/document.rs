//! The composed API description, and the check of its references.

use std::collections::BTreeMap;

use latchmail_core::error::StartError;
use serde::Serialize;
use serde_json::{Map, Value};

/// The composed API description. It borrows the large descriptions of the modules, because every
/// change of a module composes a new description.
#[derive(Serialize)]
pub(super) struct Document<'p> {
    pub(super) openapi: &'static str,
    pub(super) info: Value,
    pub(super) servers: Value,
    pub(super) paths: &'p Paths,
    pub(super) components: &'p Sections<'p>,
    #[serde(rename = "x-api-token-scopes")]
    pub(super) scopes: BTreeMap<&'static str, &'static str>,
}

/// The operations of the API, by path and method.
pub(super) type Paths = BTreeMap<String, Map<String, Value>>;

/// The components, by section (`schemas`, `responses`, …) and name.
pub(super) type Sections<'p> = BTreeMap<&'p str, BTreeMap<&'p str, &'p Value>>;

impl Document<'_> {
    /// Checks that the target of every reference exists.
    pub(super) fn check_references(&self) -> Result<(), StartError> {
        let operations = self.paths.values().flat_map(Map::values);
        let components = self.components.values().flat_map(BTreeMap::values);
        operations
            .chain(components.copied())
            .try_for_each(|value| self.check_references_in(value))
    }

    fn check_references_in(&self, value: &Value) -> Result<(), StartError> {
        match value {
            Value::Object(map) => {
                // A property of a schema can have the name `$ref`. The value of such a property is
                // an object, so only a string is a reference.
                if let Some(Value::String(reference)) = map.get("$ref")
                    && self.target(reference).is_none()
                {
                    return Err(StartError::new(format!(
                        "the API description refers to `{reference}`, which does not exist"
                    )));
                }
                map.values().try_for_each(|v| self.check_references_in(v))
            }
            Value::Array(values) => values.iter().try_for_each(|v| self.check_references_in(v)),
            _ => Ok(()),
        }
    }

    /// Returns the target of a reference (RFC 6901). The target is in a component or in an
    /// operation.
    fn target(&self, reference: &str) -> Option<&Value> {
        let mut tokens = reference.strip_prefix("#/")?.splitn(4, '/');
        let mut token = || Some(tokens.next()?.replace("~1", "/").replace("~0", "~"));
        let (section, first, second) = (token()?, token()?, token()?);
        let target = match section.as_str() {
            "components" => *self.components.get(&*first)?.get(&*second)?,
            "paths" => self.paths.get(&first)?.get(&second)?,
            _ => return None,
        };
        match tokens.next() {
            None => Some(target),
            Some(rest) => target.pointer(&format!("/{rest}")),
        }
    }
}
