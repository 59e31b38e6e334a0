//! The API description's statements about every operation. Generated clients and a fuzzer test that
//! the service behaves as described.

use super::{description, operations, resolved};

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
