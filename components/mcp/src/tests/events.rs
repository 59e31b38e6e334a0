//! Subscriptions to events (SEP-3415), in all revisions.

use latchmail_sdk::capability::Scope;
use latchmail_sdk::testing::{Service, fail_callbacks};
use serde_json::{Value, json};

use super::client::{endpoint, error, result, rpc};

const REVISIONS: [&str; 3] = ["2026-07-28", "2025-11-25", "2025-06-18"];
const URL: &str = "https://hooks.example.com/a";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn subscription() -> Value {
    json!({
        "name": "message.created", "arguments": { "folder": "INBOX" }, "cursor": null,
        "delivery": { "mode": "webhook", "url": URL, "secret": SECRET },
    })
}

/// Returns the code and the data of an error.
fn failure(service: &Service, method: &str, params: &Value) -> (i64, Value) {
    let response = rpc(service, "2026-07-28", method, params.clone());
    let (_, code) = error(&response);
    (code, response.json()["error"]["data"].clone())
}

#[test]
fn the_types_of_events_are_listed_with_their_schemas() {
    let service = endpoint();
    for revision in REVISIONS {
        let listed = result(&rpc(&service, revision, "events/list", json!({})));
        let events = listed["events"].as_array().unwrap();
        let names: Vec<_> = events
            .iter()
            .map(|event| event["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "message.created",
                "message.flags",
                "message.moved",
                "message.deleted"
            ]
        );
        for event in events {
            assert_eq!(event["delivery"], json!(["webhook"]));
            assert_eq!(event["inputSchema"]["type"], "object");
            assert!(event["payloadSchema"]["properties"]["subject"].is_object());
        }
    }
    assert_eq!(
        failure(&service, "events/list", &json!({ "cursor": "x" })).0,
        -32602
    );
    service.host.use_grant(&[Scope::AliasesRead]);
    let listed = result(&rpc(&service, "2026-07-28", "events/list", json!({})));
    assert_eq!(listed["events"], json!([]));
}

#[test]
fn a_refresh_keeps_the_id_and_an_end_needs_no_id() {
    for revision in REVISIONS {
        let service = endpoint();
        let subscribe = |params: Value| rpc(&service, revision, "events/subscribe", params);
        let subscribed = result(&subscribe(subscription()));
        assert_eq!(subscribed["refreshBefore"], "2026-11-27T08:00:00.000Z");
        assert_eq!(
            (&subscribed["cursor"], &subscribed["truncated"]),
            (&Value::Null, &json!(false))
        );
        assert_eq!(subscribed["deliveryStatus"]["active"], true);
        let mut refresh = subscription();
        refresh["cursor"] = json!("x");
        refresh["ttlMs"] = json!(60_000);
        let refreshed = result(&subscribe(refresh));
        assert_eq!(refreshed["id"], subscribed["id"]);
        assert_eq!(
            (&refreshed["refreshBefore"], &refreshed["truncated"]),
            (&json!("2026-11-20T08:01:00.000Z"), &json!(true))
        );
        let mut other = subscription();
        other["arguments"] = json!({});
        assert_ne!(result(&subscribe(other))["id"], subscribed["id"]);
        let mut end = subscription();
        end["delivery"] = json!({ "url": URL });
        let ended = result(&rpc(&service, revision, "events/unsubscribe", end.clone()));
        assert!(ended.get("id").is_none());
        let again = rpc(&service, revision, "events/unsubscribe", end);
        assert_eq!(error(&again), (200, -32011));
        assert_eq!(
            again.json()["error"]["data"],
            json!({ "kind": "subscription" })
        );
    }
}

#[test]
fn each_invalid_parameter_has_the_code_of_the_extension() {
    let service = endpoint();
    for (pointer, value, code) in [
        ("/name", json!("message"), -32011),
        ("/name", json!(1), -32602),
        ("/arguments", json!([]), -32602),
        ("/arguments", json!({ "from": "grace" }), -32602),
        ("/arguments/folder", json!(1), -32602),
        ("/arguments/folder", json!("None"), -32602),
        ("/delivery", json!("webhook"), -32602),
        ("/delivery/mode", json!("poll"), -32014),
        ("/delivery/url", json!("http://hooks.example.com/"), -32602),
        ("/delivery/url", Value::Null, -32602),
        ("/delivery/secret", json!("secret"), -32602),
        ("/cursor", json!(1), -32602),
    ] {
        let mut params = subscription();
        *params.pointer_mut(pointer).unwrap() = value;
        let (found, _) = failure(&service, "events/subscribe", &params);
        assert_eq!(found, code, "{params}");
    }
    let mut params = subscription();
    params["ttlMs"] = json!(-1);
    assert_eq!(failure(&service, "events/subscribe", &params).0, -32602);
    params["ttlMs"] = Value::Null;
    result(&rpc(&service, "2026-07-28", "events/subscribe", params));
    fail_callbacks(&service.host, "tls_error");
    let failed = failure(&service, "events/subscribe", &subscription());
    assert_eq!(failed, (-32015, json!({ "reason": "tls_error" })));
    service.host.use_grant(&[Scope::AliasesRead]);
    assert_eq!(
        failure(&service, "events/subscribe", &subscription()).0,
        -32012
    );
}

#[test]
fn a_grant_has_a_limited_number_of_subscriptions() {
    let service = endpoint();
    for number in 0..20 {
        let mut params = subscription();
        params["delivery"]["url"] = json!(format!("{URL}{number}"));
        result(&rpc(&service, "2026-07-28", "events/subscribe", params));
    }
    let failed = failure(&service, "events/subscribe", &subscription());
    assert_eq!(
        failed,
        (-32013, json!({ "limit": "subscriptions", "max": 20 }))
    );
}
