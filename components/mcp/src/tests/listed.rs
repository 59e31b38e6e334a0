//! The complete list of tools.

use latchmail_sdk::scope;
use serde_json::{Value, json};

use super::client::{endpoint, result, rpc};

fn tools() -> Vec<Value> {
    tools_of("standard")
}

fn tools_of(set: &str) -> Vec<Value> {
    let service = endpoint();
    service.host.set("tools", set);
    service.host.use_grant(&scope::ALL.map(|(scope, _)| scope));
    let listed = result(&rpc(&service, "2026-07-28", "tools/list", json!({})));
    listed["tools"].as_array().unwrap().clone()
}

#[test]
fn the_tools_match_the_reviewed_snapshots() {
    for tool in tools() {
        let name = tool["name"].as_str().unwrap().to_owned();
        insta::assert_snapshot!(name, serde_json::to_string_pretty(&tool).unwrap());
    }
}

#[test]
fn schemas_have_no_references_and_reject_unknown_arguments() {
    for tool in tools_of("full") {
        let text = tool.to_string();
        for apart in ["$ref", "allOf", "\"nullable\""] {
            assert!(!text.contains(apart), "{apart} in {}", tool["name"]);
        }
        let (input, output) = (&tool["inputSchema"], &tool["outputSchema"]);
        assert_eq!(
            (&input["type"], &output["type"]),
            (&json!("object"), &json!("object"))
        );
        assert_eq!(input["additionalProperties"], false);
        for absent in ["account", "mailbox", "address"] {
            assert!(input["properties"].get(absent).is_none());
        }
    }
}

#[test]
fn the_first_five_are_read_only_and_the_others_are_not() {
    let read_only = tools()
        .iter()
        .map(|tool| tool["annotations"]["readOnlyHint"] == true)
        .collect::<Vec<_>>();
    assert_eq!(read_only, [true, true, true, true, true, false, false]);
}
