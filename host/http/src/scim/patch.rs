//! The operations of `PATCH` (RFC 7644, section 3.5.2), in the forms of Microsoft Entra ID and
//! Okta: names of operations in any case, booleans as texts, paths with a filter of values, and
//! operations without a path whose value is an object.

use latchmail_core::codes;
use serde_json::{Map, Value};

use super::filter::without_schema;
use super::user::Attributes;
use crate::provisioning::request::invalid;
use crate::rejection::Rejection;

/// Maximum number of operations of a request.
const MAX_OPERATIONS: usize = 100;
/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 512;

/// The attributes that no client can change, in lower case.
const READ_ONLY: [&str; 3] = ["id", "meta", "schemas"];

/// Returns the changes of a `PATCH` request. A later operation replaces the value of an earlier
/// one.
///
/// # Errors
/// Returns 400 if an operation is invalid.
pub(super) fn changes(body: &Map<String, Value>) -> Result<Attributes, Rejection> {
    let operations = member(body, "Operations").and_then(Value::as_array);
    let operations = operations.ok_or_else(|| invalid("Operations must be an array"))?;
    if operations.is_empty() || operations.len() > MAX_OPERATIONS {
        let text = format!("Operations must have 1 to {MAX_OPERATIONS} entries");
        return Err(invalid(text));
    }
    let mut attributes = Attributes::default();
    for operation in operations {
        let operation = operation.as_object();
        let operation = operation.ok_or_else(|| invalid("An operation must be an object"))?;
        apply(&mut attributes, operation)?;
    }
    Ok(attributes)
}

/// The effect of an operation. Adding and replacing a simple attribute are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Set,
    Remove,
}

fn apply(attributes: &mut Attributes, operation: &Map<String, Value>) -> Result<(), Rejection> {
    let name = member(operation, "op").and_then(Value::as_str);
    let effect = match name.unwrap_or_default().to_ascii_lowercase().as_str() {
        "add" | "replace" => Effect::Set,
        "remove" => Effect::Remove,
        _ => return Err(invalid("op must be add, replace or remove")),
    };
    let value = member(operation, "value");
    let path = member(operation, "path").filter(|path| !path.is_null());
    let Some(path) = path else {
        return apply_object(attributes, effect, value);
    };
    let path = path.as_str().ok_or_else(invalid_path)?;
    let Some((name, sub)) = parse(path)? else {
        return Ok(());
    };
    if READ_ONLY.contains(&name.as_str()) {
        let text = format!("{name} is read-only");
        return Err(Rejection::bad_request(codes::READ_ONLY_ATTRIBUTE, text));
    }
    match effect {
        Effect::Remove => attributes.set(&name, sub.as_deref(), None),
        Effect::Set => {
            let value = value.ok_or_else(|| invalid("value is required"))?;
            attributes.set(&name, sub.as_deref(), Some(value))
        }
    }
}

/// Applies an operation without a path. Its value contains the attributes.
fn apply_object(
    attributes: &mut Attributes,
    effect: Effect,
    value: Option<&Value>,
) -> Result<(), Rejection> {
    if effect == Effect::Remove {
        let text = "remove needs a path";
        return Err(Rejection::bad_request(codes::PATCH_TARGET_MISSING, text));
    }
    let value = value.and_then(Value::as_object);
    let value = value.ok_or_else(|| invalid("Without a path, value must be an object"))?;
    for (path, value) in value {
        // The object can repeat read-only attributes of the resource.
        if let Some((name, sub)) = parse(path)? {
            attributes.set(&name, sub.as_deref(), Some(value))?;
        }
    }
    Ok(())
}

/// Parses a path: an attribute, with an optional filter of its values, and an optional
/// sub-attribute. Returns the names in lower case. Returns `None` for an attribute of another
/// schema, which the service does not store.
///
/// # Errors
/// Returns 400 if the path is malformed.
fn parse(path: &str) -> Result<Option<(String, Option<String>)>, Rejection> {
    if path.is_empty() || path.len() > MAX_PATH {
        return Err(invalid_path());
    }
    let path = without_schema(path);
    if path
        .get(..4)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("urn:"))
    {
        return Ok(None);
    }
    let (name, rest) = match path.split_once('[') {
        None => match path.split_once('.') {
            None => (path, None),
            Some((name, sub)) => (name, Some(sub)),
        },
        Some((name, rest)) => {
            let (_, rest) = rest.rsplit_once(']').ok_or_else(invalid_path)?;
            match rest.strip_prefix('.') {
                Some(sub) => (name, Some(sub)),
                None if rest.is_empty() => (name, None),
                None => return Err(invalid_path()),
            }
        }
    };
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '$')
            && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    if !is_name(name) || !rest.is_none_or(is_name) {
        return Err(invalid_path());
    }
    let lower = |name: &str| name.to_ascii_lowercase();
    Ok(Some((lower(name), rest.map(lower))))
}

/// Returns the member of an object whose name is `name`, in any case.
fn member<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let mut members = object.iter();
    let found = members.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

fn invalid_path() -> Rejection {
    Rejection::bad_request(codes::INVALID_PATCH_PATH, "path is not a valid path")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(operations: &Value) -> Result<Attributes, Rejection> {
        let body = json!({ "schemas": [], "Operations": operations });
        changes(body.as_object().unwrap())
    }

    #[test]
    fn the_form_of_entra_id() {
        let changed = of(&json!([
            { "op": "Replace", "path": "active", "value": "False" },
            { "op": "Add", "path": "name.givenName", "value": "Ada" },
            { "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "a@example.org" },
            { "op": "Replace", "path": "userName", "value": [{ "$ref": null, "value": "ada@example.org" }] },
            { "op": "Remove", "path": "externalId" },
            { "op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department", "value": "R" },
        ]));
        let expected = Attributes {
            active: Some(false),
            given_name: Some(Some("Ada".into())),
            user_name: Some("ada@example.org".into()),
            external_id: Some(None),
            ..Attributes::default()
        };
        assert_eq!(changed.unwrap(), expected);
    }

    #[test]
    fn the_form_of_okta() {
        let changed = of(&json!([
            { "op": "replace", "value": { "id": "x", "active": false, "name": { "familyName": "King" } } },
            { "op": "add", "value": { "name.givenName": "Ada" } },
        ]));
        let expected = Attributes {
            active: Some(false),
            given_name: Some(Some("Ada".into())),
            family_name: Some(Some("King".into())),
            ..Attributes::default()
        };
        assert_eq!(changed.unwrap(), expected);
    }

    #[test]
    fn invalid_operations_are_refused() {
        for (operations, code) in [
            (json!([]), codes::INVALID_FIELD),
            (
                json!([{ "op": "move", "path": "active" }]),
                codes::INVALID_FIELD,
            ),
            (json!([{ "op": "remove" }]), codes::PATCH_TARGET_MISSING),
            (
                json!([{ "op": "replace", "value": true }]),
                codes::INVALID_FIELD,
            ),
            (
                json!([{ "op": "replace", "path": "active" }]),
                codes::INVALID_FIELD,
            ),
            (
                json!([{ "op": "remove", "path": "userName" }]),
                codes::FIELD_REQUIRED,
            ),
            (
                json!([{ "op": "replace", "path": "id", "value": "x" }]),
                codes::READ_ONLY_ATTRIBUTE,
            ),
            (
                json!([{ "op": "remove", "path": "emails[" }]),
                codes::INVALID_PATCH_PATH,
            ),
            (
                json!([{ "op": "remove", "path": "a b" }]),
                codes::INVALID_PATCH_PATH,
            ),
        ] {
            let refused = of(&operations).unwrap_err();
            assert_eq!(refused.code, code, "{operations}");
        }
    }
}
