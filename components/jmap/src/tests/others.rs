//! The vacation response, quotas, snippets and the event source.

use latchmail_sdk::capability::{Quota, QuotaUsage};
use latchmail_sdk::testing::Letter;
use serde_json::{Value, json};

use super::client::{ACCOUNT, call, error, service, state};

#[test]
fn the_vacation_response_is_changed() {
    let service = service();
    let found = call(&service, "VacationResponse/get", json!({}));
    assert_eq!(found["list"][0]["isEnabled"], false);
    let update = json!({ "singleton": {
        "isEnabled": true,
        "subject": "Away",
        "textBody": "Back soon",
        "toDate": "2026-12-24T00:00:00Z",
    } });
    let args = json!({ "ifInState": found["state"], "update": update });
    let response = call(&service, "VacationResponse/set", args.clone());
    assert_eq!(response["updated"], json!({ "singleton": null }));
    let changed = call(&service, "VacationResponse/get", json!({}));
    assert_eq!(changed["list"][0]["textBody"], "Back soon");
    assert_eq!(changed["list"][0]["toDate"], "2026-12-24T00:00:00Z");
    assert_eq!(changed["state"], response["newState"]);
    let kind = error(&service, "VacationResponse/set", args);
    assert_eq!(kind, "stateMismatch");
    let args = json!({ "create": { "a": {} }, "destroy": ["singleton"] });
    let response = call(&service, "VacationResponse/set", args);
    assert_eq!(response["notCreated"]["a"]["type"], "singleton");
    assert_eq!(response["notDestroyed"]["singleton"]["type"], "singleton");
}

#[test]
fn a_quota_exists_if_there_is_a_limit() {
    let service = service();
    let found = call(&service, "Quota/get", json!({}));
    assert_eq!(found["list"], json!([]));
    service.host.set_mailbox_quota(Quota {
        storage: QuotaUsage {
            used: Some(10),
            limit: Some(100),
        },
        messages: QuotaUsage {
            used: None,
            limit: None,
        },
    });
    let found = call(&service, "Quota/get", json!({}));
    assert_eq!(found["list"][0]["hardLimit"], 100);
    assert_eq!(found["list"][0]["resourceType"], "octets");
    let ids = call(&service, "Quota/query", json!({}))["ids"].take();
    assert_eq!(ids, json!(["storage"]));
    let changes = json!({ "sinceState": found["state"] });
    let changes = call(&service, "Quota/changes", changes);
    assert_eq!(changes["updatedProperties"], Value::Null);
}

#[test]
fn snippets_mark_the_words_of_the_search() {
    let service = service();
    let letter = Letter::from("bo@example.test")
        .subject("Green <tea>")
        .text("We drink tea & more");
    service.host.deliver(letter);
    let args = json!({ "filter": { "text": "tea" }, "emailIds": ["1", "9"] });
    let found = call(&service, "SearchSnippet/get", args);
    let snippet = &found["list"][0];
    assert_eq!(snippet["subject"], "Green &lt;<mark>tea</mark>&gt;");
    assert_eq!(snippet["preview"], "We drink <mark>tea</mark> &amp; more");
    assert_eq!(found["notFound"], json!(["9"]));
}

#[test]
fn the_event_source_has_the_states_of_the_types() {
    let service = service();
    let old = state(&service);
    service.host.deliver(Letter::from("bo@example.test"));
    let path = "/jmap/eventsource?types=Email,Quota&closeafter=no&ping=0";
    let response = service.request("GET", path, &[("last-event-id", &old)], Vec::new());
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let text = String::from_utf8(response.body).unwrap();
    let data = text.lines().find_map(|line| line.strip_prefix("data: "));
    let data: Value = serde_json::from_str(data.unwrap()).unwrap();
    let changed = json!({ ACCOUNT: { "Email": state(&service) } });
    assert_eq!(data, json!({ "@type": "StateChange", "changed": changed }));
    assert_eq!(service.get("/jmap/eventsource?closeafter=x").status, 400);
}
