//! Adds the parameters of the host to an operation. Restricts the operation's own parameters to the
//! values that the request pipeline accepts.

use latchmail_runtime::modules::Route;
use serde_json::{Map, Value, json};

use crate::access;

/// The name of the query parameter that selects a shared mailbox.
pub(super) const MAILBOX: &str = "mailbox";

/// Returns the component that describes the parameter [`MAILBOX`].
pub(super) fn mailbox() -> Value {
    let mut mailbox = json!({
        "name": MAILBOX,
        "in": "query",
        "description": "The id of a mailbox that is shared with the caller. The default is the caller's own mailbox. Only web sessions can use this parameter, tokens cannot",
        "schema": { "type": "string" },
    });
    restrict(&mut mailbox);
    mailbox
}

/// Adds the parameter [`MAILBOX`] if the route accepts it. Restricts all parameters to the values
/// that [`crate::query`] accepts.
pub(super) fn complete(route: &Route, operation: &mut Map<String, Value>) {
    if access::takes_mailbox(route.access) {
        let mailbox = json!({ "$ref": format!("#/components/parameters/{MAILBOX}") });
        let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
        if let Value::Array(parameters) = parameters {
            parameters.push(mailbox);
        }
    }
    let parameters = operation
        .get_mut("parameters")
        .and_then(Value::as_array_mut);
    parameters.into_iter().flatten().for_each(restrict);
}

/// Adds a pattern to a string parameter. A value in a path or in a query cannot contain NUL, and a
/// value in a path cannot be empty.
fn restrict(parameter: &mut Value) {
    let pattern = match parameter.get("in").and_then(Value::as_str) {
        Some("path") => r"^[^\u0000]+$",
        Some("query") => r"^[^\u0000]*$",
        _ => return,
    };
    let Some(schema) = parameter.get_mut("schema").and_then(Value::as_object_mut) else {
        return;
    };
    let is_string = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|kind| kind == "string"),
        Some(kind) => kind == "string",
        None => false,
    };
    if is_string
        && !["pattern", "enum", "const"]
            .iter()
            .any(|key| schema.contains_key(*key))
    {
        schema.insert("pattern".into(), pattern.into());
    }
}
