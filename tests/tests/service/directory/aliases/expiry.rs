//! The note, the expiry and the receipts of an alias.

use std::time::Duration;

use latchmail_tests::{Service, TEST_TIMEOUT, message_with_subject};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::mail::{Smtp, send_from};
use super::{ALIASES, created_id, listed};

const FOREIGN: &str = "You can only send from your own address or active aliases";

#[tokio::test]
async fn an_expired_alias_receives_and_sends_nothing_until_it_is_extended() {
    let service = Service::with_own_mail().await;
    let (ada, bob) = (service.person("ada").await, service.person("bob").await);
    let id = created_id(&ada, "trial@first.test").await;
    let line = format!("PATCH {ALIASES}/{id}");
    let change = async |body: Value| ada.send_json(&line, &body).await;

    let details = json!({
        "success": true, "note": "Übung", "expiresAt": null, "lastReceivedAt": null, "received": 0,
    });
    let noted = change(json!({ "note": "Übung" })).await.succeeds(200);
    assert_eq!(noted, details);
    let mut smtp = Smtp::start(&service).await;
    let expired = change(json!({ "expiresAt": "2020-01-01T01:00:00+01:00" })).await;
    assert_eq!(
        expired.succeeds(200)["expiresAt"],
        "2020-01-01T00:00:00.000Z"
    );
    assert_eq!(listed(&ada).await[0]["active"], true);
    assert_eq!(smtp.to("trial@first.test").await, 550);
    send_from(&ada, "trial@first.test", "bob@first.test")
        .await
        .fails(403, FOREIGN);

    change(json!({ "expiresAt": "2099-01-01T00:00:00Z" }))
        .await
        .succeeds(200);
    send_from(&ada, "trial@first.test", "bob@first.test")
        .await
        .succeeds(200);
    assert_eq!(smtp.to("Trial@First.Test").await, 250);
    service
        .deliver("trial@first.test", &message_with_subject("hello"))
        .await;
    let counted = async {
        loop {
            let alias = listed(&ada).await.remove(0);
            if alias["received"] == 1 && alias["lastReceivedAt"].is_string() {
                return alias;
            }
            sleep(Duration::from_millis(200)).await;
        }
    };
    let alias = timeout(TEST_TIMEOUT, counted)
        .await
        .expect("the milter counts");
    assert_eq!(
        (&alias["note"], &alias["active"]),
        (&json!("Übung"), &json!(true))
    );

    let none = change(json!({ "note": null, "expiresAt": null, "active": false })).await;
    let none = none.succeeds(200);
    assert_eq!(
        (&none["note"], &none["expiresAt"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(none["received"], 1);
    for (body, text) in [
        (json!({}), "active (boolean) is required"),
        (
            json!({ "active": 1, "note": "x" }),
            "active (boolean) is required",
        ),
        (
            json!({ "note": "x".repeat(201) }),
            "note must be at most 200 characters without control characters",
        ),
        (
            json!({ "expiresAt": "tomorrow" }),
            "expiresAt must be a time such as 2026-11-20T08:00:00Z",
        ),
    ] {
        change(body).await.fails(400, text);
    }
    bob.send_json(&line, &json!({ "note": "mine" }))
        .await
        .fails(404, super::MISSING);
}
