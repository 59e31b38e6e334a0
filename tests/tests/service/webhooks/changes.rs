//! Changes of the settings of webhooks.

use serde_json::json;

use super::{create, start, state};

#[tokio::test]
async fn concurrent_changes_of_different_fields_are_all_made() {
    let (service, receiver) = start().await;
    let ada = service.person("ada").await;
    let (id, _) = create(&ada, &json!({ "url": receiver.url("/") })).await;
    let line = format!("PATCH /api/v1/webhooks/{id}");
    for round in 0..8 {
        let (url, enabled) = (receiver.url(&format!("/{round}")), round % 2 == 0);
        let types = json!([["message.created"], ["message.flags"]][round % 2]);
        let payload = ["summary", "ids"][round % 2];
        let changes = [
            json!({ "url": url }),
            json!({ "types": types, "payload": payload }),
            json!({ "enabled": enabled }),
        ];
        let [first, second, third] = changes.each_ref().map(|one| ada.send_json(&line, one));
        let (first, second, third) = tokio::join!(first, second, third);
        for response in [first, second, third] {
            response.succeeds(200);
        }
        let changed = state(&ada, &id).await;
        let expected_state = if enabled { "active" } else { "disabled" };
        assert_eq!(
            (
                &changed["url"],
                &changed["types"],
                &changed["payload"],
                &changed["state"]
            ),
            (&json!(url), &types, &json!(payload), &json!(expected_state)),
            "round {round}"
        );
    }
}
