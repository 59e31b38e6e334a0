//! The selection of the attributes of a response (RFC 7644, section 3.9).

use serde_json::{Map, Value};

use super::filter::without_schema;
use crate::provisioning::request::invalid;
use crate::rejection::Rejection;

/// The attributes that every response has (RFC 7643, section 7: `returned` is `always`).
const ALWAYS: [&str; 2] = ["schemas", "id"];

/// The attributes that a request selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All attributes.
    All,
    /// These attributes, in lower case, and those that every response has.
    Only(Vec<String>),
    /// All attributes but these, in lower case.
    Without(Vec<String>),
}

impl Selection {
    /// Creates a selection from lists of names.
    ///
    /// # Errors
    /// Returns 400 if the request has both lists.
    pub(super) fn new<'n>(
        only: impl IntoIterator<Item = &'n str>,
        without: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, Rejection> {
        let (only, without) = (names(only), names(without));
        match (only.is_empty(), without.is_empty()) {
            (true, true) => Ok(Self::All),
            (false, true) => Ok(Self::Only(only)),
            (true, false) => Ok(Self::Without(without)),
            (false, false) => Err(invalid(
                "attributes and excludedAttributes cannot be combined",
            )),
        }
    }

    /// Removes the other attributes from a resource.
    pub(super) fn apply(&self, resource: &mut Map<String, Value>) {
        match self {
            Self::All => {}
            Self::Only(names) => keep(resource, "", &|path| {
                is_always(path) || names.iter().any(|name| covers(name, path))
            }),
            Self::Without(names) => keep(resource, "", &|path| {
                is_always(path) || !names.iter().any(|name| is_same_or_below(path, name))
            }),
        }
    }
}

fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let names = names.into_iter().map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| without_schema(name).to_ascii_lowercase())
        .collect()
}

/// Removes the attributes that `is_kept` does not accept. Removes an object that is empty then.
fn keep(object: &mut Map<String, Value>, prefix: &str, is_kept: &dyn Fn(&str) -> bool) {
    object.retain(|name, value| {
        let path = format!("{prefix}{}", name.to_ascii_lowercase());
        if !is_kept(&path) {
            return false;
        }
        let Value::Object(inner) = value else {
            return true;
        };
        keep(inner, &format!("{path}."), is_kept);
        !inner.is_empty()
    });
}

fn is_always(path: &str) -> bool {
    ALWAYS.contains(&path)
}

/// Returns whether the selected attribute `name` needs the attribute `path`: it is the attribute, a
/// part of it, or contains it.
fn covers(name: &str, path: &str) -> bool {
    is_same_or_below(path, name) || is_same_or_below(name, path)
}

/// Returns whether `path` is `other`, or a sub-attribute of `other`.
fn is_same_or_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selected(only: &[&str], without: &[&str]) -> Value {
        let resource = json!({
            "schemas": ["s"], "id": "1", "userName": "ada",
            "name": { "givenName": "Ada", "familyName": "King" },
            "emails": [{ "value": "a" }],
        });
        let Value::Object(mut resource) = resource else {
            unreachable!()
        };
        let selection = Selection::new(only.iter().copied(), without.iter().copied());
        selection.unwrap().apply(&mut resource);
        Value::Object(resource)
    }

    #[test]
    fn selected_attributes_come_with_those_that_are_always_returned() {
        let always = json!({ "schemas": ["s"], "id": "1" });
        assert_eq!(selected(&["nickName"], &[]), always);
        let given = json!({ "schemas": ["s"], "id": "1", "name": { "givenName": "Ada" } });
        assert_eq!(selected(&["NAME.givenname"], &[]), given);
        let name = selected(&["urn:ietf:params:scim:schemas:core:2.0:User:name"], &[]);
        assert_eq!(name["name"]["familyName"], "King");
        assert!(name.get("userName").is_none());
    }

    #[test]
    fn excluded_attributes_are_removed() {
        let rest = selected(&[], &["id", "name.familyName", "emails"]);
        let expected = json!({
            "schemas": ["s"], "id": "1", "userName": "ada", "name": { "givenName": "Ada" },
        });
        assert_eq!(rest, expected);
        assert!(Selection::new(["a"], ["b"]).is_err());
    }
}
