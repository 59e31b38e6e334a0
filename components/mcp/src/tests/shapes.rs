//! The results of tools match their output schemas.

use latchmail_sdk::scope;
use latchmail_sdk::testing::Letter;
use serde_json::{Value, json};

use super::client::{call, endpoint, result, rpc};

/// Returns why a value does not match a schema, or `None` if it does. Supports only the keywords
/// that these schemas use.
fn mismatch(value: &Value, schema: &Value) -> Option<String> {
    let fits = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        kind => vec![kind.as_str().unwrap()],
    };
    if !kinds.iter().any(|kind| fits(kind)) {
        return Some(format!("{value} is none of {kinds:?}"));
    }
    for required in schema["required"].as_array().into_iter().flatten() {
        if value.get(required.as_str().unwrap()).is_none() {
            return Some(format!("{required} is missing"));
        }
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        let Some(schema) = schema["properties"].get(key) else {
            return Some(format!("{key} is not in the schema"));
        };
        if let Some(why) = mismatch(value, schema) {
            return Some(format!("{key}: {why}"));
        }
    }
    let mut items = value.as_array().into_iter().flatten();
    items.find_map(|item| mismatch(item, &schema["items"]))
}

#[test]
fn every_result_matches_the_output_schema_of_its_tool() {
    let service = endpoint();
    service.host.set("tools", "full");
    service.host.use_grant(&scope::ALL.map(|(scope, _)| scope));
    let letter = Letter::from("Grace <grace@example.org>")
        .to("ada@example.test")
        .cc("bo@example.org")
        .subject("S\u{202e}")
        .in_reply_to("<1@x>")
        .flag("\\Seen")
        .file("a.pdf", "application/pdf", b"x");
    service
        .host
        .deliver(letter.clone().text(&"long ".repeat(20_000)));
    service.host.deliver(letter.html("<p hidden>x</p>y"));
    let listed = result(&rpc(&service, "2026-07-28", "tools/list", json!({})));
    for (tool, arguments) in [
        ("list_folders", json!({})),
        ("list_messages", json!({})),
        ("search_messages", json!({ "query": "S" })),
        ("get_message", json!({ "uid": 1 })),
        ("get_message", json!({ "uid": 2 })),
        ("get_message", json!({ "uid": 2, "format": "text" })),
        ("create_alias", json!({ "domain": "example.test" })),
        ("list_aliases", json!({})),
        (
            "send_message",
            json!({ "to": "grace@example.org", "subject": "x" }),
        ),
        ("list_threads", json!({})),
        ("get_attachment", json!({ "uid": 1, "index": 0 })),
        ("create_upload", json!({ "filename": "a b.csv" })),
        (
            "create_draft",
            json!({ "mode": "replyAll", "uid": 1, "text": "Yes" }),
        ),
        ("reply", json!({ "uid": 1, "text": "Yes" })),
        ("flag", json!({ "uid": 1, "flags": ["a"], "action": "add" })),
        ("move", json!({ "uid": 1, "destination": "Archive" })),
        ("trash", json!({ "uid": 1 })),
        ("create_folder", json!({ "path": "New" })),
    ] {
        let mut tools = listed["tools"].as_array().unwrap().iter();
        let promised = tools.find(|one| one["name"] == tool).unwrap();
        let (response, _) = call(&service, tool, arguments);
        assert_eq!(
            mismatch(&response, &promised["outputSchema"]),
            None,
            "{tool}"
        );
    }
}
