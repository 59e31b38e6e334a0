//! Mailboxes.

use latchmail_sdk::testing::Letter;
use serde_json::{Value, json};

use super::client::{call, error, mailbox, service, state};

#[test]
fn a_mailbox_has_counts_and_rights() {
    let service = service();
    service.host.deliver(Letter::from("bo@example.test"));
    service
        .host
        .deliver(Letter::from("bo@example.test").flag("\\Seen"));
    let inbox = mailbox(&service, "inbox");
    let found = call(&service, "Mailbox/get", json!({ "ids": [inbox, "none"] }));
    assert_eq!(found["notFound"], json!(["none"]));
    let found = &found["list"][0];
    assert_eq!(
        (&found["name"], &found["role"]),
        (&json!("Inbox"), &json!("inbox"))
    );
    assert_eq!(found["totalEmails"], 2);
    assert_eq!(found["unreadEmails"], 1);
    assert_eq!(found["parentId"], Value::Null);
    assert_eq!(found["myRights"]["mayAddItems"], true);
    assert_eq!(found["myRights"]["mayDelete"], false);
    let all = call(&service, "Mailbox/get", json!({ "properties": ["name"] }));
    assert_eq!(all["list"].as_array().unwrap().len(), 6);
    assert!(all["list"][0].get("role").is_none());
}

#[test]
fn mailboxes_are_created_renamed_and_destroyed() {
    let service = service();
    let create = json!({
        "create": { "a": { "name": "Plans" }, "b": { "name": "2027", "parentId": "#a" } },
    });
    let created = call(&service, "Mailbox/set", create)["created"].take();
    let (plans, year) = (created["a"]["id"].clone(), created["b"]["id"].clone());
    assert_eq!(created["a"]["totalEmails"], 0);
    assert!(created["a"].get("name").is_none());
    let (plans, year) = (plans.as_str().unwrap(), year.as_str().unwrap());
    let old = state(&service);

    let update = json!({ year: { "name": "Next", "parentId": null } });
    let updated = call(&service, "Mailbox/set", json!({ "update": update }));
    assert_eq!(updated["updated"], json!({ year: null }));
    let changes = call(&service, "Mailbox/changes", json!({ "sinceState": old }));
    assert_eq!(changes["updated"], json!([year]));
    assert_eq!(changes["updatedProperties"], Value::Null);
    let found = call(&service, "Mailbox/get", json!({ "ids": [year] }));
    let found = &found["list"][0];
    assert_eq!(
        (&found["name"], &found["parentId"]),
        (&json!("Next"), &Value::Null)
    );

    service.host.file("Next", Letter::from("bo@example.test"));
    let destroy = json!({ "destroy": [year] });
    let refused = call(&service, "Mailbox/set", destroy);
    assert_eq!(refused["notDestroyed"][year]["type"], "mailboxHasEmail");
    let before = state(&service);
    let destroy = json!({ "destroy": [plans, year], "onDestroyRemoveEmails": true });
    let destroyed = call(&service, "Mailbox/set", destroy);
    assert_eq!(destroyed["destroyed"].as_array().unwrap().len(), 2);
    let since = json!({ "sinceState": before });
    let changes = call(&service, "Mailbox/changes", since.clone());
    assert_eq!(changes["destroyed"].as_array().unwrap().len(), 2);
    let changes = call(&service, "Email/changes", since);
    assert_eq!(changes["destroyed"], json!(["1"]));
}

#[test]
fn invalid_changes_of_mailboxes_are_refused() {
    let service = service();
    let inbox = mailbox(&service, "inbox");
    let inbox = inbox.as_str();
    for (properties, kind) in [
        (json!({}), "invalidProperties"),
        (json!({ "name": "" }), "invalidProperties"),
        (json!({ "name": "a/b" }), "invalidProperties"),
        (
            json!({ "name": "a", "parentId": "#none" }),
            "invalidProperties",
        ),
        (json!({ "name": "a", "role": "junk" }), "invalidProperties"),
        (json!({ "name": "a", "unknown": 1 }), "invalidProperties"),
    ] {
        let response = call(
            &service,
            "Mailbox/set",
            json!({ "create": { "a": properties } }),
        );
        assert_eq!(response["notCreated"]["a"]["type"], kind, "{properties}");
    }
    let response = call(
        &service,
        "Mailbox/set",
        json!({ "destroy": [inbox, "none"] }),
    );
    assert_eq!(response["notDestroyed"][inbox]["type"], "forbidden");
    assert_eq!(response["notDestroyed"]["none"]["type"], "notFound");
    let update = json!({ inbox: { "name/x": "a" } });
    let response = call(&service, "Mailbox/set", json!({ "update": update }));
    assert_eq!(response["notUpdated"][inbox]["type"], "invalidPatch");
}

#[test]
fn new_emails_change_only_the_counts() {
    let service = service();
    let inbox = mailbox(&service, "inbox");
    let old = state(&service);
    service.host.deliver(Letter::from("bo@example.test"));
    let changes = call(&service, "Mailbox/changes", json!({ "sinceState": old }));
    assert_eq!(changes["updated"], json!([inbox]));
    let counts = changes["updatedProperties"].as_array().unwrap();
    assert!(counts.contains(&json!("unreadThreads")));
    let none = json!({ "sinceState": changes["newState"] });
    let changes = call(&service, "Mailbox/changes", none);
    assert_eq!(changes["updated"], json!([]));
}

#[test]
fn a_query_of_mailboxes_filters_and_sorts() {
    let service = service();
    let create = json!({ "create": { "z": { "name": "Zoo" }, "a": { "name": "Ant" } } });
    call(&service, "Mailbox/set", create);
    let args = json!({ "filter": { "hasAnyRole": false }, "sort": [{ "property": "name" }] });
    let ids = call(&service, "Mailbox/query", args)["ids"].take();
    let found = call(&service, "Mailbox/get", json!({ "ids": ids }));
    assert_eq!(found["list"][0]["name"], "Ant");
    assert_eq!(found["list"].as_array().unwrap().len(), 2);
    let args = json!({ "sort": [{ "property": "x" }] });
    assert_eq!(error(&service, "Mailbox/query", args), "unsupportedSort");
    let args = json!({ "filter": { "x": 1 } });
    assert_eq!(error(&service, "Mailbox/query", args), "unsupportedFilter");
    let args = json!({ "sinceQueryState": "x" });
    let kind = error(&service, "Mailbox/queryChanges", args);
    assert_eq!(kind, "cannotCalculateChanges");
    let args = json!({ "filter": { "hasAnyRole": false }, "sort": [{ "property": "name" }] });
    let before = call(&service, "Mailbox/query", args.clone());
    let create = json!({ "create": { "b": { "name": "Bee" } } });
    let bee = call(&service, "Mailbox/set", create)["created"]["b"]["id"].take();
    let mut since = args;
    since["sinceQueryState"] = before["queryState"].clone();
    let changes = call(&service, "Mailbox/queryChanges", since.clone());
    assert_eq!(changes["removed"], json!([]));
    assert_eq!(changes["added"], json!([{ "id": bee, "index": 1 }]));
    since["sortAsTree"] = true.into();
    let kind = error(&service, "Mailbox/queryChanges", since);
    assert_eq!(kind, "cannotCalculateChanges");
}
