//! The routes: their responses, invalid requests, and scopes of tokens.

use std::time::Duration;

use latchmail_tests::{DOMAIN, Person, Service};
use serde_json::{Value, json};

use super::{ALIASES, MISSING, addresses, check, create, created_id, delete, listed, set};

#[tokio::test]
async fn an_alias_can_be_created_listed_switched_and_deleted() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    assert_eq!(listed(&ada).await, [Value::Null; 0]);
    let id = created_id(&ada, "shop@first.test").await;
    let other = created_id(&ada, "news.letter_2-x@second.test").await;
    let at = |advanced: u64| {
        let now = service.clock.now().millis();
        let past = now - i64::try_from(advanced).unwrap() * 1000;
        let at = chrono::DateTime::from_timestamp_millis(past).unwrap();
        at.format("%Y-%m-%d %H:%M:%S").to_string()
    };
    let expected = |advanced, active, modified: &str| {
        json!([
            {
                "id": other, "address": "news.letter_2-x@second.test", "active": true,
                "created": at(advanced), "modified": at(advanced),
                "note": null, "expiresAt": null, "lastReceivedAt": null, "received": 0,
            },
            {
                "id": id, "address": "shop@first.test", "active": active,
                "created": at(advanced), "modified": modified,
                "note": null, "expiresAt": null, "lastReceivedAt": null, "received": 0,
            },
        ])
    };
    assert_eq!(json!(listed(&ada).await), expected(0, true, &at(0)));

    service.clock.advance(Duration::from_secs(100));
    let success = json!({ "success": true });
    let changed = json!({
        "success": true, "note": null, "expiresAt": null, "lastReceivedAt": null, "received": 0,
    });
    assert_eq!(set(&ada, id, true).await.succeeds(200), changed);
    assert_eq!(json!(listed(&ada).await), expected(100, true, &at(100)));
    assert_eq!(set(&ada, id, false).await.succeeds(200), changed);
    assert_eq!(json!(listed(&ada).await), expected(100, false, &at(0)));
    service.clock.advance(Duration::from_secs(10));
    assert_eq!(set(&ada, id, false).await.succeeds(200), changed);
    assert_eq!(json!(listed(&ada).await), expected(110, false, &at(10)));
    assert_eq!(set(&ada, id, true).await.succeeds(200), changed);
    assert_eq!(json!(listed(&ada).await), expected(110, true, &at(0)));

    assert_eq!(delete(&ada, id).await.succeeds(200), success);
    assert_eq!(addresses(&ada).await, ["news.letter_2-x@second.test"]);
    delete(&ada, id).await.fails(404, MISSING);
    set(&ada, id, true).await.fails(404, MISSING);
}

#[tokio::test]
async fn invalid_requests_are_refused_with_the_specified_text() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let id = created_id(&ada, "shop@first.test").await;
    for body in [
        json!({}),
        json!({ "name": "x" }),
        json!({ "domain": null }),
        json!({ "domain": "" }),
    ] {
        ada.post(ALIASES, &body)
            .await
            .fails(400, "domain is required");
    }
    let wrong = json!({ "domain": ["first.test"] });
    ada.post(ALIASES, &wrong)
        .await
        .fails(400, "domain must be a string");
    let wrong = json!({ "domain": "first.test", "name": 7 });
    ada.post(ALIASES, &wrong)
        .await
        .fails(400, "name must be a string");
    ada.post_raw(ALIASES, "{")
        .await
        .fails(400, "Invalid JSON body");
    for query in [
        "",
        "?name=x",
        "?domain=first.test",
        "?name=&domain=first.test",
        "?name=xx&domain=",
    ] {
        let line = format!("GET {ALIASES}/check{query}");
        let response = ada.send(&line).await;
        response.fails(400, "name and domain query params required");
    }
    for bad in [
        "0",
        "-1",
        "1.5",
        "x",
        "7x",
        "9007199254740992",
        "99999999999999999999",
        "%00",
        "%F0%9F%8E%89",
    ] {
        let response = ada.send(&format!("DELETE {ALIASES}/{bad}")).await;
        if bad != "%00" {
            response.fails(400, "Invalid alias ID");
        }
        assert_eq!(response.status, 400, "{bad}");
        let line = format!("PATCH {ALIASES}/{bad}");
        let response = ada.send_json(&line, &json!({ "active": true })).await;
        assert_eq!(response.status, 400, "{bad}");
    }
    for body in [
        json!({}),
        json!({ "active": null }),
        json!({ "active": "true" }),
        json!({ "active": 0 }),
        json!([true]),
    ] {
        let response = ada.send_json(&format!("PATCH {ALIASES}/{id}"), &body).await;
        response.fails(400, "active (boolean) is required");
    }
    for unknown in [1, 77, (1 << 53) - 1] {
        delete(&ada, unknown).await.fails(404, MISSING);
        set(&ada, unknown, false).await.fails(404, MISSING);
    }
    // Known paths with an unsupported method.
    for line in [
        "GET /api/v1/aliases/7",
        "PUT /api/v1/aliases",
        "DELETE /api/v1/aliases",
    ] {
        assert_eq!(ada.send(line).await.status, 405, "{line}");
    }
    assert_eq!(listed(&ada).await[0]["active"], true);
}

#[tokio::test]
async fn a_token_is_limited_to_its_scope_and_useless_after_its_revocation() {
    let service = Service::start().await;
    let ada = service.person("ada").await;
    let holder = async |scope: &str| {
        let token = ada.token(&[scope]).await;
        Person {
            access: token["token"].as_str().unwrap().into(),
            ..ada.clone()
        }
    };
    let (reader, writer) = (holder("aliases:read").await, holder("aliases:write").await);
    let id = created_id(&writer, "shop@first.test").await;
    assert_eq!(addresses(&reader).await, ["shop@first.test"]);
    let missing = |scope| format!("This credential is missing the \"{scope}\" scope");
    create(&reader, "two@first.test")
        .await
        .fails(403, &missing("aliases:write"));
    set(&reader, id, false)
        .await
        .fails(403, &missing("aliases:write"));
    check(&writer, "two", DOMAIN)
        .await
        .fails(403, &missing("aliases:read"));
    set(&writer, id, false).await.succeeds(200);
    delete(&writer, id).await.succeeds(200);
    let tokens = ada.send("GET /api/v1/tokens").await.succeeds(200);
    for token in tokens["tokens"].as_array().unwrap() {
        let line = format!("DELETE /api/v1/tokens/{}", token["id"].as_str().unwrap());
        ada.send(&line).await.succeeds(200);
    }
    let revoked = "This API token has been revoked";
    create(&writer, "two@first.test").await.fails(401, revoked);
    assert_eq!(addresses(&ada).await, [""; 0]);
}
