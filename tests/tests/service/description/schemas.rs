//! The API description's statements about every operation. Generated clients and a fuzzer test that the service behaves as described.

use latchmail_tests::Service;
use serde_json::Value;

/// The API description of a service with all modules.
async fn description() -> Value {
    let service = Service::start().await;
    service.ask("GET /api/openapi.json").await.succeeds(200)
}

/// Every operation with its method and path.
fn operations(description: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = description["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| {
            (format!("{} {path}", method.to_uppercase()), operation)
        })
    })
}

/// The target of a reference, or the value itself.
fn resolved<'v>(description: &'v Value, value: &'v Value) -> &'v Value {
    match value["$ref"].as_str() {
        Some(reference) => description.pointer(&reference[1..]).unwrap(),
        None => value,
    }
}

#[tokio::test]
async fn every_json_and_form_body_has_a_schema() {
    let description = description().await;
    let mut untyped = Vec::new();
    for (name, operation) in operations(&description) {
        let responses = operation["responses"].as_object().unwrap();
        let bodies = std::iter::once(("request", &operation["requestBody"]))
            .chain(responses.iter().map(|(status, body)| (&**status, body)));
        for (of, body) in bodies {
            let Some(content) = resolved(&description, body)["content"].as_object() else {
                continue;
            };
            for (media, body) in content {
                let schema = resolved(&description, &body["schema"]);
                let typed = ["type", "oneOf", "anyOf", "allOf"]
                    .iter()
                    .any(|keyword| schema.get(*keyword).is_some());
                let form = media == "application/x-www-form-urlencoded";
                if media != "text/html" && !typed || form && schema["type"] != "object" {
                    untyped.push(format!("{name}: {of}: {media}"));
                }
            }
        }
    }
    assert_eq!(untyped, Vec::<String>::new());
}
