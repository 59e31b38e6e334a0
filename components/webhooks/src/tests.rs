//! The routes with a fake host.

use latchmail_sdk::capability::Scope;
use latchmail_sdk::testing::{FakeHost, Response, Service, set_webhook_deliveries};
use serde_json::{Value, json};

const URL: &str = "https://hooks.example.com/a";

fn service() -> Service {
    Service::of(crate::module::<FakeHost>())
}

fn send(service: &Service, line: &str, body: &Value) -> Response {
    let (method, path) = line.split_once(' ').unwrap();
    let path = format!("/api/v1/webhooks{path}");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    service.request(method, &path, &[], body.into_bytes())
}

fn create(service: &Service) -> String {
    let created = send(service, "POST ", &json!({ "url": URL })).succeeds(201);
    created["id"].as_str().unwrap().to_owned()
}

#[test]
fn only_the_response_to_the_creation_contains_the_secret() {
    let service = service();
    let request = json!({
        "url": URL, "types": ["message.created"], "folder": "INBOX", "payload": "summary",
    });
    let mut created = send(&service, "POST ", &request).succeeds(201);
    let secret = created.as_object_mut().unwrap().remove("secret").unwrap();
    assert!(secret.as_str().unwrap().starts_with("whsec_"));
    let expected = json!({
        "id": created["id"], "url": URL, "types": ["message.created"], "folder": "INBOX",
        "payload": "summary", "state": "active", "reason": null, "failingSince": null,
        "createdAt": "2026-11-20T08:00:00.000Z",
    });
    assert_eq!(created, expected);
    let path = format!("GET /{}", created["id"].as_str().unwrap());
    assert_eq!(send(&service, &path, &Value::Null).succeeds(200), expected);
    let listed = send(&service, "GET ", &Value::Null).succeeds(200);
    assert_eq!(listed, json!({ "webhooks": [expected] }));
}

#[test]
fn a_change_keeps_absent_fields_and_null_removes_a_filter() {
    let service = service();
    let request = json!({ "url": URL, "types": ["message.created"], "folder": "INBOX" });
    let created = send(&service, "POST ", &request).succeeds(201);
    let path = format!("PATCH /{}", created["id"].as_str().unwrap());
    let changed = send(&service, &path, &json!({ "enabled": false })).succeeds(200);
    assert_eq!(
        (&changed["state"], &changed["types"], &changed["folder"]),
        (
            &json!("disabled"),
            &json!(["message.created"]),
            &json!("INBOX")
        )
    );
    let change = json!({ "types": null, "folder": null, "payload": "summary", "enabled": true });
    let changed = send(&service, &path, &change).succeeds(200);
    assert_eq!(
        (
            &changed["state"],
            &changed["types"],
            &changed["folder"],
            &changed["payload"]
        ),
        (
            &json!("active"),
            &Value::Null,
            &Value::Null,
            &json!("summary")
        )
    );
    for (change, status, text) in [
        (json!({ "folder": "None" }), 404, "Folder not found"),
        (
            json!({ "payload": "full" }),
            400,
            "payload must be ids or summary",
        ),
        (
            json!({ "url": null, "types": [] }),
            400,
            "types must contain types of events, each once",
        ),
        (json!({ "url": 1 }), 400, "url must be a string"),
    ] {
        send(&service, &path, &change).fails(status, text);
    }
    send(&service, "PATCH /none", &json!({})).fails(404, "Webhook not found");
}

#[test]
fn a_test_event_can_be_listed_and_sent_again() {
    let service = service();
    let id = create(&service);
    let sent = send(&service, &format!("POST /{id}/test"), &Value::Null).succeeds(200);
    assert_eq!(
        (&sent["type"], &sent["status"]),
        (&json!("webhook.test"), &json!(200))
    );
    let list = format!("GET /{id}/deliveries");
    let listed = send(&service, &list, &Value::Null).succeeds(200);
    assert_eq!(listed, json!({ "deliveries": [sent] }));
    let replay = format!(
        "POST /{id}/deliveries/{}/replay",
        sent["id"].as_str().unwrap()
    );
    let replayed = send(&service, &replay, &Value::Null).succeeds(202);
    assert_eq!(
        (&replayed["state"], &replayed["eventId"]),
        (&json!("pending"), &sent["eventId"])
    );
    send(&service, &replay, &Value::Null).fails(409, "The delivery is pending");
    set_webhook_deliveries(&service.host, "failed");
    send(
        &service,
        &format!("PATCH /{id}"),
        &json!({ "enabled": false }),
    )
    .succeeds(200);
    send(&service, &replay, &Value::Null).fails(409, "The webhook is disabled");
    let none = format!("POST /{id}/deliveries/none/replay");
    send(&service, &none, &Value::Null).fails(404, "Delivery not found");
    for limit in ["0", "101", "x"] {
        let path = format!("/api/v1/webhooks/{id}/deliveries?limit={limit}");
        service.get(&path).fails(400, "limit must be 1 to 100");
    }
}

#[test]
fn a_webhook_of_another_credential_does_not_exist() {
    let service = service();
    let id = create(&service);
    let rotated = send(&service, &format!("POST /{id}/rotate"), &Value::Null).succeeds(200);
    assert!(rotated["secret"].as_str().unwrap().starts_with("whsec_"));
    service.host.use_token(&[Scope::MailRead]);
    for line in [
        format!("GET /{id}"),
        format!("DELETE /{id}"),
        format!("POST /{id}/rotate"),
        format!("POST /{id}/test"),
        format!("GET /{id}/deliveries"),
        format!("POST /{id}/deliveries/none/replay"),
    ] {
        send(&service, &line, &Value::Null).fails(404, "Webhook not found");
    }
    create(&service);
    service.host.sign_in("ada@example.test");
    let listed = send(&service, "GET ", &Value::Null).succeeds(200);
    assert_eq!(listed["webhooks"].as_array().unwrap().len(), 2);
    send(&service, &format!("DELETE /{id}"), &Value::Null).succeeds(200);
    for _ in 0..19 {
        create(&service);
    }
    let full = send(&service, "POST ", &json!({ "url": URL }));
    full.fails(409, "An account can have at most 20 webhooks");
}
